//! What is waited for, and until when: one rule for every command that waits.

use std::time::Duration;

use leasehold::{Error, ErrorKind, FailureKind, Locker, ServerReport, Vote};
use tokio::time::{sleep, timeout};

use crate::exit::Failure;
use crate::times::now;
use crate::words::complain;

/// How long an attempt to connect may take at the least, near the end of a wait too: the locker keeps this limit for
/// its later connections.
pub const CONNECT_MIN: Duration = Duration::from_secs(1);
/// Between two attempts to connect.
const RECONNECT: Duration = Duration::from_millis(200);

/// Whether the reason may pass by itself: another holder, servers that are down, that do not answer, or that may not
/// vote yet.
pub fn may_pass(error: &Error) -> bool {
    use ErrorKind::{Contended, TooLate, Unavailable};
    // Where one server refuses the login and the others are down, those may be a quorum when they are back.
    let is_down =
        |it: &ServerReport| matches!(it.vote, Vote::Failed { kind: FailureKind::Unavailable, .. });
    matches!(error.kind(), Contended | TooLate | Unavailable)
        || error.report().servers().iter().any(is_down)
}

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub struct Until(Option<Duration>);

impl Until {
    /// After this time from now; without a time, never.
    pub fn after(time: Option<Duration>) -> Self {
        Self(time.map(|time| now().saturating_add(time)))
    }

    /// How much of the wait is left; None where it has no end.
    pub fn left(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_sub(now()))
    }
}

/// Connects, at the first attempt or a later one. An attempt may take `most`, which `connect` is given, or less near
/// the end of the wait.
pub async fn connect(
    until: Until,
    most: Duration,
    is_quiet: bool,
    connect: impl AsyncFn(Duration) -> Result<Locker, Failure>,
) -> Result<Locker, Failure> {
    let (mut known, mut is_told) = (None, is_quiet);
    loop {
        let left = until.left().unwrap_or(Duration::MAX);
        // One that does not wait has one attempt, which takes its time.
        let least = if left.is_zero() { most } else { CONNECT_MIN };
        let attempt = connect(most.min(left.max(least)));
        let outcome = match known.take() {
            // The first attempt says what is wrong, however short the wait is.
            None => attempt.await,
            Some(before) => timeout(left, attempt).await.unwrap_or(Err(before)),
        };
        let error = match outcome {
            Err(Failure::Lock(error)) if may_pass(&error) => error,
            other => return other,
        };
        let left = until.left().unwrap_or(Duration::MAX);
        if left.is_zero() {
            return Err(error.into());
        }
        if !std::mem::replace(&mut is_told, true) {
            complain(&format!("waiting for servers: {error}"));
        }
        sleep(RECONNECT.min(left)).await;
        known = Some(error.into());
    }
}

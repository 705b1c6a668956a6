//! What to wait for, and until when: one rule for every command that waits.

use std::time::Duration;

use leasehold::{Error, ErrorKind, FailureKind, Locker, ServerReport, Vote};
use tokio::time::{sleep, timeout};

use crate::exit::Failure;
use crate::times::now;
use crate::words::complain;

/// Minimum timeout of an attempt to connect, also near the end of a wait, because the locker keeps it for later
/// connections.
pub const CONNECT_MIN: Duration = Duration::from_secs(1);
/// Pause between two attempts to connect.
const RECONNECT: Duration = Duration::from_millis(200);

/// Whether the reason may pass by itself: another holder, or servers that are down, do not answer, or may not vote yet.
pub fn may_pass(error: &Error) -> bool {
    use ErrorKind::{Contended, TooLate, Unavailable};
    // Even if one server refuses the login, the servers that are down may be a quorum later.
    let is_down =
        |it: &ServerReport| matches!(it.vote, Vote::Failed { kind: FailureKind::Unavailable, .. });
    matches!(error.kind(), Contended | TooLate | Unavailable)
        || error.report().servers().iter().any(is_down)
}

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub struct Until(Option<Duration>);

impl Until {
    /// This time from now; never without a time.
    pub fn after(time: Option<Duration>) -> Self {
        Self(time.map(|time| now().saturating_add(time)))
    }

    /// The time left; None without an end.
    pub fn left(self) -> Option<Duration> {
        self.0.map(|end| end.saturating_sub(now()))
    }
}

/// Connects, at the first attempt or a later one. `connect` gets the timeout of each attempt: `most`, or less near the
/// end of the wait.
pub async fn connect(
    until: Until,
    most: Duration,
    is_quiet: bool,
    connect: impl AsyncFn(Duration) -> Result<Locker, Failure>,
) -> Result<Locker, Failure> {
    let (mut known, mut is_told) = (None, is_quiet);
    loop {
        let left = until.left().unwrap_or(Duration::MAX);
        // Without a wait the one attempt has its whole timeout.
        let least = if left.is_zero() { most } else { CONNECT_MIN };
        let attempt = connect(most.min(left.max(least)));
        let outcome = match known.take() {
            // The first attempt is completed, however short the wait is, because it says what is wrong.
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

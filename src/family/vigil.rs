//! Waiting for a key to change: by the server's pushes if it can push, otherwise by polling.

use std::pin::pin;
use std::time::Duration;

use super::asking::Watch;
use crate::clock;
use crate::policy::Backoff;
use crate::race::race;

/// The pauses between two reads if the server does not push changes.
const UNTOLD: Backoff =
    Backoff { first: Duration::from_millis(5), longest: Duration::from_millis(500) };
/// The pause if it does: a push may be lost with a connection that looks alive.
const TOLD: Duration = Duration::from_secs(30);

/// The locker was shut down.
pub(super) struct Closed;

/// A wait for changes of the key of one watch.
///
/// In turn: [`Vigil::rearm`], read the key, and [`Vigil::rest`] if what was read is not enough.
pub(super) struct Vigil<'a> {
    watch: &'a Watch,
    rested: u32,
}

impl<'a> Vigil<'a> {
    pub(super) fn new(watch: &'a Watch) -> Self {
        Self { watch, rested: 0 }
    }

    /// Begins to watch for changes.
    pub(super) fn rearm(&self) {
        self.watch.rearm();
    }

    /// Rests until the key is worth reading again, for at most `longest`.
    pub(super) async fn rest(&mut self, longest: Duration) -> Result<(), Closed> {
        let most = match self.watch.is_told() {
            true => TOLD,
            false => UNTOLD.delay(self.rested, clock::random_bits()),
        };
        race(pin!(self.watch.stirred()), pin!(self.watch.sleep(most.min(longest)))).await;
        self.rested = self.rested.saturating_add(1);
        if self.watch.is_shut_down() { Err(Closed) } else { Ok(()) }
    }
}

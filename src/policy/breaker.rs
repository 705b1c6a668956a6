use std::time::Duration;

use super::{Backoff, Moment};

/// Failures in a row that open it: one can be a single slow reply.
const OPENS_AFTER: u32 = 2;
/// How long it stays open: short at first, so that a hiccup costs little.
const OPEN_FOR: Backoff =
    Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(5) };

/// Whether a server is worth asking, judged by how it answered before.
///
/// *Closed*: it is asked. *Open*: it is not, and that is an immediate vote "unavailable".
/// *Half-open*: one question is let through; an answer closes the breaker, none opens it for
/// longer. A question whose asker went away is no answer either way: the next one is let through
/// once the same time has passed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Breaker {
    failures: u32,
    /// Set while it is not closed: when the next question may be let through.
    probe_at: Option<Moment>,
}

impl Breaker {
    /// Whether the server is asked without further ado, as nearly always.
    pub(crate) fn is_closed(self) -> bool {
        self.probe_at.is_none()
    }

    /// For how long no question is let through; none where it is closed.
    pub(crate) fn opens_in(self, now: Moment) -> Option<Duration> {
        self.probe_at.map(|at| at.since(now))
    }

    /// Whether to ask now.
    pub(crate) fn admit(&mut self, now: Moment, random: u64) -> bool {
        let is_admitted = self.probe_at.is_none_or(|at| at <= now);
        if is_admitted && !self.is_closed() {
            self.probe_at = Some(now.after(self.open_for(random)));
        }
        is_admitted
    }

    /// It answered, whatever it said.
    pub(crate) fn note_answer(&mut self) {
        *self = Self::default();
    }

    /// It did not answer in time, or could not be asked.
    pub(crate) fn note_failure(&mut self, now: Moment, random: u64) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= OPENS_AFTER {
            self.probe_at = Some(now.after(self.open_for(random)));
        }
    }

    fn open_for(self, random: u64) -> Duration {
        OPEN_FOR.delay(self.failures.saturating_sub(OPENS_AFTER), random)
    }
}

#[cfg(test)]
mod tests;

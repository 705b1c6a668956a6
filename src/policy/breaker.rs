use std::time::Duration;

use super::{Backoff, Moment};

/// Failures in a row that open the breaker: one alone may be a slow reply.
const OPENS_AFTER: u32 = 2;
/// How long the breaker stays open: short at first, so that a hiccup costs little.
const OPEN_FOR: Backoff =
    Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(5) };

/// Whether a server is worth asking, judged by how it answered before.
///
/// *Closed*: it is asked. *Open*: it is not, and that is an immediate vote "unavailable".
/// *Half-open*: one command is let through; an answer closes the breaker, a failure opens it for
/// longer. If the command's caller went away, it counts as neither: the next one is let through
/// once the same time has passed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Breaker {
    failures: u32,
    /// When the next command may be let through; none while the breaker is closed.
    probe_at: Option<Moment>,
}

impl Breaker {
    /// Whether the server is asked without a check, as nearly always.
    pub(crate) fn is_closed(self) -> bool {
        self.probe_at.is_none()
    }

    /// How long no command is let through; none if the breaker is closed.
    pub(crate) fn opens_in(self, now: Moment) -> Option<Duration> {
        self.probe_at.map(|at| at.since(now))
    }

    /// Whether to ask the server now.
    pub(crate) fn admit(&mut self, now: Moment, random: u64) -> bool {
        let is_admitted = self.probe_at.is_none_or(|at| at <= now);
        if is_admitted && !self.is_closed() {
            self.probe_at = Some(now.after(self.open_for(random)));
        }
        is_admitted
    }

    /// The server answered, whatever it said.
    pub(crate) fn note_answer(&mut self) {
        *self = Self::default();
    }

    /// The server did not answer in time, or could not be asked.
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

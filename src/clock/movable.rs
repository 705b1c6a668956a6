//! A clock for tests to move: from a program's first in-memory server on, the library uses tokio's clock.
//!
//! Each runtime has a clock of its own, which a test may pause. The switch does not change the time, so that leases
//! from before it keep their deadlines.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::Instant;

use crate::policy::Moment;

static ORIGIN: OnceLock<Origin> = OnceLock::new();

/// All clocks at the switch.
pub(super) struct Origin {
    pub(super) instant: Instant,
    pub(super) moment: Moment,
    pub(super) wall_micros: u64,
}

/// Switches to tokio's clock, for good.
pub(super) fn begin(origin: impl FnOnce() -> Origin) {
    ORIGIN.get_or_init(origin);
}

pub(super) fn moment(now: impl FnOnce() -> Instant) -> Option<Moment> {
    let origin = ORIGIN.get()?;
    let nanos = origin.shifted(origin.moment.as_nanos(), now(), |span| span.as_nanos());
    Some(Moment::from_nanos(nanos))
}

pub(super) fn wall_micros(now: impl FnOnce() -> Instant) -> Option<u64> {
    let origin = ORIGIN.get()?;
    Some(origin.shifted(origin.wall_micros, now(), |span| span.as_micros()))
}

impl Origin {
    /// The time at `now` of a clock that showed `shown` at the switch, in its units.
    fn shifted(&self, shown: u64, now: Instant, in_units: impl Fn(Duration) -> u128) -> u64 {
        let span = |span| u64::try_from(in_units(span)).unwrap_or(u64::MAX);
        // A runtime that was paused before the switch may show an earlier time.
        let ahead = span(now.saturating_duration_since(self.instant));
        let behind = span(self.instant.saturating_duration_since(now));
        shown.saturating_add(ahead).saturating_sub(behind)
    }
}

#[cfg(test)]
mod tests;

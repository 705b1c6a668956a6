//! A right to draw tokens with a known bug: it never lapses.

use super::Mutant;
use crate::policy::Moment;
use crate::policy::fence;

/// As [`fence::Tick`], but for the bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tick(fence::Tick);

impl Tick {
    pub(crate) fn of(now: Moment) -> Self {
        // All of time is one tick.
        let now = if Mutant::DrawsForEver.is_on() { Moment::default() } else { now };
        Self(fence::Tick::of(now))
    }

    pub(crate) fn number(self) -> u64 {
        self.0.number()
    }

    pub(crate) fn before(self) -> Self {
        Self(self.0.before())
    }

    /// Whether a right that was used in this tick is still good at `now`.
    pub(crate) fn lasts_to(self, now: Moment) -> bool {
        self.0.lasts_to(now) || Mutant::DrawsForEver.is_on()
    }
}

//! The grace of a primary with a known bug: it ends too early, or knowledge of it counts for too much.

use std::time::Duration;

use super::Mutant;
use crate::policy::{Moment, grace};

/// As [`grace::Reign`], but for the bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reign(grace::Reign);

impl Reign {
    pub(crate) fn of(
        began: u64,
        clock: u64,
        longest_ttl: Duration,
        asked_at: Moment,
        now: Moment,
    ) -> Self {
        let is_short = Mutant::GraceIsNoLongerThanLeases.is_on();
        let cut =
            if is_short { grace::TOKENS_APART.saturating_sub(longest_ttl) } else { Duration::ZERO };
        let clock = match Mutant::GrantsAtOnceAfterAFailover.is_on() {
            true => u64::MAX,
            false => clock + u64::try_from(cut.as_micros()).unwrap_or(0),
        };
        let now = if Mutant::GraceCountsFromTheQuestion.is_on() { asked_at } else { now };
        Self(grace::Reign::of(began, clock, longest_ttl, asked_at, now))
    }

    pub(crate) fn wait(self, now: Moment) -> Duration {
        self.0.wait(now)
    }

    pub(crate) fn grants(self, now: Moment) -> bool {
        self.wait(now).is_zero() && self.is_sure(now)
    }

    pub(crate) fn reasserted_by(self, now: Moment) -> Option<u64> {
        let by = self.0.reasserted_by(now);
        if Mutant::LateHoldersAreHeard.is_on() { by.map(|_| u64::MAX) } else { by }
    }

    pub(crate) fn is_sure(self, now: Moment) -> bool {
        self.0.is_sure(now) || Mutant::ReignNeverLapses.is_on()
    }

    pub(crate) fn is_fresh(self, now: Moment) -> bool {
        self.0.is_fresh(now) || Mutant::ReignNeverLapses.is_on()
    }

    pub(crate) fn is_same(self, other: Self) -> bool {
        self.0.is_same(other.0)
    }

    pub(crate) fn is_used(&mut self, asked_at: Moment) {
        if Mutant::AnyUseRenewsTheReign.is_on() {
            self.0.used_at = asked_at;
        }
        self.0.is_used(asked_at);
    }
}

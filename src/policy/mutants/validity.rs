//! A term with a known bug: its deadline does not allow for the drift of clocks.

use std::time::Duration;

use super::Mutant;
use crate::policy::Moment;
use crate::policy::validity;

/// As [`validity::Term`], but for the bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term(validity::Term);

impl Term {
    pub(crate) const DEFAULT: Self = Self(validity::Term::DEFAULT);

    pub(crate) fn new(ttl: Duration, min_validity: Option<Duration>) -> Result<Self, String> {
        validity::Term::new(ttl, min_validity).map(Self)
    }

    pub(crate) fn ttl(self) -> Duration {
        self.0.ttl()
    }

    pub(crate) fn ttl_ms(self) -> u64 {
        self.0.ttl_ms()
    }

    pub(crate) fn is_worthwhile(self, deadline: Moment, now: Moment) -> bool {
        self.0.is_worthwhile(deadline, now)
    }

    pub(crate) fn deadline(self, asked_at: Moment) -> Moment {
        match Mutant::NoDrift.is_on() {
            true => asked_at.after(self.ttl()),
            false => self.0.deadline(asked_at),
        }
    }
}

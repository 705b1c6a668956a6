//! A relay with known bugs: the next holder counts a TTL of its own, or has a token that was not set aside.

use std::time::Duration;

use super::Mutant;
use crate::policy::relay::{self, Passed};
use crate::policy::{Moment, Term};

/// As [`relay::Relay`], but for the bugs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relay(relay::Relay);

impl Relay {
    pub(crate) fn is_short(held: Duration) -> bool {
        relay::Relay::is_short(held)
    }

    pub(crate) fn begin() -> Self {
        Self(relay::Relay::begin())
    }

    pub(crate) fn next(self, now: Moment) -> Option<Self> {
        self.0.next(now).map(Self)
    }

    pub(crate) fn last_aside(self, token: u64) -> u64 {
        self.0.last_aside(token)
    }

    pub(crate) fn pass(self, lease: Passed, term: Term, now: Moment) -> Option<(Passed, Self)> {
        let any = |relay: relay::Relay| {
            let (_, relay) = relay.pass(Passed { token: None, ..lease }, term, now)?;
            Some((Passed { token: Some(lease.token? + 1), ..lease }, relay))
        };
        let (passed, relay) = match self.0.pass(lease, term, now) {
            None if Mutant::PassedOnBeyondWhatIsAside.is_on() => any(self.0)?,
            passed => passed?,
        };
        let until = match Mutant::PassedOnForAWholeTtl.is_on() {
            true => term.deadline(now),
            false => passed.until,
        };
        Some((Passed { until, ..passed }, Self(relay)))
    }
}

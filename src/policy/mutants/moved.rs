//! A node that is led to another run, with a known bug: it does not notice, or grants at once.

use std::time::Duration;

use super::Mutant;
use crate::policy::{Moment, moved};

/// As [`moved::moved_until`], but for the bug.
pub(crate) fn moved_until(
    known: &str,
    met: &str,
    longest_ttl: Duration,
    now: Moment,
) -> Option<Moment> {
    let met = if Mutant::RunsNotCompared.is_on() { known } else { met };
    let at_once = Mutant::GrantsAtOnceAfterAMove.is_on();
    moved::moved_until(known, met, if at_once { Duration::ZERO } else { longest_ttl }, now)
}

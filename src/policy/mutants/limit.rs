//! A wait with a known bug: nothing ends it but the answers.

use std::time::Duration;

use super::Mutant;
use crate::policy::Moment;
use crate::policy::limit;

/// As [`limit::alarm`], but for the bug.
pub(crate) fn alarm(
    end: Option<Moment>,
    asked_at: Option<Moment>,
    command_max: Duration,
    now: impl FnOnce() -> Moment,
) -> Option<Duration> {
    limit::alarm(end, asked_at, command_max, now).filter(|_| !Mutant::LimitOnlyBetweenTries.is_on())
}

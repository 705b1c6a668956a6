//! Limits of waits with a known bug: an attempt is not cut short by them.

use super::Mutant;
use crate::policy::{Moment, limit};

/// As [`limit::late_within`], but for the bug.
pub(crate) fn late_within(late_at: Moment, ends_at: Option<Moment>) -> Moment {
    limit::late_within(late_at, ends_at.filter(|_| !Mutant::LimitOnlyBetweenTries.is_on()))
}

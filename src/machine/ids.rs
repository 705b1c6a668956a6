//! By what things are named.

use crate::policy::TimerKey;

/// The name of a lease, used once.
pub(crate) type LeaseId = TimerKey;

/// Several renewals in one command, by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchId(pub(super) u32);

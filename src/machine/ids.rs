//! By what things are named.

use crate::policy::TimerKey;

/// The name of a lease, used once.
pub(crate) type LeaseId = TimerKey;

/// The name of a question of a caller that holds no lease, used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallId {
    pub(super) at: u32,
    pub(super) number: u32,
}

/// Several renewals in one command, by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchId(pub(super) u32);

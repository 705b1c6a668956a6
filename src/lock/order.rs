//! What a caller wants.

use std::sync::Arc;
use std::time::Duration;

use super::few::Few;
use super::names::Names;
use crate::policy::{Retry, Term, Wait};

/// What a lease is to be like, whoever grants it.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) term: Term,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) is_fenced: bool,
    pub(crate) is_renewed: bool,
    pub(crate) replicas: Option<Replicas>,
}

/// How many replicas have to have a lease before it counts, and how long they may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replicas {
    pub(crate) count: u32,
    pub(crate) within: Duration,
}

impl Replicas {
    /// Whether they can be awaited where a command may take `command_timeout`.
    pub(crate) fn check(self, command_timeout: Duration) -> Result<(), ReplicasError> {
        if self.count == 0 {
            Err(ReplicasError::None)
        } else if self.within >= command_timeout {
            Err(ReplicasError::TooLong { within: self.within, command_timeout })
        } else {
            Ok(())
        }
    }
}

/// Why replicas cannot be awaited like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReplicasError {
    #[error("no replica is to acknowledge the lease: ask for one at least, or not for replicas")]
    None,
    #[error(
        "replicas are given {within:?}, and a command only {command_timeout:?}: raise \
         Builder::command_timeout above it"
    )]
    TooLong { within: Duration, command_timeout: Duration },
}

pub(crate) struct Wish {
    pub(crate) names: Few<Names>,
    pub(crate) order: Order,
    pub(crate) wait: Wait,
    pub(crate) retry: Retry,
    /// Whether a lock is left to those who wait for it.
    pub(crate) is_fair: bool,
}

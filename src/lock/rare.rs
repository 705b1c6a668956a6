//! What few holds have.

use std::sync::Arc;

use super::names::Names;
use super::order::Replicas;
use crate::policy::{Bounds, Relay};

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Rare {
    /// The owner of this process that it takes over from, if any.
    pub(super) succession: Option<Succession>,
    /// Replicas that must have the lease beside the servers themselves.
    pub(super) replicas: Option<Replicas>,
    /// How long it is to be held beside what its TTL says.
    pub(super) bounds: Bounds,
    /// The value of an owner of this process that has some of the locks, and answers for itself.
    pub(super) part: Option<Box<[u8]>>,
}

/// That a lock went from hand to hand.
pub(super) struct Succession {
    /// The value of the owner before, which servers may still have.
    pub(super) predecessor: Box<[u8]>,
    pub(super) relay: Relay,
    /// Those who are to know when it ends.
    pub(super) line: Arc<dyn Vacate>,
}

/// Those who wait in this process for a lock that was handed to one of them.
pub(super) trait Vacate: Send + Sync {
    /// The hold at this address, which the lock was handed to, has ended or will not begin.
    fn vacate(&self, names: &Names, hold: usize);
}

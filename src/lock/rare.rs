//! What few holds have.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::names::Names;
use super::order::Seize;
use super::owner::Owner;
use super::row::Sharing;
use crate::clock;
use crate::policy::{Bounds, Moment, Relay};

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Rare {
    /// The owner of this process that it takes over from, if any.
    pub(super) succession: Option<Succession>,
    /// The owner from which it takes its lock.
    pub(super) seize: Option<Seize>,
    /// What it wants of a lock that others may have shares of.
    pub(super) sharing: Option<Sharing>,
    /// It leads an election: nobody in this process comes before those in the queue.
    pub(super) leads: bool,
    /// It is kept for a request that waits for other locks too.
    pub(super) is_part: bool,
    /// How long it is to be held or kept from others, beside what its TTL says.
    pub(super) bounds: Bounds,
    /// Until when its locks stay taken, once its holder knows of it.
    pub(super) rest: OnceLock<Rest>,
    /// The values of owners of this process that have some of the locks, and answer for themselves.
    pub(super) parts: Vec<Box<[u8]>>,
    /// Its owner may be in the queue of its lock.
    pub(super) is_queued: bool,
}

/// Until when locks stay taken that are given back, and the value under their keys meanwhile.
pub(super) struct Rest {
    pub(super) until: Moment,
    pub(super) value: Owner,
}

impl Rest {
    /// How long the locks are still to stay taken, unless that is over.
    pub(super) fn left(&self) -> Option<Duration> {
        Some(self.until.since(clock::now())).filter(|left| !left.is_zero())
    }
}

/// That a lock went from hand to hand.
pub(super) struct Succession {
    /// The value of the owner before, which servers may still have; none where that was this one's too.
    pub(super) predecessor: Option<Box<[u8]>>,
    pub(super) relay: Relay,
    /// The parties that are to know when it ends.
    pub(super) line: Arc<dyn Vacate>,
}

/// The waiters of this process for a lock that was handed to one of them.
pub(super) trait Vacate: Send + Sync {
    /// The hold at this address, which the lock was handed to, has ended or will not begin.
    fn vacate(&self, names: &Names, hold: usize);
}

//! What a caller wants.

use std::sync::Arc;

#[cfg(any(test, feature = "takeover"))]
use crate::error::value::ID_LENGTH;
use crate::error::value::Mark;
#[cfg(any(test, feature = "sharing"))]
use crate::extra::sharing::Sharing;
use crate::names::Names;
use crate::policy::{Bounds, Retry, Term, Wait};

/// The properties of a lease, however it is granted.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) term: Term,
    pub(crate) label: Option<Arc<str>>,
    /// The priority in the queue: of a candidate of an election, or of the request for several locks that has its turn.
    /// A lock with a priority is never passed on within a process: the queue's next of all processes gets it.
    pub(crate) priority: Option<u8>,
    pub(crate) is_fenced: bool,
    pub(crate) is_renewed: bool,
    /// How long to hold it, or to keep it from others, beside its TTL.
    pub(crate) bounds: Bounds,
    /// The owner from which it is taken, if any.
    #[cfg(any(test, feature = "takeover"))]
    pub(crate) seize: Option<Seize>,
    /// The share of a shared lock, if any.
    #[cfg(any(test, feature = "sharing"))]
    pub(crate) sharing: Option<Sharing>,
}

/// The owner from which a lock is taken.
#[cfg(any(test, feature = "takeover"))]
#[derive(Clone, Debug)]
pub(crate) enum Seize {
    FromAnybody,
    /// Only from the owner with this id.
    From(Box<[u8; ID_LENGTH]>),
}

impl Order {
    /// The text behind the owner's id in the lock's value, for servers with this fingerprint.
    pub(crate) fn mark<'a>(&'a self, fingerprint: Option<&'a str>) -> Mark<'a> {
        let (label, lock_delay) = (self.label.as_deref(), self.bounds.lock_delay);
        Mark { lock_delay, fingerprint, priority: self.priority.unwrap_or(0), label }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) names: Names,
    /// All locks if there are several, else empty, which costs no allocation.
    pub(crate) several: Vec<Names>,
    pub(crate) order: Order,
    pub(crate) wait: Wait,
    pub(crate) retry: Retry,
    /// Whether a free lock is left to its waiters.
    pub(crate) is_fair: bool,
    /// Whether to refuse at once a lock that a guard of the same locker holds.
    pub(crate) refuses_own: bool,
}

impl Wish {
    /// All its locks.
    pub(crate) fn all(&self) -> &[Names] {
        if self.several.is_empty() { std::slice::from_ref(&self.names) } else { &self.several }
    }
}

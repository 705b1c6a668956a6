//! What a caller wants.

use std::sync::Arc;

#[cfg(any(test, feature = "takeover"))]
use crate::error::value::ID_LENGTH;
use crate::error::value::Mark;
#[cfg(any(test, feature = "sharing"))]
use crate::extra::sharing::Sharing;
use crate::names::Names;
use crate::policy::{Bounds, Retry, Term, Wait};

/// What a lease is to be like, however it is granted.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) term: Term,
    pub(crate) label: Option<Arc<str>>,
    /// The priority in the queue, of a candidate of an election, or of the one of all requests for several locks that
    /// has its turn: the next among all processes gets its lock, and nobody before that.
    pub(crate) priority: Option<u8>,
    pub(crate) is_fenced: bool,
    pub(crate) is_renewed: bool,
    /// How long it is to be held or kept from others, beside what its TTL says.
    pub(crate) bounds: Bounds,
    /// The owner from which it is taken, if there is one.
    #[cfg(any(test, feature = "takeover"))]
    pub(crate) seize: Option<Seize>,
    /// What is wanted of a lock that others may have shares of.
    #[cfg(any(test, feature = "sharing"))]
    pub(crate) sharing: Option<Sharing>,
}

/// The owner from which a lock is taken.
#[cfg(any(test, feature = "takeover"))]
#[derive(Clone, Debug)]
pub(crate) enum Seize {
    FromAnybody,
    /// From the owner with this id alone.
    From(Box<[u8; ID_LENGTH]>),
}

impl Order {
    /// What the values of its owners say beside their ids, where its servers have this fingerprint.
    pub(crate) fn mark<'a>(&'a self, fingerprint: Option<&'a str>) -> Mark<'a> {
        let (label, lock_delay) = (self.label.as_deref(), self.bounds.lock_delay);
        Mark { lock_delay, fingerprint, priority: self.priority.unwrap_or(0), label }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) names: Names,
    /// All of them, where there are several; none costs no allocation.
    pub(crate) several: Vec<Names>,
    pub(crate) order: Order,
    pub(crate) wait: Wait,
    pub(crate) retry: Retry,
    /// Whether a lock is left to its waiters.
    pub(crate) is_fair: bool,
    /// Whether a lock is refused at once that a guard of the same locker holds.
    pub(crate) refuses_own: bool,
}

impl Wish {
    /// The locks that are wanted.
    pub(crate) fn all(&self) -> &[Names] {
        if self.several.is_empty() { std::slice::from_ref(&self.names) } else { &self.several }
    }
}

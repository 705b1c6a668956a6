//! How long a lease is held and its lock kept from others, beside what its TTL says. Few leases have such bounds.
//!
//! A lock that is to be held for some time at least keeps its key for the rest of that time when it is given back: in the
//! place of a release goes an extension to the rest. The owner is over then, so nothing extends the key any more.

use crate::policy::{Bounds, Moment};

/// See the module's documentation.
#[derive(Clone)]
pub(super) struct Bounded {
    pub(super) bounds: Bounds,
    /// Its holder knows of it.
    pub(super) is_told: bool,
}

impl Bounded {
    pub(super) fn new(bounds: Bounds) -> Option<Box<Self>> {
        (!bounds.are_none()).then(|| Box::new(Self { bounds, is_told: false }))
    }

    /// For how many milliseconds its lock stays taken once it is given back, if it does.
    pub(super) fn rest_ms(&self, granted_at: Moment, now: Moment) -> Option<u64> {
        let at_least = self.bounds.at_least.filter(|_| self.is_told)?;
        let rest = granted_at.after(at_least).since(now);
        let whole = u64::try_from(rest.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        (whole > 0).then_some(whole)
    }
}

#[cfg(test)]
mod tests;

//! The first in a queue stays there, and another owner asks all servers in its place: the one with the queue may keep a
//! lease that the others have lost.

use super::acquire::Options;
use super::core::Machine;
use super::entry::Entry;
use super::ids::LeaseId;
use super::lease::{Lease, Phase, Refusal};
use crate::policy::{Bounds, Grant, Moment, Retry, Wait};

impl Machine {
    /// Asks all servers for the lock of an entry; what came of that before is over.
    pub(crate) fn ask_all(&mut self, id: LeaseId, now: Moment) {
        let entry = self.leases.get_mut(id).and_then(|lease| lease.entry.as_mut());
        if let Some(before) = entry.and_then(|entry| entry.scout.take()) {
            self.forget(before, now);
        }
        let Some(lease) = self.leases.get(id).filter(|lease| lease.entry.is_some()) else {
            return;
        };
        let scout = self.begin(lease.another_attempt(), now);
        if let Some(lease) = self.leases.get_mut(scout) {
            lease.scouts_for = Some(id);
        }
        self.begin_attempt(scout, now);
        if !self.leases.get(scout).is_some_and(|lease| lease.phase == Phase::Asking) {
            return;
        }
        if let Some(entry) = self.leases.get_mut(id).and_then(|lease| lease.entry.as_mut()) {
            (entry.scout, entry.all_asked_at) = (Some(scout), now);
        }
    }

    /// The one that waits knows what servers say now.
    pub(super) fn scout_is_refused(
        &mut self,
        scout: LeaseId,
        waiter: LeaseId,
        refusal: Refusal,
        now: Moment,
    ) {
        let Some(lease) = self.leases.get_mut(scout) else { return };
        let said = std::mem::take(&mut lease.said);
        let waiter = self.leases.get_mut(waiter).filter(|lease| lease.phase == Phase::Queued);
        if let (Some(lease), Refusal::Setback { setback, .. }) = (waiter, refusal) {
            (lease.setback, lease.said) = (Some(setback), said);
        }
        self.forget(scout, now);
    }

    /// The one that waits has the lease, and leaves the queue.
    pub(super) fn scout_is_granted(
        &mut self,
        scout: LeaseId,
        waiter: LeaseId,
        grant: Grant,
        now: Moment,
    ) {
        let is_it = |entry: &Entry| entry.scout == Some(scout);
        let entry = self.leases.get_mut(waiter).filter(|lease| lease.phase == Phase::Queued);
        let entry = entry.and_then(|lease| lease.entry.as_deref_mut());
        let Some(entry) = entry.filter(|entry| is_it(entry)) else {
            self.forget(scout, now);
            return;
        };
        entry.scout = None;
        self.leave_entry(waiter, now);
        let Some(lease) = self.leases.get_mut(scout) else { return };
        let fresh = lease.owner.another((self.settings.owner_id)());
        let owner = std::mem::replace(&mut lease.owner, fresh);
        let (replicas, relay) = (std::mem::take(&mut lease.replicas), lease.relay);
        let Some(next) = self.leases.get_mut(waiter) else { return };
        (next.owner, next.relay) = (owner, relay);
        let unused = std::mem::replace(&mut next.replicas, replicas);
        if let Some(lease) = self.leases.get_mut(scout) {
            lease.replicas = unused;
        }
        self.remove(scout);
        self.hold(waiter, grant, now);
    }
}

impl Lease {
    /// One attempt for the same by another owner.
    pub(super) fn another_attempt(&self) -> Options {
        Options {
            kind: self.kind,
            names: self.names.clone(),
            words: self.words.clone(),
            term: self.term,
            bounds: self.bounded.as_ref().map_or(Bounds::default(), |bounded| bounded.bounds),
            wait: Wait::Never,
            retry: Retry::default(),
            is_renewed: self.is_renewed,
            is_fair: false,
            said: self.owner.said().into(),
        }
    }
}

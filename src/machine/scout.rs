//! The first in a queue stays there, and another owner asks all servers in its place: the one with the queue may keep a
//! lease that the others have lost.

use super::acquire::Options;
use super::core::Machine;
use super::entry::Entry;
use super::ids::LeaseId;
use super::lease::Phase;
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
        let options = Options {
            kind: lease.kind,
            names: lease.names.clone(),
            words: lease.words.clone(),
            term: lease.term,
            bounds: lease.bounded.as_ref().map_or(Bounds::default(), |bounded| bounded.bounds()),
            wait: Wait::Never,
            retry: Retry::default(),
            is_renewed: lease.is_renewed,
            is_fair: false,
            said: lease.owner.said().into(),
        };
        let scout = self.acquire(options, now);
        let Some(lease) = self.leases.get_mut(scout) else { return };
        lease.scouts_for = Some(id);
        if lease.phase != Phase::Asking {
            self.forget(scout, now);
            return;
        }
        if let Some(entry) = self.leases.get_mut(id).and_then(|lease| lease.entry.as_mut()) {
            (entry.scout, entry.all_asked_at) = (Some(scout), now);
        }
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

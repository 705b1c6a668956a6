//! A holder that leaves its lock to another owner instead of releasing it: the servers run the extension of another kind,
//! which leaves a key for that owner. A command that reaches a server late leaves the key for the rest of its time.

use std::time::Duration;

use super::core::Machine;
use super::ids::{LeaseId, Owner};
use super::kind::Kind;
use super::lease::{Bounded, Has};
use crate::policy::{Bounds, LeaseEvent, LeaseState, Moment};

impl Machine {
    /// A value for no living owner, with this part of the further text of a lease's owner.
    pub(crate) fn nobody(&self, id: LeaseId, says: fn(&[u8]) -> &[u8], now: Moment) -> Box<[u8]> {
        let said = self.leases.get(id).map_or(&b""[..], |lease| says(lease.owner.said()));
        Owner::new((self.settings.owner_id)(now), said).value().into()
    }

    /// For how many milliseconds the lock is at least to stay locked.
    pub(crate) fn rest_ms(&self, id: LeaseId, now: Moment) -> u64 {
        self.leases.get(id).and_then(|lease| lease.rest_ms(now)).unwrap_or(0)
    }

    /// Leaves the lock to another owner by the extension of this kind, with these arguments; what that leaves at
    /// servers lives for `life`. The lock goes to no other request of this process. [`Machine::poll_release`] has
    /// the result. False if the lease is no longer held; then it is unchanged.
    pub(crate) fn part(
        &mut self,
        id: LeaseId,
        kind: &'static Kind,
        words: Box<[Box<[u8]>]>,
        life: Duration,
        now: Moment,
    ) -> bool {
        self.happens(id, LeaseEvent::Release, now);
        let Some(lease) = self.leases.get_mut(id) else { return false };
        if lease.state() != Some(LeaseState::Releasing) {
            return false;
        }
        // Servers may have something until then, as with a lock-delay.
        let lock_delay = Some(life.max(lease.key_life()));
        let at_least = Some(now.since(lease.granted_at) + life);
        let bounds = Bounds { at_least, lock_delay, ..Bounds::default() };
        lease.bounded = Some(Box::new(Bounded { bounds, is_told: true }));
        (lease.kind, lease.words, lease.asked_at) = (kind, words, now);
        self.lets_go(id, now);
        true
    }

    /// Takes a parting back: releases what it has left, and the lease, by the release of this kind, on the same connections;
    /// and once more some time later, because the extension may still arrive.
    pub(crate) fn take_back(&mut self, id: LeaseId, kind: &'static Kind, now: Moment) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        lease.kind = kind;
        lease.bounded.iter_mut().for_each(|bounded| bounded.is_told = false);
        for (at, replica) in lease.replicas.iter_mut().enumerate() {
            if replica.has != Has::Nothing || lease.votes.asked & 1 << at != 0 {
                replica.has = Has::Perhaps;
            }
        }
        self.give_back(id, now);
        self.call_next(id, now);
    }
}

#[cfg(test)]
mod tests;

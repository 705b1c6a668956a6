//! What a hold takes over from others of this process.

use std::sync::Arc;

use super::Hold;
use crate::lock::order::Seize;
use crate::lock::rare::{Succession, Vacate};
use crate::policy::{Ballot, Relay};

impl Hold {
    /// It takes over from this one.
    pub(in crate::lock) fn succeed(&mut self, before: &Self, relay: Relay, line: Arc<dyn Vacate>) {
        let predecessor = Some(before.owner.value().into());
        let succession = Succession { predecessor, relay, line };
        self.rare.get_or_insert_default().succession = Some(succession);
    }

    /// It goes on with the lease of this one, of the same owner.
    pub(in crate::lock) fn inherit(&mut self, before: &Self, relay: Relay, line: Arc<dyn Vacate>) {
        let predecessor = before.predecessor().map(Into::into);
        let rare = self.rare.get_or_insert_default();
        rare.succession = Some(Succession { predecessor, relay, line });
        rare.is_queued = before.is_queued();
    }

    /// The name under which waiters know the hold's lock.
    pub(in crate::lock) fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// It has ended, or will not begin: where it was handed over, the next one in this process is to
    /// ask the servers.
    pub(in crate::lock) fn vacate(&self) {
        if let Some(succession) = self.succession() {
            succession.line.vacate(&self.names[0], self.address());
        }
    }

    /// The value of the owner that this one takes over from, which servers may still have.
    pub(in crate::lock) fn predecessor(&self) -> Option<&[u8]> {
        self.succession()?.predecessor.as_deref()
    }

    /// Its owner enters the queue of its lock.
    pub(in crate::lock) fn enter_queue(&mut self) {
        self.rare.get_or_insert_default().is_queued = true;
    }

    /// Whether its owner may be in the queue of its lock.
    pub(in crate::lock) fn is_queued(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.is_queued)
    }

    /// Whether others may wait for its lock: it came through the queue, or from another owner.
    pub(in crate::lock) fn may_be_awaited(&self) -> bool {
        self.is_queued() || self.replaces().next().is_some()
    }

    /// It takes what this owner has too, which gives it back by itself. There are two of them at most.
    pub(in crate::lock) fn include(&mut self, part: &[u8]) {
        self.rare.get_or_insert_default().parts.push(part.into());
    }

    /// The values of the owners whose locks it finds as good as free.
    pub(in crate::lock) fn replaces(&self) -> impl Iterator<Item = &[u8]> {
        let parts = self.rare.as_ref().map_or(&[][..], |rare| &rare.parts);
        self.predecessor().into_iter().chain(parts.iter().map(|part| &**part))
    }

    /// The owner from which the hold takes its lock, if there is one.
    pub(in crate::lock) fn seize(&self) -> Option<&Seize> {
        self.rare.as_ref()?.seize.as_ref()
    }

    /// Whether it is a candidate of an election, or its leader.
    pub(in crate::lock) fn leads(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.leads)
    }

    /// How a server is to judge a proposal: see `acquire.lua`.
    pub(in crate::lock) fn how_judged(&self, ballot: Ballot, is_alone: bool) -> &'static [u8] {
        let goes_on = self.predecessor().is_some();
        match (is_alone, ballot.is_outbid()) {
            (true, _) if goes_on => b"mint on",
            (true, _) => b"mint",
            (false, true) if goes_on => b"outbid on",
            (false, true) => b"outbid",
            (false, false) if goes_on => b"vote on",
            (false, false) => b"vote",
        }
    }

    fn succession(&self) -> Option<&Succession> {
        self.rare.as_ref()?.succession.as_ref()
    }

    pub(in crate::lock) fn relay(&self) -> Relay {
        self.succession().map_or_else(Relay::default, |succession| succession.relay)
    }
}

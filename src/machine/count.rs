//! Counts the replicas that have a lease.
//!
//! A `WAIT` counts for the earlier writes of its connection, so it follows an extension, in the same write. It delays
//! all later commands of that connection, so there is one at a time.

use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_resp::{Decimal, Frame};

use super::answer::Place;
use super::core::{Effect, Machine};
use super::ids::LeaseId;
use super::lease::{Counted, Lease};
use super::talk::{Reply, What};
use crate::policy::Moment;

/// A `WAIT` takes at most this part of the timeout.
const PER_TIMEOUT: u32 = 2;
/// And this part of the TTL: the time between two renewals.
const PER_TTL: u32 = 3;
/// A `WAIT` of 0 ms would wait for ever.
const SHORTEST: Duration = Duration::from_millis(1);

impl Machine {
    /// Until when a `WAIT` may last for a holder that waits for `within`.
    pub(crate) fn counts_until(&self, id: LeaseId, within: Duration, now: Moment) -> Moment {
        let ttl = self.leases.get(id).map_or(Duration::ZERO, |lease| lease.term.ttl());
        now.after(within.min(self.settings.timeout / PER_TIMEOUT).min(ttl / PER_TTL))
    }

    /// Ready once no other count is under way.
    pub(crate) fn poll_turn(&mut self, context: &Context<'_>) -> Poll<()> {
        let (counting, told) = &mut self.counting;
        if *counting == 0 {
            return Poll::Ready(());
        }
        told.push(context.waker().clone());
        Poll::Pending
    }

    /// Extends a lease, and asks how many replicas have that; none if it is not its turn. [`Machine::poll_counted`]
    /// has the result of this round.
    pub(crate) fn count(
        &mut self,
        id: LeaseId,
        replicas: u32,
        until: Moment,
        now: Moment,
    ) -> Option<u32> {
        if self.counting.0 > 0 {
            return None;
        }
        let round = self.extend_now(id, now);
        let Self { links, leases, .. } = self;
        let Some(lease) = leases.get_mut(id).filter(|lease| lease.is_held()) else {
            return Some(round);
        };
        let within = until.since(now).max(SHORTEST).as_millis();
        let within = Decimal::new(u64::try_from(within).unwrap_or(u64::MAX));
        let words: [&[u8]; 3] = [b"WAIT", &Decimal::new(replicas.into()), &within];
        let open = lease.votes.asked & !lease.votes.failed;
        for at in (0..lease.replicas.len()).filter(|at| open & 1 << at != 0) {
            let to = lease.to(id, at, What::Count);
            links[lease.link(at)].talk.write(&words, Place::Number, to, now);
        }
        lease.counted = Some(Box::new(Counted { round, extended: 0, open, counts: Vec::new() }));
        self.counting.0 = open.count_ones();
        Some(round)
    }

    /// One server has counted, or never will.
    pub(super) fn counted(&mut self, id: LeaseId, at: usize, round: u32, reply: Option<&Reply>) {
        self.next_counts(self.counting.0.saturating_sub(1));
        let Some(lease) = self.leases.get_mut(id) else { return };
        let bit = 1 << at;
        let Some(counted) = lease.counted.as_deref_mut().filter(|it| it.round == round) else {
            return;
        };
        counted.open &= !bit;
        let count = match reply.map(|reply| reply.frame.value()) {
            Some(Frame::Integer(count)) => u32::try_from(*count).ok(),
            _ => None,
        };
        match count {
            Some(count) if counted.extended & bit != 0 => counted.counts.push(count),
            // For the report.
            _ if lease.round == round => {
                lease.votes.granted &= !bit;
                lease.votes.failed |= bit;
            }
            _ => {}
        }
        let is_over = counted.open == 0;
        if let (None, Some(reply)) = (count, reply) {
            self.keep_refusal(id, at, round, &reply.frame);
        }
        if let Some(lease) = self.leases.get_mut(id).filter(|it| is_over && it.round == round) {
            lease.keeps_answers();
        }
        self.wake(id);
    }

    /// Sets the number of servers that are still counting.
    fn next_counts(&mut self, left: u32) {
        let (counting, told) = &mut self.counting;
        *counting = left;
        if left == 0 {
            self.effects.extend(told.drain(..).map(Effect::Wake));
        }
    }

    /// Ends all counts: no replies are read any more.
    pub(super) fn counts_no_more(&mut self) {
        self.next_counts(0);
        for id in self.all(&|_, lease| lease.counted.is_some()) {
            if let Some(lease) = self.leases.get_mut(id) {
                lease.counted = None;
            }
        }
    }

    /// The largest number of replicas that a quorum of servers reaches, in this round or a later one; none if too few
    /// have counted.
    pub(crate) fn poll_counted(
        &mut self,
        id: LeaseId,
        round: u32,
        place: &mut Option<usize>,
        context: &Context<'_>,
    ) -> Poll<Option<u32>> {
        let of_servers = self.settings.quorum;
        let lease = self.leases.get_mut(id).filter(|lease| lease.is_held());
        let at = lease.as_ref().map_or(0, |lease| lease.quorum(of_servers).needed() - 1);
        let counted = lease.and_then(|lease| lease.counted.as_deref_mut());
        let Some(counted) = counted.filter(|it| it.round >= round) else {
            return Poll::Ready(None);
        };
        if counted.open != 0 {
            self.wait_at(id, place, false, context.waker());
            return Poll::Pending;
        }
        counted.counts.sort_unstable_by(|one, other| other.cmp(one));
        Poll::Ready(counted.counts.get(at).copied())
    }
}

impl Lease {
    /// A server has extended it.
    pub(super) fn is_extended_at(&mut self, bit: u64, round: u32) {
        if let Some(counted) = self.counted.as_deref_mut().filter(|it| it.round == round) {
            counted.extended |= bit;
        }
    }
}

#[cfg(test)]
mod tests;

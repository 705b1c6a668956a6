//! A lease that another replaces, by another owner and in one step at each server: such as a reader that becomes the
//! writer. The new lease counts from before its request.
//!
//! Meanwhile the old lease counts as being released: it is not renewed, and a missing key is no loss. If the servers
//! certainly granted nothing, the old lease stays as it was. If that is not known, both release what they may have.

use super::acquire::Options;
use super::answer::Kept;
use super::core::{Machine, NEVER};
use super::ids::LeaseId;
use super::kind::Kind;
use super::lease::{Extending, Has, Lease, Phase, Refusal};
use crate::policy::{Ballot, Code, End, LeaseEvent, LeaseState, Loss, Moment, Setback, Verdict};

/// The state of a lease after a replacement has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnedDown {
    Stays,
    /// It is lost, for this reason.
    Lost(Loss),
    /// It is released, because it is unknown which of the two exists.
    Unknown,
}

impl Machine {
    /// The kind of a lease, with its arguments.
    pub(crate) fn kind(&self, id: LeaseId) -> Option<(&'static Kind, &[Box<[u8]>])> {
        self.leases.get(id).map(|lease| (lease.kind, &lease.words[..]))
    }

    /// Requests another lease in the place of this one; returns also when this one ends. [`Machine::poll_acquire`] has the
    /// result; then call [`Machine::turned`] or [`Machine::turned_down`], or before that [`Machine::give_up_turn`].
    ///
    /// # Errors
    ///
    /// Why the lease is lost.
    pub(crate) fn turn(
        &mut self,
        id: LeaseId,
        kind: &'static Kind,
        words: Box<[Box<[u8]>]>,
        now: Moment,
    ) -> Result<(LeaseId, Moment), Loss> {
        let until = self.state(id).and_then(LeaseState::until).unwrap_or(now);
        self.happens(id, LeaseEvent::Release, now);
        if let Some(why) = self.state(id).and_then(LeaseState::loss) {
            return Err(why);
        }
        // It is not due until the result is known.
        self.plan(id, NEVER);
        let lease = self.leases.get_mut(id).expect("it is its holder's");
        (lease.late_at, lease.extending) = (NEVER, Extending::Nothing);
        let (owner, token) = (Box::new(lease.owner.clone()), lease.token);
        let options = Options { kind, words, ..lease.another_attempt() };
        let other = self.begin(options, now);
        if let Some(other) = self.leases.get_mut(other) {
            (other.predecessor, other.token) = (Some(owner), token);
        }
        match self.closed {
            Some(refusal) => self.refuse_for(other, refusal, now),
            None => self.begin_attempt(other, now),
        }
        Ok((other, until))
    }

    /// The other was granted: only servers that have not granted it may still have the first.
    pub(crate) fn turned(&mut self, id: LeaseId, other: LeaseId, now: Moment) {
        let Some(granted) = self.leases.get(other).map(|lease| lease.votes.granted) else { return };
        let Some(lease) = self.leases.get_mut(id) else { return };
        let replicas = lease.replicas.iter_mut().enumerate();
        for (_, replica) in replicas.filter(|(server, _)| granted & 1 << server != 0) {
            replica.has = Has::Nothing;
        }
        let (granted_at, is_bounded) = (lease.granted_at, lease.bounded.is_some());
        self.happens(id, LeaseEvent::Ended(End::Released), now);
        self.give_back(id, now);
        // Other readers may be let in now, which the server does not tell this connection of; and the next waiter for the
        // whole lock is in no queue.
        self.call_next(id, now);
        let Some(lease) = self.leases.get_mut(other).filter(|_| is_bounded) else { return };
        // Its bounds count from the first grant.
        lease.granted_at = granted_at;
        if let Some(until) = lease.state().and_then(LeaseState::until) {
            let until = lease.cut(until);
            lease.phase = Phase::Granted(LeaseState::Held { until });
            let due = if lease.is_at_its_last(until) { until } else { lease.due.min(until) };
            self.plan(other, due);
        }
    }

    /// The other was refused; `until` is when the first ends.
    pub(crate) fn turned_down(
        &mut self,
        id: LeaseId,
        other: LeaseId,
        until: Moment,
        now: Moment,
    ) -> TurnedDown {
        let why = self.gone();
        let down = match self.leases.get(other) {
            _ if self.closed == Some(Refusal::ShutDown) => TurnedDown::Lost(Loss::ShutDown),
            Some(asked) if self.is_undone(asked) => {
                self.happens(id, LeaseEvent::Stays { until }, now);
                self.plan(id, now);
                return TurnedDown::Stays;
            }
            Some(Lease {
                phase: Phase::Refused(Refusal::Setback { setback: Setback::TooLate, .. }),
                ..
            }) => TurnedDown::Lost(Loss::Expired),
            Some(asked) if self.is_gone_for(asked) => TurnedDown::Lost(why),
            _ => TurnedDown::Unknown,
        };
        let why = if let TurnedDown::Lost(why) = down { why } else { why };
        self.is_lost_in_turn(id, why, now);
        down
    }

    /// The caller has gone: releases both.
    pub(crate) fn give_up_turn(&mut self, id: LeaseId, other: LeaseId, now: Moment) {
        self.forget(other, now);
        self.is_lost_in_turn(id, self.gone(), now);
    }

    fn is_lost_in_turn(&mut self, id: LeaseId, why: Loss, now: Moment) {
        self.give_back(id, now);
        self.happens(id, LeaseEvent::Ended(End::Lost(why)), now);
    }

    fn gone(&self) -> Loss {
        if self.is_alone() { Loss::Gone } else { Loss::NoQuorum }
    }

    /// Whether no server carried out the request: another owner was in the way, or the command did not run.
    fn is_undone(&self, asked: &Lease) -> bool {
        let is_undone = |kept: &Kept| match kept {
            Kept::Held(..) => true,
            Kept::Refused(text) => matches!(
                Code::of_bytes(text),
                Code::Later | Code::Apart | Code::ReadOnly | Code::Elsewhere
            ),
            _ => false,
        };
        let is_undone_at = |server: usize| match asked.said.iter().find(|(at, _)| *at == server) {
            Some((_, kept)) => is_undone(kept),
            None => asked.votes.asked & 1 << server == 0,
        };
        // A request with another token was granted before.
        let is_first = !asked.bid.ballot().is_some_and(Ballot::is_outbid);
        is_first && asked.votes.granted == 0 && (0..asked.replicas.len()).all(is_undone_at)
    }

    /// Whether too many servers have said that the first is gone.
    fn is_gone_for(&self, asked: &Lease) -> bool {
        let is_gone = |(_, kept): &&(usize, Kept)| match kept {
            Kept::NotOwned => true,
            Kept::Refused(text) => Code::of_bytes(text) == Code::WrongType,
            _ => false,
        };
        let gone = asked.said.iter().filter(is_gone).count();
        self.settings.quorum.verdict(0, gone) == Verdict::Lost
    }
}

#[cfg(test)]
mod tests;

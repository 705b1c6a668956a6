//! A lease in whose place another asks for something else of the same lock, by another owner and in one step at each
//! server. What is granted counts from before the question.
//!
//! Meanwhile the first counts as being given back, so that it is not renewed, and what is gone is taken for no loss. Where
//! servers gave the other nothing for sure, it stays as it was. Where that is not known, both give back what they may have.

use super::acquire::Options;
use super::answer::Kept;
use super::core::{Machine, NEVER};
use super::ids::LeaseId;
use super::kind::Kind;
use super::lease::{Extending, Has, Lease, Phase, Refusal};
use crate::policy::{Ballot, Code, End, LeaseEvent, LeaseState, Loss, Moment, Setback, Verdict};

/// What became of a lease in whose place another asked in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnedDown {
    Stays,
    /// It is lost, for this reason.
    Lost(Loss),
    /// It is given back, as nobody knows which of the two there is.
    Unknown,
}

impl Machine {
    /// What a lease is, with what its kind is told beside the names.
    pub(crate) fn kind(&self, id: LeaseId) -> Option<(&'static Kind, &[Box<[u8]>])> {
        self.leases.get(id).map(|lease| (lease.kind, &lease.words[..]))
    }

    /// Another asks in the place of a lease that ends then. [`Machine::poll_acquire`] says what came of the other, and then
    /// one of [`Machine::turned`] and [`Machine::turned_down`] is to be called, or [`Machine::give_up_turn`] before that.
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
        // Nothing is due of it until it is known what it is.
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

    /// The other was granted: nothing is left of the first but on servers that have not said so.
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
        let Some(lease) = self.leases.get_mut(other).filter(|_| is_bounded) else { return };
        // How long it may be held counts from the first grant.
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

    /// Nobody waits for what comes of it: neither has anything from here on.
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

    /// No server carried out what it was asked: another stood in the way, or nothing ran.
    fn is_undone(&self, asked: &Lease) -> bool {
        let is_undone = |kept: &Kept| match kept {
            Kept::Held(..) => true,
            Kept::Refused(text) => matches!(
                Code::of(&String::from_utf8_lossy(text)),
                Code::Later | Code::Apart | Code::ReadOnly | Code::Elsewhere
            ),
            _ => false,
        };
        let is_undone_at = |server: usize| match asked.said.iter().find(|(at, _)| *at == server) {
            Some((_, kept)) => is_undone(kept),
            None => asked.votes.asked & 1 << server == 0,
        };
        // What is asked with another token was granted before.
        let is_first = !asked.attempt.ballot().is_some_and(Ballot::is_outbid);
        is_first && asked.votes.granted == 0 && (0..asked.replicas.len()).all(is_undone_at)
    }

    /// Too many servers have said that the first is not there any more.
    fn is_gone_for(&self, asked: &Lease) -> bool {
        let is_gone = |(_, kept): &&(usize, Kept)| match kept {
            Kept::NotOwned => true,
            Kept::Refused(text) => Code::of(&String::from_utf8_lossy(text)) == Code::WrongType,
            _ => false,
        };
        let gone = asked.said.iter().filter(is_gone).count();
        self.settings.quorum.verdict(0, gone) == Verdict::Lost
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use bytes::Bytes;
    use leasehold_resp::Frame;

    use super::super::tests::{Bench, acquire, bulk, error, stamp};
    use super::super::{FENCED, Fault};
    use super::*;

    /// A lease in whose place another asks, when it ends, and the question.
    fn begun(bench: &mut Bench) -> (LeaseId, LeaseId, Moment, Vec<Bytes>) {
        let id = acquire(bench, b"a");
        bench.answer(0, |command| vec![stamp(command)]);
        let turn = bench.machine.turn(id, &FENCED, Box::default(), bench.now);
        let (other, until) = turn.unwrap();
        assert!(!bench.machine.state(id).unwrap().is_held());
        (id, other, until, bench.said(0).pop().unwrap())
    }

    fn is_answered(bench: &mut Bench, other: LeaseId) -> Option<bool> {
        match bench.machine.poll_acquire(other, &Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer.is_ok()),
            Poll::Pending => None,
        }
    }

    /// What becomes of the lease where the other is refused so, and whether it is held then.
    fn down(refuse: impl FnOnce(&mut Bench, &[Bytes])) -> (TurnedDown, bool) {
        let mut bench = Bench::connected(1);
        let (id, other, until, question) = begun(&mut bench);
        assert_eq!(is_answered(&mut bench, other), None);
        refuse(&mut bench, &question);
        assert_eq!(is_answered(&mut bench, other), Some(false));
        let down = bench.machine.turned_down(id, other, until, bench.now);
        bench.machine.forget(other, bench.now);
        let state = bench.machine.state(id).unwrap();
        assert!(!state.is_held() || state.until() == Some(until));
        (down, state.is_held())
    }

    fn refuse_by(text: &'static str) -> impl FnOnce(&mut Bench, &[Bytes]) {
        move |bench, _| {
            bench.reply(0, &error(text));
            bench.answer(0, |command| vec![bulk(command.last().unwrap())]);
        }
    }

    #[test]
    fn another_takes_the_place_of_a_lease_and_nothing_is_left_of_that() {
        let mut bench = Bench::connected(1);
        let (id, other, _, question) = begun(&mut bench);
        bench.reply(0, &stamp(&question));
        assert_eq!(is_answered(&mut bench, other), Some(true));
        bench.machine.turned(id, other, bench.now);
        bench.machine.forget(id, bench.now);
        assert!(bench.said(0).is_empty() && bench.machine.len() == 1);
        assert!(bench.machine.state(other).unwrap().is_held());
    }

    #[test]
    fn a_lease_stays_where_another_was_given_nothing_in_its_place_for_sure() {
        let held = |bench: &mut Bench, question: &[Bytes]| {
            let holder = [bulk("held"), bulk("x"), Frame::Integer(70), bulk("0")];
            let items = [stamp(question)].into_iter().chain(holder);
            bench.reply(0, &Frame::Array(items.collect()));
        };
        let stays = (TurnedDown::Stays, true);
        assert_eq!(down(held), stays);
        assert_eq!(down(refuse_by("OOM command not allowed")), stays);
        let gone = |bench: &mut Bench, question: &[Bytes]| {
            let items = [stamp(question), Frame::Integer(0)];
            bench.reply(0, &Frame::Array(items.into()));
        };
        assert_eq!(down(gone), (TurnedDown::Lost(Loss::Gone), false));
    }

    /// Both may be what the server has.
    #[test]
    fn a_lease_is_lost_where_nobody_knows_whether_another_took_its_place() {
        let unknown = (TurnedDown::Unknown, false);
        let ended = |bench: &mut Bench, _: &[Bytes]| {
            bench.machine.disconnected(0, Fault::Closed, bench.now);
        };
        assert_eq!(down(ended), unknown);
        assert_eq!(down(|bench, _| bench.pass(bench.machine.settings().timeout)), unknown);
        assert_eq!(down(refuse_by("ERR who knows")), unknown);
        let mut bench = Bench::connected(1);
        let (id, other, ..) = begun(&mut bench);
        bench.machine.give_up_turn(id, other, bench.now);
        assert!(bench.machine.loss(id, bench.now).is_some());
        assert_eq!(bench.said(0).len(), 2, "both are given back");
    }
}

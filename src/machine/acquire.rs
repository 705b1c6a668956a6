//! From a request to a grant: attempts, the rounds of commands that make one, and their verdicts.

use std::task::{Context, Poll};

use super::answer::{Answer, Kept};
use super::core::{Happening, Machine, NEVER};
use super::ids::{LeaseId, Owner};
use super::kind::{Kind, Words};
use super::lease::{Bounded, Extending, Has, Lease, Phase, Refusal, Replica, Votes, quorum_of};
use super::rules;
use crate::names::Names;
use crate::policy::{
    Attempt, AttemptAction, Ballot, Bid, Bidding, Bounds, Conditions, Failing, Grant, LeaseState,
    Moment, Next, Relay, Retry, RetryState, Setback, Tally, Term, Verdict, VoteReply, Wait,
    is_silence, renew_at,
};

/// A request.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) kind: &'static Kind,
    pub(crate) names: Names,
    /// Further arguments of the kind.
    pub(crate) words: Box<[Box<[u8]>]>,
    pub(crate) term: Term,
    pub(crate) bounds: Bounds,
    pub(crate) wait: Wait,
    pub(crate) retry: Retry,
    pub(crate) is_renewed: bool,
    /// A free lock is left to its waiters, even if the request does not wait.
    pub(crate) is_fair: bool,
    /// The part of the value after the owner's id.
    pub(crate) said: Box<[u8]>,
}

impl Machine {
    /// Begins a request. The handle keeps the id.
    pub(crate) fn acquire(&mut self, options: Options, now: Moment) -> LeaseId {
        let id = self.begin(options, now);
        let Some(lease) = self.leases.get(id) else { return id };
        let (waits, in_line) = (lease.waits(), lease.kind.stands_in_line());
        if let Some(refusal) = self.closed {
            self.refuse_for(id, refusal, now);
        } else if waits && in_line && !self.lines.is_empty() && self.stands_in_line(id) {
            self.stand(id, now);
        } else if waits && self.was_sought(id) && self.join_line(id) {
            // The first command is the queue's, or else waiters there would be overtaken.
            self.try_again(id, now);
        } else {
            self.begin_attempt(id, now);
        }
        id
    }

    /// Makes the lease of a request; sends nothing yet.
    pub(super) fn begin(&mut self, mut options: Options, now: Moment) -> LeaseId {
        let settings = &self.settings;
        let kind = settings.kind(options.kind, options.is_fair);
        options.kind = kind;
        let Options { term, wait, retry, .. } = options;
        let retry = RetryState::new(wait, retry, term.ttl(), settings.timeout, now);
        let replicas = self.replicas_of(kind, &options.names, &options.words);
        let settings = &self.settings;
        let owner = Owner::new((settings.owner_id)(now), &options.said);
        let owner = if kind.means().know_marks { owner } else { owner.knowing_no_marks() };
        // Not later than the first renewal of a grant, so that a grant moves no timer.
        let planned = now.after(settings.timeout).min(renew_at(now, term.ttl()));
        let conditions = self.conditions(kind, term, retry.ends_at(), replicas.len());
        let attempt = Attempt::begin(conditions, None);
        let bid = match self.spare_bids.pop() {
            Some(mut bid) => {
                (bid.attempt, bid.retry, bid.setback) = (attempt, retry, None);
                bid.has_news = false;
                bid
            }
            None => {
                let tally = Tally::default();
                Box::new(Bid { attempt, tally, retry, setback: None, has_news: false })
            }
        };
        self.add(options, owner, Bidding(Some(bid)), replicas, planned, now)
    }

    /// Adds a lease of this owner; sends nothing yet.
    #[inline(never)]
    pub(super) fn add(
        &mut self,
        options: Options,
        owner: Owner,
        bid: Bidding,
        replicas: Box<[Replica]>,
        planned: Moment,
        now: Moment,
    ) -> LeaseId {
        let Options { kind, names, words, term, bounds, is_renewed, is_fair, .. } = options;
        let waits = bid.waits();
        let lease = Lease {
            kind,
            names,
            words,
            owner,
            predecessor: None,
            term,
            bounded: Bounded::new(bounds),
            phase: Phase::InLine,
            is_renewed,
            is_watched: false,
            is_told: false,
            news_at: NEVER,
            round: 0,
            asked_at: now,
            votes: Votes::default(),
            bid,
            defers: kind.means().know_marks && (is_fair || kind.is_fenced && waits),
            entry: None,
            scouts_for: None,
            is_announced: false,
            token: 0,
            granted_at: now,
            relay: Relay::default(),
            extending: Extending::Nothing,
            late_at: now,
            judged: 0,
            extended: 0,
            unread: None,
            #[cfg(any(test, feature = "replicas"))]
            counted: None,
            failed: 0,
            due: now,
            planned,
            replicas,
            waker: None,
            said: Vec::new(),
            end: None,
            told: Vec::new(),
        };
        self.note(planned);
        self.leases.insert(lease, planned)
    }

    /// One replica for each server.
    fn replicas_of(&mut self, _kind: &Kind, _names: &Names, _words: &Words) -> Box<[Replica]> {
        #[cfg(any(test, feature = "cluster"))]
        if let Some(replicas) = self.routed(_kind, _names, _words) {
            return replicas;
        }
        let fresh = || (0..self.settings.quorum.servers()).map(Replica::at).collect();
        self.spare.pop().unwrap_or_else(fresh)
    }

    fn conditions(
        &self,
        kind: &Kind,
        term: Term,
        ends_at: Option<Moment>,
        replicas: usize,
    ) -> Conditions {
        Conditions {
            quorum: quorum_of(replicas, self.settings.quorum),
            term,
            servers_choose: replicas == 1 || !kind.is_exclusive(),
            ends_at,
            round_max: self.settings.timeout,
        }
    }

    /// The first of a line asks again: by an entry in the queue, or by an attempt. If too few of several servers served the
    /// last time, an attempt finds out whether they do now.
    #[inline(never)]
    pub(super) fn try_again(&mut self, id: LeaseId, now: Moment) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        let is_unserved =
            !lease.is_alone() && matches!(lease.phase, Phase::Resting { is_unserved: true, .. });
        lease.defers |= is_unserved && lease.kind.is_fenced && lease.kind.means().know_marks;
        if is_unserved
            || self.attempt_in_turn(id, now).is_some()
            || !(self.settings.waits.refused)(self, id, now)
        {
            self.begin_attempt(id, now);
        }
    }

    /// Begins an attempt by a fresh owner, or by the owner whose turn it is.
    pub(super) fn begin_attempt(&mut self, id: LeaseId, now: Moment) {
        if let Some(attempt) = self.attempt_in_turn(id, now) {
            self.bid(id).expect("it asks").attempt = attempt;
            return self.ask(id, now);
        }
        self.leave_entry(id, now);
        let Some(lease) = self.leases.get(id) else { return };
        let conditions = self.conditions_of(lease);
        let is_by_script = lease.kind.is_fenced || lease.defers || lease.predecessor.is_some();
        let ballot = is_by_script.then(|| Ballot::new((self.settings.wall_micros)()));
        self.bid(id).expect("it asks").attempt = Attempt::begin(conditions, ballot);
        self.counts.attempts += 1;
        self.ask(id, now);
    }

    /// As above, for this lease.
    pub(super) fn conditions_of(&self, lease: &Lease) -> Conditions {
        self.conditions(lease.kind, lease.term, lease.bid.ends_at(), lease.replicas.len())
    }

    pub(super) fn bid(&mut self, id: LeaseId) -> Option<&mut Bid> {
        self.leases.get_mut(id)?.bid.bid()
    }

    /// One server has answered a command of this round, or never will.
    pub(super) fn voted(
        &mut self,
        id: LeaseId,
        at: usize,
        round: u32,
        answer: Answer,
        has_answered: bool,
        now: Moment,
    ) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        let bit = 1 << at;
        // Noted, because the owner's entry may find the lock free, and then the queue does not tell of other waiters. And
        // otherwise a waiter that has its turn at one of several servers would be overtaken at the others, again and again.
        if matches!(answer, Answer::Held { .. }) && lease.waits() && lease.kind.means().know_marks {
            self.lines.is_sought(&lease.names, id);
        }
        // A later command is under way on the same connection, and its answer is enough.
        if !rules::is_of_round(lease.round, round) {
            // In a Cluster a part of it may have run.
            let ran_nothing = matches!(answer, Answer::Failed { is_run: false, .. });
            if has_answered && ran_nothing && !self.is_by_slots() {
                self.ran_nothing(id, (at, round));
            }
            return;
        }
        if lease.votes.answered() & bit != 0 {
            return;
        }
        let replica = &mut lease.replicas[at];
        replica.answered_at = now;
        replica.has = match (answer, replica.has) {
            (Answer::Granted(_) | Answer::Seized(_), Has::Asked | Has::Perhaps) => Has::Key,
            // An answer proves that the command does not arrive any more.
            (Answer::Failed { is_run: true, .. }, Has::Asked) if has_answered => Has::Key,
            (Answer::Failed { is_run: true, .. }, Has::Asked) => Has::Perhaps,
            (_, Has::Asked) => Has::Nothing,
            (_, has) => has,
        };
        lease.note_vote(at, answer);
        // The server does not tell a connection of its own changes.
        #[cfg(any(test, feature = "takeover"))]
        if matches!(answer, Answer::Seized(_)) {
            let names = lease.names.clone();
            self.changed(Some(names.lock()), now);
        }
        if !has_answered {
            self.note_failures(bit, now);
        }
        let Some(lease) = self.leases.get_mut(id) else { return };
        if lease.phase == Phase::Asking {
            let (proposal, asked_at) =
                (lease.bid.ballot().map_or(0, Ballot::proposal), lease.asked_at);
            lease.bid.add(answer.as_vote(), proposal, Some(asked_at), now);
            self.judge(id, now);
        } else if !lease.is_exposed() && lease.phase == Phase::GivingBack {
            self.remove(id);
        } else if lease.is_held() && lease.votes.asked == lease.votes.answered() {
            let bid = lease.bid.0.take();
            self.spare(bid);
        }
    }

    /// The command of this round did not run at a server, which was sent the owner's release meanwhile. If the owner sent no
    /// other command there, it has nothing there, and the release is not repeated: a busy server would refuse that as well.
    fn ran_nothing(&mut self, id: LeaseId, (at, round): (usize, u32)) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        let is_released = lease.phase == Phase::GivingBack && lease.round == round + 1;
        let replica = &mut lease.replicas[at];
        // So `give_back` leaves a server that has not answered the owner's only command.
        let is_only = replica.due.is_none() && replica.redelivery.is_some();
        if is_released && is_only && replica.has == Has::Releasing {
            (replica.has, replica.redelivery) = (Has::Nothing, None);
            self.end_if_clear(id);
        }
    }

    /// A server that has to grant could not be asked, and will not be in this round.
    pub(super) fn is_not_asked(&mut self, id: LeaseId, now: Moment) {
        let Self { links, leases, .. } = self;
        let Some(lease) = leases.get_mut(id) else { return };
        let put = lease.votes.put();
        let mut open = (0..lease.replicas.len()).filter(|at| put & 1 << at == 0).peekable();
        let Some(first) = open.peek().copied() else { return };
        let refusal = |at| Some((at, links[lease.link(at)].refusal_of_locks(now)?));
        let (at, refusal) = open.find_map(refusal).unwrap_or((first, Failing::Otherwise));
        lease.votes.failed |= 1 << at;
        lease.bid.add(VoteReply::Failed(refusal), 0, None, now);
    }

    /// A dial to a server has succeeded or failed: what waits for that goes on.
    pub(super) fn go_on(&mut self, server: usize, now: Moment) {
        self.tell_callers(Happening::Tried(server), now);
        let is_ready = self.links[server].is_ready();
        for id in std::mem::take(&mut self.links[server].awaited) {
            if is_ready && self.links[server].is_full() {
                self.links[server].awaited.push(id);
                continue;
            }
            let asking = self.leases.get(id).filter(|lease| lease.phase == Phase::Asking);
            match asking.map(|lease| lease.votes == Votes::default()) {
                None => self.extends_at(server, id, now),
                Some(true) if is_ready => self.ask(id, now),
                // Other servers are asked already, for other locks.
                #[cfg(any(test, feature = "cluster"))]
                Some(false) if is_ready => self.put(id, now),
                Some(_) => {
                    self.is_not_asked(id, now);
                    self.judge(id, now);
                }
            }
        }
    }

    /// The round, or the caller's limit, is over: missing answers are late.
    pub(super) fn are_late(&mut self, id: LeaseId, now: Moment) {
        self.is_not_asked(id, now);
        let Some(lease) = self.leases.get_mut(id) else { return };
        #[cfg(any(test, feature = "_kinds"))]
        if lease.votes.later != 0 && !lease.bid.is_over(now) {
            lease.votes.later = 0;
            return self.put(id, now);
        }
        // The result of the former attempt stands, unless servers have been silent since.
        let is_silence = is_silence(lease.asked_at, self.settings.timeout, now);
        if let Some(setback) = lease.bid.setback().filter(|_| lease.bid.is_over(now) && !is_silence)
        {
            lease.are_late();
            self.give_back_aside(id, now);
            return self.refuse(id, setback, true, now);
        }
        let is_timeout = lease.asked_at.after(self.settings.timeout) <= now;
        let late = lease.votes.asked & !lease.votes.answered();
        lease.said.retain(|(at, _)| late & 1 << at == 0);
        for _ in 0..late.count_ones() {
            lease.bid.add(VoteReply::Failed(Failing::Late), 0, Some(lease.asked_at), now);
        }
        lease.votes.failed |= late;
        // A server that was given less time has not failed.
        self.note_failures(if is_timeout { late } else { 0 }, now);
        self.judge(id, now);
    }

    /// Judges the answers so far.
    pub(super) fn judge(&mut self, id: LeaseId, now: Moment) {
        let wall_micros = self.settings.wall_micros;
        let Some(lease) = self.leases.get_mut(id) else { return };
        let Votes { granted, denied, failed, .. } = lease.votes;
        let count = |votes: u64| votes.count_ones() as usize;
        let quorum = lease.quorum(self.settings.quorum);
        let mut verdict = quorum.verdict(count(granted), count(denied | failed));
        if verdict == Verdict::Pending {
            // The server that is asked first has refused, or the limit is over.
            if lease.kind.is_exclusive() || lease.votes.later == 0 {
                if denied != 0 {
                    self.waits_untold(id);
                }
                return;
            }
            #[cfg(any(test, feature = "_kinds"))]
            if lease.asks_others() && !lease.bid.is_over(now) {
                return self.go_on_asking(id, now);
            }
            verdict = Verdict::Lost;
        }
        let unanswered = count(lease.votes.asked & !lease.votes.answered());
        let is_lost = verdict == Verdict::Lost;
        // One that waits has more time.
        let patience_ends =
            if lease.waits() { lease.due } else { lease.patience_ends(&self.links) };
        let late_at = patience_ends.min(lease.due);
        let Some(bid) = lease.bid.bid() else { return };
        if is_lost && now < late_at && bid.tally.is_unclear(quorum, unanswered) {
            return self.plan(id, late_at);
        }
        bid.tally.conclude(verdict);
        match bid.attempt.ended(&bid.tally, wall_micros) {
            AttemptAction::Ask(_) => self.ask(id, now),
            AttemptAction::Hold(grant) => self.hold(id, grant, now),
            AttemptAction::GiveUp(setback) => self.give_up(id, setback, now),
        }
    }

    /// A round in which some have refused stays open for a server that does not answer. A push about the lock ends that; if
    /// no server that refused can push, all are asked again at the pace of a waiter.
    fn waits_untold(&mut self, id: LeaseId) {
        let random = self.settings.random;
        let Some(lease) = self.leases.get(id).filter(|lease| lease.waits()) else { return };
        let Some(retry) = lease.bid.retry() else { return };
        let has_refused = |at: &usize| lease.votes.denied & 1 << at != 0;
        let mut refused = (0..lease.replicas.len()).filter(has_refused).peekable();
        let tells = |at| self.links[lease.link(at)].talk.told.is_tracking;
        if refused.peek().is_some() && !refused.any(tells) {
            let pause = lease.asked_at.after(retry.pause(random()));
            let late_at = lease.patience_ends(&self.links).max(pause).min(lease.due);
            self.plan(id, late_at);
        }
    }

    pub(super) fn hold(&mut self, id: LeaseId, grant: Grant, now: Moment) {
        if let Some(waiter) = self.leases.get(id).and_then(|lease| lease.scouts_for) {
            return self.scout_is_granted(id, waiter, grant, now);
        }
        let Some(lease) = self.leases.get_mut(id) else { return };
        let Grant { asked_at, deadline, token, .. } = grant;
        lease.entry = None;
        let is_handed_over = lease.predecessor.is_some();
        lease.granted_at = now;
        let deadline = lease.cut(deadline);
        lease.phase = Phase::Granted(LeaseState::Held { until: deadline });
        self.counts.held += i32::from(lease.kind.has_guard);
        if let Some(kind) = lease.kind.becomes {
            // From now on it is like any other lease, except that no tokens are set aside for a lock taken from its holder.
            (lease.kind, lease.words, lease.relay) = (kind, Box::default(), Relay::default());
        }
        let token = token.filter(|_| lease.kind.is_fenced);
        (lease.token, lease.asked_at) = (token.unwrap_or(0), asked_at);
        let due = if lease.is_renewed && !lease.is_at_its_last(deadline) {
            renew_at(asked_at, lease.term.ttl()).min(deadline)
        } else {
            deadline
        };
        let (is_late, is_exclusive) = (due <= now, lease.kind.is_exclusive());
        let is_answered = lease.is_alone() || lease.votes.asked == lease.votes.answered();
        let bid = lease.bid.0.take_if(|_| is_answered);
        if !self.lines.is_empty() {
            let names = &self.leases.get(id).expect("it is there").names;
            if is_handed_over && is_exclusive {
                self.lines.occupy(names, id);
            }
            self.lines.leave(names, id);
        }
        self.spare(bid);
        self.plan(id, if is_late { now } else { due });
        self.wake(id);
    }

    /// An attempt failed. The next one has a fresh owner, and what this one may have left is released.
    pub(super) fn give_up(&mut self, id: LeaseId, setback: Setback, now: Moment) {
        self.counts.unknown += u32::from(self.leases.get(id).is_some_and(Lease::is_unknown));
        let contends = self.leases.get(id).is_some_and(|lease| lease.kind.becomes.is_none());
        if matches!(setback, Setback::Held(_)) && contends {
            self.is_contended(id);
        }
        // A request that ends by this needs no other owner if no server has anything of this one.
        let is_over = |lease: &Lease| !lease.waits() && !lease.is_exposed();
        if !self.leases.get(id).is_some_and(is_over) && !self.keeps_its_turn(id, now) {
            self.give_back_aside(id, now);
        }
        let random = self.settings.random;
        let Self { leases, lines, settings, .. } = self;
        let Some(lease) = leases.get_mut(id) else { return };
        let quorum = lease.quorum(settings.quorum);
        let is_read = lease.asks_as().is_fenced || !lease.kind.means().read_the_lock;
        let watched = lease.votes.watched;
        let is_held =
            |(at, kept): &&(usize, Kept)| watched & 1 << at != 0 && matches!(kept, Kept::Held(..));
        let told = lease.said.iter().filter(is_held).count();
        // No server tells that a quorum of the others may grant.
        let others = (lease.votes.put().count_ones() as usize).saturating_sub(told);
        let is_told = told != 0 && quorum.verdict(others, 0) != Verdict::Won;
        // A request that did not stand in line yet has not been told of this process's own changes. Counted attempts follow
        // the clock alone: their number limits the time as well.
        let is_counted = lease.bid.is_counted();
        let is_watched = is_read && is_told && !is_counted && lines.has_ask(&lease.names, id);
        // Without another attempt no randomness is needed.
        let random = if lease.waits() { random() } else { 0 };
        let setback = match setback {
            Setback::Held(frees_in) if is_watched => Setback::Watched(frees_in),
            setback => setback,
        };
        lease.defers &= !matches!(setback, Setback::Held(_) | Setback::Watched(_));
        lease.relay = Relay::default();
        let Some(bid) = lease.bid.bid() else { return };
        bid.setback = Some(setback);
        let has_news = bid.has_news;
        match bid.retry.after(setback, now, random) {
            Next::Rest(rest) => {
                let is_held = matches!(setback, Setback::Held(_) | Setback::Watched(_));
                let from = now.after(rest.least);
                let is_unserved = matches!(setback, Setback::Failing | Setback::Quarantined(_));
                lease.phase = Phase::Resting { from, is_unserved };
                let until = if has_news { from } else { now.after(rest.most) };
                if self.join_line(id) {
                    self.plan(id, until);
                    // It enters the queue at once.
                    if is_held && from <= now && self.attempt_in_turn(id, now).is_none() {
                        (self.settings.waits.refused)(self, id, now);
                    }
                } else {
                    self.stand(id, now);
                }
            }
            Next::GiveUp => self.refuse(id, setback, false, now),
            Next::OutOfTime => self.refuse(id, setback, true, now),
        }
    }

    #[inline(never)]
    pub(super) fn refuse(&mut self, id: LeaseId, setback: Setback, is_over: bool, now: Moment) {
        self.refuse_for(id, Refusal::Setback { setback, is_over }, now);
    }

    #[inline(never)]
    pub(super) fn refuse_for(&mut self, id: LeaseId, refusal: Refusal, now: Moment) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        if let Some(waiter) = lease.scouts_for {
            return self.scout_is_refused(id, waiter, refusal, now);
        }
        lease.phase = Phase::Refused(refusal);
        self.wake(id);
        self.leave_line(id, now);
    }

    /// Sets other arguments of its kind, and asks at once if it rests.
    #[cfg(any(test, feature = "groups"))]
    pub(crate) fn tell_kind(&mut self, id: LeaseId, words: Box<[Box<[u8]>]>, now: Moment) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        (lease.words, lease.defers) = (words, false);
        match lease.phase {
            Phase::Resting { .. } => self.begin_attempt(id, now),
            // The command under way has the former arguments.
            Phase::Asking => self.has_news(id),
            _ => {}
        }
    }

    /// Whether it waits between two attempts.
    #[cfg(any(test, feature = "groups"))]
    pub(crate) fn rests(&self, id: LeaseId) -> bool {
        self.leases.get(id).is_some_and(|lease| matches!(lease.phase, Phase::Resting { .. }))
    }

    /// A server serves again: requests that rest because too few served, or because this server was to push changes, ask.
    pub(super) fn serves_again(&mut self, server: usize, now: Moment) {
        for id in self.all_asking() {
            let rests = |lease: &Lease| match lease.phase {
                Phase::Resting { is_unserved, .. } => {
                    let is_watched = |at: usize| lease.votes.watched & 1 << at != 0;
                    is_unserved || lease.at_link(server).any(is_watched)
                }
                _ => false,
            };
            if self.leases.get(id).is_some_and(rests) {
                self.begin_attempt(id, now);
            }
        }
    }

    /// The result of a request. Once this is ready, the lease is held, or only to be forgotten.
    pub(crate) fn poll_acquire(
        &mut self,
        id: LeaseId,
        context: &Context<'_>,
    ) -> Poll<Result<(), Refusal>> {
        let lease = self.leases.get_mut(id).expect("nobody has forgotten it");
        match lease.phase {
            Phase::Granted(_) => {
                lease.bounded.iter_mut().for_each(|bounded| bounded.is_told = true);
                Poll::Ready(Ok(()))
            }
            Phase::Refused(refusal) => Poll::Ready(Err(refusal)),
            _ => {
                self.wait_for(id, context.waker());
                Poll::Pending
            }
        }
    }
}

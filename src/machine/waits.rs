//! How a request waits while another client holds the lock.
//!
//! A refused request polls, which needs nothing of a server. If the settings have a queue ([`super::Waits`]), the first of a
//! line has an [`Entry`] in the queue of one server instead. The functions in those settings are called with what happens,
//! and act by the functions of this file. No other part of the machine knows the queue.
//!
//! With several servers the first in the queue stays there, and another owner, its scout, asks all servers for it: the server
//! with the queue may keep a lease that the others have lost.

use leasehold_resp::Frame;

use super::acquire::Options;
use super::answer::Answer;
use super::core::Machine;
use super::ids::LeaseId;
use super::lease::{Doubt, Entry, Has, Lease, Phase, Refusal, Votes};
use super::rules;
use super::session::Told;
use super::talk::What;
use crate::policy::{
    Attempt, Ballot, Bounds, Failing, Grant, Moment, Next, Relay, Retry, RetryState, Setback, Term,
    Wait, WaiterState,
};

impl Machine {
    /// The leader: among the servers that may vote, the one with this lock's queue.
    pub(crate) fn leader(&self, id: LeaseId, now: Moment) -> Option<usize> {
        let at = self.leader_of(id, u64::MAX, now)?;
        self.leases.get(id).map(|lease| lease.link(at))
    }

    /// The index of the leader's replica among these, given as bits.
    pub(super) fn leader_of(&self, id: LeaseId, among: u64, now: Moment) -> Option<usize> {
        let lease = self.leases.get(id)?;
        let lock = lease.names.lock();
        let link = |at: &usize| &self.links[lease.link(*at)];
        let serves = |at: &usize| among & 1 << at != 0 && link(at).refusal_of_locks(now).is_none();
        let rank = |at: &usize| (self.settings.rank)(lock, &link(at).address);
        (0..lease.replicas.len()).filter(serves).max_by_key(rank)
    }

    /// Has all servers push hand-overs and changes of keys.
    pub(crate) fn subscribe(&mut self, now: Moment) {
        let Self { links, settings, .. } = self;
        links.iter_mut().for_each(|link| link.subscribe(settings.owner_id, now));
    }

    /// The channel for hand-overs, once the server has confirmed it and the tracking of keys, by which a free lock that was
    /// not handed over is noticed.
    pub(crate) fn channel(&self, server: usize) -> Option<&[u8]> {
        let told = &self.links[server].talk.told;
        (told.is_confirmed && told.is_tracking).then(|| told.channel())
    }

    /// A server denies its scripts what a queue needs: its queue is not used while the connection lasts.
    pub(crate) fn has_no_queue(&mut self, server: usize) {
        self.links[server].talk.told.is_confirmed = false;
    }

    /// Whether the request may have an entry: its attempts are not counted, and one server has all of its keys.
    pub(crate) fn may_enter(&self, id: LeaseId) -> bool {
        // For several slots no server knows the order of all waiters.
        let is_whole = |lease: &Lease| lease.replicas.len() == self.settings.quorum.servers();
        let may = |lease: &Lease| {
            lease.kind.wait.is_some()
                && lease.kind.means().know_marks
                && !lease.bid.is_counted()
                && is_whole(lease)
                && !lease.is_apart()
        };
        self.leases.get(id).is_some_and(|lease| lease.waits() && may(lease))
    }

    /// Has the lease wait by an entry at this server; its first command is not sent yet.
    pub(crate) fn enter(&mut self, id: LeaseId, server: usize, now: Moment) {
        let random = (self.settings.random)();
        let Some(lease) = self.leases.get_mut(id) else { return };
        let Some(at) = lease.at_link(server).next() else { return };
        let Some(pause) = lease.bid.retry().map(|retry| retry.pause(random)) else { return };
        lease.phase = Phase::Queued;
        lease.entry = Some(Box::new(Entry {
            server,
            at,
            state: WaiterState::begin(),
            pause,
            asked_at: now,
            unanswered_since: None,
            is_known: false,
            before: 1,
            is_told: false,
            all_asked_at: now,
            scout: None,
            frees_at: None,
            turn: None,
        }));
        self.waiters.insert(lease.owner.value(), id);
        self.counts.attempts += 1;
    }

    /// The entry of a waiting lease, with what it is judged by.
    #[inline(never)]
    pub(crate) fn entry(&mut self, id: LeaseId) -> Option<(&mut Entry, Waiting)> {
        let lease = self.leases.get_mut(id).filter(|lease| lease.phase == Phase::Queued)?;
        let waiting = Waiting { term: lease.term, retry: lease.bid.retry()? };
        lease.entry.as_deref_mut().map(|entry| (entry, waiting))
    }

    /// Sends the command of an entry, by its kind.
    pub(crate) fn ask_for_entry(&mut self, id: LeaseId, words: [&[u8]; 3], now: Moment) {
        let Self { links, leases, settings, command, .. } = self;
        let Some(lease) = leases.get_mut(id) else { return };
        let (Some(entry), Some(wait)) = (lease.entry.as_deref_mut(), lease.kind.wait) else {
            return;
        };
        let link = &mut links[entry.server];
        let is_new = !entry.is_known && entry.unanswered_since.is_none();
        (entry.asked_at, entry.is_told) = (now, false);
        entry.unanswered_since.get_or_insert(now);
        (lease.asked_at, lease.votes) = (now, Votes::default());
        lease.votes.asked = 1 << entry.at;
        lease.round += 1;
        let at = entry.at;
        let replica = &mut lease.replicas[at];
        replica.goes_on(link.generation);
        // An answer to an entry tells nothing of what the owner requested before the entry, or has from its turn.
        let is_first = replica.has == Has::Nothing || replica.has == Has::Asked && !is_new;
        replica.has = if rules::says_all(is_first) { Has::Asked } else { Has::Perhaps };
        link.watch_next(now);
        command.bytes.clear();
        command.form = link.talk.form;
        wait(lease.question(at, command, &settings.scripts), words);
        link.talk.say(command, lease.to(id, at, What::Wait), now);
    }

    /// Whether a repetition would get the same answer.
    pub(crate) fn is_lasting(&self, id: LeaseId, reply: &Frame) -> bool {
        let read = |frame: &Frame| self.leases.get(id).and_then(|lease| (lease.kind.read)(frame));
        let answer =
            reply.error().map_or_else(|| read(reply.value()), |it| Some(self.answer_of_error(it)));
        matches!(answer, Some(Answer::Failed { failing: Failing::Hopeless, .. }))
    }

    /// The lock was handed to the owner of an entry; the lease counts from `counts_from`. A single server's grant is a
    /// lease; with several servers it is the owner's turn to ask all.
    pub(crate) fn granted(&mut self, id: LeaseId, counts_from: Moment, token: u64, now: Moment) {
        self.leave_queue(id, now);
        let Some(lease) = self.leases.get_mut(id) else { return };
        let is_alone = lease.is_alone();
        let Some(entry) = lease.entry.as_deref_mut() else { return };
        let deadline = lease.term.deadline(counts_from);
        lease.replicas[entry.at].has = Has::Key;
        if is_alone {
            lease.relay = Relay::default();
            let token = lease.kind.is_fenced.then_some(token);
            self.hold(id, Grant { asked_at: counts_from, answered_at: now, deadline, token }, now);
        } else {
            (entry.turn, lease.defers) = (Some((deadline, token)), false);
            self.begin_attempt(id, now);
        }
    }

    /// The server has named a holder, or other waiters before the owner, unless that `is_first`.
    pub(crate) fn is_kept_waiting(&mut self, id: LeaseId, is_first: bool, now: Moment) {
        self.is_contended(id);
        let is_held = self.is_alone().then_some(Setback::Held(None));
        if let Some(bid) = self.bid(id) {
            bid.retry.is_served();
            bid.setback = is_held.or(bid.setback);
        }
        let Some(lease) = self.leases.get(id) else { return };
        self.lines.is_sought(&lease.names, id);
        if !is_first {
            self.lines.are_behind(&lease.names, now);
        }
    }

    /// The entry's server cannot serve now. An owner that it knows stays: nobody would hear of the lock if it were handed to one
    /// that has left. It asks as often as the retry policy says; of several servers all. Returns whether it stays.
    pub(crate) fn keeps_place(&mut self, id: LeaseId, now: Moment) -> bool {
        let (random, is_alone) = ((self.settings.random)(), self.is_alone());
        let is_known = self.entry(id).is_some_and(|(entry, _)| entry.is_known);
        let Some(bid) = self.bid(id).filter(|_| is_known) else { return false };
        let known = bid.setback.filter(|_| !is_alone).unwrap_or(Setback::Failing);
        bid.setback = Some(known);
        let Next::Rest(rest) = bid.retry.after(known, now, random) else { return false };
        if !is_alone {
            self.ask_all(id, now);
        }
        self.plan(id, now.after(rest.most));
        true
    }

    /// The server has nothing of the owner, and never will.
    pub(crate) fn is_gone(&mut self, id: LeaseId, now: Moment) {
        self.leave_queue(id, now);
        let Some(lease) = self.leases.get_mut(id) else { return };
        if let Some(entry) = lease.entry.take() {
            lease.replicas[entry.at].has = Has::Nothing;
        }
        self.give_up(id, Setback::Held(None), now);
    }

    /// A fresh owner asks next; what the server may have of this one is released. Earlier answers of several servers
    /// stand, because this was only one of them.
    pub(crate) fn comes_back(&mut self, id: LeaseId, setback: Setback, now: Moment) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        let known = lease.bid.setback().filter(|_| !lease.is_alone());
        if let Some(entry) = &mut lease.entry {
            entry.turn = None;
        }
        if let Some(known) = known.filter(|_| lease.bid.is_over(now)) {
            self.give_back_aside(id, now);
            return self.refuse(id, known, true, now);
        }
        self.give_up(id, setback, now);
        if let Some(bid) = self.bid(id) {
            bid.setback = known.or(bid.setback);
        }
    }

    /// The caller's limit is over: leaves the queue.
    pub(crate) fn is_out_of_time(&mut self, id: LeaseId, now: Moment) {
        let timeout = self.settings.timeout;
        let Some(lease) = self.leases.get_mut(id) else { return };
        let mut setback = lease.bid.setback().unwrap_or(Setback::Held(None));
        if lease.is_silent(timeout, now) {
            lease.forgets_what_was_said();
            setback = Setback::Failing;
        }
        if self.leave_place(id, now).is_none() {
            self.give_back_aside(id, now);
        }
        self.refuse(id, setback, true, now);
    }

    /// Ignores later pushes to this owner, and ends its scout.
    #[inline(never)]
    pub(super) fn leave_queue(&mut self, id: LeaseId, now: Moment) {
        let entry = self.leases.get_mut(id).and_then(|lease| lease.entry.as_mut());
        if let Some(scout) = entry.and_then(|entry| entry.scout.take()) {
            self.forget(scout, now);
        }
        if let Some(lease) = self.leases.get(id) {
            self.waiters.take(lease.owner.value());
        }
    }

    /// The lease whose owner waits at a server.
    pub(crate) fn waiter(&self, owner: &[u8], server: usize) -> Option<LeaseId> {
        let id = self.waiters.get(owner)?;
        let lease = self.leases.get(id).filter(|lease| lease.owner.value() == owner)?;
        (lease.entry.as_ref()?.server == server).then_some(id)
    }

    /// A lock's key has changed, or any may have if none is named: the first waiter asks again.
    pub(crate) fn changed(&mut self, key: Option<&[u8]>, now: Moment) {
        self.held_changed(key, now);
        self.first_may_ask(key, now);
    }

    pub(super) fn first_may_ask(&mut self, key: Option<&[u8]>, now: Moment) {
        let asking = key.map_or_else(|| self.all_asking(), |key| self.lines.asking(key));
        for id in asking {
            match self.leases.get(id).map(|lease| lease.phase) {
                Some(Phase::Resting { from, is_unserved: false }) if from <= now => {
                    self.is_woken();
                    self.try_again(id, now);
                }
                Some(Phase::Resting { from, is_unserved: false }) => {
                    self.is_woken();
                    self.plan(id, from);
                }
                Some(Phase::Asking) => {
                    self.has_news(id);
                    self.hurry(id, now);
                }
                // The lock may be handed over at the same moment.
                Some(Phase::Queued) => self.first_is_told(id, now),
                _ => {}
            }
        }
    }

    /// A server that has refused may grant by now, so a missing answer keeps the round open only for some round trips
    /// of the others.
    fn hurry(&mut self, id: LeaseId, now: Moment) {
        let Some(lease) = self.leases.get(id).filter(|lease| lease.votes.denied != 0) else {
            return;
        };
        let late_at = lease.patience_ends(&self.links).max(now).min(lease.due);
        self.plan(id, late_at);
    }

    /// A connection has ended, and with it the pushes: waiters in the server's queue come back.
    pub(super) fn is_told_no_more(&mut self, server: usize, now: Moment) {
        let is_there = |lease: &Lease| {
            lease.phase == Phase::Queued
                && lease.entry.as_ref().is_some_and(|entry| entry.server == server)
        };
        for id in self.all(&|_, lease| is_there(lease)) {
            if self.leases.get(id).is_some_and(is_there) {
                (self.settings.waits.answered)(self, id, None, now);
            }
        }
    }

    /// Takes the reply to the command of an entry.
    pub(super) fn entry_answered(
        &mut self,
        id: LeaseId,
        round: u32,
        reply: Option<&Frame>,
        now: Moment,
    ) {
        let is_it = |lease: &Lease| lease.phase == Phase::Queued && lease.round == round;
        if !self.leases.get(id).is_some_and(is_it) {
            return;
        }
        let Some((entry, _)) = self.entry(id) else { return };
        let (at, asked_since) = (entry.at, entry.unanswered_since.take());
        let is_only = !entry.is_known && asked_since == Some(entry.asked_at);
        if let Some(reply) = reply {
            self.keep_said_to_entry(id, reply, now);
            if is_only {
                self.entry_is_refused(id, at, reply);
            }
        }
        (self.settings.waits.answered)(self, id, reply, now);
    }

    /// An error to an owner's only command may prove that the server has nothing of it. Then nothing is to be released;
    /// a busy server would also refuse each such release.
    fn entry_is_refused(&mut self, id: LeaseId, at: usize, reply: &Frame) {
        let answer = reply.error().map(|text| self.answer_of_error(text));
        let Some(lease) = self.leases.get_mut(id) else { return };
        let replica = &mut lease.replicas[at];
        let is_clear = replica.has == Has::Asked && replica.doubt == Doubt::Nothing;
        if matches!(answer, Some(Answer::Failed { is_run: false, .. })) && is_clear {
            replica.has = Has::Nothing;
        }
    }

    /// A server has answered whether it pushes hand-overs or keys: a resting request may go on by that.
    pub(super) fn is_told(&mut self, server: usize, what: Told, is_so: bool, now: Moment) {
        let told = &mut self.links[server].talk.told;
        match what {
            Told::OfHandOvers => told.is_confirmed = is_so,
            Told::OfKeys => (told.is_tracking, told.is_settled) = (is_so, true),
        }
        // Not at the first of several: the leader may not have answered yet.
        if what == Told::OfKeys && !self.links.iter().any(|link| link.talk.told.is_awaited()) {
            // It has pushed nothing about any lock yet.
            let woken = self.counts.woken;
            self.first_may_ask(None, now);
            self.counts.woken = woken;
        }
    }

    /// The attempt of an owner in its turn, which counts the lock at the leader as its own; none if the turn is over.
    #[inline(never)]
    pub(super) fn attempt_in_turn(&mut self, id: LeaseId, now: Moment) -> Option<Attempt> {
        let lease = self.leases.get(id)?;
        let (until, token) = lease.entry.as_ref()?.turn?;
        let ballot = if lease.kind.is_exclusive() {
            Ballot::new((self.settings.wall_micros)()).above(token)
        } else {
            Ballot::at(token)
        };
        let conditions = self.conditions_of(lease);
        (now < until).then(|| Attempt::begin(conditions, Some(ballot)))
    }

    /// Leaves the owner's entry and its turn, if any: what servers have of it is released.
    pub(super) fn leave_entry(&mut self, id: LeaseId, now: Moment) {
        if self.leases.get(id).is_some_and(|lease| lease.entry.is_some()) {
            self.give_back_aside(id, now);
        }
    }

    /// Whether a failed attempt is repeated by the same owner: while its turn lasts, unless an answer leaves a doubt.
    pub(super) fn keeps_its_turn(&self, id: LeaseId, now: Moment) -> bool {
        let Some(lease) = self.leases.get(id) else { return false };
        let turn = lease.entry.as_ref().and_then(|entry| entry.turn);
        lease.votes.failed == 0 && turn.is_some_and(|(until, _)| now < until)
    }
}

/// What an entry is judged by.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) term: Term,
    pub(crate) retry: RetryState,
}

impl Machine {
    /// Sends a scout to ask all servers for the lock of an entry; replaces the former scout.
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

    /// Gives the scout's answers to the waiter.
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
            lease.said = said;
            if let Some(bid) = lease.bid.bid() {
                bid.setback = Some(setback);
            }
        }
        self.forget(scout, now);
    }

    /// Gives the scout's lease to the waiter, which leaves the queue.
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
        self.gives_owner(scout, waiter, now);
        let Some(lease) = self.leases.get_mut(scout) else { return };
        let (relay, votes, said) = (lease.relay, lease.votes, std::mem::take(&mut lease.said));
        let Some(next) = self.leases.get_mut(waiter) else { return };
        (next.relay, next.votes, next.said) = (relay, votes, said);
        self.remove(scout);
        self.hold(waiter, grant, now);
    }
}

impl Lease {
    /// The options of one attempt for the same lock by another owner.
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

#[cfg(test)]
mod tests;

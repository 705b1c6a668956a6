//! One round of commands for a lock: which servers are asked, and when.
//!
//! For a whole lock all are asked at once. For a share one server is asked first, the one with the queue, which alone
//! knows the waiters: if all were asked at once, new shares would overtake a waiter for the whole lock again and
//! again. If that server does not serve, or may alone have a key, the next takes its place: order is lost then, and exclusion
//! is not.
//!
//! Of several servers, one that does not answer is left out of attempts for a while: it would cost each the whole timeout.
//! Held leases are renewed and released there anyway.
//!
//! Beside that, commands for several leases: renewals that are due together, and releases where much is under way.

use std::mem;
use std::ptr;
use std::time::Duration;

use leasehold_resp::{Decimal, encode_bulk};

use super::answer::Answer;
use super::command::Form;
use super::core::{Effect, Event, Happening, Machine};
use super::ids::{BatchId, LeaseId};
use super::kind::{FENCED, PLAIN};
use super::lease::{Has, Phase, Replica, Votes};
use super::link::Link;
use super::rules;
use super::talk::{Reply, To, What};
use crate::policy::{Code, Failing, Moment, Relay, Tally, VoteReply, late_within};

/// Maximum leases in one command: its script blocks the server for all of them.
pub(super) const BATCH_MAX: usize = 16;
/// The part of the timeout that the first server has.
const FIRST_SHARE: u32 = 4;

impl Machine {
    /// Begins a round: all servers that serve are asked.
    pub(super) fn ask(&mut self, id: LeaseId, now: Moment) {
        #[cfg(any(test, feature = "_kinds"))]
        let later = self.asked_later(id, now);
        let Self { leases, lines, .. } = self;
        let Some(lease) = leases.get_mut(id) else { return };
        lease.phase = Phase::Asking;
        let may_go_on = lease.kind.goes_on && lease.relay == Relay::default();
        if may_go_on && lines.has_others(&lease.names, id) {
            lease.relay = Relay::begin();
        }
        lease.round += 1;
        (lease.asked_at, lease.votes) = (now, Votes::default());
        #[cfg(any(test, feature = "_kinds"))]
        {
            lease.votes.later = later;
        }
        if let Some(bid) = lease.bid.bid() {
            (bid.tally, bid.has_news) = (Tally::default(), false);
        }
        self.put(id, now);
    }

    /// Sends the command of this round to all servers but those that are asked later.
    pub(super) fn put(&mut self, id: LeaseId, now: Moment) {
        if self.is_behind(id) {
            self.flush(now);
        }
        let unsure = self.must_look(id, now);
        let Self { links, leases, settings, lines, command, .. } = self;
        command.bytes.clear();
        let Some(lease) = leases.get_mut(id) else { return };
        let is_alone = lease.is_alone();
        let mut is_wanted = false;
        // A quorum goes on without a server that has no connection. A server that has to grant is waited for; but a request
        // that does not wait is told at once if the dial has failed.
        let is_awaited = |link: &usize| {
            let link = &links[*link];
            (!link.is_ready() || link.is_full()) && (lease.waits() || !link.is_down)
        };
        let has_to_grant = is_alone || lease.replicas.len() != settings.quorum.servers();
        let needed = if has_to_grant { lease.replicas.len() } else { 0 };
        let put = lease.votes.put();
        let open = (0..needed).filter(|at| put & 1 << at == 0);
        let awaited = open.map(|at| lease.link(at)).find(is_awaited);
        if let Some(link) = awaited.or(unsure) {
            links[link].awaited.push(id);
            is_wanted = awaited.is_some() && links[link].want(now);
        }
        let has_waited = !lines.is_empty() && lines.has_ask(&lease.names, id);
        let is_put = awaited.or(unsure).is_none();
        let count = if is_put { lease.replicas.len() } else { 0 };
        let mut unreached = 0;
        for at in 0..count {
            if put & 1 << at != 0 {
                continue;
            }
            let link = &mut links[lease.link(at)];
            let refusal = link.refusal_of_locks(now);
            if let Some(Failing::Otherwise | Failing::Hopeless) = refusal {
                unreached |= 1 << at;
            }
            // An owner asks no server on a second connection: its command on the first may arrive after that.
            let replica = &mut lease.replicas[at];
            let is_elsewhere = replica.has != Has::Nothing && replica.generation != link.generation;
            let elsewhere = is_elsewhere.then_some(Failing::Otherwise);
            let left_out = || if is_alone { None } else { link.left_out(now, settings.random) };
            if let Some(failing) = refusal.or_else(left_out).or(elsewhere) {
                is_wanted |= link.want(now);
                lease.votes.failed |= 1 << at;
                lease.bid.add(VoteReply::Failed(failing), 0, None, now);
                lease.said.retain(|(known, _)| *known != at);
                continue;
            }
            lease.votes.asked |= 1 << at;
            replica.goes_on(link.generation);
            // What the owner has already, or gets by an earlier command, stays, whatever the answer to a later proposal.
            let is_first = replica.has == Has::Nothing;
            replica.has = if rules::says_all(is_first) { Has::Asked } else { Has::Perhaps };
            #[cfg(any(test, feature = "scriptless"))]
            {
                replica.steps = super::drawn::Steps::default();
            }
            // Otherwise the lock is read after a refusal.
            let is_read = lease.kind.means().read_the_lock && lease.is_trackable();
            if has_waited && is_read && link.watch_next(now) {
                lease.votes.watched |= 1 << at;
            }
            lease.ask(What::Acquire, (id, at), link, command, &settings.scripts, now);
        }
        // The others can do without the server that is asked first.
        let is_first = !lease.kind.is_exclusive() && lease.votes.later != 0;
        let patience = if is_first { FIRST_SHARE } else { 1 };
        let late_at = lease.asked_at.after(settings.timeout / patience);
        let due = late_within(late_at, lease.bid.ends_at());
        let is_any_left_out = lease.votes.failed != 0;
        self.plan(id, due);
        self.note_failures(unreached, now);
        if is_wanted {
            self.note(now);
        }
        if is_any_left_out {
            self.judge(id, now);
        }
    }

    /// All servers but the one that is asked first in the first round of an attempt. None if all are asked at once: by an owner
    /// in its turn, by a scout, or to replace a holder.
    #[cfg(any(test, feature = "_kinds"))]
    fn asked_later(&self, id: LeaseId, now: Moment) -> u64 {
        let Some(lease) = self.leases.get(id) else { return 0 };
        let is_led = lease.bid.ballot().is_some_and(crate::policy::Ballot::is_outbid);
        let asks_all = is_led || lease.scouts_for.is_some() || lease.predecessor.is_some();
        let has_first = !lease.kind.is_exclusive() && !asks_all && !self.is_alone();
        let first = if has_first { self.leader(id, now) } else { None };
        first.map_or(0, |first| (u64::MAX >> (64 - lease.replicas.len())) & !(1 << first))
    }

    /// Once a server has granted, asks all others; if those before have failed, the next one.
    #[cfg(any(test, feature = "_kinds"))]
    pub(super) fn go_on_asking(&mut self, id: LeaseId, now: Moment) {
        let Some(lease) = self.leases.get(id) else { return };
        let Votes { asked, granted, later, .. } = lease.votes;
        if granted == 0 && asked & !lease.votes.answered() != 0 {
            return;
        }
        let next = if granted == 0 { self.leader_of(id, later, now) } else { None };
        if let Some(lease) = self.leases.get_mut(id) {
            lease.votes.later &= next.map_or(0, |next| !(1 << next));
        }
        self.put(id, now);
    }
}

#[cfg(any(test, feature = "_kinds"))]
impl super::lease::Lease {
    /// Whether another is asked after those that did not grant: not where others wait, or the request may wait itself.
    pub(super) fn asks_others(&self) -> bool {
        let denied = self.votes.denied;
        let waits = self.waits() && self.bid.setback().is_none();
        let mut said = self.said.iter().filter(|(at, _)| denied & 1 << at != 0);
        denied == 0
            || !waits && !said.any(|(_, kept)| matches!(kept, super::answer::Kept::Queued(_)))
    }
}

impl Link {
    /// Why an attempt does not ask it.
    pub(super) fn left_out(&mut self, now: Moment, random: fn() -> u64) -> Option<Failing> {
        // Random bits may cost a system call.
        let is_closed = self.breaker.is_closed();
        let is_admitted = is_closed || self.breaker.admit(now, random());
        (!is_admitted).then_some(Failing::Otherwise)
    }
}

impl Machine {
    /// For how long no attempt asks a server; zero if the next attempt tests it, none if all ask it.
    pub(crate) fn is_left_out_for(&self, server: usize, now: Moment) -> Option<Duration> {
        self.links[server].breaker.opens_in(now)
    }

    /// A server has answered an attempt, with any answer, or has a new connection.
    pub(super) fn note_answer(&mut self, server: usize) {
        let breaker = &mut self.links[server].breaker;
        let was_closed = breaker.is_closed();
        breaker.note_answer();
        if !was_closed {
            self.effects.push(Effect::Tell(Event::Breaker { server, is_open: false }));
        }
    }

    /// These servers have not answered an attempt, or could not be asked.
    pub(super) fn note_failures(&mut self, servers: u64, now: Moment) {
        if self.is_alone() || servers == 0 {
            return;
        }
        for server in (0..self.links.len()).filter(|server| servers & 1 << server != 0) {
            let breaker = &mut self.links[server].breaker;
            let was_closed = breaker.is_closed();
            breaker.note_failure(now, (self.settings.random)());
            if was_closed && !breaker.is_closed() {
                self.effects.push(Effect::Tell(Event::Breaker { server, is_open: true }));
            }
        }
    }
}

impl Machine {
    /// Whether the release of this lease goes out with others: much is under way, nobody is known to wait for the lock, and
    /// each server was asked on its present connection. A successor of a server is told of each release by itself.
    pub(super) fn gathers(&mut self, id: LeaseId, now: Moment) -> bool {
        let is_much = (0..self.links.len()).any(|link| rules::gathers(self.in_flight(link)));
        if !is_much || self.batches.is_refused || self.is_undriven || self.is_by_slots() {
            return false;
        }
        if self.batches.gathered.len() == BATCH_MAX {
            self.flush(now);
        }
        let Self { links, leases, lines, batches, .. } = self;
        let Some(lease) = leases.get(id) else { return false };
        let is_plain = ptr::eq(lease.kind, &FENCED) || ptr::eq(lease.kind, &PLAIN);
        let is_simple = is_plain && lease.bounded.is_none() && lease.entry.is_none();
        let is_here = |replica: &Replica| {
            let link = &mut links[usize::from(replica.link)];
            let is_its = link.is_ready() && link.generation == replica.generation;
            let may_be_its = is_its && link.talk.form == Form::Digest && link.memory().is_none();
            match replica.has {
                Has::Nothing => true,
                Has::Owed | Has::Releasing => false,
                _ => may_be_its,
            }
        };
        let is_it = is_simple
            && !lines.is_known_as_sought(&lease.names)
            && lease.replicas.iter().all(is_here);
        batches.gathered.extend(is_it.then_some(id));
        is_it
    }

    /// Whether a release that is still to be written is of a lock that this lease is to have.
    #[inline]
    pub(super) fn is_behind(&self, id: LeaseId) -> bool {
        let is_its = |other: &LeaseId| {
            let pair = self.leases.get(id).zip(self.leases.get(*other));
            pair.is_some_and(|(lease, other)| lease.keys().any(|key| key == other.names.lock()))
        };
        self.batches.gathered.iter().any(is_its)
    }

    /// Writes the releases that were gathered.
    #[inline]
    pub(super) fn flush(&mut self, now: Moment) {
        if !self.batches.gathered.is_empty() {
            self.write_gathered(now);
        }
    }

    #[cold]
    fn write_gathered(&mut self, now: Moment) {
        let mut gathered = mem::take(&mut self.batches.gathered);
        for link in 0..self.links.len() {
            match gathered[..] {
                [id] => self.release_alone(id, link, now),
                _ => self.say_together(link, link, &gathered, (What::Release, None), now),
            }
        }
        gathered.clear();
        self.batches.gathered = gathered;
    }

    /// No reply is read any more, so nobody learns which locks of a batch have waiters: each is released by itself too.
    pub(crate) fn is_unread(&mut self, now: Moment) {
        let gathered = mem::take(&mut self.batches.gathered).len();
        if mem::replace(&mut self.is_undriven, true) {
            return;
        }
        for server in 0..self.links.len() {
            if gathered + self.links[server].together == 0 {
                continue;
            }
            for id in self.all(&|_, _| true) {
                self.release_alone(id, server, now);
            }
        }
    }

    /// Such a release hands the lock on.
    fn release_alone(&mut self, id: LeaseId, server: usize, now: Moment) {
        let its = self.leases.get(id).filter(|lease| server < lease.replicas.len());
        if let Some(round) = its.map(|lease| lease.round) {
            self.repeat((id, server), round, What::Release, now);
        }
    }

    /// Extends, releases or repairs leases by one command to the replicas at one index. A report to a primary in its grace has
    /// the time by its clock until which the report counts.
    pub(super) fn say_together(
        &mut self,
        link: usize,
        at: usize,
        leases: &[LeaseId],
        (what, by): (What, Option<u64>),
        now: Moment,
    ) {
        let batch = self.batches.begin();
        let mut members = mem::take(self.batches.members(batch));
        for &id in leases {
            let Some(lease) = self.leases.get_mut(id) else { continue };
            // A server with nothing to release is told nothing.
            let is_its = |replica: &Replica| replica.has == Has::Releasing;
            if what != What::Release || lease.replicas.get(at).is_some_and(is_its) {
                lease.votes.asked |= u64::from(what != What::Repair) << at;
                members.push((id, lease.round));
            }
        }
        if members.is_empty() {
            return self.batches.end(batch, members);
        }
        self.spell(link, &members, (what, by));
        let to = match (what, &members[..]) {
            (What::Extend | What::Repair, &[(id, round)]) => {
                self.batches.end(batch, members);
                To::Lease { id, at: u8::try_from(at).unwrap_or(u8::MAX), round, what }
            }
            _ => {
                if what == What::Release {
                    self.links[link].together += members.len();
                }
                *self.batches.members(batch) = members;
                To::Batch(batch, what)
            }
        };
        let talk = &mut self.links[link].talk;
        talk.stamp(to, talk.form, now);
    }

    /// Writes such a command without its stamp.
    fn spell(&mut self, link: usize, members: &[(LeaseId, u32)], (what, by): (What, Option<u64>)) {
        let Self { links, leases, settings, .. } = self;
        let talk = &mut links[link].talk;
        let is_whole = what == What::Repair || by.is_some();
        let (script, keys, words) = match what {
            What::Release => (&settings.scripts.free, 1, 1),
            _ if is_whole => (&settings.scripts.repair, 2, 3),
            _ => (&settings.scripts.extend, 1, 2),
        };
        let more = members.len() * (keys + words) + usize::from(by.is_some());
        let out = &mut talk.out;
        script.begin(out, talk.form, members.len() * keys, [&[], &[]], more);
        let its = || members.iter().filter_map(|(id, _)| leases.get(*id));
        for lease in its() {
            encode_bulk(out, lease.names.lock());
            if is_whole {
                encode_bulk(out, lease.names.fence());
            }
        }
        for lease in its() {
            encode_bulk(out, lease.owner.value());
            if what != What::Release {
                encode_bulk(out, &Decimal::new(lease.key_ms()));
            }
            if is_whole {
                encode_bulk(out, &Decimal::new(lease.relay.last_aside(lease.token)));
            }
        }
        if let Some(by) = by {
            encode_bulk(out, &Decimal::new(by));
        }
    }

    /// Takes the reply to a batch; none if its connection ended.
    pub(super) fn batch_answered(
        &mut self,
        server: usize,
        (batch, what): (BatchId, What),
        reply: Option<&Reply>,
        now: Moment,
    ) {
        let members = mem::take(self.batches.members(batch));
        let error = reply.and_then(|reply| reply.frame.error());
        if what == What::Release {
            self.links[server].together -= members.len();
            let code = error.map_or(Code::Later, |text| Code::of_bytes(text));
            self.batches.is_refused |= !matches!(code, Code::NoScript | Code::Later);
        }
        for (at, &(id, round)) in members.iter().enumerate() {
            let answer = match (reply, error) {
                (None, _) => Answer::UNKNOWN,
                (_, Some(error)) => Answer::of_error(error),
                (Some(reply), _) => {
                    let answer = Answer::of_extend(reply.frame.value(), at, members.len());
                    answer.unwrap_or_else(|| self.is_nonsense(server))
                }
            };
            let is_open = what == What::Release && reply.is_some();
            if is_open && !rules::is_freed(matches!(answer, Answer::Granted(_))) {
                if self.repeat((id, server), round, what, now) {
                    let lease = self.leases.get(id);
                    lease.into_iter().for_each(|it| self.freeing.insert(it.names.lock(), id));
                }
                continue;
            }
            self.tell_callers(Happening::Answered(id), now);
            let answer = self.believed((id, server), (round, what), answer, now);
            match what {
                What::Extend => self.extended(id, server, round, answer, now),
                _ => self.given_back(id, (server, round), answer, reply.is_none(), now),
            }
        }
        self.batches.end(batch, members);
    }

    /// A batch did not run. Renewals are sent again; releases one by one, once the script is loaded for the next ones. Returns
    /// whether that was all.
    pub(super) fn batch_missed(
        &mut self,
        server: usize,
        batch: BatchId,
        what: What,
        now: Moment,
    ) -> bool {
        if what == What::Release {
            let talk = &mut self.links[server].talk;
            talk.call(&self.settings.scripts.free, &[], &[], To::Nobody, now);
            return false;
        }
        let members = mem::take(self.batches.members(batch));
        let is_open = |&&(id, round): &&(LeaseId, u32)| {
            let lease = self.leases.get(id);
            lease.is_some_and(|lease| lease.round == round && lease.is_held())
        };
        let ids: Vec<LeaseId> = members.iter().filter(is_open).map(|(id, _)| *id).collect();
        self.batches.end(batch, members);
        self.renew_at_one(server, server, &ids, now);
        true
    }
}

#[cfg(test)]
mod tests;

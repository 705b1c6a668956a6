//! One round of commands for a lock: which servers are asked, and when.
//!
//! For a whole lock all are asked at once. For a share one server is asked first, the one with the queue, which alone
//! knows the waiters: if all were asked at once, new shares would overtake a waiter for the whole lock again and
//! again. If that server does not serve, or may alone have a key, the next takes its place: order is lost then, and exclusion
//! is not.
//!
//! Of several servers, one that does not answer is left out of attempts for a while, because it would cost each of them the
//! whole timeout. Held leases are renewed and released there anyway.

use std::time::Duration;

use super::core::{Effect, Event, Machine};
use super::ids::LeaseId;
use super::lease::{Has, Phase, Votes};
use super::link::Link;
use super::rules;
use super::talk::What;
use crate::policy::{Failing, Moment, Relay, Tally, VoteReply, late_within};

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
            if has_waited && lease.kind.means().read_the_lock && link.watch_next(now) {
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

#[cfg(test)]
mod tests;

//! Which run of its server a link leads to, and whether that may vote: safety rules 9, 10 and 18.
//!
//! Each connection is judged once, by the INFO of its handshake. A server that is unfit gets no connection, and is asked
//! again as one that cannot be reached: it may be fit by then, or its name lead to another server.
//!
//! Of several servers, one that does not answer is left out of attempts for a while: it costs each of them the whole
//! timeout otherwise. What is held is renewed and given back there anyway.

use std::time::Duration;

use super::core::{Effect, Machine};
use super::effect::Event;
use super::ids::LeaseId;
use super::lease::{Has, Lease};
use super::link::{Link, State};
use super::session::{Fault, Sighting, Step};
use crate::policy::fitness::{Facts, Standing, Unfit, run_id, warnings};
use crate::policy::{Backoff, Failing, Moment};

/// After this a server that grants no leases is met again: more or less, so that a fleet does not come in step.
const MEET_AGAIN: Backoff =
    Backoff { first: Duration::from_secs(2), longest: Duration::from_secs(2) };

impl Link {
    /// Why no lock is asked of the server now; none where it may vote.
    pub(super) fn refusal(&self, now: Moment) -> Option<Failing> {
        match self.state {
            State::Ready if self.votes_at <= now => None,
            State::Ready => Some(Failing::Quarantined(self.votes_at.since(now))),
            _ if self.fault.as_ref().is_some_and(Fault::is_lasting) => Some(Failing::Hopeless),
            _ => Some(Failing::Otherwise),
        }
    }

    /// Whether its server may give a lease to somebody, as is known for sure.
    pub(super) fn may_grant(&self, now: Moment) -> bool {
        self.refusal_of_locks(now).is_none() && !self.met.is_unsure(now)
    }
}

impl Machine {
    /// What is wrong with a server, without being a reason to refuse it.
    pub(crate) fn warnings(&self, server: usize) -> &[Unfit] {
        &self.links[server].warnings
    }

    /// What a server has refused, for want of a right, where no caller is told; and that right, where it is known.
    pub(crate) fn denied(&self, server: usize) -> Option<(Option<String>, &[u8])> {
        let (step, text) = self.links[server].talk.denied.as_ref()?;
        Some((step.and_then(Step::right), text))
    }

    /// Judges a server by what it says of itself; whether it is another run than the one before.
    ///
    /// # Errors
    ///
    /// Why it may not vote on this connection.
    pub(super) fn meet(&mut self, server: usize, info: &str, now: Moment) -> Result<bool, Fault> {
        let link = &mut self.links[server];
        let mut is_another = false;
        if let Some(met) = run_id(info) {
            let (sighting, other) = Sighting::of(met, link.sighting.take(), now);
            (link.sighting, is_another) = (Some(sighting), other);
        }
        link.votes_at = link.settles_at().map_or(now, |at| at.max(now));
        link.warnings = warnings(info).collect();
        let Some(rules) = self.settings.rules else { return Ok(is_another) };
        let facts = Facts::parse(info).map_err(Fault::Unfit)?;
        if let Some(other) = self.same_as(server, &facts.run_id) {
            return Err(Fault::SameAs(other));
        }
        let link = &mut self.links[server];
        let (first_seen, not_before) =
            link.sighting.as_ref().map_or((now, None), |seen| (seen.first_seen, seen.not_before));
        match facts.judge(rules, first_seen, not_before, now) {
            Standing::Fit => {}
            Standing::Quarantined { until } => link.votes_at = link.votes_at.max(until),
            Standing::Unfit(unfit) => return Err(Fault::Unfit(unfit)),
        }
        Ok(is_another)
    }

    /// Another link that leads to the same run, whatever its address.
    fn same_as(&self, server: usize, met: &str) -> Option<usize> {
        // Nodes that a map and a user name differently are one, and vote once.
        if self.is_by_slots() {
            return None;
        }
        let is_it = |link: &Link| link.sighting.as_ref().is_some_and(|seen| seen.run_id == met);
        let is_other = |at: &usize| *at != server && self.links[*at].is_ready();
        (0..self.links.len()).filter(is_other).find(|at| is_it(&self.links[*at]))
    }

    /// The server says that it is a replica. Some time later it is left: it may have been promoted by then, or its name lead
    /// to another server.
    pub(super) fn leave_later(&mut self, server: usize, now: Moment) {
        let leave_at = now.after(MEET_AGAIN.delay(0, (self.settings.random)()));
        let link = &mut self.links[server];
        if link.talk.leave_at.is_none() {
            link.talk.leave_at = Some(leave_at);
            self.effects.push(Effect::Demoted(server));
        }
        self.note(leave_at);
    }

    /// What the run before had granted is looked for at this one at once, and lost where it is not there.
    pub(super) fn look_for_leases(&mut self, server: usize, now: Moment) {
        let is_there = |_: LeaseId, lease: &Lease| {
            let has_key = |at: usize| lease.replicas[at].has == Has::Key;
            lease.is_held() && lease.is_renewed && lease.at_link(server).any(has_key)
        };
        self.batches.due.extend(self.all(&is_there));
        self.renew_all(now);
    }
}

impl Link {
    /// Why no vote is asked of it in an attempt.
    pub(super) fn left_out(&mut self, now: Moment, random: fn() -> u64) -> Option<Failing> {
        // Randomness may be a system call.
        let is_closed = self.breaker.is_closed();
        let is_admitted = is_closed || self.breaker.admit(now, random());
        (!is_admitted).then_some(Failing::Otherwise)
    }
}

impl Machine {
    /// For how long no attempt asks a server; zero where the next one does to find out, none where all do.
    pub(crate) fn is_left_out_for(&self, server: usize, now: Moment) -> Option<Duration> {
        self.links[server].breaker.opens_in(now)
    }

    /// A server has answered an attempt, or met a new connection, whatever it said.
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

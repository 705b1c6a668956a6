//! Commands for several leases at once: renewals that are due together, and releases where much is under way. A release is an
//! extension to 0 ms; what such a command does not free, because another process may wait, gets a release of its own,
//! which can hand it on.

use std::mem;
use std::ptr;

use leasehold_resp::{Decimal, encode_bulk};

use super::answer::Answer;
use super::command::Form;
use super::core::{Happening, Machine};
use super::ids::{BatchId, LeaseId};
use super::kind::{FENCED, PLAIN};
use super::lease::{Has, Replica};
use super::rules;
use super::talk::{Reply, To, What};
use crate::policy::{Code, Moment};

/// Maximum leases in one command: its script blocks the server for all of them.
pub(super) const BATCH_MAX: usize = 16;

impl Machine {
    /// Whether the release of this lease goes out with others: much is under way, nobody is known to wait for the lock, and
    /// each server was asked on its present connection. A successor of a server is told of each release by itself.
    pub(super) fn gathers(&mut self, id: LeaseId, now: Moment) -> bool {
        let is_much = (0..self.links.len()).any(|link| rules::gathers(self.in_flight(link)));
        if !is_much || self.batches.is_refused || self.is_by_slots() {
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
            self.say_together(link, link, &gathered, (What::Release, None), now);
        }
        gathered.clear();
        self.batches.gathered = gathered;
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
            // A server that never granted the lock is told nothing.
            if what != What::Release || lease.replicas[at].has == Has::Releasing {
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
        let (script, keys, words) = match is_whole {
            true => (&settings.scripts.repair, 2, 3),
            false => (&settings.scripts.extend, 1, 2),
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
            let ttl = if what == What::Release { 0 } else { lease.key_ms() };
            encode_bulk(out, lease.owner.value());
            encode_bulk(out, &Decimal::new(ttl));
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
                self.repeat((id, server), round, what, now);
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
            talk.call(&self.settings.scripts.extend, &[], &[], To::Nobody, now);
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

//! The grace after a failover, if the settings have one: [`crate::policy::Reign`] has the rules. By what a link knows of its
//! server's *reign*, the time since it became the primary, this file decides which commands are sent, and which replies are
//! believed.
//!
//! A server is asked for its reign (`scripts/reign.lua`) first on a new connection, and again before new requests once the
//! answer has lapsed. With a single server this is a write of its own: a lock's request in the same write might take the
//! lock, in a grace, from a holder that has not reported yet.
//!
//! Holders report their leases in the batches in which they extend them, by `repair.lua` instead of `extend.lua`: a
//! server that lacks the script gets it once for 16 leases.
//!
//! Of several servers, one whose reign is young does not vote, and is given no lease again, until its grace is over, as
//! after a restart. Its reign is asked for in one write with the lock's request: if it grants a lock in its grace, that
//! vote does not count, and the other servers know the holder.

use std::time::Duration;

use leasehold_resp::Frame;

use super::answer::Answer;
use super::command::{Command, Form, Scripts};
use super::core::{Effect, Event, Machine};
use super::ids::LeaseId;
use super::kind::Question;
use super::lease::{Doubt, Lease, Phase};
use super::link::Link;
use super::reign::{Grace, Met};
use super::rules;
use super::talk::{Reply, To, What};
#[cfg(any(test, feature = "cluster"))]
use crate::names::is_tagged;
use crate::names::{Key, marker};
use crate::policy::{Failing, Moment, Reign, Setback, began, length, number};

/// Maximum markers that are tried for one server: each is in one slot.
#[cfg(any(test, feature = "cluster"))]
const MARKERS_MAX: u32 = 1 << 18;

impl Link {
    /// Why no lock is requested of the server now; none if it may vote.
    pub(super) fn refusal_of_locks(&self, now: Moment) -> Option<Failing> {
        let refusal = self.refusal(now);
        if !self.met.is_on {
            return refusal;
        }
        let restarted = match refusal {
            None if self.met.reign.is_none() => return Some(self.met.failing()),
            None => None,
            Some(Failing::Quarantined(wait)) => Some(wait),
            _ => return refusal,
        };
        restarted.max(self.grace_left(now)).map(Failing::Quarantined)
    }

    /// Whether its server certainly may grant a lease.
    pub(super) fn may_grant(&self, now: Moment) -> bool {
        self.refusal_of_locks(now).is_none() && !self.met.is_unsure(now)
    }

    /// How much longer the server grants nothing new because its reign is young.
    pub(super) fn grace_left(&self, now: Moment) -> Option<Duration> {
        let left = self.met.reign.filter(|_| self.is_ready())?.wait(now);
        (!left.is_zero()).then_some(left)
    }

    /// Whether the first answer about the reign is still to come.
    pub(super) fn awaits_reign(&self) -> bool {
        self.met.asked_at.is_some() && self.met.reign.is_none()
    }

    /// The connection has ended.
    pub(super) fn forgets_reign(&mut self) {
        self.met = Met::default();
    }
}

impl Lease {
    /// Releases it at one server without handing it on, if that is required. Returns whether it did, and whether the release
    /// is noted for a successor.
    pub(super) fn is_only_freed(
        &self,
        (id, at): (LeaseId, usize),
        link: &mut Link,
        command: &mut Command,
        scripts: &Scripts,
        now: Moment,
    ) -> (bool, bool) {
        let is_plain = link.met.is_on && self.kind.alone().is_none() && self.rest_ms(now).is_none();
        let is_repeated = self.replicas[at].redelivery.is_some();
        let is_freed = is_plain && !link.met.hands_on(is_repeated, now);
        // A successor gets this in its grace.
        let is_noted = is_plain && link.memory().is_some() && !rules::hands_on(false);
        if !is_freed && !is_noted {
            return (false, false);
        }
        command.bytes.clear();
        command.form = link.talk.form;
        command.is_only_freed = true;
        // By the release of its kind, which may leave the lock to a ticket.
        let question = self.question(at, command, scripts);
        (self.kind.release)(Question { may_be_queued: false, ..question });
        command.is_only_freed = false;
        if let Some(memory) = link.memory().filter(|_| is_noted) {
            memory.note(command, now);
        }
        if is_freed {
            if self.entry.is_some() {
                let (queue, words) = (self.names.queue(), [self.owner.value(), b"leave"]);
                link.talk.call(&scripts.release, &[&queue], &words, To::Nobody, now);
            }
            link.talk.say(command, self.to(id, at, What::Release), now);
        }
        command.bytes.clear();
        (is_freed, true)
    }
}

impl Machine {
    /// Turns the grace on.
    pub(crate) fn keeps_grace(&mut self, grace: Grace) {
        self.grace = Some(Box::new(grace));
    }

    /// How long a link's server has been the primary, and how much longer it grants nothing new because of that.
    pub(crate) fn grace(&self, link: usize, now: Moment) -> Option<(Duration, Duration)> {
        let left = self.links[link].grace_left(now)?;
        Some((length(self.grace.as_ref()?.longest_ttl).saturating_sub(left), left))
    }

    /// A connection is up.
    pub(super) fn meets_reign(&mut self, server: usize, now: Moment) {
        self.links[server].met.is_on = self.grace.is_some();
        self.look(server, now);
    }

    /// Asks for the reign of a server, unless that is under way.
    pub(super) fn look(&mut self, server: usize, now: Moment) {
        let link = &self.links[server];
        if !link.is_ready() || link.met.asked_at.is_some() || link.is_asking() {
            return;
        }
        let Some(script) = self.grace.as_ref().map(|grace| grace.script) else { return };
        let Some(marker) = self.marker(server) else { return };
        let link = &mut self.links[server];
        link.met.asked_at = Some(now);
        // By `EVAL`, because it is seldom called; and by `TIME`, because no other clock will do.
        let form = link.talk.form;
        link.talk.form = form.clamp(Form::Whole, Form::Loaded);
        link.talk.call(&script, &[&marker], &[], To::Reign, now);
        link.talk.form = form;
    }

    /// The script that asks a server for its reign, and its marker.
    pub(crate) fn reigns_by(&self, server: usize) -> (&'static str, Option<Key>) {
        (self.grace.as_ref().map_or("", |grace| grace.script.text), self.marker(server))
    }

    /// The map has changed, and with it perhaps a server's marker: of a new master only one slot may have been known.
    #[cfg(any(test, feature = "cluster"))]
    pub(super) fn looks_anew(&mut self, now: Moment) {
        for server in 0..self.links.len() {
            let met = &mut self.links[server].met;
            met.is_outdated = met.asked_at.is_some();
            self.look(server, now);
        }
    }

    /// The marker of a server; none while none of its slots is known.
    fn marker(&self, _server: usize) -> Option<Key> {
        let prefix = &self.grace.as_ref()?.prefix;
        #[cfg(any(test, feature = "cluster"))]
        if let Some(routes) = &self.routes {
            let is_there = |key: &Key| {
                let slot = (routes.routing.slot_of)(key);
                usize::from(routes.links[usize::from(slot)]) == _server
            };
            if !self.is_master(_server) {
                return None;
            }
            let tried = if is_tagged(prefix) { 1 } else { MARKERS_MAX };
            return (0..tried).map(|number| marker(prefix, Some(number))).find(is_there);
        }
        Some(marker(prefix, None))
    }

    /// A server has said since when it is the primary, or why it cannot.
    pub(super) fn learns(&mut self, server: usize, reply: Option<&Reply>, now: Moment) {
        let Some(longest_ttl) = self.grace.as_ref().map(|grace| grace.longest_ttl) else { return };
        let is_nonsense = reply.is_some_and(|it| it.frame.error().is_none() && read(it).is_none());
        if is_nonsense {
            self.is_nonsense(server);
        }
        let met = &mut self.links[server].met;
        let Some(asked_at) = met.asked_at.take() else { return };
        let reign = reply
            .and_then(read)
            .map(|(began, clock)| Reign::of(began, clock, longest_ttl, asked_at, now));
        let before = std::mem::replace(&mut met.reign, reign);
        (met.said, met.said_at) = (reply.and_then(|reply| reply.frame.error()).cloned(), now);
        let is_another = reign.is_some_and(|it| before.is_none_or(|before| !it.is_same(before)));
        if is_another {
            met.since = now;
        }
        let (waiting, is_open) = (std::mem::take(&mut met.waiting), met.grants(now));
        let is_in_grace = self.links[server].grace_left(now).is_some();
        if !is_open {
            self.is_told_no_more(server, now);
        }
        if is_another && is_in_grace {
            let (since, left) = self.grace(server, now).unwrap_or_default();
            self.effects.push(Effect::Tell(Event::Reigns { server, since, left }));
            if self.is_alone() {
                self.look_for_leases(server, now);
            }
        }
        if reign.is_some() {
            self.go_on(server, now);
        } else {
            self.is_without_reign(server, now);
        }
        for id in waiting {
            let is_queued = |lease: &Lease| lease.phase == Phase::Queued;
            if self.leases.get(id).is_some_and(is_queued) {
                (self.settings.waits.again)(self, id, now);
            }
        }
        if std::mem::take(&mut self.links[server].met.is_outdated) {
            self.look(server, now);
        }
        self.tell_of_meeting();
    }

    /// Fails what waits for a server that is no primary, or does not say since when.
    fn is_without_reign(&mut self, server: usize, now: Moment) {
        for id in std::mem::take(&mut self.links[server].awaited) {
            let is_asking = |lease: &Lease| lease.phase == Phase::Asking;
            if self.leases.get(id).is_some_and(is_asking) {
                self.is_not_asked(id, now);
                self.judge(id, now);
            } else {
                self.links[server].awaited.push(id);
            }
        }
    }

    /// The link whose reign has to be known before a lock is requested, if any.
    pub(super) fn must_look(&mut self, id: LeaseId, now: Moment) -> Option<usize> {
        self.grace.as_ref()?;
        let lease = self.leases.get(id)?;
        let is_alone = self.is_alone();
        let is_unsure = |link: &usize| {
            let link = &self.links[*link];
            let is_unsure = link.is_ready() && link.met.is_unsure(now);
            is_unsure && !(is_alone && link.met.is_just_said(now))
        };
        let links = (0..lease.replicas.len()).map(|at| lease.link(at));
        let unsure: Vec<usize> = links.filter(is_unsure).collect();
        // Of several servers, one without an answer fails, and the others decide. A lock that another request of this process
        // holds can be taken over at once: only the reply has to wait.
        let waits = is_alone && lease.predecessor.is_none();
        unsure.iter().for_each(|link| self.look(*link, now));
        unsure.first().copied().filter(|_| waits)
    }

    /// Whether an entry's next command has to wait until the reign of its server is known.
    pub(crate) fn entry_must_look(&mut self, id: LeaseId, server: usize, now: Moment) -> bool {
        let met = &self.links[server].met;
        if !self.is_alone() || !met.is_unsure(now) || met.is_just_said(now) {
            return false;
        }
        self.look(server, now);
        let met = &mut self.links[server].met;
        if met.asked_at.is_none() {
            // A node without slots is not asked: the queue is elsewhere.
            self.comes_back(id, Setback::Failing, now);
        } else if !met.waiting.contains(&id) {
            met.waiting.push(id);
        }
        true
    }

    /// Whether a grant by a server's queue is believed.
    pub(crate) fn is_given_by_queue(&self, server: usize, now: Moment) -> bool {
        !self.is_alone() || self.links[server].met.grants(now)
    }

    /// A server's answer, as far as its reign lets it be believed.
    pub(super) fn believed(
        &mut self,
        (id, server): (LeaseId, usize),
        (round, what): (u32, What),
        answer: Answer,
        now: Moment,
    ) -> Answer {
        if self.grace.is_none() || what == What::Release {
            return answer;
        }
        let is_single = self.is_alone();
        let Self { links, leases, .. } = self;
        let Some(lease) = leases.get(id).filter(|lease| lease.round == round) else {
            return answer;
        };
        let (met, asked_at) = (&mut links[server].met, lease.asked_at);
        let is_grant = matches!(answer, Answer::Granted(_) | Answer::Seized(_));
        let is_believed = match what {
            What::Acquire => !is_grant || met.grants(now),
            What::Extend if is_single && answer == Answer::NotOwned => {
                // Before that the holder had not reported.
                let is_heard = met.reign.is_some_and(|reign| {
                    reign.is_sure(now) && (reign.wait(now).is_zero() || asked_at >= met.since)
                });
                rules::is_gone(is_heard)
            }
            _ => true,
        };
        if let Some(reign) = met.reign.as_mut().filter(|_| is_grant) {
            reign.is_used(asked_at);
        }
        if is_believed {
            return answer;
        }
        self.look(server, now);
        Answer::UNKNOWN
    }

    /// What may reach a server late after an extension: instead of it a report may have been sent, which creates a key.
    pub(super) fn doubt_of_extensions(&self) -> Doubt {
        if self.grace.is_some() { Doubt::Question } else { Doubt::Extension }
    }

    /// For renewals at a link: until when, by the server's clock, its holders report instead; none if they extend.
    pub(super) fn reasserted_by(
        &mut self,
        server: usize,
        _at: usize,
        batch: &[LeaseId],
        now: Moment,
    ) -> Option<u64> {
        self.grace.as_ref()?;
        if self.links[server].met.is_unsure(now) {
            self.look(server, now);
        }
        if !self.is_alone() {
            return None;
        }
        let is_plain = |lease: &Lease| {
            #[cfg(any(test, feature = "cluster"))]
            if lease.piece(_at, What::Extend).is_some() {
                // The lock and its counter are at two servers.
                return false;
            }
            lease.kind.alone().is_none()
        };
        let are_plain = batch.iter().all(|id| self.leases.get(*id).is_none_or(is_plain));
        let by = self.links[server].met.reign.and_then(|reign| reign.reasserted_by(now));
        by.filter(|_| are_plain)
    }
}

/// Decodes since when a server is the primary, and its clock.
fn read(reply: &Reply) -> Option<(u64, u64)> {
    match reply.frame.value() {
        Frame::Array(items) => match items.get(1..)? {
            [Frame::Bulk(marker), Frame::Bulk(clock)] => Some((began(marker)?, number(clock)?)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests;

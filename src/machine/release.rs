//! Releases: whatever servers may have of a lease is released at once, or once they serve, or once more (safety rule 15).
//!
//! No release is forgotten: a lease without a caller keeps its slot until no server has anything of it, or
//! its longest possible life is over.
//!
//! When a machine or its driver ends, it admits no requests, and releases all leases, with dials and repeats, until no
//! server has anything of them (safety rule 22). A lock is free once a quorum of its servers has nothing of the owner.
//! The end waits for the other servers too, except for those where it cannot be sped up: a server that cannot be reached,
//! or one that has answered, and gets the release only once more later.

use std::task::{Context, Poll};
use std::time::Duration;

use super::acquire::Options;
use super::answer::Answer;
use super::core::{Effect, Happening, Machine, NEVER, SPARE_MAX, Settings};
use super::ids::LeaseId;
use super::lease::{Doubt, Has, Lease, Phase, Refusal, Replica, Votes};
use super::rules;
use super::talk::{To, What};
use crate::policy::{
    Bidding, End, LeaseEvent, LeaseState, Loss, Moment, Passed, Redelivery, Relay, Verdict, drift,
    renew_at,
};

impl Machine {
    /// Releases the lock for its holder. [`Machine::poll_release`] has the result.
    pub(crate) fn release(&mut self, id: LeaseId, now: Moment) {
        let next = self.next_here(id, now);
        if next.is_some_and(|next| self.pass_on(id, next, now).is_some()) {
            return;
        }
        self.happens(id, LeaseEvent::Release, now);
        let is_releasing = self.state(id) == Some(LeaseState::Releasing);
        let next = next.filter(|_| is_releasing);
        if next.is_none_or(|next| self.hand_over(id, next, now).is_none()) {
            self.lets_go(id, now);
        }
    }

    /// Releases a lock that is held, or whose loss its holder is told now.
    pub(super) fn lets_go(&mut self, id: LeaseId, now: Moment) {
        match self.state(id) {
            Some(LeaseState::Releasing) => {
                self.tells_next_first(id, now);
                self.give_back(id, now);
                // After the release, on the same connections.
                self.call_next(id, now);
            }
            // It was lost before: the lock is free once its holder knows that.
            Some(LeaseState::Lost(_)) if self.leases.get(id).is_some_and(Lease::is_kept) => {
                self.give_back(id, now);
                self.call_next(id, now);
            }
            _ => {}
        }
        self.limit_release(id, now);
    }

    /// A server writes last to the connection that had output first. So another command goes before a
    /// release that may hand the lock over: then the next holder is told before the releasing client.
    fn tells_next_first(&mut self, id: LeaseId, now: Moment) {
        let Self { links, leases, lines, .. } = self;
        let Some(lease) = leases.get(id).filter(|lease| lease.is_alone()) else { return };
        let link = &mut links[lease.link(0)];
        if link.is_ready() && lines.is_known_as_sought(&lease.names) {
            link.talk.echo(To::Seal, now);
        }
    }

    /// The holder waits at most for the timeout, and not at all if replies are no longer read.
    fn limit_release(&mut self, id: LeaseId, now: Moment) {
        let late_at = if self.is_undriven { now } else { now.after(self.settings.timeout) };
        let Some(lease) = self.leases.get_mut(id) else { return };
        lease.late_at = late_at;
        self.judge_release(id, now);
        self.release_is_late(id, now);
    }

    pub(super) fn release_is_late(&mut self, id: LeaseId, now: Moment) {
        let Some(lease) = self.leases.get_mut(id).filter(|lease| lease.end.is_none()) else {
            return;
        };
        let end = match lease.state() {
            Some(LeaseState::Releasing) => End::Unconfirmed,
            Some(LeaseState::Lost(why)) => End::Lost(why),
            _ => return,
        };
        if lease.late_at <= now {
            lease.are_late();
            self.ends(id, end, now);
        } else {
            let next = lease.late_at.min(lease.due);
            self.plan(id, next);
        }
    }

    /// The next request of this process, if the lock may go on to it: a quorum can be reached, and no other client is first.
    fn next_here(&self, id: LeaseId, now: Moment) -> Option<LeaseId> {
        let may_go_on = |lease: &&Lease| lease.kind.goes_on && !self.lines.is_empty();
        let lease = self.leases.get(id).filter(may_go_on)?;
        let next = self.lines.first(&lease.names)?;
        (self.is_reached(lease) && !self.is_due_elsewhere(lease, now)).then_some(next)
    }

    /// The next request of this process gets the lease as it is, without a command: see [`crate::policy::Relay`].
    fn pass_on(&mut self, id: LeaseId, next_id: LeaseId, now: Moment) -> Option<()> {
        let lease = self.leases.get(id).filter(|lease| !lease.is_looked_for())?;
        let next = self.leases.get(next_id).filter(|next| lease.can_pass_to(next))?;
        let (until, token) = (lease.state()?.until()?, lease.kind.is_fenced.then_some(lease.token));
        let passed = Passed { until, token };
        let (passed, relay) = lease.relay.pass(passed, next.term, now)?;
        let (names, asked_at, ttl) = (lease.names.clone(), lease.asked_at, lease.term.ttl());
        self.lines.occupy(&names, next_id);
        self.lines.leave(&names, next_id);
        self.leave_entry(next_id, now);
        let doubt = self.doubt_of_extensions();
        let lease = self.leases.get_mut(id)?;
        lease.leaves_extensions(doubt);
        lease.phase = Phase::Granted(LeaseState::Releasing);
        let answers = (lease.votes, std::mem::take(&mut lease.said));
        self.gives_owner(id, next_id, now);
        let next = self.leases.get_mut(next_id)?;
        (next.asked_at, next.granted_at) = (asked_at, now);
        (next.votes, next.said) = answers;
        next.phase = Phase::Granted(LeaseState::Held { until: passed.until });
        // One lease is held, as before: it is not counted again.
        (next.token, next.relay) = (passed.token.unwrap_or(0), relay);
        let due = renew_at(asked_at, ttl).min(until);
        self.plan(next_id, due.max(now));
        self.wake(next_id);
        self.ends(id, End::HandedOver, now);
        Some(())
    }

    /// The next request of this process replaces the holder: servers pass the lock from one to the other in
    /// one step. What the holder may still have is released after that, on the same connections.
    fn hand_over(&mut self, id: LeaseId, next_id: LeaseId, now: Moment) -> Option<()> {
        let lease = self.leases.get(id).filter(|lease| lease.rest_ms(now).is_none())?;
        // In a grace the next one must not request a lock.
        if lease.is_alone() && self.links[lease.link(0)].grace_left(now).is_some() {
            return None;
        }
        let relay = lease.relay.next(now)?;
        let owner = Box::new(lease.owner.clone());
        self.give_back_aside(next_id, now);
        let next = self.leases.get_mut(next_id)?;
        (next.predecessor, next.relay, next.defers) = (Some(owner), relay, false);
        self.begin_attempt(next_id, now);
        self.give_back(id, now);
        self.ends(id, End::HandedOver, now);
        Some(())
    }

    /// Whether a quorum has its key, on connections that are up.
    fn is_reached(&self, lease: &Lease) -> bool {
        let has = |replica: &&Replica| {
            let link = &self.links[usize::from(replica.link)];
            link.is_ready() && link.generation == replica.generation && replica.has == Has::Key
        };
        let count = lease.replicas.iter().filter(has).count();
        lease.quorum(self.settings.quorum).verdict(count, 0) == Verdict::Won
    }

    /// Whether other clients are known to stand before the next request of this process, and a hand-over by the only
    /// server costs little compared with the hold.
    fn is_due_elsewhere(&self, lease: &Lease, now: Moment) -> bool {
        let is_short = Relay::is_short(now.since(lease.granted_at));
        !is_short && lease.is_alone() && self.lines.has_others_before(&lease.names, now)
    }

    /// The handle has ended: releases what servers may have. Returns whether the lock went on within this process.
    pub(crate) fn forget(&mut self, id: LeaseId, now: Moment) -> bool {
        if self.leases.get(id).is_some_and(Lease::is_held) {
            self.release(id, now);
        }
        self.leave_place(id, now);
        self.leave_queue(id, now);
        self.leave_line(id, now);
        let Some(lease) = self.leases.get_mut(id) else { return false };
        let (end, state) = (lease.end, lease.state());
        lease.phase = Phase::GivingBack;
        self.effects.extend(lease.waker.take().map(Effect::Drop));
        lease.wake_all(&mut self.effects);
        if lease.is_kept() {
            self.give_back(id, now);
            self.call_behind(id, state.is_some(), now);
        }
        self.end_if_clear(id);
        end == Some(End::HandedOver)
    }

    /// An attempt failed, and its request goes on: what the attempt may have left becomes a lease of its own, to be released.
    pub(super) fn give_back_aside(&mut self, id: LeaseId, now: Moment) {
        self.leave_queue(id, now);
        let is_by_slots = self.is_by_slots();
        let Some(lease) = self.leases.get_mut(id) else { return };
        let fresh = lease.owner.another((self.settings.owner_id)(now));
        let owner = std::mem::replace(&mut lease.owner, fresh);
        lease.predecessor = None;
        if !lease.is_exposed() {
            lease.entry = None;
            return;
        }
        // A late answer to this owner does not count for the next owner of the lease.
        let round = lease.round;
        lease.round += 1;
        // For the same number of servers, on the same links.
        let spare = if is_by_slots { None } else { self.spare.pop() };
        let fresh = spare.unwrap_or_else(|| lease.replicas.iter().map(Replica::fresh).collect());
        let replicas = std::mem::replace(&mut lease.replicas, fresh);
        // For the report.
        lease.has_met(&replicas);
        let options = Options { is_renewed: false, ..lease.another_attempt() };
        let (entry, asked_at) = (lease.entry.take(), lease.asked_at);
        let until = pointless_at(lease, &self.settings);
        let aside = self.add(options, owner, Bidding(None), replicas, until, now);
        let Self { links, leases, .. } = self;
        if let Some(lease) = leases.get_mut(aside) {
            (lease.phase, lease.asked_at, lease.entry) = (Phase::GivingBack, asked_at, entry);
            lease.round = round;
            // An answer to come is that owner's.
            let asked =
                (0..lease.replicas.len()).filter(|at| lease.replicas[*at].has == Has::Asked);
            asked.for_each(|at| links[lease.link(at)].talk.readdress(id, aside));
        }
        self.give_back(aside, now);
    }

    /// Sends releases to all servers that may have something, now or later.
    pub(super) fn give_back(&mut self, id: LeaseId, now: Moment) {
        let is_gathered = self.gathers(id, now);
        let Self { links, leases, settings, command, .. } = self;
        command.bytes.clear();
        let Some(lease) = leases.get_mut(id) else { return };
        lease.votes = Votes::default();
        lease.said.clear();
        // A late answer to an earlier command, or to another release, does not count for this release.
        lease.round += 1;
        let until = pointless_at(lease, settings);
        let mut is_owed = false;
        for at in 0..lease.replicas.len() {
            let link = &mut links[lease.link(at)];
            let replica = &mut lease.replicas[at];
            let is_doubtful = replica.doubt == Doubt::Question || replica.has == Has::Perhaps;
            if matches!(replica.has, Has::Asked | Has::Perhaps) {
                replica.doubt = Doubt::Question;
            }
            match replica.has {
                Has::Owed => is_owed = true,
                Has::Nothing | Has::Releasing => {}
                Has::Asked if !rules::may_be_granted() => replica.has = Has::Nothing,
                // On the connection of the request, the answer to the release settles both.
                has if link.is_ready() && link.generation == replica.generation => {
                    replica.has = Has::Releasing;
                    lease.votes.asked |= 1 << at;
                    let mut doubt = Redelivery::new(until, true);
                    (replica.due, replica.redelivery) = match has {
                        // A request on an earlier connection may arrive after it.
                        _ if is_doubtful => doubt.was_sent(now).unzip(),
                        // If the connection ends before, the request may arrive without the release.
                        Has::Asked => (None, Some(doubt)),
                        _ => (None, None),
                    };
                    if !is_gathered {
                        lease.ask(What::Release, (id, at), link, command, &settings.scripts, now);
                    }
                }
                _ => {
                    replica.has = Has::Owed;
                    replica.redelivery =
                        Some(Redelivery::new(until, replica.doubt == Doubt::Question));
                    replica.due = Some(now);
                    is_owed = true;
                }
            }
        }
        if is_owed {
            self.give_back_again(id, now);
        } else {
            self.plan(id, until.max(now));
        }
    }

    /// Sends the releases that are owed and due.
    pub(super) fn give_back_again(&mut self, id: LeaseId, now: Moment) {
        let Self { links, leases, settings, command, .. } = self;
        command.bytes.clear();
        let Some(lease) = leases.get_mut(id) else { return };
        let until = pointless_at(lease, settings);
        // A release that is under way then ends with its answer, or with its connection.
        let mut next = if now < until { until } else { NEVER };
        for at in 0..lease.replicas.len() {
            let link = &mut links[lease.link(at)];
            let replica = &mut lease.replicas[at];
            if replica.has != Has::Owed {
                continue;
            }
            if now >= until {
                replica.has = Has::Nothing;
            } else if !link.is_ready() {
                replica.due = None;
                replica.waits_at(link, id);
            } else if replica.due.is_none_or(|due| due <= now) {
                let again = replica.redelivery.as_mut().and_then(|it| it.was_sent(now));
                replica.due = again.map(|(due, _)| due);
                replica.redelivery = again.map(|(_, again)| again).or(replica.redelivery);
                replica.has = Has::Releasing;
                replica.goes_on(link.generation);
                lease.votes.asked |= 1 << at;
                lease.ask(What::Release, (id, at), link, command, &settings.scripts, now);
            } else if let Some(due) = replica.due {
                next = next.min(due);
            }
        }
        self.plan(id, next.max(now));
        self.end_if_clear(id);
    }

    /// One server has answered a release; `is_over` if its connection ended before.
    pub(super) fn given_back(
        &mut self,
        id: LeaseId,
        (at, round): (usize, u32),
        answer: Answer,
        is_over: bool,
        now: Moment,
    ) {
        let Self { links, leases, settings, .. } = self;
        let Some(lease) = leases.get_mut(id) else { return };
        let until = pointless_at(lease, settings);
        if lease.replicas[at].has != Has::Releasing || lease.round != round {
            return;
        }
        let is_first = lease.votes.answered() & 1 << at == 0;
        lease.note_vote(at, answer);
        let may_serve = rules::goes_again(!is_over && !lease.is_denied_at(at));
        let replica = &mut lease.replicas[at];
        match answer {
            Answer::Granted(_) | Answer::NotOwned => {
                // In doubt, the release goes out once more, in its own time: its request may arrive late.
                replica.is_listed = false;
                replica.has = if replica.due.is_some() { Has::Owed } else { Has::Nothing };
                replica.redelivery = replica.redelivery.filter(|_| replica.due.is_some());
            }
            _ => {
                if may_serve {
                    let link = &mut links[usize::from(replica.link)];
                    link.refused_at.get_or_insert(now);
                    replica.waits_at(link, id);
                }
                let redelivery = replica.redelivery.get_or_insert(Redelivery::new(until, false));
                let random = settings.random;
                let due = match (is_over, replica.due) {
                    (true, _) => now,
                    // The doubt stays, because the request went out on another connection.
                    (false, Some(_)) => redelivery.after_refusal_elsewhere(now, random()),
                    (false, None) => redelivery.after_refusal(now, random()),
                };
                (replica.has, replica.due) = (Has::Owed, Some(due));
            }
        }
        if let Some(next) = lease.replicas.iter().filter_map(|replica| replica.due).min() {
            self.plan(id, next.max(now));
        }
        if !is_first && matches!(answer, Answer::Granted(_)) {
            self.call_behind(id, false, now);
        }
        self.judge_release(id, now);
        self.release_is_late(id, now);
        self.end_if_clear(id);
    }

    /// Judges the answers to the holder's release. Where one has failed, that may be why the next finds nothing.
    fn judge_release(&mut self, id: LeaseId, now: Moment) {
        let Some(lease) = self.leases.get(id) else { return };
        let (quorum, servers) = (lease.quorum(self.settings.quorum), lease.replicas.len());
        let Votes { asked, granted, denied, failed, .. } = lease.votes;
        let count = |votes: u64| votes.count_ones() as usize;
        if granted | denied | failed == 0 && count(asked) == servers {
            return;
        }
        match lease.state() {
            Some(LeaseState::Releasing) => {}
            // Whatever the servers answer.
            Some(LeaseState::Lost(why)) if asked & !lease.votes.answered() == 0 => {
                return self.ends(id, End::Lost(why), now);
            }
            _ => return,
        }
        if quorum.verdict(count(granted), 0) == Verdict::Won {
            return self.ends(id, End::Released, now);
        }
        let untouched = lease.bits(Has::Nothing) & !asked;
        let end = match quorum.verdict(0, count(denied & !failed | untouched)) {
            Verdict::Lost if servers == 1 => End::Lost(Loss::Gone),
            Verdict::Lost => End::Lost(Loss::NoQuorum),
            _ if count(granted | denied | failed | untouched) == servers => End::Unconfirmed,
            _ => return,
        };
        self.ends(id, end, now);
    }

    fn ends(&mut self, id: LeaseId, end: End, now: Moment) {
        self.leases.get_mut(id).into_iter().for_each(|lease| lease.end = Some(end));
        if self.happens(id, LeaseEvent::Ended(end), now).is_none() {
            self.wake(id);
        }
    }

    /// The result of a release. Once this is ready, the lease is only to be forgotten.
    pub(crate) fn poll_release(&mut self, id: LeaseId, context: &Context<'_>) -> Poll<End> {
        let lease = self.leases.get_mut(id).expect("nobody has forgotten it");
        if let Some(end) = lease.end {
            return Poll::Ready(end);
        }
        self.wait_for(id, context.waker());
        Poll::Pending
    }

    /// Forgets a released lease if no server has anything of it; returns whether it does.
    pub(crate) fn forget_clear(&mut self, id: LeaseId) -> bool {
        let is_clear = self.leases.get(id).is_some_and(|lease| !lease.is_exposed());
        if is_clear {
            self.remove(id);
            self.tell_of_end();
        }
        is_clear
    }

    pub(super) fn end_if_clear(&mut self, id: LeaseId) {
        let is_over = |lease: &Lease| lease.phase == Phase::GivingBack && !lease.is_exposed();
        if self.leases.get(id).is_some_and(is_over) {
            self.remove(id);
        }
        self.tell_of_end();
    }

    pub(super) fn remove(&mut self, id: LeaseId) {
        self.is_watched_no_more(id);
        let is_by_slots = self.is_by_slots();
        if let Some(lease) = self.leases.get_mut(id) {
            self.freeing.forget(&lease.names, id);
            let bid = lease.bid.0.take();
            let mut replicas = std::mem::take(&mut lease.replicas);
            if !is_by_slots {
                replicas.iter_mut().for_each(|replica| *replica = replica.fresh());
                if self.spare.len() < SPARE_MAX {
                    self.spare.push(replicas);
                }
            }
            self.leases.discard(id);
            self.spare(bid);
        }
    }

    /// Refuses all waiting and new requests, and ends and releases all held leases; returns these.
    pub(crate) fn shut_down(&mut self, now: Moment) -> Vec<(LeaseId, String)> {
        let ids = self.close(Refusal::ShutDown, now);
        let mut ended = Vec::new();
        for id in ids {
            self.happens(id, LeaseEvent::Lost(Loss::ShutDown), now);
            let Some(lease) = self.leases.get(id) else { continue };
            let Some(LeaseState::Lost(why)) = lease.state() else { continue };
            if why == Loss::ShutDown && lease.kind.has_guard && !self.is_free(lease, now) {
                ended.push((id, lease.title()));
            }
            if lease.is_kept() {
                self.give_back(id, now);
            }
        }
        for link in self.links.iter_mut().filter(|link| !link.owed.is_empty()) {
            link.want(now);
        }
        self.note(now);
        ended
    }

    /// The driver has ended: each caller that waits for a reply is told so. Later releases are still to be sent.
    pub(crate) fn is_abandoned(&mut self, now: Moment) {
        self.is_unread(now);
        #[cfg(any(test, feature = "replicas"))]
        self.counts_no_more();
        for id in self.close(Refusal::Undriven, now) {
            self.has_failed(id);
            if let Some(lease) = self.leases.get_mut(id) {
                lease.late_at = now;
                lease.wake_told(true, &mut self.effects);
                self.wake(id);
                self.release_is_late(id, now);
            }
        }
    }

    /// Refuses all waiting and new requests; returns all leases.
    fn close(&mut self, why: Refusal, now: Moment) -> Vec<LeaseId> {
        // A shutdown stays the reason.
        if self.closed != Some(Refusal::ShutDown) {
            self.closed = Some(why);
        }
        self.tell_callers(Happening::Closed, now);
        // No waiter is called when another ends.
        self.lines.clear();
        let ids = self.all(&|_, _| true);
        for &id in &ids {
            let waits = |lease: &Lease| {
                use Phase::{Asking, InLine, Queued, Resting};
                matches!(lease.phase, Asking | Resting { .. } | InLine | Queued)
            };
            if self.leases.get(id).is_some_and(waits) {
                self.give_back_aside(id, now);
                self.refuse_for(id, why, now);
            }
        }
        ids
    }

    /// Ready once all releases that can be waited for are answered.
    pub(crate) fn poll_shut_down(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.leases.iter().all(|(_, lease)| self.is_settled(lease)) {
            return Poll::Ready(());
        }
        self.told_of_end.push(context.waker().clone());
        Poll::Pending
    }

    /// The leases whose locks may still be locked, with the locks' names: too few servers have certainly freed them.
    pub(crate) fn unreleased(&self, now: Moment) -> impl Iterator<Item = (LeaseId, String)> {
        let left = self.leases.iter().filter(move |(_, lease)| !self.is_free(lease, now));
        left.map(|(id, lease)| (id, lease.title()))
    }

    #[inline(never)]
    fn is_free(&self, lease: &Lease, now: Moment) -> bool {
        let has_ended = |at| lease.has_ended_at(at, self.silence(), now);
        let is_over = |at: &usize| lease.is_clear_at(*at) || has_ended(*at);
        let over = (0..lease.replicas.len()).filter(is_over).count();
        over >= lease.quorum(self.settings.quorum).needed()
    }

    fn is_settled(&self, lease: &Lease) -> bool {
        let is_over = |at: usize| lease.is_clear_at(at) || lease.is_denied_at(at);
        let over = (0..lease.replicas.len()).filter(|at| is_over(*at)).count();
        over >= lease.quorum(self.settings.quorum).needed()
            && (0..lease.replicas.len())
                .all(|at| is_over(at) || self.links[lease.link(at)].is_away())
    }
}

impl Lease {
    /// The names of its locks.
    fn title(&self) -> String {
        self.keys().map(String::from_utf8_lossy).collect::<Vec<_>>().join(", ")
    }

    /// Whether a server that may have something was sent no release.
    pub(super) fn is_kept(&self) -> bool {
        self.replicas.iter().any(|it| matches!(it.has, Has::Asked | Has::Key | Has::Perhaps))
    }

    /// Whether a server would refuse each further release as it has refused the last.
    fn is_denied_at(&self, at: usize) -> bool {
        self.said.iter().any(|(it, kept)| *it == at && kept.is_denial())
    }

    /// Whether its key has certainly expired at a server that got no release: each acquire and each extension
    /// was answered within this silence, or never sent. A late command may create the key or extend its life, as
    /// may a release that keeps the lock for a while: then this is unknown until no server can have anything.
    fn has_ended_at(&self, at: usize, silence: Duration, now: Moment) -> bool {
        let (replica, life) = (&self.replicas[at], self.key_life());
        let set_at = self.asked_at.after(silence).max(replica.answered_at);
        let is_certain = replica.has == Has::Owed && replica.doubt == Doubt::Nothing;
        is_certain && self.bounded.is_none() && now > set_at.after(life + drift(life))
    }

    /// Whether a server has nothing of its owner. If that was in doubt, it gets the release once more later.
    fn is_clear_at(&self, at: usize) -> bool {
        let is_answered = (self.votes.granted | self.votes.denied) & 1 << at != 0;
        match self.replicas[at].has {
            Has::Nothing => true,
            Has::Releasing | Has::Owed => is_answered,
            Has::Asked | Has::Key | Has::Perhaps => false,
        }
    }
}

/// When no server can have anything of it any more.
#[inline(never)]
fn pointless_at(lease: &Lease, settings: &Settings) -> Moment {
    lease.asked_at.after(lease.key_life() + settings.flight_max)
}

#[cfg(test)]
mod tests;

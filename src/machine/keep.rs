//! While a lease is held: renewal, repair and loss.

use std::task::{Context, Poll, Waker};

use super::answer::Answer;
use super::core::{Effect, Event, Machine, NEVER};
use super::ids::LeaseId;
use super::lease::{Extending, Has, Lease, Phase, Votes};
use super::round::BATCH_MAX;
use super::talk::What;
use crate::policy::{
    End, Extension, LeaseEvent, LeaseState, Loss, Moment, extension, renew_at, retry_at,
};

impl Machine {
    /// A held lease is due: it has ended, or is to be renewed.
    pub(super) fn is_due_to_be_kept(&mut self, id: LeaseId, now: Moment) {
        if self.happens(id, LeaseEvent::Passed, now).is_some() {
            return;
        }
        let Some(lease) = self.leases.get(id) else { return };
        if lease.extending.is_holders() && lease.late_at <= now {
            self.is_unextended(id, now);
        } else if lease.is_renewed {
            self.batches.due.push(id);
        } else {
            let until = lease.state().and_then(LeaseState::until).unwrap_or(now);
            self.has_failed(id);
            self.plan(id, until);
        }
    }

    /// Renews all due leases, several in one command.
    pub(super) fn renew_all(&mut self, now: Moment) {
        let due = std::mem::take(&mut self.batches.due);
        #[cfg(any(test, feature = "_kinds"))]
        let due = self.renew_alone(due, now);
        for batch in due.chunks(BATCH_MAX) {
            self.renew(batch, Extending::Renewal, now);
        }
        self.batches.due = due;
        self.batches.due.clear();
    }

    /// Renews the leases whose kinds have their own commands; returns the others.
    #[cfg(any(test, feature = "_kinds"))]
    fn renew_alone(&mut self, due: Vec<LeaseId>, now: Moment) -> Vec<LeaseId> {
        let is_alone =
            |id: &LeaseId| self.leases.get(*id).is_some_and(|lease| lease.kind.alone().is_some());
        let (alone, others): (Vec<_>, _) = due.into_iter().partition(is_alone);
        alone.iter().for_each(|id| self.renew(&[*id], Extending::Renewal, now));
        others
    }

    fn renew(&mut self, batch: &[LeaseId], what: Extending, now: Moment) {
        for &id in batch {
            // After a push, a holder that waits for an extension waits for this renewal instead.
            let under_way = self.leases.get(id).map(|lease| lease.extending);
            let what = under_way.filter(|it| it.is_holders()).unwrap_or_else(|| {
                self.is_overtaken(id, now);
                // The answers to the former extension are late.
                self.has_failed(id);
                #[cfg(any(test, feature = "_renewals"))]
                if what == Extending::Renewal {
                    self.tell(id, &|_| Event::Renews(id));
                }
                what
            });
            let Some(lease) = self.leases.get_mut(id) else { continue };
            // Answers to its acquire no longer count.
            let bid = lease.bid.0.take();
            lease.round += 1;
            lease.said.clear();
            lease.news_at = NEVER;
            (lease.asked_at, lease.votes, lease.extending) = (now, Votes::default(), what);
            let until = lease.state().and_then(LeaseState::until).unwrap_or(now);
            let late_at = match what.is_holders() {
                true => lease.late_at,
                false => now.after(self.settings.timeout),
            };
            self.spare(bid);
            self.plan(id, late_at.min(until));
        }
        self.renew_everywhere(batch, now);
        for &id in batch {
            self.judge_extension(id, now);
        }
    }

    /// A new extension replaces a renewal whose answers are not late: the renewal has not failed, and the result of the new
    /// one is enough.
    fn is_overtaken(&mut self, id: LeaseId, now: Moment) {
        let timeout = self.settings.timeout;
        let is_early = |lease: &&mut Lease| {
            lease.extending == Extending::Renewal && now < lease.asked_at.after(timeout)
        };
        if let Some(lease) = self.leases.get_mut(id).filter(is_early) {
            lease.extending = Extending::Nothing;
            #[cfg(any(test, feature = "_renewals"))]
            self.tell(id, &|_| Event::Overtaken(id));
        }
    }

    fn renew_everywhere(&mut self, batch: &[LeaseId], now: Moment) {
        #[cfg(any(test, feature = "cluster"))]
        if self.is_by_slots() {
            return self.renew_by_slots(batch, now);
        }
        for server in 0..self.links.len() {
            self.renew_at_one(server, server, batch, now);
        }
    }

    /// Renews at one link, where the replica of each lease has this index.
    pub(super) fn renew_at_one(&mut self, link: usize, at: usize, batch: &[LeaseId], now: Moment) {
        // It may ask for the reign; nothing may come between what has a key tracked and its renewal.
        let by = self.reasserted_by(link, at, batch, now);
        if !self.are_read_behind(batch) {
            self.are_watched(link, batch, now);
        }
        #[cfg(any(test, feature = "_kinds"))]
        if self.links[link].is_ready() && self.extends_alone(link, at, batch, now) {
            return;
        }
        if self.links[link].is_ready() {
            return self.say_together(link, at, batch, (What::Extend, by), now);
        }
        let Self { links, leases, .. } = self;
        let link = &mut links[link];
        let mut is_wanted = false;
        for &id in batch {
            let Some(lease) = leases.get_mut(id) else { continue };
            // Its holder waits for a connection, unless the last dial failed.
            if lease.extending.is_holders() && !link.is_down {
                link.awaited.push(id);
                is_wanted |= link.want(now);
            } else {
                lease.votes.failed |= 1 << at;
            }
        }
        if is_wanted {
            self.note(now);
        }
    }

    /// Extends a lease whose kind has its own command; returns whether it has.
    #[cfg(any(test, feature = "_kinds"))]
    fn extends_alone(&mut self, link: usize, at: usize, batch: &[LeaseId], now: Moment) -> bool {
        let Self { links, leases, settings, command, .. } = self;
        let &[id] = batch else { return false };
        let is_alone = |lease: &&mut Lease| lease.kind.alone().is_some();
        let Some(lease) = leases.get_mut(id).filter(is_alone) else { return false };
        lease.votes.asked |= 1 << at;
        command.bytes.clear();
        lease.ask(What::Extend, (id, at), &mut links[link], command, &settings.scripts, now);
        if self.are_read_behind(batch) {
            self.reads_behind(id, at, now);
        }
        true
    }

    /// One server has answered a renewal, or never will.
    pub(super) fn extended(
        &mut self,
        id: LeaseId,
        at: usize,
        round: u32,
        answer: Answer,
        now: Moment,
    ) {
        let (silence, doubt) = (self.silence(), self.doubt_of_extensions());
        let Self { links, leases, .. } = self;
        let Some(lease) = leases.get_mut(id) else { return };
        let bit = 1 << at;
        if let Answer::Granted(_) = answer {
            #[cfg(any(test, feature = "replicas"))]
            lease.is_extended_at(bit, round);
        }
        let is_run = matches!(answer, Answer::Failed { is_run: true, .. });
        if is_run || now.since(lease.asked_at) > silence {
            lease.replicas[at].doubt = lease.replicas[at].doubt.max(doubt);
        }
        if lease.round != round || lease.votes.answered() & bit != 0 || !lease.is_held() {
            return;
        }
        lease.note_vote(at, answer);
        if let Answer::Granted(_) = answer {
            let link = lease.link(at);
            let replica = &mut lease.replicas[at];
            replica.goes_on(links[link].generation);
            replica.has = Has::Key;
        }
        self.judge_extension(id, now);
    }

    /// The connection for which an extension has waited is up, or the dial has failed.
    pub(super) fn extends_at(&mut self, server: usize, id: LeaseId, now: Moment) {
        let places = self.leases.get(id).map_or(0, |lease| lease.replicas.len());
        for at in 0..places {
            let is_open = |lease: &&mut Lease| {
                lease.is_held()
                    && lease.extending != Extending::Nothing
                    && lease.link(at) == server
                    && (lease.votes.asked | lease.votes.failed) & 1 << at == 0
            };
            let Some(lease) = self.leases.get_mut(id).filter(is_open) else { continue };
            if self.links[server].is_ready() {
                self.renew_at_one(server, at, &[id], now);
            } else {
                lease.votes.failed |= 1 << at;
                self.judge_extension(id, now);
            }
        }
    }

    /// A server serves again: extensions that it has failed, and no quorum has granted, are sent again.
    pub(super) fn renews_again(&mut self, server: usize, now: Moment) {
        let is_open = |_: LeaseId, lease: &Lease| {
            let has_failed = |at: usize| lease.votes.failed & 1 << at != 0;
            let is_open = lease.failed > 0 || lease.extending != Extending::Nothing;
            lease.is_held() && is_open && lease.is_renewed && lease.at_link(server).any(has_failed)
        };
        for id in self.all(&is_open) {
            if let Some(lease) = self.leases.get_mut(id) {
                lease.news_at = now;
            }
            self.plan(id, now);
        }
    }

    pub(super) fn judge_extension(&mut self, id: LeaseId, now: Moment) {
        let of_servers = self.settings.quorum;
        let Some(lease) = self.leases.get_mut(id) else { return };
        let (quorum, servers) = (lease.quorum(of_servers), lease.replicas.len());
        if !lease.is_held() {
            return;
        }
        let Votes { granted, denied, .. } = lease.votes;
        let count = |votes: u64| votes.count_ones() as usize;
        match extension(quorum, count(granted), count(denied)) {
            Extension::Extended => self.is_extended(id, now),
            Extension::Lost => {
                let why = if servers == 1 { Loss::Gone } else { Loss::NoQuorum };
                self.happens(id, LeaseEvent::Lost(why), now);
            }
            Extension::Open if count(lease.votes.answered()) == servers => {
                self.is_unextended(id, now);
            }
            Extension::Open => {}
        }
    }

    /// Too few servers have extended it in time. It is tried again after a pause, in which the caller reads what each said.
    fn is_unextended(&mut self, id: LeaseId, now: Moment) {
        let random = (self.settings.random)();
        let Some(lease) = self.leases.get_mut(id) else { return };
        let (failed, ttl) = (lease.failed, lease.term.ttl());
        let until = lease.state().and_then(LeaseState::until).unwrap_or(now);
        lease.failed = failed.saturating_add(1);
        let is_asked_again = lease.extending == Extending::HolderAgain;
        self.has_failed(id);
        self.plan(id, retry_at(now, failed, ttl, until, random).unwrap_or(until));
        if is_asked_again {
            self.extend_now(id, now);
        }
    }

    /// The extension under way, if any, has failed.
    pub(super) fn has_failed(&mut self, id: LeaseId) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        let what = std::mem::replace(&mut lease.extending, Extending::Nothing);
        if what != Extending::Nothing {
            lease.are_late();
            lease.judged += 1;
            if what.is_holders() {
                lease.keeps_answers();
            }
            self.wake(id);
        }
        if what == Extending::Renewal {
            self.tell(id, &|names| Event::RenewalFailed(id, names));
        }
    }

    /// A quorum has extended it: servers that have lost it are given it again.
    fn is_extended(&mut self, id: LeaseId, now: Moment) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        let (asked_at, ttl) = (lease.asked_at, lease.term.ttl());
        let until = lease.cut(lease.term.deadline(asked_at));
        lease.judged += 1;
        (lease.failed, lease.extended) = (0, lease.judged);
        let what = std::mem::replace(&mut lease.extending, Extending::Nothing);
        let is_renewed = lease.is_renewed && !lease.is_at_its_last(until);
        let next = if is_renewed { renew_at(asked_at, ttl) } else { until };
        // A late answer may come after a push.
        let next = next.min(lease.news_at);
        if self.happens(id, LeaseEvent::Extended { until }, now).is_none() {
            if what == Extending::Renewal {
                self.tell_of_renewal(id, asked_at, now);
            }
            self.plan(id, next.max(now));
            self.repair(id, now);
            self.wake(id);
            if what == Extending::HolderAgain {
                self.extend_now(id, now);
            }
        }
    }

    fn repair(&mut self, id: LeaseId, now: Moment) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        let missing = std::mem::take(&mut lease.votes.denied);
        for at in 0..lease.replicas.len() {
            if missing & 1 << at != 0 {
                self.repair_at(at, id, now);
            }
        }
    }

    /// Gives it to one server again, if that server certainly may vote: one that has forgotten leases may have
    /// forgotten another client's.
    pub(super) fn repair_at(&mut self, at: usize, id: LeaseId, now: Moment) {
        let Self { links, leases, settings, command, .. } = self;
        let Some(lease) = leases.get_mut(id) else { return };
        let link = &mut links[lease.link(at)];
        if !link.may_grant(now) {
            return;
        }
        if lease.is_watched {
            link.watch_held(settings.owner_id, now);
        }
        let replica = &mut lease.replicas[at];
        replica.goes_on(link.generation);
        replica.has = Has::Asked;
        if lease.kind.alone().is_some() {
            command.bytes.clear();
            return lease.ask(What::Repair, (id, at), link, command, &settings.scripts, now);
        }
        let link = lease.link(at);
        self.say_together(link, at, &[id], (What::Repair, None), now);
    }

    pub(super) fn repaired(&mut self, id: LeaseId, at: usize, round: u32, answer: Answer) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        let replica = &mut lease.replicas[at];
        if lease.round == round && replica.has == Has::Asked {
            self.counts.repaired += u32::from(matches!(answer, Answer::Granted(_)));
            replica.has = match answer {
                // It is released there in any case: a server may come back with its former keys.
                Answer::Granted(_) | Answer::NotOwned | Answer::Held { .. } => Has::Key,
                _ => Has::Perhaps,
            };
        }
    }

    /// The transitions of a granted lease: each of its ends passes here.
    pub(super) fn happens(&mut self, id: LeaseId, event: LeaseEvent, now: Moment) -> Option<End> {
        let due = self.due();
        let lease = self.leases.get_mut(id)?;
        let state = lease.state()?;
        let overdue = |until| match lease.is_at_its_last(until) {
            true => Loss::HeldLongest,
            // If nothing called the machine when it was due, the process stood still.
            false => Loss::at_deadline(due, now),
        };
        let transition = state.transition(event, now, overdue);
        lease.phase = Phase::Granted(transition.next);
        let counted = |state: LeaseState| i32::from(state.is_held() && lease.kind.has_guard);
        self.counts.held += counted(transition.next) - counted(state);
        if state.is_held() && !transition.next.is_held() {
            self.lines.vacate(&lease.names, id);
        }
        let end = transition.end?;
        self.is_watched_no_more(id);
        if event == LeaseEvent::Passed {
            self.has_failed(id);
        }
        let lease = self.leases.get_mut(id)?;
        if let End::Lost(why) = end {
            lease.let_expire(why);
            lease.wake_all(&mut self.effects);
            self.tell(id, &|names| Event::Lost(id, names, why));
            self.call_next(id, now);
        }
        self.wake(id);
        Some(end)
    }

    /// Extends it for its holder; [`Machine::poll_extended`] has the result by the returned number. If an extension is under
    /// way, that is the one after it: otherwise holders that ask faster than servers answer would never get an answer.
    pub(crate) fn extend(&mut self, id: LeaseId, now: Moment) -> u32 {
        let Some(lease) = self.leases.get_mut(id) else { return 0 };
        let next = lease.judged + 1;
        if lease.extending.is_holders() {
            lease.extending = Extending::HolderAgain;
            return next + 1;
        }
        self.extend_now(id, now);
        next
    }

    /// As above, whatever is under way; returns the round.
    pub(super) fn extend_now(&mut self, id: LeaseId, now: Moment) -> u32 {
        self.happens(id, LeaseEvent::Passed, now);
        let late_at = now.after(self.settings.timeout);
        if let Some(lease) = self.leases.get_mut(id).filter(|lease| lease.is_held()) {
            lease.late_at = late_at;
            self.renew(&[id], Extending::Holder, now);
            if self.is_undriven {
                self.has_failed(id);
            }
        }
        self.leases.get(id).map_or(0, |lease| lease.round)
    }

    /// Whether a quorum has extended it by the extension with this number, or by a later one.
    pub(crate) fn poll_extended(
        &mut self,
        id: LeaseId,
        number: u32,
        place: &mut Option<usize>,
        context: &Context<'_>,
    ) -> Poll<bool> {
        let Some(lease) = self.leases.get_mut(id).filter(|lease| lease.is_held()) else {
            return Poll::Ready(false);
        };
        if lease.judged >= number {
            return Poll::Ready(lease.extended >= number);
        }
        self.wait_at(id, place, false, context.waker());
        Poll::Pending
    }

    /// Why it is lost, if it is. Once told, a loss stays.
    pub(crate) fn loss(&mut self, id: LeaseId, now: Moment) -> Option<Loss> {
        self.happens(id, LeaseEvent::Passed, now);
        self.state(id).and_then(LeaseState::loss)
    }

    /// Ready once the lease is not held any more.
    pub(crate) fn poll_lost(
        &mut self,
        id: LeaseId,
        place: &mut Option<usize>,
        context: &Context<'_>,
        now: Moment,
    ) -> Poll<()> {
        self.happens(id, LeaseEvent::Passed, now);
        if !self.leases.get(id).is_some_and(Lease::is_held) {
            return Poll::Ready(());
        }
        if place.is_none() {
            self.is_waited_for(id, now);
        }
        self.wait_at(id, place, true, context.waker());
        Poll::Pending
    }

    /// One of several callers waits while the lease is held, for its loss or for an answer. Its first call takes an index,
    /// which [`Machine::waits_no_more`] frees.
    pub(super) fn wait_at(
        &mut self,
        id: LeaseId,
        place: &mut Option<usize>,
        for_loss: bool,
        waker: &Waker,
    ) {
        let Some(Lease { told, .. }) = self.leases.get_mut(id) else { return };
        let free = || told.iter().position(Option::is_none).unwrap_or(told.len());
        let at = *place.get_or_insert_with(free);
        if at >= told.len() {
            told.resize(at + 1, None);
        }
        if !told[at].as_ref().is_some_and(|(_, known)| known.will_wake(waker)) {
            let known = told[at].replace((for_loss, waker.clone()));
            self.effects.extend(known.map(|(_, known)| Effect::Drop(known)));
        }
    }

    pub(crate) fn waits_no_more(&mut self, id: LeaseId, place: usize) {
        let told = self.leases.get_mut(id).and_then(|lease| lease.told.get_mut(place));
        let known = told.and_then(Option::take);
        self.effects.extend(known.map(|(_, known)| Effect::Drop(known)));
    }
}

impl Lease {
    /// Wakes the callers that wait for a loss, or those that wait for an answer. They keep their indices.
    pub(super) fn wake_told(&self, for_loss: bool, effects: &mut Vec<Effect>) {
        let told = self.told.iter().flatten().filter(|(other, _)| *other == for_loss);
        effects.extend(told.map(|(_, waker)| Effect::Wake(waker.clone())));
    }

    /// It is no longer held: wakes all callers, and frees their indices.
    pub(super) fn wake_all(&mut self, effects: &mut Vec<Effect>) {
        effects.extend(self.told.drain(..).flatten().map(|(_, waker)| Effect::Wake(waker)));
    }
}

#[cfg(test)]
mod tests;

//! The waiters behind the first in a line: they are called when it is their turn, or told what the first knows.

use std::time::Duration;

use super::answer::Kept;
use super::core::Machine;
use super::ids::LeaseId;
use super::lease::{Has, Lease, Phase, Votes};
use crate::policy::{Moment, Setback, is_silence};

/// A waiter in the queue asks this much later after a change for each waiter before it: most have the lock sooner.
const PACE: Duration = Duration::from_millis(200);

impl Machine {
    pub(super) fn was_sought(&mut self, id: LeaseId) -> bool {
        let Self { lines, leases, .. } = self;
        leases.get(id).is_some_and(|lease| lines.was_sought(&lease.names))
    }

    /// Whether it has to stand behind other waiters of this process.
    pub(super) fn stands_in_line(&self, id: LeaseId) -> bool {
        self.leases.get(id).is_some_and(|lease| self.lines.has(&lease.names))
    }

    /// Joins the line, or waits beside it. Returns whether it asks by itself.
    pub(super) fn join_line(&mut self, id: LeaseId) -> bool {
        let Self { lines, leases, .. } = self;
        let Some(lease) = leases.get(id) else { return false };
        lines.asks_also(lease.kind.also(&lease.words), id);
        if lease.kind.stands_in_line() {
            return lines.join(&lease.names, id);
        }
        lines.stand_beside(&lease.names, id);
        true
    }

    /// Stands behind other waiters.
    pub(super) fn stand(&mut self, id: LeaseId, now: Moment) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        lease.phase = Phase::InLine;
        // Until it has an answer.
        if let Some(bid) = lease.bid.bid() {
            bid.setback.get_or_insert(Setback::Held(None));
        }
        let next =
            lease.bid.retry().and_then(|retry| retry.last_word_at(now)).or(lease.bid.ends_at());
        self.lines.join(&lease.names, id);
        self.plan(id, next.unwrap_or(now.after(self.settings.flight_max)));
    }

    /// The pause of a request is over, or the limit of a waiter in line is near or over.
    pub(super) fn waited(&mut self, id: LeaseId, now: Moment) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        if lease.bid.is_over(now) {
            let own = lease.bid.setback();
            let setback = self.known_by_others(id, now).or(own);
            self.refuse(id, setback.unwrap_or(Setback::Held(None)), true, now);
        } else if lease.phase == Phase::InLine {
            self.first_asks(id, now);
            self.stand(id, now);
        } else {
            self.try_again(id, now);
        }
    }

    /// A waiter behind the first is near its limit, and will be told what the first knows. The first asks for all of them, unless
    /// a command is under way, or was sent a moment ago.
    fn first_asks(&mut self, id: LeaseId, now: Moment) {
        let first = self.leases.get(id).and_then(|lease| self.lines.first(&lease.names));
        let Some((first, lease)) = first.and_then(|id| Some((id, self.leases.get(id)?))) else {
            return;
        };
        let is_answered = lease.entry.as_ref().is_none_or(|it| it.unanswered_since.is_none());
        if !is_answered || !is_silence(lease.asked_at, self.settings.timeout, now) {
            return;
        }
        match lease.phase {
            Phase::Resting { from, .. } if from <= now => self.try_again(first, now),
            Phase::Queued => (self.settings.waits.again)(self, first, now),
            _ => {}
        }
    }

    /// Tells a waiter that ends what the first in its line knows, or which lease of this process holds the lock.
    fn known_by_others(&mut self, id: LeaseId, now: Moment) -> Option<Setback> {
        let lease = self.leases.get(id)?;
        if let Some(holder) = self.lines.occupant(&lease.names).and_then(|id| self.leases.get(id)) {
            let left = holder.state()?.until()?.since(now);
            let left_ms = i64::try_from(left.as_millis()).ok()?;
            let value = Kept::Held(holder.owner.value().into(), left_ms);
            let asked = holder.bits(Has::Key);
            let lease = self.leases.get_mut(id)?;
            let held = (0..lease.replicas.len()).filter(|at| asked & 1 << at != 0);
            lease.said.clear();
            held.for_each(|at| lease.said.push((at, value.clone())));
            lease.asked_at = now;
            lease.votes = Votes { asked, denied: asked, ..Votes::default() };
            return Some(Setback::Held(Some(left)));
        }
        let first = self.leases.get(self.lines.first(&lease.names)?)?;
        let is_silent = first.is_silent(self.settings.timeout, now);
        let setback = if is_silent { Setback::Failing } else { first.bid.setback()? };
        let (asked_at, votes) = (first.asked_at, first.votes);
        let said = first.said.clone();
        let met = first.replicas.clone();
        let lease = self.leases.get_mut(id)?;
        (lease.said, lease.asked_at, lease.votes) = (said, asked_at, votes);
        lease.has_met(&met);
        if is_silent {
            lease.forgets_what_was_said();
        }
        Some(setback)
    }

    /// The first of a line leaves its place in the server's queue to the next one, if both ask for the same: otherwise the
    /// next one would stand behind all later processes, and with short limits that would happen again and again.
    pub(super) fn leave_place(&mut self, id: LeaseId, now: Moment) -> Option<()> {
        let has_no_turn = |lease: &&Lease| lease.entry.as_ref().is_some_and(|it| it.turn.is_none());
        let waits = self.leases.get(id).filter(|lease| lease.phase == Phase::Queued);
        let names = waits.filter(has_no_turn)?.names.clone();
        let mut next_id = self.lines.second(&names, id)?;
        // Waiters whose limits are over as well are told what it knows.
        while self.leases.get(next_id)?.bid.is_over(now) {
            self.waited(next_id, now);
            next_id = self.lines.second(&names, id)?;
        }
        let may_enter = |next: &&Lease| next.phase == Phase::InLine && !next.bid.is_counted();
        let next = self.leases.get(next_id).filter(may_enter)?;
        self.leases.get(id).filter(|lease| lease.can_pass_to(next))?;
        self.leave_queue(id, now);
        self.gives_owner(id, next_id, now);
        let lease = self.leases.get_mut(id)?;
        let (entry, setback, said) = (lease.entry.take(), lease.bid.setback(), lease.said.clone());
        let next = self.leases.get_mut(next_id)?;
        (next.entry, next.phase, next.said) = (entry, Phase::Queued, said);
        if let Some(bid) = next.bid.bid() {
            bid.setback = setback;
        }
        self.waiters.insert(next.owner.value(), next_id);
        // For a report.
        let met = next.replicas.clone();
        self.leases.get_mut(id)?.has_met(&met);
        (self.settings.waits.again)(self, next_id, now);
        Some(())
    }

    /// Gives the owner of one lease, with all that servers have of it, to another lease, which has nothing at servers.
    pub(super) fn gives_owner(&mut self, id: LeaseId, other: LeaseId, now: Moment) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        let fresh = lease.owner.another((self.settings.owner_id)(now));
        let owner = std::mem::replace(&mut lease.owner, fresh);
        let replicas = std::mem::take(&mut lease.replicas);
        let Some(other) = self.leases.get_mut(other) else { return };
        other.owner = owner;
        let unused = std::mem::replace(&mut other.replicas, replicas);
        if let Some(lease) = self.leases.get_mut(id) {
            lease.replicas = unused;
        }
    }

    /// It no longer waits; if it was the first, the next one asks.
    pub(super) fn leave_line(&mut self, id: LeaseId, now: Moment) {
        if self.lines.is_empty() {
            return;
        }
        let Some(lease) = self.leases.get(id) else { return };
        let (names, retry, known) = (lease.names.clone(), lease.bid.retry(), lease.bid.setback());
        if self.lines.leave(&names, id) {
            let next = self.lines.first(&names).and_then(|id| self.bid(id));
            if let (Some(next), Some(retry)) = (next, retry) {
                next.retry.goes_on_from(&retry);
                next.setback = known.filter(|it| *it == Setback::Failing).or(next.setback);
            }
            self.call_first(names.lock(), true, now);
        }
    }

    /// The lease has ended: the first waiter for its lock asks.
    pub(super) fn call_next(&mut self, id: LeaseId, now: Moment) {
        self.call_behind(id, true, now);
    }

    /// A lease has ended, or was released at last, as was an attempt; the server does not tell this connection. Waiters in line
    /// are called only by the end of a lease (`was_granted`).
    pub(super) fn call_behind(&mut self, id: LeaseId, was_granted: bool, now: Moment) {
        if self.lines.is_empty() {
            return;
        }
        let Some(lease) = self.leases.get(id) else { return };
        let (names, also) = (lease.names.clone(), lease.kind.also(&lease.words).to_vec());
        let stays_taken = lease.rest_ms(now).is_some();
        for key in std::iter::once(names.lock()).chain(also.iter().map(|key| &**key)) {
            self.call_first(key, was_granted, now);
            if stays_taken {
                self.stays_taken(key, now);
            }
        }
    }

    /// The lock may be free: its first waiter asks.
    fn call_first(&mut self, key: &[u8], was_granted: bool, now: Moment) {
        for id in self.lines.asking(key) {
            match self.leases.get(id).map(|lease| lease.phase) {
                Some(Phase::InLine) if was_granted => self.try_again(id, now),
                Some(Phase::Resting { from, .. }) if from <= now => self.try_again(id, now),
                // It asks after its pause, and not at the planned end of the lease that has ended.
                Some(Phase::Resting { from, is_unserved: false }) => self.plan(id, from),
                Some(Phase::Asking) => self.has_news(id),
                _ => {}
            }
        }
    }

    /// The lock has changed, but the command under way may be answered by its former state, and no push will follow.
    pub(super) fn has_news(&mut self, id: LeaseId) {
        if let Some(bid) = self.bid(id) {
            bid.has_news = true;
        }
    }

    /// The lock stays locked until another time than before. A server does not tell this connection of its own changes, so
    /// without this the first in the queue would ask only when it has to say that it still waits.
    pub(super) fn stays_taken(&mut self, key: &[u8], now: Moment) {
        for id in self.lines.asking(key) {
            self.first_is_told(id, now);
        }
    }

    /// The lock of an entry has changed: its owner asks at once if it is the first in the queue, or may be by the next answer.
    /// Another may have become the first since its last command: it asks later.
    pub(super) fn first_is_told(&mut self, id: LeaseId, now: Moment) {
        let Some((entry, _)) = self.entry(id) else { return };
        let mut at = now;
        if entry.before == 0 || entry.unanswered_since.is_some() {
            entry.is_told = true;
        } else {
            at = now.after(PACE.saturating_mul(entry.before));
            at = self.leases.get(id).map_or(at, |lease| at.min(lease.due));
        }
        self.plan(id, at);
    }

    /// All leases that ask for a lock by themselves.
    pub(super) fn all_asking(&self) -> Vec<LeaseId> {
        if self.lines.is_empty() {
            return Vec::new();
        }
        self.all(&|id, lease| self.lines.has_ask(&lease.names, id))
    }
}

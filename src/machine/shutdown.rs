//! The end of a machine, or of its driver: it lets nobody in any more, and all that it has is given back.
//!
//! It goes on until no server has anything, dials and repeats included (safety rule 22). A lock is free once a quorum of
//! its servers has nothing of the owner. What the others may have is waited for as well, unless there is no hurrying
//! it: a server that cannot be reached, or one that has answered and is only told once more later.

use std::task::{Context, Poll};
use std::time::Duration;

use super::core::{Happening, Machine};
use super::ids::LeaseId;
use super::lease::{Doubt, Has, Lease, Phase, Refusal};
use super::link::Link;
use crate::policy::{LeaseEvent, LeaseState, Loss, Moment, drift};

/// Of a link that has no connection: this many dials in a row have led to nothing, the one of a connection that ended
/// at once among them.
const DIALS_UNTIL_AWAY: u32 = 2;

impl Machine {
    /// Refuses all that wait and all that come, and ends and gives back all that is held; which that is.
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

    /// Nobody drives the machine any more, and no reply is read: each caller that waits for one is told so. What is given back from
    /// here on is still to be sent.
    pub(crate) fn is_abandoned(&mut self, now: Moment) {
        self.next_counts(0);
        for id in self.close(Refusal::Undriven, now) {
            self.has_failed(id);
            if let Some(lease) = self.leases.get_mut(id) {
                (lease.late_at, lease.counted) = (now, None);
                self.wake(id);
                self.release_is_late(id, now);
            }
        }
    }

    /// Refuses all that wait and all that come; all leases that there are.
    fn close(&mut self, why: Refusal, now: Moment) -> Vec<LeaseId> {
        self.closed = Some(why);
        self.tell_callers(Happening::Closed, now);
        // Nobody is called when another ends.
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

    /// Ready once everything is given back that can be waited for.
    pub(crate) fn poll_shut_down(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.leases.iter().all(|(_, lease)| self.is_settled(lease)) {
            return Poll::Ready(());
        }
        self.told_of_end.push(context.waker().clone());
        Poll::Pending
    }

    /// The leases whose locks may still be locked, with the locks' names: too few servers have said that they are free, or
    /// have had the key for as long as it lives.
    pub(crate) fn unreleased(&self, now: Moment) -> impl Iterator<Item = (LeaseId, String)> {
        let left = self.leases.iter().filter(move |(_, lease)| !self.is_free(lease, now));
        left.map(|(id, lease)| (id, lease.title()))
    }

    #[inline(never)]
    fn is_free(&self, lease: &Lease, now: Moment) -> bool {
        let silence = self.silence();
        let is_over = |at: &usize| lease.is_clear_at(*at) || lease.has_ended_at(*at, silence, now);
        let over = (0..lease.replicas.len()).filter(is_over).count();
        over >= lease.quorum(self.settings.quorum).needed()
    }

    fn is_settled(&self, lease: &Lease) -> bool {
        let is_away = |link: &Link| !link.is_ready() && link.failed >= DIALS_UNTIL_AWAY;
        let is_over = |at: usize| lease.is_clear_at(at) || lease.is_denied_at(at);
        let over = (0..lease.replicas.len()).filter(|at| is_over(*at)).count();
        let mut all = 0..lease.replicas.len();
        over >= lease.quorum(self.settings.quorum).needed()
            && all.all(|at| is_over(at) || is_away(&self.links[lease.link(at)]))
    }
}

impl Lease {
    /// The names of its locks.
    fn title(&self) -> String {
        let names: Vec<_> = self.keys().map(String::from_utf8_lossy).collect();
        names.join(", ")
    }

    /// Whether some server has been sent no release.
    pub(super) fn is_kept(&self) -> bool {
        let is_kept = |has| matches!(has, Has::Asked | Has::Key | Has::Perhaps);
        self.replicas.iter().any(|replica| is_kept(replica.has))
    }

    /// Whether a server would refuse each further release as it has refused the last.
    fn is_denied_at(&self, at: usize) -> bool {
        self.said.iter().any(|(it, kept)| *it == at && kept.is_denial())
    }

    /// Whether its key has ended by itself at a server that was not told of its release: each question and each extension
    /// was answered within this silence, or never left. What arrives late may make the key or let it live for longer, as
    /// may a release that keeps the lock for a while: then nothing is known until no server can have anything.
    fn has_ended_at(&self, at: usize, silence: Duration, now: Moment) -> bool {
        let (replica, life) = (&self.replicas[at], self.key_life());
        let set_at = self.asked_at.after(silence).max(replica.answered_at);
        let is_certain = replica.has == Has::Owed && replica.doubt == Doubt::Nothing;
        is_certain && self.bounded.is_none() && now > set_at.after(life + drift(life))
    }

    /// Whether a server has nothing of its owner. Where that was in doubt, it is told once more later.
    fn is_clear_at(&self, at: usize) -> bool {
        let is_answered = (self.votes.granted | self.votes.denied) & 1 << at != 0;
        match self.replicas[at].has {
            Has::Nothing => true,
            Has::Releasing | Has::Owed => is_answered,
            Has::Asked | Has::Key | Has::Perhaps => false,
        }
    }
}

#[cfg(test)]
mod tests;

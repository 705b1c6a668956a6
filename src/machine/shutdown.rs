//! The end of a machine, or of its driver: it lets nobody in any more, and all that it has is given back.
//!
//! It goes on until no server has anything, dials and repeats included (safety rule 22). A lock is free once a quorum of
//! its servers has nothing of the owner. What the others may have is waited for as well, unless there is no hurrying
//! it: a server that cannot be reached, or one that has answered and is only told once more later.

use std::task::{Context, Poll};

use super::core::{Happening, Machine};
use super::ids::LeaseId;
use super::lease::{Has, Lease, Phase, Refusal};
use super::link::Link;
use crate::policy::{LeaseEvent, LeaseState, Loss, Moment};

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
            if why == Loss::ShutDown && lease.kind.has_guard && !self.is_free(lease) {
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

    /// The leases of which too few servers have said that the lock is free, with the locks' names.
    pub(crate) fn unreleased(&self) -> impl Iterator<Item = (LeaseId, String)> {
        let left = self.leases.iter().filter(|(_, lease)| !self.is_free(lease));
        left.map(|(id, lease)| (id, lease.title()))
    }

    fn is_free(&self, lease: &Lease) -> bool {
        let clear = (0..lease.replicas.len()).filter(|at| lease.is_clear_at(*at)).count();
        clear >= lease.quorum(self.settings.quorum).needed()
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
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use bytes::Bytes;
    use leasehold_resp::Frame;

    use super::super::tests::{Bench, acquire, error, greeting, request, settings, stamp};
    use super::super::{Fault, Login};
    use super::*;
    use crate::policy::Wait;

    fn context() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    fn bench(servers: usize) -> Bench {
        let mut bench = Bench::new(servers, settings(servers));
        for server in 0..servers {
            bench.dial(server, Login::default());
            bench.answer(server, reply);
        }
        bench
    }

    fn reply(command: &[Bytes]) -> Vec<Frame> {
        vec![if command[0] == "EVALSHA" { stamp(command) } else { greeting(command, "") }]
    }

    fn answer(bench: &mut Bench, server: usize) {
        bench.answer(server, reply);
    }

    fn is_over(bench: &mut Bench) -> bool {
        bench.machine.poll_shut_down(&context()).is_ready()
    }

    #[test]
    fn all_that_wait_are_refused_and_what_is_held_is_lost_and_given_back() {
        let mut bench = bench(1);
        let held = acquire(&mut bench, b"a");
        answer(&mut bench, 0);
        let asking = request(&mut bench, b"b", Wait::Forever);
        let resting = request(&mut bench, b"c", Wait::Forever);
        bench.said(0);
        bench.reply(0, &error("ERR no"));
        let ended = bench.machine.shut_down(bench.now);
        assert_eq!(ended, [(held, "a".to_owned())]);
        let later = acquire(&mut bench, b"d");
        for id in [asking, resting, later] {
            let refused = bench.machine.poll_acquire(id, &context());
            assert_eq!(refused, Poll::Ready(Err(Refusal::ShutDown)));
        }
        assert_eq!(bench.machine.loss(held, bench.now), Some(Loss::ShutDown));
        let is_told = bench.machine.poll_lost(held, &context(), bench.now).is_ready();
        assert!(is_told && !is_over(&mut bench));
        assert_eq!(bench.machine.shut_down(bench.now).len(), 1, "it is not free yet");
    }

    #[test]
    fn it_ends_once_each_server_that_can_be_reached_has_answered() {
        let mut bench = bench(3);
        acquire(&mut bench, b"a");
        (0..3).for_each(|server| answer(&mut bench, server));
        bench.machine.shut_down(bench.now);
        answer(&mut bench, 0);
        assert_eq!(bench.machine.unreleased().count(), 1);
        answer(&mut bench, 1);
        assert_eq!(bench.machine.unreleased().count(), 0);
        assert!(!is_over(&mut bench), "the third may answer yet");
        bench.machine.disconnected(2, Fault::Closed, bench.now);
        assert!(!is_over(&mut bench), "it may come back");
        bench.pass(Duration::from_secs(1));
        bench.machine.disconnected(2, Fault::Undialled { is_lasting: false }, bench.now);
        assert!(is_over(&mut bench));
        bench.dial(2, Login::default());
        let mut stamps = Vec::new();
        bench.answer(2, |command| {
            let reply = reply(command);
            if command[0] != "EVALSHA" {
                return reply;
            }
            stamps.extend(reply);
            Vec::new()
        });
        assert!(!is_over(&mut bench), "it is there, and is owed the release");
        stamps.iter().for_each(|stamp| bench.reply(2, stamp));
        assert!(is_over(&mut bench));
    }

    #[test]
    fn a_release_that_is_refused_goes_out_again_until_it_is_answered() {
        let mut bench = bench(1);
        let id = acquire(&mut bench, b"a");
        answer(&mut bench, 0);
        bench.machine.shut_down(bench.now);
        let mut refusals = 5;
        for _ in 0..10 {
            bench.answer(0, |command| {
                if command[0] == "EVALSHA" && refusals > 0 {
                    refusals -= 1;
                    return vec![error("BUSY a script runs")];
                }
                reply(command)
            });
            bench.pass(Duration::from_millis(200));
        }
        assert!(refusals == 0 && is_over(&mut bench));
        assert_eq!(bench.machine.unreleased().count(), 0);
        // Its guard may outlive all that.
        assert_eq!(bench.machine.loss(id, bench.now), Some(Loss::ShutDown));
    }
}

//! A holder that parts with its lock otherwise than by a release: the servers do for it what the release of another kind
//! says, and may leave something there for somebody else.

use std::time::Duration;

use super::bounds::Bounded;
use super::core::Machine;
use super::ids::LeaseId;
use super::kind::Kind;
use super::lease::Has;
use super::owner::Owner;
use crate::policy::{Bounds, LeaseEvent, LeaseState, Moment};

impl Machine {
    /// The value of an owner that nobody is, which says this of what the owner of a lease says.
    pub(crate) fn nobody(&self, id: LeaseId, says: fn(&[u8]) -> &[u8]) -> Box<[u8]> {
        let said = self.leases.get(id).map_or(&b""[..], |lease| says(lease.owner.said()));
        Owner::new((self.settings.owner_id)(), said).value().into()
    }

    /// For how many milliseconds the lock is still to be held at least.
    pub(crate) fn rest_ms(&self, id: LeaseId, now: Moment) -> u64 {
        self.leases.get(id).and_then(|lease| lease.rest_ms(now)).unwrap_or(0)
    }

    /// The holder parts with its lock by the release of this kind, which reads these words, and what that leaves at
    /// servers lives no longer than for `life`. The lock goes to no other of this process. [`Machine::poll_release`] says
    /// what comes of it. False where the lease is not held any more, and is left as it is.
    pub(crate) fn part(
        &mut self,
        id: LeaseId,
        kind: &'static Kind,
        words: Box<[Box<[u8]>]>,
        life: Duration,
        now: Moment,
    ) -> bool {
        self.happens(id, LeaseEvent::Release, now);
        let Some(lease) = self.leases.get_mut(id) else { return false };
        if lease.state() != Some(LeaseState::Releasing) {
            return false;
        }
        // Servers may have something until then, as with a delay behind a lease.
        let delay = Some(life.max(lease.key_life()));
        lease.bounded = Bounded::new(Bounds { lock_delay: delay, ..Bounds::default() });
        (lease.kind, lease.words, lease.asked_at) = (kind, words, now);
        self.lets_go(id, now);
        true
    }

    /// What a parting has left, or has not taken, is given back by the release of this kind, on the same connections; and
    /// once more some time later, since what was asked may still arrive.
    pub(crate) fn take_back(&mut self, id: LeaseId, kind: &'static Kind, now: Moment) {
        let Some(lease) = self.leases.get_mut(id) else { return };
        lease.kind = kind;
        for (at, replica) in lease.replicas.iter_mut().enumerate() {
            if replica.has != Has::Nothing || lease.votes.asked & 1 << at != 0 {
                replica.has = Has::Perhaps;
            }
        }
        self.give_back(id, now);
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use bytes::Bytes;
    use leasehold_resp::Frame;

    use super::super::tests::{Bench, acquire, bulk, greeting, request, stamp, text};
    use super::super::{FENCED, Fault, Login};
    use super::*;
    use crate::policy::{End, Wait};

    const LIFE: Duration = Duration::from_secs(3600);

    /// What is let go of so is left to another.
    static LEFT: Kind = Kind {
        is_fenced: true,
        is_exclusive: true,
        goes_on: true,
        has_guard: true,
        acquire: FENCED.acquire,
        read: FENCED.read,
        wait: FENCED.wait,
        release: |question| {
            let words = [question.owner, &question.words[0]];
            question.command.call_whole(&question.scripts.queue, &[], &words);
        },
        alone: None,
        also: |_| &[],
        becomes: None,
    };

    /// A lease that all servers have granted, and what is said to the first when its holder parts with it.
    fn parted(servers: usize) -> (Bench, LeaseId, Vec<Bytes>) {
        let mut bench = Bench::connected(servers);
        let id = acquire(&mut bench, b"a");
        (0..servers).for_each(|at| bench.answer(at, |command| vec![stamp(command)]));
        assert!(bench.machine.part(id, &LEFT, [b"x"[..].into()].into(), LIFE, bench.now));
        let said = bench.said(0);
        assert!(
            matches!(&said[..], [one] if text(one).starts_with("EVAL return 5 0 ")),
            "{said:?}"
        );
        (bench, id, said.into_iter().next().unwrap())
    }

    fn end(bench: &mut Bench, id: LeaseId) -> Poll<End> {
        bench.machine.poll_release(id, &Context::from_waker(Waker::noop()))
    }

    fn no(command: &[Bytes]) -> Frame {
        Frame::Array([stamp(command), Frame::Integer(0)].into())
    }

    #[test]
    fn a_lock_that_is_parted_with_is_let_go_once_a_quorum_says_so_and_everywhere_in_the_end() {
        let (mut bench, id, said) = parted(3);
        bench.reply(0, &stamp(&said));
        assert_eq!(end(&mut bench, id), Poll::Pending);
        bench.answer(1, |command| vec![stamp(command)]);
        assert_eq!(end(&mut bench, id), Poll::Ready(End::Released));
        bench.said(2);
        bench.machine.forget(id, bench.now);
        bench.close(2);
        bench.dial(2, Login::default());
        let mut parted = 0;
        bench.answer(2, |command| {
            let is_it = command[0] == "EVAL";
            parted += u32::from(is_it);
            vec![if is_it { stamp(command) } else { greeting(command, "") }]
        });
        assert_eq!((parted, bench.machine.len()), (1, 0));
    }

    #[test]
    fn a_lock_that_is_not_its_holders_any_more_is_lost() {
        let (mut bench, id, said) = parted(1);
        bench.reply(0, &no(&said));
        assert!(matches!(end(&mut bench, id), Poll::Ready(End::Lost(_))));
        let mut bench = Bench::connected(1);
        let id = acquire(&mut bench, b"a");
        bench.answer(0, |command| vec![stamp(command)]);
        bench.now = bench.now.after(LIFE);
        assert!(!bench.machine.part(id, &LEFT, Box::default(), LIFE, bench.now));
        assert!(bench.said(0).is_empty(), "it is as it was");
    }

    #[test]
    fn nobody_of_this_process_has_the_lock_instead() {
        let mut bench = Bench::connected(1);
        let id = acquire(&mut bench, b"a");
        bench.answer(0, |command| vec![stamp(command)]);
        let next = request(&mut bench, b"a", Wait::Forever);
        bench.answer(0, |command| {
            let held = [bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0")];
            vec![match &command[0][..] {
                b"EVALSHA" => Frame::Array([stamp(command)].into_iter().chain(held).collect()),
                _ => greeting(command, ""),
            }]
        });
        assert!(bench.machine.part(id, &LEFT, [b"x"[..].into()].into(), LIFE, bench.now));
        let context = Context::from_waker(Waker::noop());
        assert!(bench.machine.poll_acquire(next, &context).is_pending());
        assert!(text(&bench.said(0)[0]).starts_with("EVAL return 5 0 "));
    }

    /// The holder went before the server had answered.
    #[test]
    fn what_a_parting_may_have_left_is_given_back_behind_it_and_its_answer_is_none_to_that() {
        let (mut bench, id, said) = parted(1);
        bench.machine.take_back(id, &FENCED, bench.now);
        bench.machine.forget(id, bench.now);
        let released = bench.said(0);
        assert_eq!(released.len(), 1, "on the same connection: {released:?}");
        bench.reply(0, &stamp(&said));
        bench.machine.shut_down(bench.now);
        assert_eq!(bench.machine.unreleased().count(), 1, "that was the first answer");
        bench.reply(0, &no(&released[0]));
        assert_eq!(bench.machine.unreleased().count(), 0);
        // What was asked on a connection that has ended may still arrive.
        let mut repeated = 0;
        for _ in 0..3 {
            bench.answer(0, |command| {
                repeated += u32::from(command[0] == "EVALSHA");
                vec![no(command)]
            });
            bench.pass(Duration::from_secs(1));
        }
        assert!(repeated > 0);
    }

    #[test]
    fn what_was_answered_before_is_given_back_too() {
        let (mut bench, id, said) = parted(3);
        bench.reply(0, &stamp(&said));
        bench.close(1);
        bench.machine.disconnected(2, Fault::Closed, bench.now);
        bench.pass(Duration::from_millis(500));
        assert_eq!(end(&mut bench, id), Poll::Ready(End::Unconfirmed));
        bench.machine.take_back(id, &FENCED, bench.now);
        bench.machine.forget(id, bench.now);
        assert_eq!(bench.said(0).iter().filter(|command| command[0] == "EVALSHA").count(), 1);
        // What is left to another lives longer than the lease would have.
        bench.pass(LIFE / 2);
        for server in 1..3 {
            bench.dial(server, Login::default());
            let mut released = 0;
            bench.answer(server, |command| {
                assert_ne!(command[0], "EVAL", "nothing is left to another any more");
                let is_it = command[0] == "EVALSHA";
                released += u32::from(is_it);
                vec![if is_it { stamp(command) } else { greeting(command, "") }]
            });
            assert!(released > 0, "{server}");
        }
    }
}

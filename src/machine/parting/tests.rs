use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use leasehold_resp::{Decimal, Frame};

use super::super::tests::{Bench, acquire, bulk, greeting, request, stamp, text};
use super::super::{Alone, Answer, FENCED, Fault, Login, Means};
use super::*;
use crate::policy::{End, Term, Wait};

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
    release: FENCED.release,
    alone: Some(Alone {
        extend: |question| {
            let words = [question.owner, &question.words[0], &*Decimal::new(question.ttl_ms)];
            question.command.call_whole(&question.scripts.queue, &[], &words);
        },
        read: Answer::of_owned,
        repair: |_| {},
        means: Means::SCRIPTS,
    }),
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
    assert!(matches!(&said[..], [one] if text(one).starts_with("EVAL return 5 0 ")), "{said:?}");
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

/// Else it would be kept from others for longer than its holder has said, and where the time is over for nobody.
#[test]
fn what_is_left_at_a_server_that_is_late_is_left_for_the_rest_of_the_time() {
    for (late, said) in [(LIFE / 4, Some("2700000")), (LIFE * 2, None)] {
        let (mut bench, id, first) = parted(3);
        assert_eq!(first[5], "3600000");
        (1..3).for_each(|at| bench.answer(at, |command| vec![stamp(command)]));
        bench.close(0);
        bench.machine.forget(id, bench.now);
        // The key there lasts, as after a step of its server's clock.
        bench.machine.leases.get_mut(id).unwrap().term = Term::new(LIFE * 3, None).unwrap();
        bench.now = bench.now.after(late);
        bench.dial(0, Login::default());
        let mut kept = Vec::new();
        bench.answer(0, |command| match &command[0][..] {
            b"EVAL" => {
                kept.push(text(&command[5..6]));
                vec![stamp(command)]
            }
            b"EVALSHA" => vec![stamp(command)],
            _ => vec![greeting(command, "")],
        });
        let kept: Vec<u64> = kept.iter().map(|ms| ms.parse().unwrap()).collect();
        let most: Option<u64> = said.map(|ms| ms.parse().unwrap());
        assert!(kept.len() == most.iter().count(), "{kept:?}");
        assert!(kept.iter().all(|ms| Some(*ms) <= most && *ms > 2_600_000), "{kept:?}");
        assert_eq!(bench.machine.len(), 0);
    }
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
    let said = bench.said(0);
    assert_eq!(said[0][0], "ECHO", "the other is told first");
    assert!(text(&said[1]).starts_with("EVAL return 5 0 "));
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
    assert_eq!(bench.machine.unreleased(bench.now).count(), 1, "that was the first answer");
    bench.reply(0, &no(&released[0]));
    assert_eq!(bench.machine.unreleased(bench.now).count(), 0);
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

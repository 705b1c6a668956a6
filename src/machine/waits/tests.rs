use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;

use super::super::tests::{Bench, bulk, error, greeting, request, request_of, settings, stamp};
use super::super::{FENCED, Kind, Login, Refusal};
use super::*;
use crate::policy::{Bounds, Wait};

#[test]
fn one_of_several_servers_that_talks_nonsense_at_the_limit_hides_no_holder() {
    let limit = Duration::from_millis(300);
    let mut bench = Bench::connected(3);
    let id = request(&mut bench, b"a", Wait::AtMost(limit));
    for server in 0..3 {
        let held = [bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0")];
        bench.answer(server, |command| match &command[0][..] {
            b"EVALSHA" => {
                vec![Frame::Array([stamp(command)].into_iter().chain(held.clone()).collect())]
            }
            _ => vec![greeting(command, "")],
        });
    }
    bench.machine.enter(id, 1, bench.now);
    bench.machine.comes_back(id, Setback::Failing, bench.now.after(limit));
    let polled = bench.machine.poll_acquire(id, &Context::from_waker(Waker::noop()));
    let is_held = |refusal: &Refusal| {
        matches!(refusal, Refusal::Setback { setback: Setback::Held(_), is_over: true })
    };
    assert!(matches!(&polled, Poll::Ready(Err(refusal)) if is_held(refusal)), "{polled:?}");
}

/// Of each that asks meanwhile, a server that is busy for long would be asked to release something, once a second.
#[test]
fn an_owner_whose_only_question_a_busy_server_refused_has_nothing_to_give_back() {
    let busy =
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
    // From the middle of the script, for all that is known.
    let oom = "OOM command not allowed when used memory > 'maxmemory'.";
    let held = [bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0")];
    for (had, questions, text, has) in [
        (Has::Nothing, 1, busy, Has::Nothing),
        (Has::Nothing, 2, busy, Has::Asked),
        (Has::Nothing, 1, oom, Has::Asked),
        // From its turn before, which has ended.
        (Has::Key, 1, busy, Has::Perhaps),
        // A question before the entry was not answered in time.
        (Has::Asked, 1, busy, Has::Perhaps),
    ] {
        let mut bench = Bench::connected(1);
        let id = request(&mut bench, b"a", Wait::Forever);
        bench.answer(0, |command| match &command[0][..] {
            b"EVALSHA" => {
                vec![Frame::Array([stamp(command)].into_iter().chain(held.clone()).collect())]
            }
            _ => vec![greeting(command, "")],
        });
        bench.machine.leases.get_mut(id).unwrap().replicas[0].has = had;
        bench.machine.enter(id, 0, bench.now);
        for _ in 0..questions {
            bench.machine.ask_for_entry(id, [b"enter", b"channel", b"10000"], bench.now);
            bench.now = bench.now.after(Duration::from_secs(1));
        }
        let what = |bench: &Bench| bench.machine.leases.get(id).unwrap().replicas[0].has;
        assert_ne!(what(&bench), Has::Nothing);
        bench.answer(0, |command| match &command[0][..] {
            b"EVALSHA" => vec![error(text)],
            _ => vec![greeting(command, "")],
        });
        assert_eq!(what(&bench), has, "{had:?}, {questions}: {text}");
    }
}

/// As shares, groups and what is asked for without scripts.
static PASSED_TO_NOBODY: Kind = Kind { goes_on: false, ..FENCED };

/// As one of several locks that is kept until a request has all of them: its priority counts in the queue of its lock.
static KEPT: Kind = Kind { has_guard: false, ..PASSED_TO_NOBODY };

#[test]
fn what_is_kept_for_a_request_stands_behind_nobody_of_its_process() {
    let mut bench = Bench::connected(1);
    let held = [bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0")];
    let asked = |bench: &mut Bench, kind| {
        request_of(kind, bench, b"a", Wait::Forever, Bounds::default());
        let mut asked = 0;
        bench.answer(0, |command| match &command[0][..] {
            b"EVALSHA" => {
                asked += 1;
                vec![Frame::Array([stamp(command)].into_iter().chain(held.clone()).collect())]
            }
            _ => vec![greeting(command, "")],
        });
        asked
    };
    assert!(asked(&mut bench, &FENCED) > 0);
    assert_eq!(asked(&mut bench, &FENCED), 0, "it stands in line");
    assert!(asked(&mut bench, &KEPT) > 0);
}

/// The server tells this connection of nothing that the machine itself does.
#[test]
fn a_release_of_this_process_is_news_to_one_that_rests_for_its_pause() {
    let mut bench = Bench::connected(1);
    let ask = |bench: &mut Bench, wait| {
        request_of(&PASSED_TO_NOBODY, bench, b"a", wait, Bounds::default())
    };
    let holder = ask(&mut bench, Wait::Never);
    bench.answer(0, |command| vec![stamp(command)]);
    let waiting = ask(&mut bench, Wait::Forever);
    let held = [bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0")];
    bench.answer(0, |command| match &command[0][..] {
        b"EVALSHA" => {
            vec![Frame::Array([stamp(command)].into_iter().chain(held.clone()).collect())]
        }
        _ => vec![greeting(command, "")],
    });
    // As where the server tells of the key: it need not ask until the lease of the holder would end.
    bench.machine.plan(waiting, bench.now.after(Duration::from_secs(5)));
    let Phase::Resting { from, .. } = bench.machine.leases.get(waiting).unwrap().phase else {
        panic!("it rests for its pause")
    };
    assert!(bench.now < from);
    bench.machine.release(holder, bench.now);
    assert_eq!(bench.machine.leases.get(waiting).unwrap().due, from);
}

/// Likewise where the question was answered before that, which came behind it on the same connection: it rested for seconds,
/// as where the server tells of the key.
#[test]
fn what_this_process_gives_back_is_news_to_one_whose_question_is_under_way() {
    is_news(true, |bench, [holder, _]| bench.machine.release(holder, bench.now));
    // An attempt that may have come to a lease, and is dropped.
    is_news(false, |bench, [holder, _]| _ = bench.machine.forget(holder, bench.now));
    // Another part of the request keeps all locks by now.
    is_news(true, |bench, [_, it]| bench.machine.tell_kind(it, Box::default(), bench.now));
}

/// What a server that pushes answers, with the lock of another or without.
fn told(command: &[Bytes], is_held: bool) -> Frame {
    match &command[0][..] {
        b"SUBSCRIBE" => {
            let channel = Frame::Bulk(command[1].clone());
            Frame::Push([bulk("subscribe"), channel, Frame::Integer(1)].into())
        }
        b"EVALSHA" if is_held => {
            let held = [bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0")];
            Frame::Array([stamp(command)].into_iter().chain(held).collect())
        }
        b"EVALSHA" => stamp(command),
        _ => greeting(command, ""),
    }
}

fn is_news(is_granted: bool, happens: fn(&mut Bench, [LeaseId; 2])) {
    let mut bench = Bench::new(1, settings(1));
    bench.is_told = true;
    let reply = |command: &[Bytes]| told(command, true);
    bench.dial(0, Login::default());
    bench.answer(0, |command| vec![reply(command)]);
    let ask = |bench: &mut Bench, wait| {
        request_of(&PASSED_TO_NOBODY, bench, b"a", wait, Bounds::default())
    };
    let waiting = ask(&mut bench, Wait::Forever);
    bench.answer(0, |command| vec![reply(command)]);
    bench.pass(Duration::from_millis(200));
    let holder = ask(&mut bench, Wait::Never);
    if is_granted {
        bench.answer(0, |command| vec![stamp(command)]);
    }
    bench.machine.changed(Some(b"a"), bench.now);
    assert_eq!(bench.machine.leases.get(waiting).unwrap().phase, Phase::Asking);
    let asked = bench.said(0);
    happens(&mut bench, [holder, waiting]);
    asked.iter().for_each(|command| bench.reply(0, &reply(command)));
    let lease = bench.machine.leases.get(waiting).unwrap();
    let Phase::Resting { from, .. } = lease.phase else { panic!("{:?}", lease.phase) };
    assert_eq!(lease.due, from);
}

/// Of three servers one tells that the lock is held, and one serves again later: with the third it is a quorum. The request
/// rested for seconds, as if it were told of all.
#[test]
fn a_push_is_waited_for_only_where_no_quorum_is_left_without_those_that_push() {
    for (second_has_it, rests_long) in [(true, true), (false, false)] {
        let mut bench = Bench::new(3, settings(3));
        bench.is_told = true;
        (0..2).for_each(|server| bench.dial(server, Login::default()));
        let answer = |bench: &mut Bench| {
            for (server, has_it) in [(0, true), (1, second_has_it)] {
                bench.answer(server, |command| vec![told(command, has_it)]);
            }
        };
        answer(&mut bench);
        let id = request(&mut bench, b"a", Wait::Forever);
        answer(&mut bench);
        // Once it is in line, and the servers have said that they tell, it asks in such a way that they do.
        for _ in 0..3 {
            bench.pass(Duration::from_millis(20));
            answer(&mut bench);
        }
        let lease = bench.machine.leases.get(id).unwrap();
        assert!(matches!(lease.phase, Phase::Resting { .. }), "{:?}", lease.phase);
        let rest = lease.due.since(bench.now);
        assert_eq!(rest > Duration::from_secs(1), rests_long, "{rest:?}");
    }
}

/// The second in a line is called a moment before its limit, and has asked nobody before: an outage is what the first has
/// met, and otherwise the lock was held.
#[test]
fn a_wait_that_ends_as_it_is_called_from_its_line_is_told_what_kept_the_line() {
    let (limit, moment) = (Duration::from_millis(200), Duration::from_millis(1));
    for is_held in [true, false] {
        let mut bench = Bench::connected(1);
        let first = request(&mut bench, b"a", Wait::AtMost(limit));
        let loading = || error("LOADING Redis is loading the dataset in memory");
        bench.answer(0, |command| vec![if is_held { told(command, true) } else { loading() }]);
        let second = request(&mut bench, b"a", Wait::AtMost(limit + moment));
        assert_eq!(bench.machine.leases.get(second).unwrap().phase, Phase::InLine);
        bench.pass(limit);
        bench.machine.forget(first, bench.now);
        assert_eq!(bench.machine.leases.get(second).unwrap().phase, Phase::Asking);
        bench.pass(moment);
        let polled = bench.machine.poll_acquire(second, &Context::from_waker(Waker::noop()));
        let Poll::Ready(Err(Refusal::Setback { setback, is_over: true })) = polled else {
            panic!("{polled:?}")
        };
        assert_eq!(setback == Setback::Failing, !is_held, "{setback:?}");
    }
}

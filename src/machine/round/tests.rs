use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::super::tests::{Bench, acquire, bulk, error, greeting, request_of, settings, stamp};
use super::super::{FENCED, Fault, Kind, Login, Said};
use super::*;
use crate::policy::{Bounds, Wait};

/// Of which others may have some too.
static SOME: Kind = Kind { is_exclusive: false, goes_on: false, ..FENCED };
/// Of three that rank alike.
const FIRST: usize = 2;

fn request(bench: &mut Bench) -> LeaseId {
    request_of(&SOME, bench, b"a", Wait::Never, Bounds::default())
}

/// The questions that each server is asked.
fn asked(bench: &mut Bench) -> [Vec<Vec<Bytes>>; 3] {
    [0, 1, 2].map(|server| {
        let mut said = bench.said(server);
        said.retain(|command| command[0] == "EVALSHA");
        said
    })
}

fn counts(asked: &[Vec<Vec<Bytes>>; 3]) -> [usize; 3] {
    [asked[0].len(), asked[1].len(), asked[2].len()]
}

fn is_granted(bench: &mut Bench, id: LeaseId) -> Option<bool> {
    match bench.machine.poll_acquire(id, &Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer.is_ok()),
        Poll::Pending => None,
    }
}

#[test]
fn the_others_are_asked_once_the_first_has_granted() {
    let mut bench = Bench::connected(3);
    let id = request(&mut bench);
    let first = asked(&mut bench);
    assert_eq!(counts(&first), [0, 0, 1]);
    bench.reply(FIRST, &stamp(&first[FIRST][0]));
    let others = asked(&mut bench);
    assert_eq!((counts(&others), is_granted(&mut bench, id)), ([1, 1, 0], None));
    bench.reply(0, &stamp(&others[0][0]));
    assert_eq!(is_granted(&mut bench, id), Some(true));
}

/// The first refuses because of a key, or of waiters.
fn refuse(bench: &mut Bench, is_held: bool) {
    let question = asked(bench)[FIRST].pop().unwrap();
    let held = vec![bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0")];
    let said = if is_held { held } else { vec![bulk("queued"), Frame::Integer(1)] };
    bench.reply(FIRST, &Frame::Array([stamp(&question)].into_iter().chain(said).collect()));
}

#[test]
fn no_other_is_asked_where_others_wait_at_the_first() {
    let mut bench = Bench::connected(3);
    let id = request(&mut bench);
    refuse(&mut bench, false);
    assert_eq!(is_granted(&mut bench, id), Some(false));
    assert_eq!(counts(&asked(&mut bench)), [0; 3]);
}

/// Only it may have the key. A request that can wait in its queue is told of that there.
#[test]
fn another_is_asked_where_the_first_has_a_key_and_the_request_may_not_wait_there() {
    let mut bench = Bench::connected(3);
    let id = request(&mut bench);
    refuse(&mut bench, true);
    assert_eq!((counts(&asked(&mut bench)), is_granted(&mut bench, id)), ([0, 1, 0], None));
    // It polls.
    let mut bench = Bench::connected(3);
    request_of(&SOME, &mut bench, b"a", Wait::Forever, Bounds::default());
    refuse(&mut bench, true);
    assert_eq!(counts(&asked(&mut bench)), [0; 3]);
    bench.pass(Duration::from_millis(10));
    refuse(&mut bench, true);
    assert_eq!(counts(&asked(&mut bench)), [0, 1, 0]);
}

#[test]
fn another_is_asked_where_the_first_fails_and_all_where_it_is_slow() {
    let mut bench = Bench::connected(3);
    let id = request(&mut bench);
    asked(&mut bench);
    bench.reply(FIRST, &error("OOM command not allowed"));
    let seal = bench.said(FIRST).pop().unwrap();
    bench.reply(FIRST, &bulk(&seal[1]));
    assert_eq!(counts(&asked(&mut bench)), [0, 1, 0]);
    bench.pass(Duration::from_millis(200));
    let last = asked(&mut bench);
    assert_eq!((counts(&last), is_granted(&mut bench, id)), ([1, 0, 0], None));
    // One that is not there leads nobody.
    let mut bench = Bench::connected(3);
    bench.machine.disconnected(FIRST, Fault::Closed, bench.now);
    request(&mut bench);
    assert_eq!(counts(&asked(&mut bench)), [0, 1, 0]);
}

/// Of one server: more than a megabyte of questions.
#[test]
fn a_crowd_is_asked_for_as_there_is_room() {
    let mut bench = Bench::connected(1);
    let requests = |bench: &mut Bench, count: u64| {
        let name = |caller| format!("{caller:0>1000}");
        let of = |caller| {
            request_of(&FENCED, bench, name(caller).as_bytes(), Wait::Never, Bounds::default())
        };
        (0..count).map(of).collect::<Vec<_>>()
    };
    let ids = requests(&mut bench, 400);
    let first = bench.said(0);
    assert!(first.len() < 400, "{}", first.len());
    first.iter().for_each(|question| bench.reply(0, &stamp(question)));
    bench.answer(0, |command| vec![stamp(command)]);
    assert!(ids.iter().all(|id| is_granted(&mut bench, *id) == Some(true)));
}

fn answer(bench: &mut Bench, server: usize) {
    bench.answer(server, |command| {
        let is_script = command[0] == "EVALSHA";
        vec![if is_script { stamp(command) } else { greeting(command, "") }]
    });
}

/// Whether an attempt asks this server, which answers.
fn attempt(bench: &mut Bench, server: usize) -> (bool, LeaseId) {
    let id = acquire(bench, b"a");
    answer(bench, 0);
    let asked = bench.machine.output_bytes(server).is_some();
    answer(bench, server);
    (asked, id)
}

fn told(bench: &mut Bench) -> Vec<bool> {
    bench.effects.append(bench.machine.take_effects());
    let effects = std::mem::take(&mut bench.effects).into_iter();
    let told = effects.filter_map(|effect| match effect {
        Effect::Tell(Event::Breaker { server: 1, is_open }) => Some(is_open),
        _ => None,
    });
    told.collect()
}

/// Two of three servers serve, and one of these answers nothing for a timeout.
fn silent() -> Bench {
    let mut bench = Bench::new(3, settings(3));
    for server in [0, 1] {
        bench.dial(server, Login::default());
        answer(&mut bench, server);
    }
    for name in [b"x", b"y"] {
        acquire(&mut bench, name);
        answer(&mut bench, 0);
    }
    bench.pass(Duration::from_millis(500));
    assert_eq!(told(&mut bench), [true]);
    bench
}

#[test]
fn a_server_that_does_not_answer_is_left_out_until_it_has_answered_a_handshake() {
    let mut bench = silent();
    bench.said(1);
    let (is_asked, id) = attempt(&mut bench, 1);
    let report = bench.machine.report(id, bench.now).nth(1).unwrap();
    assert!(!is_asked && matches!(report.said, Said::LeftOut(_)));
    assert!(bench.machine.is_left_out_for(1, bench.now).is_some());
    bench.close(1);
    bench.dial(1, Login::default());
    assert!(told(&mut bench).is_empty());
    answer(&mut bench, 1);
    assert_eq!(told(&mut bench), [false]);
    assert!(attempt(&mut bench, 1).0);
}

#[test]
fn an_answer_that_comes_when_nobody_needs_it_any_more_is_one() {
    let mut bench = silent();
    answer(&mut bench, 1);
    assert_eq!(told(&mut bench), [false]);
    assert!(attempt(&mut bench, 1).0);
}

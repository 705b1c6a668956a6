use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::super::tests::{Bench, bulk, error, request_of, stamp};
use super::super::{FENCED, Fault, Kind};
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

#[test]
fn no_other_is_asked_where_the_first_refuses() {
    let mut bench = Bench::connected(3);
    let id = request(&mut bench);
    let question = asked(&mut bench)[FIRST].pop().unwrap();
    let held = [bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0")];
    let items = [stamp(&question)].into_iter().chain(held);
    bench.reply(FIRST, &Frame::Array(items.collect()));
    assert_eq!(is_granted(&mut bench, id), Some(false));
    assert_eq!(counts(&asked(&mut bench)), [0; 3]);
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

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use leasehold_resp::Frame;

use super::super::tests::{Bench, acquire, bulk, error, stamp};
use super::super::{FENCED, Fault};
use super::*;

/// A lease in whose place another asks, when it ends, and the question.
fn begun(bench: &mut Bench) -> (LeaseId, LeaseId, Moment, Vec<Bytes>) {
    let id = acquire(bench, b"a");
    bench.answer(0, |command| vec![stamp(command)]);
    let turn = bench.machine.turn(id, &FENCED, Box::default(), bench.now);
    let (other, until) = turn.unwrap();
    assert!(!bench.machine.state(id).unwrap().is_held());
    (id, other, until, bench.said(0).pop().unwrap())
}

fn is_answered(bench: &mut Bench, other: LeaseId) -> Option<bool> {
    match bench.machine.poll_acquire(other, &Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer.is_ok()),
        Poll::Pending => None,
    }
}

/// What becomes of the lease where the other is refused so, and whether it is held then.
fn down(refuse: impl FnOnce(&mut Bench, &[Bytes])) -> (TurnedDown, bool) {
    let mut bench = Bench::connected(1);
    let (id, other, until, question) = begun(&mut bench);
    assert_eq!(is_answered(&mut bench, other), None);
    refuse(&mut bench, &question);
    assert_eq!(is_answered(&mut bench, other), Some(false));
    let down = bench.machine.turned_down(id, other, until, bench.now);
    bench.machine.forget(other, bench.now);
    let state = bench.machine.state(id).unwrap();
    assert!(!state.is_held() || state.until() == Some(until));
    (down, state.is_held())
}

fn refuse_by(text: &'static str) -> impl FnOnce(&mut Bench, &[Bytes]) {
    move |bench, _| {
        bench.reply(0, &error(text));
        bench.answer(0, |command| vec![bulk(command.last().unwrap())]);
    }
}

#[test]
fn another_takes_the_place_of_a_lease_and_nothing_is_left_of_that() {
    let mut bench = Bench::connected(1);
    let (id, other, _, question) = begun(&mut bench);
    bench.reply(0, &stamp(&question));
    assert_eq!(is_answered(&mut bench, other), Some(true));
    bench.machine.turned(id, other, bench.now);
    bench.machine.forget(id, bench.now);
    assert!(bench.said(0).is_empty() && bench.machine.len() == 1);
    assert!(bench.machine.state(other).unwrap().is_held());
}

#[test]
fn a_lease_stays_where_another_was_given_nothing_in_its_place_for_sure() {
    let held = |bench: &mut Bench, question: &[Bytes]| {
        let holder = [bulk("held"), bulk("x"), Frame::Integer(70), bulk("0")];
        let items = [stamp(question)].into_iter().chain(holder);
        bench.reply(0, &Frame::Array(items.collect()));
    };
    let stays = (TurnedDown::Stays, true);
    assert_eq!(down(held), stays);
    assert_eq!(down(refuse_by("OOM command not allowed")), stays);
    let gone = |bench: &mut Bench, question: &[Bytes]| {
        let items = [stamp(question), Frame::Integer(0)];
        bench.reply(0, &Frame::Array(items.into()));
    };
    assert_eq!(down(gone), (TurnedDown::Lost(Loss::Gone), false));
}

/// Both may be what the server has.
#[test]
fn a_lease_is_lost_where_nobody_knows_whether_another_took_its_place() {
    let unknown = (TurnedDown::Unknown, false);
    let ended = |bench: &mut Bench, _: &[Bytes]| {
        bench.machine.disconnected(0, Fault::Closed, bench.now);
    };
    assert_eq!(down(ended), unknown);
    assert_eq!(down(|bench, _| bench.pass(bench.machine.settings().timeout)), unknown);
    assert_eq!(down(refuse_by("ERR who knows")), unknown);
    let mut bench = Bench::connected(1);
    let (id, other, ..) = begun(&mut bench);
    bench.machine.give_up_turn(id, other, bench.now);
    assert!(bench.machine.loss(id, bench.now).is_some());
    assert_eq!(bench.said(0).len(), 2, "both are given back");
}

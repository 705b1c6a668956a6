use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::super::tests::{Bench, bulk, greeting, request, request_of, stamp};
use super::super::{FENCED, Kind, Refusal};
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

/// As shares, groups and what is asked for without scripts.
static PASSED_TO_NOBODY: Kind = Kind { goes_on: false, ..FENCED };

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

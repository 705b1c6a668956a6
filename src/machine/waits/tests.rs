use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::super::Refusal;
use super::super::tests::{Bench, bulk, greeting, request, stamp};
use super::*;
use crate::policy::Wait;

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

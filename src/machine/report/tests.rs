use std::task::{Context, Poll, Waker};

use super::super::tests::{Bench, bulk, error, plain};
use super::*;

/// A request for a plain lock is refused; what it is told of the holder.
fn refused(by: fn(&[u8]) -> Frame) -> Option<(Vec<u8>, i64)> {
    let mut bench = Bench::connected(1);
    let id = plain(&mut bench, b"a");
    let context = Context::from_waker(Waker::noop());
    bench.answer(0, |command| match &command[0][..] {
        b"SET" => vec![Frame::Null],
        b"ECHO" => vec![bulk(&command[1])],
        word => vec![by(word)],
    });
    assert!(matches!(bench.machine.poll_acquire(id, &context), Poll::Ready(Err(_))));
    match bench.machine.report(id, bench.now).next().unwrap().said {
        Said::Held(holder) => holder.map(|(value, pttl)| (value.to_vec(), pttl)),
        _ => panic!("it is held"),
    }
}

#[test]
fn the_holder_of_a_plain_lock_is_asked_for_where_the_request_ends_by_it() {
    let told = refused(|word| if word == b"GET" { bulk("x") } else { Frame::Integer(70) });
    assert_eq!(told, Some((b"x".to_vec(), 70)));
    assert_eq!(refused(|_| error("NOPERM no")), None);
    assert_eq!(refused(|word| if word == b"GET" { bulk("x") } else { error("NOPERM no") }), None);
    assert_eq!(refused(|word| if word == b"GET" { Frame::Null } else { Frame::Integer(-2) }), None);
}

#[test]
fn a_connection_that_ends_before_the_holder_is_named_has_refused_anyway() {
    let mut bench = Bench::connected(1);
    let id = plain(&mut bench, b"a");
    let seal = bench.said(0).pop().unwrap();
    bench.reply(0, &Frame::Null);
    bench.reply(0, &bulk(&seal[1]));
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    let answer = bench.machine.report(id, bench.now).next().unwrap();
    assert!(matches!(answer.said, Said::Held(None)));
    bench.machine.forget(id, bench.now);
    assert_eq!(bench.machine.len(), 0, "it was proved that nothing is held");
}

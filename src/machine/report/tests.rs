use std::task::{Context, Poll, Waker};

use super::super::tests::{Bench, acquire, bulk, error, plain, stamp};
use super::*;
use crate::policy::End;

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
        Said::Kept(Kept::Held(value, pttl)) => Some((value.to_vec(), *pttl)),
        Said::Kept(Kept::Taken) => None,
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
    assert!(matches!(answer.said, Said::Kept(Kept::Taken)));
    bench.machine.forget(id, bench.now);
    assert_eq!(bench.machine.len(), 0, "it was proved that nothing is held");
}

/// What was asked before a release has a time of its own, however long ago that was.
#[test]
fn the_time_of_a_release_counts_from_the_release() {
    for is_refused in [false, true] {
        let mut bench = Bench::connected(1);
        let id = acquire(&mut bench, b"a");
        bench.answer(0, |command| vec![stamp(command)]);
        bench.pass(Duration::from_secs(2));
        bench.machine.release(id, bench.now);
        if is_refused {
            bench.answer(0, |_| vec![error("NOPERM no")]);
        }
        bench.pass(Duration::from_millis(510));
        let context = Context::from_waker(Waker::noop());
        assert_eq!(bench.machine.poll_release(id, &context), Poll::Ready(End::Unconfirmed));
        let answer = bench.machine.report(id, bench.now).next().unwrap();
        assert_eq!(answer.round_trip, None);
        match answer.said {
            Said::Refused(_) => assert!(is_refused),
            Said::Late(within, _) => assert_eq!(within, Duration::from_millis(500)),
            _ => panic!("it is refused or late"),
        }
    }
}

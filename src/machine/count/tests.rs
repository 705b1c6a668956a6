use std::task::Waker;

use bytes::Bytes;

use super::super::Fault;
use super::super::report::Said;
use super::super::tests::{Bench, acquire, bulk, error, stamp, text};
use super::*;

const ALL: Duration = Duration::MAX;

/// Two leases of one server.
fn held() -> (Bench, [LeaseId; 2]) {
    let mut bench = Bench::connected(1);
    let ids = [b"a", b"b"].map(|name| {
        let id = acquire(&mut bench, name);
        bench.answer(0, |command| vec![stamp(command)]);
        id
    });
    (bench, ids)
}

fn count(bench: &mut Bench, id: LeaseId) -> Option<u32> {
    let until = bench.machine.counts_until(id, ALL, bench.now);
    bench.machine.count(id, 2, until, bench.now)
}

fn counted(bench: &mut Bench, id: LeaseId, round: u32) -> Poll<Option<u32>> {
    bench.machine.poll_counted(id, round, &mut None, &Context::from_waker(Waker::noop()))
}

/// The extension, the `WAIT` and the seal.
fn said(bench: &mut Bench) -> [Vec<Bytes>; 3] {
    bench.said(0).try_into().unwrap()
}

#[test]
fn replicas_are_counted_behind_an_extension_for_one_caller_at_a_time() {
    let (mut bench, [one, other]) = held();
    let round = count(&mut bench, one).unwrap();
    assert_eq!(count(&mut bench, other), None);
    let [extend, wait, seal] = said(&mut bench);
    assert_eq!(text(&wait), "WAIT 2 250", "half of the timeout");
    bench.reply(0, &stamp(&extend));
    bench.reply(0, &Frame::Integer(1));
    assert_eq!(counted(&mut bench, one, round), Poll::Pending, "nothing proves it");
    bench.reply(0, &bulk(&seal[1]));
    assert_eq!(counted(&mut bench, one, round), Poll::Ready(Some(1)));
    // A right that is missing, and then a connection that ends.
    let round = count(&mut bench, other).unwrap();
    let [extend, _, seal] = said(&mut bench);
    bench.reply(0, &stamp(&extend));
    bench.reply(0, &error("NOPERM no permissions to run the 'wait' command"));
    bench.reply(0, &bulk(&seal[1]));
    assert_eq!(counted(&mut bench, other, round), Poll::Ready(None));
    let round = count(&mut bench, one).unwrap();
    said(&mut bench);
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    assert_eq!(counted(&mut bench, one, round), Poll::Ready(None));
    assert_eq!(bench.machine.poll_turn(&Context::from_waker(Waker::noop())), Poll::Ready(()));
}

#[test]
fn what_a_server_counts_that_did_not_extend_the_lease_counts_for_nothing() {
    for refusal in ["NOSCRIPT No matching script. Please use EVAL.", "LOADING of a test"] {
        let (mut bench, [one, _]) = held();
        let round = count(&mut bench, one).unwrap();
        let [_, _, seal] = said(&mut bench);
        bench.reply(0, &error(refusal));
        bench.reply(0, &Frame::Integer(2));
        bench.reply(0, &bulk(&seal[1]));
        assert_eq!(counted(&mut bench, one, round), Poll::Ready(None));
        let said = bench.machine.report(one, bench.now).next().unwrap().said;
        assert!(matches!(said, Said::Refused(b"LOADING of a test")) || refusal.starts_with("NO"));
    }
}

/// Of an extension that failed before, and of one that has begun since.
#[test]
fn a_count_that_comes_to_nothing_is_reported_with_its_own_answers() {
    let (mut bench, [one, _]) = held();
    bench.machine.extend(one, bench.now);
    bench.answer(0, |command| {
        vec![if command[0] == "ECHO" { bulk(&command[1]) } else { error("LOADING of a test") }]
    });
    let round = count(&mut bench, one).unwrap();
    let [extend, _, seal] = said(&mut bench);
    bench.reply(0, &stamp(&extend));
    bench.reply(0, &error("NOPERM of a test"));
    bench.reply(0, &bulk(&seal[1]));
    bench.machine.extend(one, bench.now);
    assert_eq!(counted(&mut bench, one, round), Poll::Ready(None));
    let said: Vec<_> = bench.machine.report(one, bench.now).map(|server| server.said).collect();
    assert!(matches!(said[..], [Said::Refused(b"NOPERM of a test")]));
}

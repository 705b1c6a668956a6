use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;

use super::super::tests::{Bench, bulk, error, request_of, text};
use super::super::{Alone, FENCED, Fault, Kind, Means, PLAIN, Question, Said};
use super::*;
use crate::policy::{Bounds, Wait};

const CLOCK: u64 = 1_800_000_000_000_000;

static IN_STEPS: Kind = Kind {
    goes_on: false,
    acquire: |question| (PLAIN.acquire)(question),
    read: Answer::of_taken,
    release: |mut question| compare(&mut question, b"PXAT"),
    alone: Some(Alone {
        extend: |mut question| compare(&mut question, b"PX"),
        read: Answer::of_compared,
        repair: |question| (PLAIN.acquire)(question),
        means: Means::STEPS,
    }),
    ..FENCED
};

fn compare(question: &mut Question<'_>, how: &[u8]) {
    let words = [b"SET", question.names.lock(), b"own", b"IFEQ", b"own", how, b"1"];
    question.command.plain(&words);
}

fn request(bench: &mut Bench) -> LeaseId {
    request_of(&IN_STEPS, bench, b"a", Wait::Never, Bounds::default())
}

/// The heads of what a server is asked, but for seals.
fn asked(said: &[Vec<Bytes>]) -> Vec<String> {
    let head = |command: &Vec<Bytes>| {
        let condition = command.iter().find(|word| *word == "NX" || *word == "IFEQ");
        let condition = condition.map(|word| format!(" {}", String::from_utf8_lossy(word)));
        text(&command[..command.len().min(2)]) + &condition.unwrap_or_default()
    };
    said.iter().filter(|it| it[0] != "ECHO").map(head).collect()
}

fn time() -> Frame {
    Frame::Array([bulk("1800000000"), bulk("0")].into())
}

fn ok() -> Frame {
    Frame::Simple("OK".into())
}

/// Answers what was said last with these, and the seals.
fn reply(bench: &mut Bench, server: usize, expected: &[&str], frames: &[Frame]) {
    let said = bench.said(server);
    assert_eq!(asked(&said), expected);
    let mut frames = frames.iter();
    for command in said {
        let frame =
            if command[0] == "ECHO" { bulk(&command[1]) } else { frames.next().unwrap().clone() };
        bench.reply(server, &frame);
    }
}

const COMPARES: &[&str] = &["SET a IFEQ"];
const TAKES: &[&str] = &["SET a NX", "GET {a}:fence", "TIME"];
const DRAWS: &[&str] = &["GET {a}:fence", "TIME"];
const BEGINS: &[&str] = &["SET {a}:fence NX", "SET a IFEQ"];
const MINTS: &[&str] = &["SET {a}:fence IFEQ", "SET a IFEQ"];

fn is_granted(bench: &mut Bench, id: LeaseId) -> Option<bool> {
    match bench.machine.poll_acquire(id, &Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer.is_ok()),
        Poll::Pending => None,
    }
}

#[test]
fn a_token_is_minted_between_the_lock_and_its_proof() {
    let mut bench = Bench::connected(1);
    let id = request(&mut bench);
    reply(&mut bench, 0, COMPARES, &[Frame::Null]);
    reply(&mut bench, 0, TAKES, &[ok(), Frame::Null, time()]);
    assert_eq!(is_granted(&mut bench, id), None);
    reply(&mut bench, 0, BEGINS, &[ok(), ok()]);
    assert_eq!((is_granted(&mut bench, id), bench.machine.token(id)), (Some(true), CLOCK));
    bench.machine.release(id, bench.now);
    reply(&mut bench, 0, &["SET a IFEQ"], &[ok()]);
    // The same connection need not show again that it compares.
    let id = request(&mut bench);
    let before = bulk((CLOCK + 9).to_string());
    reply(&mut bench, 0, TAKES, &[ok(), before, time()]);
    reply(&mut bench, 0, MINTS, &[ok(), ok()]);
    assert_eq!((is_granted(&mut bench, id), bench.machine.token(id)), (Some(true), CLOCK + 10));
}

/// Its release would be refused as well, and repeated, once a second of each try.
#[test]
fn what_a_server_refuses_to_write_is_not_given_back() {
    for word in ["OOM", "MISCONF", "NOREPLICAS", "READONLY"] {
        let mut bench = Bench::connected(1);
        let id = request(&mut bench);
        reply(&mut bench, 0, COMPARES, &[Frame::Null]);
        reply(&mut bench, 0, TAKES, &[error(word), Frame::Null, time()]);
        assert_eq!(is_granted(&mut bench, id), Some(false), "{word}");
        bench.machine.forget(id, bench.now);
        assert_eq!((bench.said(0), bench.machine.len()), (vec![], 0), "{word}");
    }
}

#[test]
fn a_counter_that_has_changed_is_read_again_and_a_lock_that_is_gone_is_not_granted() {
    for is_there in [true, false] {
        let mut bench = Bench::connected(1);
        let id = request(&mut bench);
        reply(&mut bench, 0, COMPARES, &[Frame::Null]);
        reply(&mut bench, 0, TAKES, &[ok(), bulk("5"), time()]);
        reply(&mut bench, 0, MINTS, &[Frame::Null, ok()]);
        reply(&mut bench, 0, DRAWS, &[bulk("6"), time()]);
        assert_eq!(is_granted(&mut bench, id), None);
        let proof = if is_there { ok() } else { Frame::Null };
        reply(&mut bench, 0, MINTS, &[ok(), proof]);
        if !is_there {
            let holder = ["GET a", "PTTL a"];
            reply(&mut bench, 0, &holder, &[bulk("x"), Frame::Integer(70)]);
        }
        assert_eq!(is_granted(&mut bench, id), Some(is_there));
    }
}

#[test]
fn what_is_refused_in_any_step_is_no_grant_and_is_given_back() {
    let no = || error("NOPERM this user has no permissions to run the 'x' command");
    for step in 0..5 {
        let mut bench = Bench::connected(1);
        let id = request(&mut bench);
        let mut frames = [ok(), Frame::Null, time(), ok(), ok()];
        frames[step] = no();
        reply(&mut bench, 0, COMPARES, &[Frame::Null]);
        reply(&mut bench, 0, TAKES, &frames[..3]);
        if step > 2 {
            reply(&mut bench, 0, BEGINS, &frames[3..]);
        }
        assert_eq!(is_granted(&mut bench, id), Some(false), "{step}");
        bench.machine.forget(id, bench.now);
        // The lock may be there, unless that was refused.
        assert_eq!(asked(&bench.said(0)), ["SET a IFEQ"], "{step}");
    }
}

#[test]
fn nothing_is_taken_of_a_server_that_does_not_compare() {
    let mut bench = Bench::connected(1);
    let id = request(&mut bench);
    reply(&mut bench, 0, COMPARES, &[error("ERR syntax error")]);
    assert_eq!(is_granted(&mut bench, id), Some(false));
    let said = bench.machine.report(id, bench.now).next().map(|it| it.said);
    let is_advice = |text: &[u8]| String::from_utf8_lossy(text).contains("Redis 8.4");
    assert!(matches!(said, Some(Said::Refused(text)) if is_advice(text)));
    bench.machine.forget(id, bench.now);
    assert!(bench.said(0).is_empty() && bench.machine.len() == 0);
}

/// What was taken with the first question is not taken again, but minted and proved.
#[test]
fn of_several_servers_one_with_a_larger_counter_leads_to_another_proposal() {
    let mut bench = Bench::connected(3);
    let id = request(&mut bench);
    for server in 0..3 {
        reply(&mut bench, server, COMPARES, &[Frame::Null]);
    }
    let above = bulk((CLOCK + 9).to_string());
    for server in 0..2 {
        reply(&mut bench, server, TAKES, &[ok(), above.clone(), time()]);
    }
    assert_eq!(is_granted(&mut bench, id), None);
    for server in 0..2 {
        reply(&mut bench, server, DRAWS, &[above.clone(), time()]);
        reply(&mut bench, server, MINTS, &[ok(), ok()]);
    }
    assert_eq!((is_granted(&mut bench, id), bench.machine.token(id)), (Some(true), CLOCK + 10));
}

#[test]
fn a_lock_that_is_taken_when_the_connection_ends_is_owed() {
    let mut bench = Bench::connected(1);
    let id = request(&mut bench);
    reply(&mut bench, 0, COMPARES, &[Frame::Null]);
    reply(&mut bench, 0, TAKES, &[ok(), Frame::Null, time()]);
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    bench.pass(Duration::from_millis(600));
    assert_eq!(is_granted(&mut bench, id), Some(false));
    bench.machine.forget(id, bench.now);
    assert_eq!(bench.machine.len(), 1);
}

/// One that asks for the first time stands in no line, so that the release of another of its process called nobody; it rested
/// for seconds, as where the server tells of the key.
#[test]
fn one_that_was_refused_once_asks_again_soon_whatever_the_server_is_to_tell() {
    let mut bench = Bench::connected(1);
    bench.is_told = true;
    bench.machine.subscribe(bench.now);
    bench.answer(0, |command| {
        vec![match &command[0][..] {
            b"SUBSCRIBE" => {
                let channel = Frame::Bulk(command[1].clone());
                Frame::Push([bulk("subscribe"), channel, Frame::Integer(1)].into())
            }
            b"ECHO" => bulk(&command[1]),
            _ => ok(),
        }]
    });
    let holder = request(&mut bench);
    reply(&mut bench, 0, COMPARES, &[Frame::Null]);
    reply(&mut bench, 0, TAKES, &[ok(), Frame::Null, time()]);
    reply(&mut bench, 0, BEGINS, &[ok(), ok()]);
    let id = request_of(&IN_STEPS, &mut bench, b"a", Wait::Forever, Bounds::default());
    reply(&mut bench, 0, TAKES, &[Frame::Null, Frame::Null, time()]);
    let looked = bench.said(0);
    assert_eq!(asked(&looked), ["CLIENT CACHING", "GET a", "PTTL a"]);
    bench.machine.release(holder, bench.now);
    let mut said = [ok(), bulk("x"), Frame::Integer(60_000)].into_iter();
    for command in looked {
        let is_seal = command[0] == "ECHO";
        let frame = if is_seal { bulk(&command[1]) } else { said.next().unwrap() };
        bench.reply(0, &frame);
    }
    let lease = bench.machine.leases.get(id).unwrap();
    assert!(matches!(lease.phase, Phase::Resting { .. }), "{:?}", lease.phase);
    assert!(lease.due.since(bench.now) < Duration::from_millis(200), "{:?}", lease.due);
}

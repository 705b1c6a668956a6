use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::super::tests::{Bench, bulk, error, greeting, request, settings, stamp, text};
use super::super::{Fault, Login};
use crate::policy::Wait;

fn reply(command: &[Bytes]) -> Frame {
    match &command[0][..] {
        b"SUBSCRIBE" => {
            let channel = Frame::Bulk(command[1].clone());
            Frame::Push([bulk("subscribe"), channel, Frame::Integer(1)].into())
        }
        b"EVALSHA" | b"EVAL" => {
            let holder = [bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0")];
            Frame::Array([stamp(command)].into_iter().chain(holder).collect())
        }
        _ => greeting(command, ""),
    }
}

/// What a request says in a second that waits for a lock.
fn said(mut by: impl FnMut(&[Bytes], usize) -> Frame) -> Vec<String> {
    let mut bench = Bench::new(1, settings(1));
    bench.is_told = true;
    bench.dial(0, Login::default());
    bench.answer(0, |command| vec![by(command, 0)]);
    request(&mut bench, b"a", Wait::Forever);
    let mut said = Vec::new();
    for _ in 0..20 {
        bench.answer(0, |command| {
            if command[0] != "ECHO" {
                said.push(text(&command[..command.len().min(2)]));
            }
            vec![by(command, said.len())]
        });
        bench.pass(Duration::from_millis(50));
    }
    assert!(bench.faults().is_empty() && bench.machine.serving() == 1);
    said
}

/// An error that came twice: seed 17733303 of the simulation.
#[test]
fn a_confirmation_whose_place_an_error_has_taken_ends_the_connection() {
    let mut bench = Bench::new(1, settings(1));
    bench.is_told = true;
    bench.dial(0, Login::default());
    bench.answer(0, |command| vec![reply(command)]);
    request(&mut bench, b"a", Wait::Forever);
    for _ in 0..5 {
        bench.answer(0, |command| match &command[0][..] {
            b"SUBSCRIBE" => vec![error("NOSCRIPT No matching script."), reply(command)],
            _ => vec![reply(command)],
        });
        bench.pass(Duration::from_millis(50));
    }
    assert!(matches!(bench.faults()[..], [Fault::Misplaced]), "{:?}", bench.faults());
}

#[test]
fn a_right_that_is_missing_is_known_for_as_long_as_the_connection_lasts() {
    for right in ["tracking", "caching"] {
        is_known_as_missing(right);
    }
}

fn is_known_as_missing(right: &str) {
    let denied =
        &format!("NOPERM this user has no permissions to run the 'client|{right}' command");
    let mut bench = Bench::new(1, settings(1));
    bench.is_told = true;
    bench.dial(0, Login::default());
    bench.answer(0, |command| vec![reply(command)]);
    request(&mut bench, b"a", Wait::Forever);
    assert_eq!(bench.machine.denied(0), None);
    for _ in 0..4 {
        bench.answer(0, |command| match &command[0][..] {
            b"CLIENT" if command[1].eq_ignore_ascii_case(right.as_bytes()) => {
                vec![error(denied)]
            }
            // Without tracking there is nothing to be told.
            b"CLIENT" if right == "tracking" => vec![error("ERR not in tracking mode")],
            _ => vec![reply(command)],
        });
        bench.pass(Duration::from_millis(50));
    }
    assert_eq!(bench.machine.denied(0), Some((None, denied.as_bytes())));
    assert_eq!(bench.machine.channel(0), None, "a waiter there would count on being told");
    bench.close(0);
    assert_eq!(bench.machine.denied(0), None);
}

#[test]
fn a_server_tells_of_the_lock_from_the_first_refusal_on() {
    let missing = "NOSCRIPT No matching script. Please use EVAL.";
    let said = said(|command, number| match (&command[0][..], number) {
        (b"EVALSHA", 6) => error(missing),
        _ => reply(command),
    });
    let asks = ["SUBSCRIBE", "CLIENT TRACKING", "CLIENT CACHING"];
    let heads = ["EVALSHA"].into_iter().chain(asks).chain(["CLIENT CACHING", "EVALSHA"]);
    // What is asked again is watched again: the question that did not run took that with it.
    let heads = heads.chain(["CLIENT CACHING", "EVAL"]);
    let is_it = |(said, head): (&String, &str)| said.starts_with(head);
    assert!(said.len() == 8 && said.iter().zip(heads).all(is_it), "{said:?}");
}

#[test]
fn a_server_that_speaks_resp2_is_asked_again_and_again() {
    let said = said(|command, _| match &command[0][..] {
        b"HELLO" => error("ERR unknown command 'HELLO'"),
        _ => reply(command),
    });
    let is_question = |said: &String| said.starts_with("EVALSHA ");
    assert!(said.len() > 3 && said.iter().all(is_question), "{said:?}");
}

/// What brings a script stands before the question then, and would be what is watched.
#[test]
fn where_scripts_are_brought_by_themselves_no_key_is_watched() {
    let mut bench = Bench::connected(1);
    let now = bench.now;
    let link = &mut bench.machine.links[0];
    link.talk.told.is_tracking = true;
    assert!(link.watch_next(now));
    link.talk.form = super::Form::Loaded;
    let said = link.talk.out.len();
    assert!(!link.watch_next(now));
    assert_eq!(link.talk.out.len(), said);
}

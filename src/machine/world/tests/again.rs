use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::super::super::tests::{Bench, acquire, bulk, error, greeting, stamp, text};
use super::super::super::{Login, Script};
use super::super::*;
use crate::policy::{End, LeaseState, Term};

const MISSING: &str = "NOSCRIPT No matching script. Please use EVAL.";
const MORE: &str = "AGAIN more entries are to be taken out";

/// The one script that is called, and how.
fn call(bench: &mut Bench) -> (String, Vec<Bytes>) {
    let mut said = bench.said(0);
    said.retain(|command| command[0] != "ECHO");
    let [command] = &said[..] else { panic!("{said:?}") };
    (text(&command[..2]), command.clone())
}

/// Refuses what was called last, and the seal behind it as such.
fn refuse(bench: &mut Bench, why: &str) {
    bench.reply(0, &error(why));
    let seal = bench.said(0).into_iter().find(|command| command[0] == "ECHO").unwrap();
    bench.reply(0, &bulk(&seal[1]));
}

fn is_granted(bench: &mut Bench, id: LeaseId) -> bool {
    let context = Context::from_waker(Waker::noop());
    bench.machine.poll_acquire(id, &context) == Poll::Ready(Ok(()))
}

#[test]
fn a_missing_script_is_sent_itself_and_the_lease_counts_from_the_first_question() {
    let mut bench = Bench::connected(1);
    let id = acquire(&mut bench, b"a");
    let asked_at = bench.now;
    let (how, asked) = call(&mut bench);
    assert!(how.starts_with("EVALSHA "), "{how}");
    bench.now = bench.now.after(Duration::from_millis(100));
    refuse(&mut bench, MISSING);
    let (how, again) = call(&mut bench);
    assert_eq!(how, "EVAL return 1");
    assert_eq!(again[2..again.len() - 1], asked[2..asked.len() - 1]);
    bench.reply(0, &stamp(&again));
    assert!(is_granted(&mut bench, id));
    let until = bench.machine.state(id).and_then(LeaseState::until).unwrap();
    assert_eq!(until, Term::new(Duration::from_secs(10), None).unwrap().deadline(asked_at));
    // Afterwards it is called by its digest.
    bench.machine.release(id, bench.now);
    assert!(call(&mut bench).0.starts_with("EVALSHA "));
}

#[test]
fn a_script_that_is_missing_though_it_was_sent_is_not_sent_for_ever() {
    let mut bench = Bench::connected(1);
    let id = acquire(&mut bench, b"a");
    call(&mut bench);
    refuse(&mut bench, MISSING);
    assert_eq!(call(&mut bench).0, "EVAL return 1");
    refuse(&mut bench, MISSING);
    assert!(bench.said(0).is_empty());
    assert!(!is_granted(&mut bench, id) && bench.machine.len() == 1);
}

#[test]
fn a_server_that_knows_no_digests_is_sent_the_scripts_for_as_long_as_the_connection_lasts() {
    let mut bench = Bench::connected(1);
    for refusal in ["ERR unknown command 'EVALSHA'", ""] {
        let id = acquire(&mut bench, b"a");
        if !refusal.is_empty() {
            call(&mut bench);
            refuse(&mut bench, refusal);
        }
        let (how, again) = call(&mut bench);
        assert_eq!(how, "EVAL return 1");
        bench.reply(0, &stamp(&again));
        assert!(is_granted(&mut bench, id));
        bench.machine.release(id, bench.now);
        let (how, release) = call(&mut bench);
        assert_eq!(how, "EVAL return 3");
        bench.reply(0, &stamp(&release));
    }
}

#[test]
fn a_server_that_knows_no_eval_is_sent_the_digests_behind_what_loads_them() {
    let mut bench = Bench::connected(1);
    let id = acquire(&mut bench, b"a");
    call(&mut bench);
    refuse(&mut bench, MISSING);
    assert_eq!(call(&mut bench).0, "EVAL return 1");
    refuse(&mut bench, "ERR unknown command 'EVAL'");
    let answer_loaded = |bench: &mut Bench, text: &str| {
        let said = bench.said(0);
        let [load, called] = &said[..] else { panic!("{said:?}") };
        assert_eq!(super::super::super::tests::text(load), format!("SCRIPT LOAD {text}"));
        assert_eq!(called[0], "EVALSHA");
        bench.reply(0, &bulk(b"whatever that is"));
        bench.reply(0, &stamp(called));
    };
    answer_loaded(&mut bench, "return 1");
    assert!(is_granted(&mut bench, id));
    bench.machine.release(id, bench.now);
    answer_loaded(&mut bench, "return 3");
    // On another connection it may be another server.
    bench.close(0);
    bench.dial(0, Login::default());
    bench.answer(0, |command| vec![greeting(command, "")]);
    acquire(&mut bench, b"a");
    assert!(call(&mut bench).0.starts_with("EVALSHA "));
}

/// What it says of them: that it does not know them.
#[test]
fn a_script_that_cannot_be_loaded_is_refused_for_good() {
    let mut bench = Bench::connected(1);
    let id = acquire(&mut bench, b"a");
    call(&mut bench);
    refuse(&mut bench, MISSING);
    call(&mut bench);
    refuse(&mut bench, "ERR unknown command 'EVAL'");
    assert_eq!(bench.said(0).len(), 2);
    bench.reply(0, &error("ERR unknown command 'SCRIPT'"));
    refuse(&mut bench, MISSING);
    assert!(bench.said(0).is_empty());
    let context = Context::from_waker(Waker::noop());
    assert!(matches!(bench.machine.poll_acquire(id, &context), Poll::Ready(Err(_))));
}

/// What no lock needs.
fn question() -> super::super::super::Call {
    super::super::super::Call {
        script: Some(Script { text: "return 9,\nredis.call('TIME')", digest: &[b'9'; 40] }),
        is_whole: false,
        keys: Box::new([b"k"[..].into()]),
        words: Box::default(),
        acts: true,
        changes: |_| true,
        watched: None,
    }
}

fn unscripted(line: u8) -> String {
    format!("ERR This Redis command is not allowed from script script: 9, on @user_script:{line}.")
}

/// On another connection to it too: a release may be the first that is said there.
#[test]
fn where_no_script_may_ask_for_the_time_each_has_another_clock() {
    let mut bench = Bench::connected(1);
    let clocked = "EVAL local function clock() end return";
    let call_id = bench.machine.call(0, question(), bench.now);
    assert!(call(&mut bench).0.starts_with("EVALSHA "));
    refuse(&mut bench, &unscripted(2));
    let (how, again) = call(&mut bench);
    assert_eq!(how, format!("{clocked} 9,\nclock()"));
    bench.reply(0, &stamp(&again));
    let context = Context::from_waker(Waker::noop());
    assert!(bench.machine.poll_call(call_id, &context).is_ready());
    let id = acquire(&mut bench, b"a");
    let (how, asked) = call(&mut bench);
    assert_eq!(how, format!("{clocked} 1"));
    bench.reply(0, &stamp(&asked));
    assert!(is_granted(&mut bench, id));
    bench.close(0);
    bench.dial(0, Login::default());
    bench.answer(0, |command| vec![greeting(command, "")]);
    bench.machine.release(id, bench.now);
    assert_eq!(call(&mut bench).0, format!("{clocked} 3"));
}

#[test]
fn a_command_that_no_script_may_call_is_refused_for_good() {
    for (line, asked) in [(1, 1), (3, 1), (2, 2)] {
        let mut bench = Bench::connected(1);
        let ids = [(); 2].map(|()| bench.machine.call(0, question(), bench.now));
        // Both are on the way before either is refused.
        for _ in 0..asked {
            let said = bench.said(0);
            assert_eq!(said.iter().filter(|it| it[0].starts_with(b"EVAL")).count(), 2);
            (0..2).for_each(|_| bench.reply(0, &error(&unscripted(line))));
            let seal = bench.said(0).into_iter().find(|command| command[0] == "ECHO");
            seal.into_iter().for_each(|seal| bench.reply(0, &bulk(&seal[1])));
        }
        let context = Context::from_waker(Waker::noop());
        let refused = |id| matches!(bench.machine.poll_call(id, &context), Poll::Ready(_));
        assert!(ids.map(refused).iter().all(|it| *it), "{line}");
    }
}

#[test]
fn a_script_is_called_until_it_has_done_its_work() {
    let mut bench = Bench::connected(1);
    let id = acquire(&mut bench, b"a");
    for _ in 0..5 {
        call(&mut bench);
        refuse(&mut bench, MORE);
    }
    let (_, again) = call(&mut bench);
    bench.reply(0, &stamp(&again));
    assert!(is_granted(&mut bench, id));
}

/// It would have nothing of the lease until that is renewed.
#[test]
fn a_slow_server_that_lacks_the_script_is_asked_for_what_the_others_have_granted() {
    let mut bench = Bench::connected(3);
    let id = acquire(&mut bench, b"a");
    for server in 0..2 {
        bench.answer(server, |command| vec![stamp(command)]);
    }
    assert!(is_granted(&mut bench, id));
    let asked = bench.said(2).pop().unwrap();
    bench.reply(2, &error(MISSING));
    let seal = bench.said(2).pop().unwrap();
    bench.reply(2, &bulk(&seal[1]));
    let again = bench.said(2).pop().unwrap();
    assert_eq!(text(&again[..2]), "EVAL return 1");
    assert_eq!(again[2..again.len() - 1], asked[2..asked.len() - 1]);
}

#[test]
fn what_nobody_waits_for_is_not_asked_again_and_a_release_is() {
    let mut bench = Bench::connected(1);
    let id = acquire(&mut bench, b"a");
    call(&mut bench);
    bench.machine.forget(id, bench.now);
    call(&mut bench);
    bench.reply(0, &error(MISSING));
    bench.reply(0, &error(MISSING));
    let seal = bench.said(0);
    let [seal] = &seal[..] else { panic!("{seal:?}") };
    bench.reply(0, &bulk(&seal[1]));
    assert_eq!((bench.said(0).len(), bench.machine.len()), (0, 0));

    let id = acquire(&mut bench, b"a");
    let (_, asked) = call(&mut bench);
    bench.reply(0, &stamp(&asked));
    bench.machine.forget(id, bench.now);
    call(&mut bench);
    refuse(&mut bench, MISSING);
    let (how, again) = call(&mut bench);
    assert_eq!(how, "EVAL return 3");
    bench.reply(0, &Frame::Array([stamp(&again), Frame::Integer(0)].into()));
    assert_eq!(bench.machine.len(), 0);
}

#[test]
fn renewals_in_one_command_go_out_again_in_one() {
    let mut bench = Bench::connected(1);
    let ids = [b"a", b"b"].map(|name| {
        let id = acquire(&mut bench, name);
        let (_, asked) = call(&mut bench);
        bench.reply(0, &stamp(&asked));
        id
    });
    bench.pass(Duration::from_millis(3500));
    let (how, asked) = call(&mut bench);
    assert!(how.starts_with("EVALSHA ") && asked[2] == "2", "{}", text(&asked));
    refuse(&mut bench, MISSING);
    let (how, again) = call(&mut bench);
    assert_eq!(how, "EVAL return 2");
    assert_eq!(again[2..again.len() - 1], asked[2..asked.len() - 1]);
    bench.reply(0, &stamp(&again));
    bench.pass(Duration::from_secs(1));
    let is_held = |id| bench.machine.state(id).is_some_and(LeaseState::is_held);
    assert!(ids.into_iter().all(is_held));
    for id in ids {
        bench.machine.release(id, bench.now);
    }
    bench.answer(0, |command| vec![stamp(command)]);
    let context = Context::from_waker(Waker::noop());
    let ends = ids.map(|id| bench.machine.poll_release(id, &context));
    assert_eq!(ends, [Poll::Ready(End::Released); 2]);
}

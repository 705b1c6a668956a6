use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::super::super::tests::{Bench, acquire, error, greeting, request, settings, stamp};
use super::super::super::{Fault, Login};
use super::super::*;
use crate::policy::Wait;

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn bench(servers: usize) -> Bench {
    let mut bench = Bench::new(servers, settings(servers));
    for server in 0..servers {
        bench.dial(server, Login::default());
        bench.answer(server, reply);
    }
    bench
}

fn reply(command: &[Bytes]) -> Vec<Frame> {
    vec![if command[0] == "EVALSHA" { stamp(command) } else { greeting(command, "") }]
}

fn answer(bench: &mut Bench, server: usize) {
    bench.answer(server, reply);
}

fn is_over(bench: &mut Bench) -> bool {
    bench.machine.poll_shut_down(&context()).is_ready()
}

#[test]
fn all_that_wait_are_refused_and_what_is_held_is_lost_and_given_back() {
    let mut bench = bench(1);
    let held = acquire(&mut bench, b"a");
    answer(&mut bench, 0);
    let asking = request(&mut bench, b"b", Wait::Forever);
    let resting = request(&mut bench, b"c", Wait::Forever);
    bench.said(0);
    bench.reply(0, &error("ERR no"));
    let ended = bench.machine.shut_down(bench.now);
    assert_eq!(ended, [(held, "a".to_owned())]);
    let later = acquire(&mut bench, b"d");
    for id in [asking, resting, later] {
        let refused = bench.machine.poll_acquire(id, &context());
        assert_eq!(refused, Poll::Ready(Err(Refusal::ShutDown)));
    }
    assert_eq!(bench.machine.loss(held, bench.now), Some(Loss::ShutDown));
    let is_told = bench.machine.poll_lost(held, &mut None, &context(), bench.now).is_ready();
    assert!(is_told && !is_over(&mut bench));
    assert_eq!(bench.machine.shut_down(bench.now).len(), 1, "it is not free yet");
}

#[test]
fn it_ends_once_each_server_that_can_be_reached_has_answered() {
    let mut bench = bench(3);
    acquire(&mut bench, b"a");
    (0..3).for_each(|server| answer(&mut bench, server));
    bench.machine.shut_down(bench.now);
    answer(&mut bench, 0);
    assert_eq!(bench.machine.unreleased(bench.now).count(), 1);
    answer(&mut bench, 1);
    assert_eq!(bench.machine.unreleased(bench.now).count(), 0);
    assert!(!is_over(&mut bench), "the third may answer yet");
    bench.machine.disconnected(2, Fault::Closed, bench.now);
    assert!(!is_over(&mut bench), "it may come back");
    bench.pass(Duration::from_secs(1));
    bench.machine.disconnected(2, Fault::Undialled { is_lasting: false }, bench.now);
    assert!(is_over(&mut bench));
    bench.dial(2, Login::default());
    let mut stamps = Vec::new();
    bench.answer(2, |command| {
        let reply = reply(command);
        if command[0] != "EVALSHA" {
            return reply;
        }
        stamps.extend(reply);
        Vec::new()
    });
    assert!(!is_over(&mut bench), "it is there, and is owed the release");
    stamps.iter().for_each(|stamp| bench.reply(2, stamp));
    assert!(is_over(&mut bench));
}

#[test]
fn a_release_that_is_refused_goes_out_again_until_it_is_answered() {
    let mut bench = bench(1);
    let id = acquire(&mut bench, b"a");
    answer(&mut bench, 0);
    bench.machine.shut_down(bench.now);
    let mut refusals = 5;
    for _ in 0..10 {
        bench.answer(0, |command| {
            if command[0] == "EVALSHA" && refusals > 0 {
                refusals -= 1;
                return vec![error("BUSY a script runs")];
            }
            reply(command)
        });
        bench.pass(Duration::from_millis(200));
    }
    assert!(refusals == 0 && is_over(&mut bench));
    assert_eq!(bench.machine.unreleased(bench.now).count(), 0);
    // Its guard may outlive all that.
    assert_eq!(bench.machine.loss(id, bench.now), Some(Loss::ShutDown));
}

/// How long a machine that is shut down at the latest names a lock, whose server is away from here on.
fn is_named_for(mut bench: Bench, id: LeaseId) -> Duration {
    let began = bench.now;
    bench.close(0);
    while bench.machine.loss(id, bench.now).is_none() {
        bench.pass(Duration::from_millis(100));
    }
    bench.machine.forget(id, bench.now);
    while bench.machine.unreleased(bench.now).count() > 0 {
        bench.pass(Duration::from_millis(100));
    }
    bench.now.since(began)
}

/// Ten seconds of a lease, twice: the last renewal that found no connection is taken for one that was sent.
#[test]
fn a_lock_whose_key_has_ended_by_itself_is_not_named() {
    let mut bench = bench(1);
    let id = acquire(&mut bench, b"a");
    answer(&mut bench, 0);
    let named = is_named_for(bench, id);
    assert!(named > Duration::from_secs(10) && named < Duration::from_secs(22), "{named:?}");
}

/// It may arrive yet, and let the key live for longer.
#[test]
fn a_lock_with_an_extension_under_way_is_named_until_none_can_arrive() {
    let mut bench = bench(1);
    let id = acquire(&mut bench, b"a");
    answer(&mut bench, 0);
    while bench.said(0).iter().all(|command| command[0] != "EVALSHA") {
        bench.pass(Duration::from_millis(100));
    }
    let named = is_named_for(bench, id);
    assert!(named > Duration::from_secs(60), "{named:?}");
}

/// The question may arrive yet, and make the key.
#[test]
fn a_lock_with_a_question_under_way_is_named_until_none_can_arrive() {
    let mut bench = bench(1);
    let id = acquire(&mut bench, b"a");
    bench.said(0);
    bench.close(0);
    bench.machine.forget(id, bench.now);
    bench.pass(Duration::from_secs(30));
    assert_eq!(bench.machine.unreleased(bench.now).count(), 1);
    bench.pass(Duration::from_secs(41));
    assert_eq!(bench.machine.unreleased(bench.now).count(), 0);
}

/// Its answer came so late that it may have been sent long before it was carried out.
#[test]
fn a_lock_whose_extension_took_long_is_named_until_none_can_arrive() {
    let mut bench = bench(1);
    let id = acquire(&mut bench, b"a");
    answer(&mut bench, 0);
    let mut extension = Vec::new();
    while extension.is_empty() {
        bench.pass(Duration::from_millis(100));
        extension = bench.said(0).into_iter().filter(|it| it[0] == "EVALSHA").collect();
    }
    bench.now = bench.now.after(Duration::from_millis(1100));
    bench.reply(0, &stamp(&extension[0]));
    let named = is_named_for(bench, id);
    assert!(named > Duration::from_secs(60), "{named:?}");
}

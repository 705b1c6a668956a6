use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;

use super::super::tests::{Bench, ROUTING, bounded, error, greeting, settings, stamp};
use super::super::{LeaseId, Login, Routing};
use super::*;
use crate::policy::{LeaseState, Loss, Wait};

const SECOND: Duration = Duration::from_secs(1);

/// The one command that is said, whose script does what it was asked.
fn done(bench: &mut Bench) -> Vec<Bytes> {
    let mut said = Vec::new();
    bench.answer(0, |command| {
        said.push(command.to_vec());
        vec![stamp(command)]
    });
    assert_eq!(said.len(), 1, "{said:?}");
    said.remove(0)
}

fn grant(bench: &mut Bench, bounds: Bounds) -> (LeaseId, Vec<Bytes>) {
    let id = bounded(bench, b"a", Wait::Never, bounds);
    let asked = done(bench);
    let context = Context::from_waker(Waker::noop());
    assert!(bench.machine.poll_acquire(id, &context).is_ready());
    (id, asked)
}

fn loss(bench: &mut Bench, id: LeaseId) -> Option<Loss> {
    bench.machine.state(id).and_then(LeaseState::loss)
}

#[test]
fn what_is_held_at_least_is_extended_to_the_rest_where_it_is_given_back() {
    let mut bench = Bench::connected(1);
    let digest = |script: crate::machine::Script| Bytes::from_static(script.digest);
    let scripts = bench.machine.settings().scripts;
    let bounds = Bounds { at_least: Some(5 * SECOND), ..Bounds::default() };
    let (id, _) = grant(&mut bench, bounds);
    bench.pass(SECOND);
    bench.machine.release(id, bench.now);
    let said = done(&mut bench);
    assert_eq!((&said[1], &said[5][..]), (&digest(scripts.extend), &b"4000"[..]));
    bench.machine.forget(id, bench.now);
    assert_eq!(bench.machine.len(), 0);
    // Behind its time, it is free at once; and so is what nobody was told of.
    let (id, _) = grant(&mut bench, Bounds { at_least: Some(SECOND), ..bounds });
    bench.pass(SECOND);
    bench.machine.forget(id, bench.now);
    assert_eq!(done(&mut bench)[1], digest(scripts.release));
    let id = bounded(&mut bench, b"a", Wait::Never, bounds);
    done(&mut bench);
    bench.machine.forget(id, bench.now);
    assert_eq!(done(&mut bench)[1], digest(scripts.release));
}

#[test]
fn a_lease_ends_at_its_limit_and_is_not_renewed_for_what_comes_behind_it() {
    let mut bench = Bench::connected(1);
    let bounds = Bounds { at_most: Some(12 * SECOND), ..Bounds::default() };
    let (id, _) = grant(&mut bench, bounds);
    bench.pass(Duration::from_millis(3_500));
    done(&mut bench);
    bench.machine.extend(id, bench.now);
    done(&mut bench);
    bench.pass(Duration::from_millis(8_495));
    assert!(bench.said(0).is_empty() && loss(&mut bench, id).is_none());
    bench.pass(Duration::from_millis(10));
    assert_eq!(loss(&mut bench, id), Some(Loss::HeldLongest));
    bench.machine.forget(id, bench.now);
    done(&mut bench);
}

#[test]
fn a_lock_whose_lease_ends_by_itself_is_left_to_its_delay() {
    let mut bench = Bench::connected(1);
    let bounds = Bounds { lock_delay: Some(SECOND), ..Bounds::default() };
    let (id, asked) = grant(&mut bench, bounds);
    assert!(asked.iter().any(|word| word == "11000"), "{asked:?}");
    bench.machine.forget(id, bench.now);
    done(&mut bench);
    let (id, _) = grant(&mut bench, Bounds { at_most: Some(SECOND), ..bounds });
    bench.pass(SECOND + Duration::from_millis(5));
    assert_eq!(loss(&mut bench, id), Some(Loss::HeldLongest));
    bench.machine.forget(id, bench.now);
    assert!(bench.said(0).is_empty() && bench.machine.len() == 0);
}

#[test]
fn a_lease_that_ends_while_nothing_looks_at_the_machine_was_lost_by_standing_still() {
    let mut bench = Bench::connected(1);
    let (id, _) = grant(&mut bench, Bounds::default());
    assert_eq!(bench.machine.loss(id, bench.now.after(20 * SECOND)), Some(Loss::Suspended));
}

/// While its slot moves, the keys of its release are at two servers.
#[test]
fn a_lock_that_is_held_for_some_time_at_least_stays_taken_where_it_is_given_back_in_pieces() {
    let mut bench = Bench::new(1, settings(1));
    let spell = |question: Question<'_>, what: What, _: usize| {
        let Question { command, owner, ttl_ms, scripts, .. } = question;
        let script = if what == What::Extend { scripts.extend } else { scripts.release };
        command.call(&script, &[b"piece"], &[owner, &Decimal::new(ttl_ms)]);
    };
    bench.machine.routes_by(Routing { spell, ..ROUTING });
    bench.dial(0, Login::default());
    bench.answer(0, |command| vec![greeting(command, "")]);
    let at_least = Some(5 * SECOND);
    let (id, _) = grant(&mut bench, Bounds { at_least, ..Bounds::default() });
    bench.machine.release(id, bench.now);
    bench.said(0);
    bench.reply(0, &error("TRYAGAIN they are apart"));
    let extend = bench.machine.settings().scripts.extend.digest;
    let mut pieces = Vec::new();
    bench.answer(0, |command| {
        pieces.extend((command[0] == "EVALSHA").then(|| command.to_vec()));
        vec![stamp(command)]
    });
    let [piece] = &pieces[..] else { panic!("{pieces:?}") };
    assert_eq!(
        (&piece[1][..], &piece[3][..], &piece[5][..]),
        (extend, &b"piece"[..], &b"5000"[..])
    );
}

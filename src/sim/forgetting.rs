//! Servers that restart without their memory: safety rule 9.

use std::task::{Context, Poll, Waker};

use super::machine::{NOW_MICROS, World};
use crate::machine::{PLAIN, Refusal};
use crate::policy::mutants::{self, Mutant};
use crate::policy::{Setback, Wait};

/// A quorum restarts without its memory, and a holder that stands still does not notice; another may take its lock once
/// the lease has ended. The servers start some milliseconds before or after a full second, and their clocks may be set
/// back then.
fn forget(case: u64, are_set_back: bool) {
    let mut world = World::new(3, 2, case);
    // It has no connection to the former runs, which would show when they ended.
    world.clients[1].is_paused = true;
    world.run_until("links", |world| world.clients[0].machine.serving() == 3);
    let millis = 970 + 3 * case;
    world.run_until("the time", |_| NOW_MICROS.get() % 1_000_000 == millis * 1000);
    let id = world.ask(0, &PLAIN, Wait::Never);
    world.run_until("a grant", |world| world.is_granted(0, id));
    world.clients[0].is_paused = true;
    for server in 0..2 {
        world.servers[server].stop(false);
        world.servers[server].start();
        if are_set_back {
            world.servers[server].step_wall(-5_000_000);
        }
    }
    world.clients[1].is_paused = false;
    world.run_until("links again", |world| world.clients[1].machine.serving() == 3);
    let refused = world.ask(1, &PLAIN, Wait::Never);
    let next = world.ask(1, &PLAIN, Wait::Forever);
    let context = Context::from_waker(Waker::noop());
    let Poll::Ready(Err(refusal)) = world.clients[1].machine.poll_acquire(refused, &context) else {
        panic!("it may be granted")
    };
    let is_quarantined =
        matches!(refusal, Refusal::Setback { setback: Setback::Quarantined(_), .. });
    assert!(is_quarantined, "{refusal:?}");
    world.run_until("a grant", |world| {
        world.check();
        world.is_granted(1, next)
    });
}

#[test]
fn servers_that_may_have_forgotten_leases_do_not_vote_until_these_have_ended() {
    for case in 0..10 {
        forget(case, false);
        forget(case, true);
    }
}

#[test]
fn known_bugs_of_the_restart_quarantine_are_noticed() {
    for (mutant, are_set_back) in [(Mutant::QuarantineShort, false), (Mutant::UptimeUnsigned, true)]
    {
        mutants::set(Some(mutant));
        let is_noticed = |case| std::panic::catch_unwind(|| forget(case, are_set_back)).is_err();
        assert!((0..10).any(is_noticed), "{mutant:?}");
        mutants::set(None);
    }
}

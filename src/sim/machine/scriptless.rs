//! Locks that are taken without scripts, beside clients that take them by scripts.

use super::soak::panics;
use super::*;
use crate::extra::scriptless::in_the_place_of;

const STEPS: u32 = 150_000;

/// Some clients have scripts, and some have none, for some simulated seconds with faults of connections, servers and
/// processes; in the end no lock is left.
fn soak(servers: usize, seed: u32) -> usize {
    let mut world = World::new(servers, 3, seed.into());
    world.latency = [200, 2_000, 50_000][seed as usize / 3 % 3];
    world.harmed = [0, 10, 30][seed as usize % 4 % 3];
    let kind = if seed % 4 < 2 { &FENCED } else { &PLAIN };
    let without = [[true, true, false], [true; 3]][seed as usize / 2 % 2];
    for _ in 0..STEPS {
        world.step();
        world.meddle(servers, seed);
        for (client, is_without) in without.into_iter().enumerate() {
            let kind = if is_without { in_the_place_of(kind) } else { kind };
            world.request(client, kind);
            world.act(client, 1_000);
        }
        world.check();
    }
    world.ends(seed);
    world.granted
}

#[test]
fn no_two_hold_a_lock_that_some_take_without_scripts() {
    for seed in 0..12 {
        let granted = soak([1, 3][seed as usize % 2], seed);
        assert!(granted > 10, "seed {seed}: {granted} granted");
    }
}

/// The lock is lost between the two writes by which it is taken, and another takes it.
fn takes_beside_a_loss(seed: u64) {
    let mut world = World::new(1, 2, seed);
    world.run_until("links", |world| world.clients.iter().all(|it| it.machine.serving() == 1));
    world.servers[0].put_counter("a", 1_800_000_000_000_000);
    let kind = in_the_place_of(&FENCED);
    for client in 0..2 {
        let first = world.ask(client, kind, Wait::Never);
        world.run_until("a grant", |world| world.is_granted(client, first));
        world.clients[client].machine.forget(first, now());
        world.run_until("no key", |world| !world.has_key());
    }
    world.clients[0].leases.clear();
    world.clients[1].leases.clear();
    world.ask(0, kind, Wait::Never);
    let before = world.asked(0);
    for step in 0..60 {
        world.step();
        // With a seal after them, the first write has four commands.
        if step == seed % 20 && (1..=4).contains(&(world.asked(0) - before)) {
            world.forgot_at = Some(now());
            let told = world.servers[0].lose(b"a");
            world.tell(told);
            world.ask(1, kind, Wait::Never);
        }
        (0..2).for_each(|client| world.act(client, u64::MAX));
        world.check();
    }
}

#[test]
fn a_lock_that_is_lost_before_its_token_is_proved_is_not_granted() {
    (0..200).for_each(takes_beside_a_loss);
    mutants::set(Some(Mutant::DrawnWithoutProof));
    let is_found = (0..200).any(|seed| panics(|| takes_beside_a_loss(seed)));
    mutants::set(None);
    assert!(is_found);
}

/// A client that has lost its lock does not release another owner's.
fn gives_back_late() {
    let mut world = World::new(1, 2, 7);
    world.run_until("links", |world| world.clients.iter().all(|it| it.machine.serving() == 1));
    let kind = in_the_place_of(&PLAIN);
    let first = world.ask(0, kind, Wait::Never);
    world.run_until("a grant", |world| world.is_granted(0, first));
    let told = world.servers[0].lose(b"a");
    world.tell(told);
    let next = world.ask(1, kind, Wait::Never);
    world.run_until("a grant", |world| world.is_granted(1, next));
    world.clients[0].machine.forget(first, now());
    (0..2_000).for_each(|_| world.step());
    assert!(world.has_key());
}

#[test]
fn a_release_compares_before_it_frees() {
    gives_back_late();
    mutants::set(Some(Mutant::ReleasedWhoeverHasIt));
    let is_found = panics(gives_back_late);
    mutants::set(None);
    assert!(is_found);
}

//! The restart quarantine and the grace at once: a server restarts while another takes its place, or restarts within a
//! grace, or is one of several and a replica was promoted in its place.

use super::*;

const MOMENT: Duration = Duration::from_secs(1);
/// Clients: one that holds the lock, one that knows the servers from before, and one that comes later.
const HOLDER: usize = 0;
const OTHER: usize = 1;
const NEWCOMER: usize = 2;

impl World {
    /// A world with both, after their first waits.
    fn with_both(servers: usize, seed: u64) -> Self {
        let mut world = Self::new(servers, 3, seed);
        for client in &mut world.clients {
            let rules = Rules {
                restart_quarantine: Some(LONG),
                strict: false,
                in_cluster: false,
                by_sentinels: false,
            };
            let settings = Settings { rules: Some(rules), ..settings(servers) };
            let addresses = (0..servers).map(|at| at.to_string());
            client.machine = Machine::new(addresses, settings, now());
            let (longest_ttl, prefix) = (LONG, Box::default());
            client.machine.keeps_grace(Grace { longest_ttl, prefix, script: REIGN });
        }
        world.clients[NEWCOMER].is_paused = true;
        world.pass(LONG + MOMENT);
        world
    }

    fn restarts(&mut self, server: usize, with_data: bool) {
        self.servers[server].stop(with_data);
        (0..self.clients.len()).for_each(|client| self.cut(client, server));
        self.servers[server].start();
    }

    /// Another server, which has run for long, replaces the first; it has the saved state, or nothing.
    fn is_replaced(&mut self, has_saved: bool) {
        let told = self.servers[0].demote(has_saved);
        self.tell(told);
        self.servers[0].is_another();
        self.servers[0].promote();
        (0..self.clients.len()).for_each(|client| self.cut(client, 0));
    }

    /// A waiter gets the lock after the holder's lease has ended, and within `limit` from now.
    fn is_had_within(&mut self, client: usize, id: LeaseId, limit: Duration) {
        let ends_at = now().after(limit);
        while !self.is_granted(client, id) {
            assert!(now() < ends_at, "it is granted late");
            self.pass(Duration::from_millis(1));
        }
        self.check();
    }

    /// The holder lives: nobody else is granted the lock until its release.
    fn is_kept(&mut self, held: LeaseId, other: usize) {
        self.pass(LONG * 2);
        assert!(self.is_held(HOLDER, held) && !self.tries(other));
        self.gives_back(HOLDER, held);
        self.tries_until_granted(other);
    }
}

/// A server restarts with nothing, and before anybody may take a lock there, another replaces it, with nothing or with
/// the state before the lock was taken. A client that comes then knows of no restart.
fn restarts_and_is_replaced(has_saved: bool, lives: bool) {
    let mut world = World::with_both(1, 21);
    world.servers[0].save();
    let held = world.holds(HOLDER, &FENCED);
    world.clients[HOLDER].is_paused = !lives;
    world.restarts(0, false);
    world.pass(MOMENT);
    assert!(!world.tries(OTHER));
    world.is_replaced(has_saved);
    world.clients[NEWCOMER].is_paused = false;
    if lives {
        return world.is_kept(held, NEWCOMER);
    }
    let waits = world.wants(NEWCOMER, &FENCED, Wait::Forever);
    world.is_had_within(NEWCOMER, waits, LONG + MOMENT);
}

/// A primary restarts with its data in its grace, which begins again once, and not with each new client.
fn restarts_in_its_grace(lives: bool) {
    let mut world = World::with_both(1, 22);
    world.servers[0].save();
    let held = world.holds(HOLDER, &FENCED);
    world.clients[HOLDER].is_paused = !lives;
    world.fail_over(Connections::End);
    world.pass(LONG / 2);
    assert!(!world.tries(OTHER));
    world.restarts(0, true);
    world.clients[NEWCOMER].is_paused = false;
    if lives {
        return world.is_kept(held, OTHER);
    }
    let ends_at = now().after(LONG + MOMENT);
    let waits = world.wants(OTHER, &FENCED, Wait::Forever);
    while !world.is_granted(OTHER, waits) {
        assert!(now() < ends_at, "it is not granted");
        world.pass(Duration::from_millis(400));
        world.cut(NEWCOMER, 0);
    }
}

/// One of three servers is a service that fails over to a replica without the lock. One of the others never had it
/// either.
fn is_one_of_three(connections: Connections) {
    let mut world = World::with_both(3, 23);
    world.servers[0].save();
    // Its commands never arrive.
    world.clients[HOLDER].wires[2].as_mut().expect("it is connected").held_until = u64::MAX;
    world.holds(HOLDER, &FENCED);
    world.clients[HOLDER].is_paused = true;
    world.fail_over(connections);
    let waits = world.wants(OTHER, &FENCED, Wait::Forever);
    world.is_had_within(OTHER, waits, LONG + MOMENT);
}

/// All three have the lock. Its holder keeps it, and repairs it at the promoted server once that may vote.
fn is_given_back_to_one_of_three(connections: Connections) {
    let mut world = World::with_both(3, 24);
    world.servers[0].save();
    let held = world.holds(HOLDER, &FENCED);
    world.pass(MOMENT);
    world.fail_over(connections);
    world.pass(LONG - MOMENT);
    assert!(world.servers[0].peek(b"a").is_none() && world.is_held(HOLDER, held));
    assert!(!world.tries(OTHER));
    world.pass(LONG);
    assert!(world.servers[0].peek(b"a").is_some());
    world.is_kept(held, OTHER);
}

/// One of three is promoted and another has restarted with nothing: neither votes, and the third never had the lock.
fn is_one_of_three_beside_a_restart() {
    let mut world = World::with_both(3, 25);
    world.servers[0].save();
    world.clients[HOLDER].wires[2].as_mut().expect("it is connected").held_until = u64::MAX;
    world.holds(HOLDER, &FENCED);
    world.clients[HOLDER].is_paused = true;
    world.fail_over(Connections::End);
    world.restarts(1, false);
    world.clients[NEWCOMER].is_paused = false;
    let waits = world.wants(NEWCOMER, &FENCED, Wait::Forever);
    world.is_had_within(NEWCOMER, waits, LONG + MOMENT);
}

/// A server that restarted is promoted: a refusal has the later end of both waits.
fn is_refused_until_both_are_over() {
    let mut world = World::with_both(1, 26);
    world.restarts(0, false);
    world.pass(LONG / 2);
    world.fail_over(Connections::End);
    world.pass(MOMENT);
    let refused = world.wants(OTHER, &FENCED, Wait::Never);
    let context = Context::from_waker(Waker::noop());
    let mut refusal = None;
    world.run_until("a refusal", |world| {
        let polled = world.clients[OTHER].machine.poll_acquire(refused, &context);
        refusal = match polled {
            Poll::Ready(Err(Refusal::Setback { setback: Setback::Quarantined(wait), .. })) => {
                Some(wait)
            }
            _ => None,
        };
        refusal.is_some()
    });
    assert!(refusal > Some(LONG / 2 + MOMENT), "{refusal:?}");
}

#[test]
fn a_server_that_restarts_and_is_replaced_or_restarts_in_its_grace_grants_no_lock_that_is_held() {
    for lives in [false, true] {
        for has_saved in [false, true] {
            restarts_and_is_replaced(has_saved, lives);
        }
        restarts_in_its_grace(lives);
    }
    is_refused_until_both_are_over();
}

#[test]
fn a_promoted_replica_of_one_of_three_counts_as_a_server_that_restarted() {
    for connections in [Connections::End, Connections::Stay] {
        is_one_of_three(connections);
        is_given_back_to_one_of_three(connections);
    }
    is_one_of_three_beside_a_restart();
}

#[test]
fn known_bugs_of_both_are_noticed_where_they_are_at_once() {
    let replaced = || restarts_and_is_replaced(true, false);
    let restarts = || restarts_in_its_grace(false);
    let ended = || is_one_of_three(Connections::End);
    let stays = || is_one_of_three(Connections::Stay);
    let is_given_back = || is_given_back_to_one_of_three(Connections::Stay);
    let scenes: [(Mutant, &dyn Fn()); 7] = [
        (Mutant::GrantsAtOnceAfterAFailover, &replaced),
        (Mutant::EachBeginsTheReign, &restarts),
        (Mutant::GrantsAtOnceAfterAFailover, &ended),
        (Mutant::ReignNeverLapses, &stays),
        (Mutant::GrantIsBelievedLate, &stays),
        (Mutant::ReignNeverLapses, &is_given_back),
        (Mutant::GrantsAtOnceAfterAFailover, &is_one_of_three_beside_a_restart),
    ];
    for (mutant, scene) in scenes {
        mutants::set(Some(mutant));
        assert!(panics(scene), "{mutant:?}");
        mutants::set(None);
    }
}

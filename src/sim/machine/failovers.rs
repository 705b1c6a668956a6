//! One primary that fails over to a replica which is late: with a grace nobody holds what another holds, and a lease is
//! kept whose holder is there.

use super::soak::panics;
use super::*;
use crate::extra::Releases;
use crate::machine::{Grace, Refusal};
use crate::policy::Setback;
use crate::scripts::REIGN;

/// Of leases here, and so how long the grace is.
const LONG: Duration = Duration::from_secs(10);
/// How long the server is a replica.
const DEMOTED: Duration = Duration::from_millis(1_200);

/// What becomes of connections in a failover.
#[derive(Clone, Copy, PartialEq)]
enum Connections {
    Stay,
    End,
}

impl World {
    /// The grace that begins with the first connection is over.
    fn with_grace(clients: usize, seed: u64) -> Self {
        let mut world = Self::new(1, clients, seed);
        for client in &mut world.clients {
            // Questions outlive a failover on their connection.
            let settings = Settings { timeout: Duration::from_secs(4), ..settings(1) };
            client.machine = Machine::new(["0".to_owned()], settings, now());
            client.machine.keeps_grace(Grace {
                longest_ttl: LONG,
                prefix: Box::default(),
                script: REIGN,
            });
        }
        world.pass(LONG + Duration::from_secs(1));
        world
    }

    fn pass(&mut self, time: Duration) {
        let end = now().after(time);
        while now() < end {
            self.step();
            self.check();
        }
    }

    /// The primary is what it was when it was saved last.
    fn fail_over(&mut self, connections: Connections) {
        let told = self.servers[0].demote(true);
        self.tell(told);
        self.pass(DEMOTED);
        self.servers[0].promote();
        let clients = if connections == Connections::End { self.clients.len() } else { 0 };
        (0..clients).for_each(|client| self.cut(client, 0));
    }

    fn wants(&mut self, client: usize, kind: &'static Kind, wait: Wait) -> LeaseId {
        let term = Term::new(LONG, None).unwrap();
        self.begin(client, Options { term, ..options(kind, wait) })
    }

    fn holds(&mut self, client: usize, kind: &'static Kind) -> LeaseId {
        let id = self.wants(client, kind, Wait::Never);
        self.run_until("a grant", |world| world.is_granted(client, id));
        id
    }

    fn gives_back(&mut self, client: usize, id: LeaseId) {
        self.clients[client].machine.release(id, now());
        self.run_until("an end", |world| world.is_released(client, id).is_some());
        self.clients[client].machine.forget(id, now());
        self.clients[client].leases.retain(|it| it.id != id);
    }

    /// It asks for the lock in vain.
    fn refused(&mut self, client: usize) {
        let id = self.wants(client, &FENCED, Wait::Never);
        let context = Context::from_waker(Waker::noop());
        self.run_until("a refusal", |world| {
            world.clients[client].machine.poll_acquire(id, &context).is_ready()
        });
    }

    fn is_held(&self, client: usize, id: LeaseId) -> bool {
        self.clients[client].machine.state(id).is_some_and(LeaseState::is_held)
    }
}

/// The successor has never heard of the lease. Its holder keeps it, and all others wait; one that does not is told so.
fn keeps_its_lease(connections: Connections, kind: &'static Kind) {
    let mut world = World::with_grace(2, 1);
    world.servers[0].save();
    let held = world.holds(0, kind);
    // From its first renewal on the server tells of its end.
    world.pass(Duration::from_secs(4));
    world.fail_over(connections);
    world.pass(Duration::from_millis(300));
    let refused = world.wants(1, kind, Wait::Never);
    let waits = world.wants(1, kind, Wait::Forever);
    let context = Context::from_waker(Waker::noop());
    world.run_until("a refusal", |world| {
        let polled = world.clients[1].machine.poll_acquire(refused, &context);
        let is_in_grace = |refusal: &Refusal| {
            matches!(refusal, Refusal::Setback { setback: Setback::Quarantined(_), .. })
        };
        matches!(&polled, Poll::Ready(Err(refusal)) if is_in_grace(refusal))
    });
    world.pass(LONG * 2);
    assert!(world.is_held(0, held) && !world.is_granted(1, waits));
    assert_eq!(world.servers[0].holders(b"a").len(), 1);
    let token = world.clients[0].machine.token(held);
    world.gives_back(0, held);
    world.run_until("the next", |world| world.is_granted(1, waits));
    assert!(!kind.is_fenced || world.clients[1].machine.token(waits) > token);
}

/// The holder stands still meanwhile, and cannot say that it holds.
fn stands_still(connections: Connections) {
    let mut world = World::with_grace(2, 2);
    world.servers[0].save();
    let held = world.holds(0, &FENCED);
    world.clients[0].is_paused = true;
    world.fail_over(connections);
    let waits = world.wants(1, &FENCED, Wait::Forever);
    world.run_until("a grant", |world| {
        world.check();
        world.is_granted(1, waits)
    });
    world.clients[0].is_paused = false;
    world.pass(LONG);
    assert!(!world.is_held(0, held) && world.is_held(1, waits));
}

/// The successor has the key of an owner that gave the lock back before the present holder had it.
fn takes_a_stale_key_over(connections: Connections) {
    let mut world = World::with_grace(2, 3);
    let former = world.holds(0, &FENCED);
    world.servers[0].save();
    world.gives_back(0, former);
    let held = world.holds(1, &FENCED);
    world.fail_over(connections);
    world.pass(LONG * 2);
    assert!(world.is_held(1, held));
}

/// As above, and the successor is told again of the release, of a lock for which another waited.
fn hands_nothing_on() {
    let mut world = World::with_grace(3, 4);
    world.clients[0].machine.remembers(0, Box::new(Releases::default()));
    let former = world.holds(0, &FENCED);
    let waits = world.wants(2, &FENCED, Wait::Forever);
    world.run_until("an entry", World::is_waited_for);
    world.servers[0].save();
    world.gives_back(0, former);
    world.run_until("the next", |world| world.is_granted(2, waits));
    world.gives_back(2, waits);
    let held = world.holds(1, &FENCED);
    // It waits again, and so hears what is pushed.
    world.wants(2, &FENCED, Wait::Forever);
    world.run_until("an entry", World::is_waited_for);
    let told = world.servers[0].demote(true);
    world.tell(told);
    // Neither notices while that is under way.
    [1, 2].iter().for_each(|client| world.clients[*client].is_paused = true);
    world.pass(DEMOTED);
    world.servers[0].promote();
    world.cut(0, 0);
    world.clients[0].machine.moved(0, "0".into(), now(), now());
    world.pass(Duration::from_secs(1));
    [1, 2].iter().for_each(|client| world.clients[*client].is_paused = false);
    world.pass(LONG * 2);
    assert!(world.is_held(1, held));
}

/// A question is under way while the server is a replica, and arrives in the reign behind that.
fn arrives_late() {
    let mut world = World::with_grace(2, 5);
    world.servers[0].save();
    world.holds(0, &FENCED);
    world.clients[0].is_paused = true;
    // What it knows of the reign is fresh.
    world.refused(1);
    let late = world.wants(1, &FENCED, Wait::Never);
    world.clients[1].wires[0].as_mut().unwrap().held_until =
        NOW_MICROS.get() + 2 * u64::try_from(DEMOTED.as_micros()).unwrap();
    world.step();
    world.fail_over(Connections::Stay);
    world.pass(Duration::from_secs(3));
    assert!(!world.is_granted(1, late) && !world.has_key());
}

/// However often clients connect, names are granted again.
fn ends() {
    let mut world = World::with_grace(2, 6);
    world.fail_over(Connections::End);
    let ends_at = now().after(LONG + Duration::from_secs(1));
    let waits = world.wants(0, &FENCED, Wait::Forever);
    while !world.is_granted(0, waits) {
        assert!(now() < ends_at, "it is not granted");
        world.pass(Duration::from_millis(500));
        world.cut(1, 0);
    }
}

#[test]
fn a_lease_is_kept_through_a_failover_that_lost_it_and_nobody_has_it_beside_its_holder() {
    for connections in [Connections::Stay, Connections::End] {
        for kind in [&FENCED, &PLAIN] {
            keeps_its_lease(connections, kind);
        }
        stands_still(connections);
        takes_a_stale_key_over(connections);
    }
    hands_nothing_on();
    arrives_late();
    ends();
}

#[test]
fn known_bugs_of_the_grace_are_noticed() {
    let stays = || keeps_its_lease(Connections::Stay, &FENCED);
    let still = || stands_still(Connections::Stay);
    let stale = || takes_a_stale_key_over(Connections::End);
    let scenes: [(Mutant, &dyn Fn()); 8] = [
        (Mutant::GrantsAtOnceAfterAFailover, &still),
        (Mutant::RunAloneIsTheReign, &still),
        (Mutant::ReignNeverLapses, &still),
        (Mutant::GoneIsBelievedUnsure, &stays),
        (Mutant::StaleKeysStay, &stale),
        (Mutant::HandsOnInTheGrace, &hands_nothing_on),
        (Mutant::GrantIsBelievedLate, &arrives_late),
        (Mutant::EachBeginsTheReign, &ends),
    ];
    for (mutant, scene) in scenes {
        mutants::set(Some(mutant));
        assert!(panics(scene), "{mutant:?}");
        mutants::set(None);
    }
}

//! One primary that fails over to a late replica: with a grace no two clients hold a lock, and a holder that is there
//! keeps its lease.

mod guards;

use super::soak::panics;
use super::*;
use crate::extra::Releases;
use crate::extra::takeover::SEIZED;
use crate::machine::{Grace, Refusal};
use crate::names::marker;
use crate::policy::Setback;
use crate::scripts::REIGN;

/// The longest TTL here, and so the length of the grace.
const LONG: Duration = Duration::from_secs(10);
/// How long a demoted server is a replica.
const DEMOTED: Duration = Duration::from_millis(1_200);

/// The fate of connections in a failover.
#[derive(Clone, Copy, PartialEq)]
enum Connections {
    Stay,
    End,
}

impl World {
    fn with_grace(clients: usize, seed: u64) -> Self {
        Self::with_grace_of(LONG, &vec![wall as fn() -> u64; clients], seed)
    }

    /// A world after the grace that begins with the first connection. Each client has a wall clock of its own.
    fn with_grace_of(longest_ttl: Duration, walls: &[fn() -> u64], seed: u64) -> Self {
        let mut world = Self::new(1, walls.len(), seed);
        for (client, wall_micros) in world.clients.iter_mut().zip(walls.iter().copied()) {
            // Commands outlive a failover on their connection.
            let timeout = Duration::from_secs(4);
            let settings = Settings { timeout, wall_micros, ..settings(1) };
            client.machine = Machine::new(["0".to_owned()], settings, now());
            let prefix = Box::default();
            client.machine.keeps_grace(Grace { longest_ttl, prefix, script: REIGN });
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

    /// The primary fails over to its last saved state.
    fn fail_over(&mut self, connections: Connections) {
        self.fail_over_to(connections, 0);
    }

    /// The same, with a clock that differs by `micros`.
    fn fail_over_to(&mut self, connections: Connections, micros: i64) {
        let told = self.servers[0].demote(true);
        self.tell(told);
        // If all connections end, the successor is another server, which is there at once.
        self.pass(if connections == Connections::End { Duration::ZERO } else { DEMOTED });
        self.servers[0].step_wall(micros);
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

    /// Whether a client gets the lock without waiting.
    fn tries(&mut self, client: usize) -> bool {
        let id = self.wants(client, &FENCED, Wait::Never);
        let context = Context::from_waker(Waker::noop());
        let mut polled = Poll::Pending;
        self.run_until("an answer", |world| {
            world.check();
            polled = world.clients[client].machine.poll_acquire(id, &context).map(|it| it.is_ok());
            polled.is_ready()
        });
        if polled == Poll::Ready(true) {
            return true;
        }
        self.clients[client].machine.forget(id, now());
        self.clients[client].leases.retain(|it| it.id != id);
        self.pass(Duration::from_millis(5));
        false
    }

    /// A client asks for the lock again and again until it has it.
    fn tries_until_granted(&mut self, client: usize) {
        let ends_at = now().after(LONG * 2);
        while !self.tries(client) {
            assert!(now() < ends_at, "it is never granted");
        }
    }

    fn wire(&mut self, client: usize) -> &mut Wire {
        self.clients[client].wires[0].as_mut().expect("it is connected")
    }

    /// Waits until a client is connected again, and has queried the reign.
    fn looks_again(&mut self, client: usize) {
        self.cut(client, 0);
        self.run_until("a connection", |world| {
            let wire = world.clients[client].wires[0].as_ref();
            wire.is_some_and(|wire| wire.handshake.is_none())
        });
    }

    /// Runs until a command with this text is on the way to the server.
    fn run_until_said(&mut self, client: usize, text: &[u8]) {
        self.run_until("a command", |world| {
            let wire = world.clients[client].wires[0].as_ref();
            let says = |bytes: &Bytes| bytes.windows(text.len()).any(|part| part == text);
            wire.is_some_and(|wire| wire.to_server.iter().any(|(_, bytes)| says(bytes)))
        });
    }

    fn gives_back(&mut self, client: usize, id: LeaseId) {
        self.clients[client].machine.release(id, now());
        self.run_until("an end", |world| world.is_released(client, id).is_some());
        self.clients[client].machine.forget(id, now());
        self.clients[client].leases.retain(|it| it.id != id);
    }

    /// A client asks for the lock, and is refused.
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

/// The successor lacks the lease. Its holder keeps it, and all others wait; one that does not wait is refused.
fn keeps_its_lease(connections: Connections, kind: &'static Kind) {
    let mut world = World::with_grace(2, 1);
    world.servers[0].save();
    let held = world.holds(0, kind);
    // From its first renewal on the server pushes its end.
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
    assert_eq!(world.servers[0].look(&[&"a".into()])[0].holders.len(), 1);
    let token = world.clients[0].machine.token(held);
    world.gives_back(0, held);
    world.run_until("the next", |world| world.is_granted(1, waits));
    assert!(!kind.is_fenced || world.clients[1].machine.token(waits) > token);
}

/// The holder stands still meanwhile, and cannot report its lease.
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

/// The successor has the key of an owner that released the lock before the present holder had it.
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

/// As above, and the release is repeated to the successor, for a lock that has a waiter.
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
    // It waits again, and so gets pushes.
    world.wants(2, &FENCED, Wait::Forever);
    world.run_until("an entry", World::is_waited_for);
    let told = world.servers[0].demote(true);
    world.tell(told);
    // Neither notices the failover while it is under way.
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

/// A command is under way while the server is a replica, and arrives in the next reign.
fn arrives_late() {
    let mut world = World::with_grace(2, 5);
    world.servers[0].save();
    world.holds(0, &FENCED);
    world.clients[0].is_paused = true;
    // Its knowledge of the reign is fresh.
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

/// A successor without the holder's lease is replaced, within its grace, by another without it.
fn is_promoted_again(connections: Connections) {
    let mut world = World::with_grace(2, 7);
    world.servers[0].save();
    let held = world.holds(0, &FENCED);
    for _ in 0..3 {
        world.fail_over(connections);
        world.pass(LONG / 4);
        assert!(!world.tries(1));
    }
    world.pass(LONG * 2);
    assert!(world.is_held(0, held) && !world.tries(1));
    world.gives_back(0, held);
    world.tries_until_granted(1);
}

/// A restart that loses everything, and one after which the clock differs.
fn restarts_without_memory() {
    let mut world = World::with_grace(2, 8);
    let held = world.holds(0, &FENCED);
    world.servers[0].stop(false);
    (0..2).for_each(|client| world.cut(client, 0));
    world.pass(Duration::from_millis(100));
    world.servers[0].start();
    world.pass(Duration::from_secs(1));
    assert!(!world.tries(1));
    // The marker lies in the future: a reign begins again.
    world.servers[0].step_wall(-20_000_000);
    world.looks_again(1);
    world.pass(LONG * 2);
    assert!(world.is_held(0, held) && !world.tries(1));
    world.gives_back(0, held);
    world.tries_until_granted(1);
}

/// The shortest leases, with tokens as far apart as possible: a clock ahead proposed the lost one, and a clock behind
/// the next, to a server whose clock is behind, too.
fn has_larger_tokens() {
    let ahead = || wall() + 900_000;
    let behind = || wall() - 900_000;
    let short = Duration::from_secs(1);
    let mut world = World::with_grace_of(short, &[ahead, behind], 9);
    let term = Term::new(short, None).unwrap();
    world.servers[0].save();
    let lost = world.begin(0, Options { term, ..options(&FENCED, Wait::Never) });
    world.run_until("a grant", |world| world.is_granted(0, lost));
    let token = world.clients[0].machine.token(lost);
    world.clients[0].is_paused = true;
    world.fail_over_to(Connections::End, -1_000_000);
    let next = world.begin(1, Options { term, ..options(&FENCED, Wait::Forever) });
    world.run_until("the next", |world| world.is_granted(1, next));
    assert!(world.clients[1].machine.token(next) > token);
}

/// The reply about the reign is under way for almost half a second.
fn is_told_late() {
    let mut world = World::with_grace(2, 10);
    world.servers[0].save();
    world.holds(0, &FENCED);
    world.clients[0].is_paused = true;
    world.fail_over(Connections::End);
    world.pass(LONG - Duration::from_millis(700));
    world.looks_again(1);
    world.wire(1).held_until = NOW_MICROS.get() + 400_000;
    world.tries_until_granted(1);
}

/// A holder's report arrives after the grace, when another has been granted the lock, with a smaller token.
fn is_heard_late() {
    let mut world = World::with_grace(2, 11);
    world.servers[0].save();
    world.holds(0, &FENCED);
    world.fail_over_to(Connections::End, -20_000_000);
    let repair = world.clients[0].machine.settings().scripts.repair.digest;
    world.run_until_said(0, repair);
    let late = (LONG + Duration::from_secs(3)).as_micros();
    world.wire(0).held_until = NOW_MICROS.get() + u64::try_from(late).unwrap();
    world.cut(0, 0);
    world.clients[0].is_paused = true;
    let next = world.wants(1, &FENCED, Wait::Forever);
    world.run_until("the next", |world| world.is_granted(1, next));
    world.pass(LONG * 2);
    assert!(world.is_held(1, next));
}

/// A victim that does not know of the theft reports its lease.
fn is_stolen_from() {
    let mut world = World::with_grace(2, 12);
    let former = world.holds(0, &FENCED);
    world.clients[0].is_paused = true;
    let (term, words) = (Term::new(LONG, None).unwrap(), [b""[..].into()].into());
    let thief = world.begin(1, Options { term, words, ..options(&SEIZED, Wait::Never) });
    world.run_until("a theft", |world| world.is_granted(1, thief));
    world.servers[0].save();
    let told = world.servers[0].demote(true);
    world.tell(told);
    world.servers[0].promote();
    (0..2).for_each(|client| world.cut(client, 0));
    world.clients[0].is_paused = false;
    // Less than a third of a TTL: its first report is refused.
    (0..20_000).for_each(|_| world.step());
    assert!(!world.is_held(0, former));
    world.pass(LONG * 2);
    assert!(world.is_held(1, thief));
}

/// A client connects while the server is a replica.
fn meets_a_replica() {
    let mut world = World::with_grace(2, 13);
    world.servers[0].save();
    world.holds(0, &FENCED);
    world.clients[0].is_paused = true;
    let told = world.servers[0].demote(true);
    world.tell(told);
    world.pass(DEMOTED);
    world.looks_again(1);
    world.pass(Duration::from_millis(20));
    world.servers[0].promote();
    world.tries_until_granted(1);
}

/// A connection's reign has lapsed when it extends a lease that the successor knows.
fn is_used_meanwhile() {
    let mut world = World::with_grace(2, 14);
    let others = [b"b", b"c"].map(|name| {
        let (term, names) = (Term::new(LONG, None).unwrap(), Names::new(b"", name).unwrap());
        let other = Options { term, names, ..options(&FENCED, Wait::Never) };
        let other = world.clients[1].machine.acquire(other, now());
        world.run_until("a grant", |world| world.is_granted(1, other));
        other
    });
    world.servers[0].save();
    world.holds(0, &FENCED);
    world.clients[0].is_paused = true;
    world.pass(DEMOTED);
    // It queries the reign, and gets the former state late.
    let run = world.wire(1).run;
    world.clients[1].machine.extend(others[0], now());
    world.run_until("an answer", |world| world.wire(1).run >= run + 2);
    let told_at = NOW_MICROS.get() + 1_300_000;
    world.wire(1).to_client.iter_mut().for_each(|(at, _)| *at = told_at);
    let told = world.servers[0].demote(true);
    world.tell(told);
    world.pass(DEMOTED);
    world.servers[0].promote();
    world.clients[1].machine.extend(others[1], now());
    world.run_until("an answer", |world| {
        world.check();
        world.wire(1).to_client.is_empty()
    });
    world.tries_until_granted(1);
}

/// The holder has no grace, and reports nothing to the successor.
fn is_beside_one_without(connections: Connections) {
    let mut world = World::with_grace(2, 16);
    world.cut(0, 0);
    world.clients[0].machine = Machine::new(["0".to_owned()], settings(1), now());
    world.servers[0].save();
    world.holds(0, &FENCED);
    world.fail_over(connections);
    world.tries_until_granted(1);
}

/// The fault in a server's reply about its reign.
#[derive(Clone, Copy, PartialEq)]
enum Harm {
    Lost,
    Twice,
}

/// The fault ends the connection, and another gets the lock once the holder's lease is over.
fn is_told_badly(harm: Harm) {
    let mut world = World::with_grace(2, 15);
    world.servers[0].save();
    world.holds(0, &FENCED);
    world.clients[0].is_paused = true;
    world.fail_over(Connections::End);
    world.looks_again(1);
    world.faults.clear();
    let run = world.wire(1).run;
    world.run_until("an answer", |world| world.wire(1).run > run);
    let told = world.servers[0].peek(&marker(b"", None)).expect("there is a marker");
    let answers = &mut world.wire(1).to_client;
    let is_it = |(_, bytes): &(u64, Bytes)| bytes.windows(told.len()).any(|part| part == told);
    let at = answers.iter().position(is_it).expect("it is under way");
    match harm {
        Harm::Lost => _ = answers.remove(at),
        Harm::Twice => answers.insert(at, answers[at].clone()),
    }
    world.tries_until_granted(1);
    assert!(!world.faults.is_empty());
}

#[test]
fn a_lease_is_kept_through_a_failover_that_lost_it_and_nobody_has_it_beside_its_holder() {
    for connections in [Connections::Stay, Connections::End] {
        for kind in [&FENCED, &PLAIN] {
            keeps_its_lease(connections, kind);
        }
        stands_still(connections);
        takes_a_stale_key_over(connections);
        is_promoted_again(connections);
    }
    hands_nothing_on();
    arrives_late();
    ends();
    restarts_without_memory();
    is_told_late();
    is_heard_late();
    is_stolen_from();
    meets_a_replica();
    is_used_meanwhile();
}

#[test]
fn tokens_go_on_above_those_that_a_failover_lost() {
    has_larger_tokens();
}

#[test]
fn those_with_a_grace_are_granted_nothing_beside_one_without() {
    is_beside_one_without(Connections::Stay);
    is_beside_one_without(Connections::End);
}

#[test]
fn a_lost_and_a_doubled_word_on_a_reign_cost_a_connection() {
    is_told_badly(Harm::Lost);
    is_told_badly(Harm::Twice);
}

#[test]
fn known_bugs_of_the_grace_are_noticed() {
    let stays = || keeps_its_lease(Connections::Stay, &FENCED);
    let still = || stands_still(Connections::Stay);
    let stale = || takes_a_stale_key_over(Connections::End);
    let scenes: [(Mutant, &dyn Fn()); 14] = [
        (Mutant::GrantsAtOnceAfterAFailover, &still),
        (Mutant::RunAloneIsTheReign, &still),
        (Mutant::ReignNeverLapses, &still),
        (Mutant::GoneIsBelievedUnsure, &stays),
        (Mutant::StaleKeysStay, &stale),
        (Mutant::HandsOnInTheGrace, &hands_nothing_on),
        (Mutant::GrantIsBelievedLate, &arrives_late),
        (Mutant::EachBeginsTheReign, &ends),
        (Mutant::GraceIsNoLongerThanLeases, &has_larger_tokens),
        (Mutant::GraceCountsFromTheQuestion, &is_told_late),
        (Mutant::LateHoldersAreHeard, &is_heard_late),
        (Mutant::AnyHolderTakesOver, &is_stolen_from),
        (Mutant::ReplicaIsMet, &meets_a_replica),
        (Mutant::AnyUseRenewsTheReign, &is_used_meanwhile),
    ];
    for (mutant, scene) in scenes {
        mutants::set(Some(mutant));
        assert!(panics(scene), "{mutant:?}");
        mutants::set(None);
    }
}

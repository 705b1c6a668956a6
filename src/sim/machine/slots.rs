//! A Cluster: the servers share all keys by slots, the slot of the lock moves from one to another, and masters fail over to
//! replicas that lack the last writes.

use super::soak::panics;
use super::*;
use crate::cluster::slot::slot_of;
use crate::extra::cluster::ROUTING;
use crate::extra::groups::GROUP;
use crate::machine::Grace;
use crate::scripts::REIGN;
use crate::sim::server::slot::{SERVERS, SHARDS, address, stays_at};

/// The keys in the slot that moves. A group has another lock beside it, in a slot that stays.
const KEYS: [&str; 3] = ["a", "{a}:fence", "{a}:queue"];
/// When a client asks for another map, in microseconds.
const MAP_EVERY: u64 = 30_000_000;
/// How long the slot stays where it is after a failover, in microseconds: longer than the grace, and than it takes each client
/// to hear of it. To move it from a node in its grace breaks the lock.
const STAYS_FOR: u64 = 6_000_000;
/// The shortest time between two failovers, in microseconds.
const DEMOTED: u64 = 1_200_000;

impl World {
    /// With `has_grace` masters fail over.
    fn cluster(seed: u32, has_grace: bool) -> Self {
        let mut world = Self::new(SERVERS, 3, seed.into());
        for replica in &mut world.servers[SHARDS..] {
            replica.demote(false);
        }
        world.slot = Some(Slot {
            masters: std::array::from_fn(|shard| shard),
            owners: [0; SHARDS],
            leaving: None,
            coming: None,
            is_old: seed % 2 == 1,
            has_grace,
            stays_until: 0,
            maps_at: [0; 3],
        });
        world.latency = [200, 2_000, 50_000][seed as usize / 3 % 3];
        (0..3).for_each(|client| world.routes(client));
        world
    }

    /// The machine of a client whose servers are a Cluster routes by slots.
    pub(super) fn routes(&mut self, client: usize) {
        let Some(slot) = &self.slot else { return };
        let mut machine = Machine::new(slot.masters.map(address), settings(1), now());
        machine.routes_by(ROUTING);
        if slot.has_grace {
            machine.keeps_grace(Grace { longest_ttl: TTL, prefix: Box::default(), script: REIGN });
        }
        self.clients[client].machine = machine;
        self.map(client);
    }

    /// A client follows the map of one of the nodes. No other slot moves.
    fn map(&mut self, client: usize) {
        let node = below(SERVERS);
        let Some(slot) = self.slot.as_mut().filter(|_| !self.servers[node].is_down()) else {
            return;
        };
        let masters = slot.masters.map(address);
        let its = slot.owners[node % SHARDS];
        let owner_of = |slot| Some(if slot == slot_of(b"a") { its } else { stays_at(slot) });
        slot.maps_at[client] = NOW_MICROS.get() + MAP_EVERY;
        self.clients[client].machine.route(&masters, &[], &owner_of, now());
    }

    /// Clients ask for maps, the slot moves on, and masters fail over.
    pub(super) fn move_on(&mut self) {
        for client in 0..self.clients.len() {
            let at = self.slot.as_ref().map_or(u64::MAX, |slot| slot.maps_at[client]);
            if at <= NOW_MICROS.get() && !self.clients[client].is_paused {
                self.map(client);
            }
        }
        if self.slot.is_some() && random() % 1_000 == 0 {
            self.is_moved_on();
        }
        if self.slot.as_ref().is_some_and(|slot| slot.has_grace) {
            self.replicates();
        }
    }

    /// Replicas hear of writes now and then, and take over from masters.
    fn replicates(&mut self) {
        let Some(slot) = &mut self.slot else { return };
        let shard = below(SHARDS);
        let from = slot.masters[shard];
        if random() % 2_000 == 0 {
            self.servers[from].save();
        }
        // A slot that is half-way would stay so; and a client may overlook that a server was a replica for less than a second.
        let may = slot.coming.is_none() && slot.owners == [slot.owners[0]; SHARDS];
        let may = may && slot.stays_until <= NOW_MICROS.get() + STAYS_FOR - DEMOTED;
        let to = (from + SHARDS) % SERVERS;
        if !may || self.servers[to].is_down() || random() % 20_000 != 0 {
            return;
        }
        slot.masters[shard] = to;
        slot.stays_until = NOW_MICROS.get() + STAYS_FOR;
        let [one, other] = self.servers.get_disjoint_mut([from, to]).unwrap();
        let told = other.succeeds(one);
        self.forgot_at = Some(now());
        self.tell(told);
        // It has died, or lives on as a replica.
        for client in (0..self.clients.len()).filter(|_| percent(50)) {
            self.cut(client, from);
        }
    }

    /// The slot begins to move, moves on by a key, or has moved; its servers are told one after the other.
    fn is_moved_on(&mut self) {
        let Some(slot) = &mut self.slot else { return };
        match slot.leaving.or(slot.coming) {
            None => {
                // The others hear of it some time later.
                let owner = slot.owners[below(SHARDS)];
                if slot.owners[owner] == owner {
                    slot.owners[below(SHARDS)] = owner;
                }
                let may = slot.stays_until <= NOW_MICROS.get();
                if may && slot.owners == [owner; SHARDS] && percent(20) {
                    slot.coming = Some((owner, (owner + 1 + below(SHARDS - 1)) % SHARDS));
                }
            }
            Some((from, to)) if slot.owners[from] == from && slot.leaving.is_none() => {
                slot.leaving = Some((from, to));
            }
            Some((from, to)) => {
                let nodes = [from, to].map(|shard| slot.masters[shard]);
                let [one, other] = self.servers.get_disjoint_mut(nodes).unwrap();
                if one.is_down() || other.is_down() {
                    return;
                }
                if KEYS.iter().any(|key| one.has(key.as_bytes())) {
                    let told = one.hand(&KEYS[below(3)].into(), other);
                    return self.tell(told);
                }
                if slot.coming.take().is_some() {
                    slot.owners[to] = to;
                } else {
                    (slot.owners[from], slot.leaving) = (to, None);
                }
            }
        }
    }
}

/// Requests, releases and faults as with independent servers, for 20 simulated seconds, while the slot moves again and again.
fn soak(seed: u32, has_grace: bool) -> usize {
    let mut world = World::cluster(seed, has_grace);
    world.harmed = [0, 10, 30][seed as usize % 4 % 3];
    let kinds = [[&FENCED; 2], [&PLAIN; 2], [&FENCED, &GROUP]][seed as usize % 3];
    for _ in 0..200_000 {
        world.step();
        world.meddle(SERVERS, seed);
        for client in 0..world.clients.len() {
            world.request(client, kinds[below(2)]);
            world.act(client, 1_000);
        }
        world.check();
    }
    world.ends(seed);
    world.granted
}

#[test]
fn no_two_hold_a_lock_whose_slot_moves() {
    for seed in 0..9 {
        assert!(soak(seed, false) > 0, "seed {seed}");
    }
}

#[test]
fn no_two_hold_a_lock_whose_masters_fail_over_with_a_grace() {
    for seed in 0..9 {
        assert!(soak(seed, true) > 0, "seed {seed}");
    }
}

#[test]
fn those_that_wait_for_a_lock_whose_slot_moves_have_it_one_after_the_other() {
    for seed in 0..9 {
        let mut world = World::cluster(seed, false);
        let kind = if seed % 2 == 0 { &FENCED } else { &PLAIN };
        for number in 0..30 {
            world.ask(number % 3, kind, Wait::Forever);
        }
        world.run_until("all of them", |world| {
            for client in 0..3 {
                world.act(client, 1_000);
            }
            world.clients.iter().all(|client| client.leases.is_empty())
        });
        assert!(world.granted > 10, "seed {seed}: {}", world.granted);
    }
}

#[test]
fn known_bugs_are_noticed_while_a_slot_moves() {
    for (mutant, seed) in [
        (Mutant::TimedOutCountsAsHeld, 1),
        (Mutant::ValidityFromTheReply, 6),
        (Mutant::LateReplyToTheNext, 7),
        (Mutant::AnyTokenIsPushed, 0),
    ] {
        mutants::set(Some(mutant));
        assert!(panics(|| _ = soak(seed, false)), "{mutant:?}");
    }
    for (mutant, seed) in [(Mutant::GrantsAtOnceAfterAFailover, 3), (Mutant::ReignNeverLapses, 13)]
    {
        mutants::set(Some(mutant));
        assert!(panics(|| _ = soak(seed, true)), "{mutant:?}");
    }
    mutants::set(None);
}

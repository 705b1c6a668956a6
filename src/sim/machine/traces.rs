//! No lock is forgotten: while a server has one, some lease of a machine still knows of it (safety rule 15).

use super::soak::FAR;
use super::*;

/// Steps of a run, of 100 microseconds each.
const STEPS: u32 = 100_000;

/// Three processes with four requests each at once. Now and then a server is slow to one of them, or a connection ends.
fn contend(servers: usize, seed: u32) -> usize {
    let mut world = World::new(servers, 3, seed.into());
    world.latency = [500, 3_000][seed as usize % 2];
    if seed % 4 < 2 {
        let counters = (0..).map(|at| FAR + 7 * at);
        world.servers.iter_mut().zip(counters).for_each(|(server, it)| server.put_counter("a", it));
    }
    let kind = if seed % 4 == 3 { &PLAIN } else { &FENCED };
    let pace = [5, 20, 100][seed as usize / 2 % 3];
    for _ in 0..STEPS {
        world.step();
        for client in 0..world.clients.len() {
            let is_idle = world.clients[client].leases.is_empty();
            for _ in 0..if is_idle && random() % pace == 0 { 4 } else { 0 } {
                let wait = if percent(10) { Wait::Never } else { Wait::Forever };
                world.ask(client, kind, wait);
            }
            world.act(client, 10);
        }
        if random() % 100 == 0 {
            let held_until = NOW_MICROS.get() + random() % 30_000;
            let wire = world.clients[below(3)].wires[below(servers)].as_mut();
            wire.into_iter().for_each(|wire| wire.held_until = held_until);
        }
        if seed % 3 == 2 && random() % 3_000 == 0 {
            let (client, server) = (below(3), below(servers));
            world.cut(client, server);
        }
        world.check();
        world.is_known();
    }
    world.granted
}

impl World {
    fn is_known(&mut self) {
        for (number, server) in self.servers.iter_mut().enumerate() {
            let Some(value) = server.peek(b"a") else { continue };
            let id = &value[..32];
            let is_known =
                self.clients.iter().any(|client| client.machine.has_owner(id, usize::MAX));
            let value = String::from_utf8_lossy(&value);
            assert!(is_known, "nobody knows of {value} at {number}, {}", NOW_MICROS.get());
        }
    }
}

#[test]
fn whatever_a_server_has_some_lease_knows_of() {
    for seed in 0..12 {
        let granted = contend([1, 3, 5][seed as usize % 3], seed);
        assert!(granted > 10, "seed {seed}: {granted} granted");
    }
}

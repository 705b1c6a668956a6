//! Processes that take turns with a lock.

use super::taking::world;
use super::*;

/// Commands of an entry in the queue: `CLIENT CACHING YES`, and `queue.lua`.
const COMMANDS: usize = 2;

impl World {
    fn settle(&mut self) {
        (0..500).for_each(|_| self.step());
    }

    /// Releases a lock, and waits until servers have carried that out.
    fn lets_go(&mut self, client: usize, id: LeaseId) {
        self.clients[client].machine.forget(id, now());
        self.settle();
    }

    fn asks_and_waits(&mut self, client: usize) -> LeaseId {
        let id = self.ask(client, &FENCED, Wait::Forever);
        self.settle();
        id
    }
}

/// A process's acquire was refused, and its entry got the lock, while the other process still wants it. If its next
/// command were not the queue's, it would come after the release that could hand the lock over, and so on for ever.
#[test]
fn a_process_that_was_refused_asks_the_queue_first_the_next_time() {
    let mut world = world(1, 7);
    let first = world.asks_and_waits(0);
    assert!(world.is_granted(0, first));
    let second = world.ask(1, &FENCED, Wait::Forever);
    let before = world.asked(1);
    world.run_until("a refusal", |world| world.asked(1) > before);
    // Its entry is under way for longer than the release.
    let is_out = |world: &mut World| {
        let wire = world.clients[1].wires[0].as_ref();
        wire.is_some_and(|wire| !wire.to_server.is_empty())
    };
    world.run_until("an entry on its way", is_out);
    let late = NOW_MICROS.get() + 50_000;
    world.clients[1].wires[0].as_mut().unwrap().held_until = late;
    world.lets_go(0, first);
    world.run_until("a grant", |world| world.is_granted(1, second));
    let third = world.asks_and_waits(0);
    world.lets_go(1, second);
    assert!(world.is_granted(0, third));
    let before = world.asked(1);
    let fourth = world.asks_and_waits(1);
    assert_eq!(world.asked(1) - before, COMMANDS);
    world.lets_go(0, third);
    assert!(world.is_granted(1, fourth));
    assert_eq!(world.asked(1) - before, COMMANDS);
    world.lets_go(1, fourth);
    assert!(!world.has_key() && !world.is_waited_for());
}

/// A server writes last to the connection that was the first with something to send: here the next holder's.
#[test]
fn the_holder_of_a_lock_that_others_want_has_an_answer_before_it_frees_that() {
    let mut world = world(1, 8);
    for is_dropped in [false, true] {
        let first = world.asks_and_waits(0);
        let second = world.asks_and_waits(1);
        world.lets_go(0, first);
        assert!(world.is_granted(1, second));
        let machine = &mut world.clients[1].machine;
        if is_dropped {
            machine.forget(second, now());
        } else {
            machine.release(second, now());
        }
        let said = String::from_utf8(machine.output(0, now()).to_vec()).unwrap();
        let (echo, release) = (said.find("ECHO"), said.find("EVALSHA"));
        assert!(echo.is_some() && echo < release, "{said}");
        world.lets_go(1, second);
    }
}

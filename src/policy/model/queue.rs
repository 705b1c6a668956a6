//! The model of hand-over: processes that wait in the queue of one lock at one server.
//!
//! The waiter is the shipped [`WaiterState`]; the server's scripts are copied by hand ([`server`]).
//! Time is kept as ages in ticks, which stop at the TTL. Dead waiters whose entries last, gaps and garbage are a
//! number that stands before all entries: scripts take out a few of them, and then are asked again.
//!
//! [`WaiterState`]: super::super::WaiterState

use super::explore::Model;
use keys::{PROCESSES, Server};
use world::{Breach, Event, Process, World};

mod client;
mod healing;
mod keys;
mod relay;
mod server;
mod world;

pub(super) use world::{Bounds, Faults, Queues, Weakness};

pub(super) const BOTH: &str = "two processes hold the lock at once";

pub(super) const KEYLESS: &str = "a process holds the lock, and the key is not its own";

pub(super) const TOKENS: &str = "a token is not above those before it";

pub(super) const OVERTAKEN: &str = "a process was overtaken in the queue";

pub(super) const IDLE: &str = "a lock that was given back is free, and one who waits can hear";

pub(super) const STRANDED: &str = "nobody who waits is ever granted the lock";

impl Model for Queues {
    type State = World;
    type Step = Event;

    fn start(&self) -> World {
        let mut processes = [Process::default(); PROCESSES];
        for process in &mut processes[..self.bounds.processes] {
            process.is_subscribed = true;
        }
        let server = Server::new();
        World { server, processes, issued: 0, faults: self.bounds.faults, breach: None }
    }

    fn steps(&self, world: &World, found: &mut Vec<(Event, World)>) {
        self.of_world(world, found);
        for process in 0..self.bounds.processes {
            self.of_process(world, process, found);
        }
    }

    fn canonical(&self, world: World) -> World {
        self.without_the_needless(world)
    }

    fn breach(&self, world: &World) -> Option<&'static str> {
        let holders = world.processes.iter().filter(|process| process.holds());
        if holders.clone().count() > 1 {
            return Some(BOTH);
        }
        if holders.clone().any(|process| process.owner != world.server.owner && !process.is_keyless)
        {
            return Some(KEYLESS);
        }
        match world.breach {
            Some(Breach::Token) => return Some(TOKENS),
            Some(Breach::Order) => return Some(OVERTAKEN),
            Some(Breach::Idle) => return Some(IDLE),
            None => {}
        }
        (self.bounds.is_live && self.is_stranded(world)).then_some(STRANDED)
    }
}

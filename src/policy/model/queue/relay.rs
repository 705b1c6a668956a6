//! The relay: a process that holds hands on to another of its owners, however many wait.

use super::server::YOURS;
use super::world::{Ask, Mail, Phase, Queues, World};

impl Queues {
    /// Another owner of the holder's process takes over.
    pub(super) fn hand_over(&self, world: &mut World, number: usize) {
        let process = &mut world.processes[number];
        process.owner += 1;
        process.attempts += 1;
        (process.phase, process.succeeds, process.is_keyless) = (Phase::TakingOver, true, false);
        self.ask(world, number, Ask::TakeOver);
    }

    /// The server has answered the successor: its lease counts from before it asked.
    pub(super) fn taken_over(&self, world: &mut World, number: usize, mail: Mail) {
        if mail.what == YOURS && !self.is_over(number, mail.age) {
            self.hold(world, number, mail.age, mail.token);
        } else {
            self.ends(world, number);
        }
    }
}

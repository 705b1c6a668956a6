//! Whether a waiter gets the lock once nothing fails any more.

use super::keys::FOREIGN;
use super::world::{Ask, Faults, Mail, Phase, Queues, World};

/// TTLs after which no waiter may still be without a lock that nobody keeps.
const PATIENCE: u8 = 6;

impl Queues {
    /// Whether no waiter is granted the lock, although from here on nothing fails, holders
    /// release at once, and all messages arrive.
    pub(super) fn is_stranded(&self, world: &World) -> bool {
        let waited = world.processes.map(|process| process.waits());
        if !waited.contains(&true) {
            return false;
        }
        let mut world = *world;
        world.faults = Faults::default();
        let longest = *self.bounds.ttl.iter().max().expect("there are processes");
        for tick in 0..PATIENCE * longest {
            if self.goes_well(&mut world, &waited) {
                return false;
            }
            self.tick(&mut world);
            if world.server.owner == FOREIGN {
                world.server.free();
            }
            for number in 0..self.bounds.processes {
                let process = &world.processes[number];
                let is_due = tick % 2 == 0 && process.waits();
                if is_due && process.questions.len() + process.answers.len() == 0 {
                    self.ask(&mut world, number, Ask::Beat);
                }
            }
        }
        let still = world.processes.iter().zip(waited);
        still.filter(|(process, waited)| *waited && process.waits()).count() > 0
    }

    /// Delivers all messages; returns whether one of the waiters holds.
    fn goes_well(&self, world: &mut World, waited: &[bool]) -> bool {
        loop {
            let mut has_moved = false;
            for (number, has_waited) in (0..self.bounds.processes).zip(waited) {
                let process = world.processes[number];
                if process.holds() && *has_waited {
                    return true;
                }
                let next = if process.stray != Mail::default() {
                    let mail = std::mem::take(&mut world.processes[number].stray);
                    self.carry_out(world, number, mail);
                    true
                } else if process.questions.len() > 0 {
                    let mail = world.processes[number].questions.pop();
                    let answer = self.carry_out(world, number, mail);
                    let process = &mut world.processes[number];
                    if let Some(answer) = answer.filter(|_| process.phase != Phase::Dead) {
                        process.answers.push(answer);
                    }
                    true
                } else if process.phase == Phase::Dead {
                    world.processes[number].is_subscribed = false;
                    false
                } else if process.answers.len() > 0 {
                    let mail = world.processes[number].answers.pop();
                    self.read(world, number, mail);
                    true
                } else if process.pushes.len() > 0 {
                    let mail = world.processes[number].pushes.pop();
                    self.hear(world, number, mail);
                    true
                } else if process.holds() || process.phase == Phase::TakingOver {
                    self.ends(world, number);
                    true
                } else {
                    world.processes[number].is_subscribed = true;
                    false
                };
                has_moved |= next;
            }
            if !has_moved {
                return false;
            }
        }
    }
}

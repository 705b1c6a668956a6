//! The server: what the scripts of the queue do, copied by hand.

use super::keys::{ENTRIES, ENTRY_LIFE, Entry, Owner, Server};
use super::world::{Ask, Breach, Mail, Queues, Weakness, World};

/// The values of an answer.
pub(super) const YOURS: u8 = 1;
pub(super) const WAITING: u8 = 2;
pub(super) const WAITING_FIRST: u8 = 3;
pub(super) const GONE: u8 = 4;
pub(super) const REFUSED: u8 = 5;
pub(super) const EXTENDED: u8 = 6;
/// The command was not carried out; its number in [`ASKS`] is added to this.
pub(super) const AGAIN: u8 = 16;

pub(super) const ASKS: [Ask; 6] =
    [Ask::Take, Ask::Enqueue, Ask::Beat, Ask::Leave, Ask::Extend, Ask::TakeOver];

impl Queues {
    fn mint(&self, server: &mut Server) -> u8 {
        server.counter = match server.counter {
            // The clock is above all tokens before.
            0 if !self.is(Weakness::LostCounterGoesOn) => server.minted + 1,
            counter => counter + 1,
        };
        server.minted = server.minted.max(server.counter);
        server.counter
    }

    /// Carries out a process's command; returns the answer, if any.
    pub(super) fn carry_out(&self, world: &mut World, process: usize, mail: Mail) -> Option<Mail> {
        let owner = mail.owner;
        let server = &mut world.server;
        if server.guarded > 0 {
            return None;
        }
        let answer = |what: u8, token: u8| Some(Mail { what, token, ..mail });
        match ASKS[usize::from(mail.what)] {
            Ask::Take => {
                if server.owner == 0 && server.clear() {
                    return answer(AGAIN + mail.what, 0);
                }
                server.purge();
                let is_overtaking = server.len > 0 && !self.is(Weakness::NewcomerOvertakes);
                if server.owner != 0 || is_overtaking {
                    return answer(REFUSED, 0);
                }
                let token = self.grant(world, process, owner);
                answer(YOURS, token)
            }
            Ask::Leave => {
                server.remove(owner);
                if server.owner == owner || server.owner == 0 {
                    let is_cut = server.clear();
                    if is_cut && !self.is(Weakness::BoundEndsTheSearch) {
                        return answer(AGAIN + mail.what, 0);
                    }
                    self.hand_on(world, is_cut);
                }
                None
            }
            Ask::Extend if server.owner == owner => {
                server.left = self.ttl(process);
                answer(EXTENDED, 0)
            }
            Ask::Extend => None,
            Ask::TakeOver => {
                let is_own = [0, owner, owner - 1].contains(&server.owner);
                if !is_own && !self.is(Weakness::TakesOverFromAnybody) {
                    return answer(REFUSED, 0);
                }
                server.take(owner, self.ttl(process));
                let mints = !self.is(Weakness::TakesOverWithoutMinting);
                answer(YOURS, if mints { self.mint(server) } else { server.counter })
            }
            Ask::Enqueue => self.wait(world, process, mail, true),
            Ask::Beat => self.wait(world, process, mail, false),
        }
    }

    /// A waiter's command; with its first an owner enters the queue.
    fn wait(&self, world: &mut World, process: usize, mail: Mail, enters: bool) -> Option<Mail> {
        let answer = |what: u8, token: u8| Some(Mail { what, token, ..mail });
        let (owner, ttl) = (mail.owner, self.ttl(process));
        let server = &mut world.server;
        if server.owner == 0 && server.clear() {
            return answer(AGAIN + mail.what, 0);
        }
        server.purge();
        if server.owner == owner {
            if !self.is(Weakness::YoursWithoutRearming) {
                server.left = ttl;
            }
            let token = if server.counter == 0 { self.mint(server) } else { server.counter };
            return answer(YOURS, token);
        }
        let place = server.place(owner);
        if place.is_none() && !enters && !self.is(Weakness::HeartbeatQueuesAgain) {
            return answer(GONE, 0);
        }
        let is_first = place.unwrap_or(usize::from(server.len)) == 0;
        let takes = enters || !self.is(Weakness::BeatsDoNotTake);
        if server.owner == 0 && is_first && takes {
            let token = self.grant(world, process, owner);
            return answer(YOURS, token);
        }
        let at = place.unwrap_or(usize::from(server.len));
        if at < ENTRIES {
            server.queue[at] = Entry { owner, left: ENTRY_LIFE };
            server.len += u8::from(place.is_none());
            self.note_queued(world, process, owner);
        }
        answer(if is_first { WAITING_FIRST } else { WAITING }, 0)
    }

    /// The holder has gone: the first in the queue that a push reaches has the lock.
    pub(super) fn hand_on(&self, world: &mut World, is_cut: bool) {
        world.server.free();
        while world.server.len > 0 && !is_cut {
            let Entry { owner, left } = world.server.queue[0];
            world.server.remove(owner);
            let process = self.process_of(owner);
            let is_heard = world.processes[process].is_subscribed;
            if left == 0 || !is_heard {
                if self.is(Weakness::TellsWhomItPassesOver) {
                    world.processes[process].pushes.push(Mail { owner, ..Mail::default() });
                }
                continue;
            }
            let token = if self.is(Weakness::HandsOverWithoutMinting) {
                world.server.take(owner, self.ttl(process));
                world.server.counter
            } else {
                self.grant(world, process, owner)
            };
            let process = &mut world.processes[process];
            if !process.pushes.is_full() {
                process.pushes.push(Mail { owner, token, ..Mail::default() });
            }
            return;
        }
        let lives = |entry: &Entry| {
            entry.left > 0 && world.processes[self.process_of(entry.owner)].is_subscribed
        };
        if world.server.queue[..usize::from(world.server.len)].iter().any(lives) {
            world.breach = Some(Breach::Idle);
        }
    }

    fn grant(&self, world: &mut World, process: usize, owner: Owner) -> u8 {
        world.server.take(owner, self.ttl(process));
        self.note_granted(world, process, owner);
        self.mint(&mut world.server)
    }
}

//! The model of exclusion: what a message does when it arrives; the properties; which states are
//! the same.

use super::explore::Model;
use super::lease::{Elder, Leases, Repair};
use super::redis::Owner;
use super::world::{CLIENTS, EACH, Lane, Mail, Message, Phase, Server, Step, World, Wrong};

impl<const N: usize> Leases<N> {
    /// What may happen between one attempt and one server.
    pub(super) fn arrivals(
        &self,
        world: &World<N>,
        s: usize,
        attempt: usize,
        found: &mut Vec<(Step, World<N>)>,
    ) {
        let lane = world.servers[s].lanes[attempt];
        // On one connection no message overtakes an earlier one.
        let extend_is_next = lane.acquire != Mail::Sent;
        let release_is_next = extend_is_next && lane.extend != Mail::Sent;
        if lane.acquire.is_under_way() {
            self.push_arrival(world, s, attempt, Message::Acquire, found);
        }
        if lane.extend == Mail::Stray || lane.extend == Mail::Sent && extend_is_next {
            self.push_arrival(world, s, attempt, Message::Extend, found);
        }
        if lane.release == Mail::Sent && release_is_next {
            self.push_arrival(world, s, attempt, Message::Release, found);
        }
        if self.bounds.strays && (lane.acquire == Mail::Sent || lane.extend == Mail::Sent) {
            let mut next = *world;
            let lane = &mut next.servers[s].lanes[attempt];
            for mail in [&mut lane.acquire, &mut lane.extend] {
                if *mail == Mail::Sent {
                    *mail = Mail::Stray;
                }
            }
            found.push((Step::Disconnect { attempt, server: s }, next));
        }
    }

    fn push_arrival(
        &self,
        world: &World<N>,
        s: usize,
        attempt: usize,
        message: Message,
        found: &mut Vec<(Step, World<N>)>,
    ) {
        let mut next = *world;
        let predecessor = self.predecessor(world, attempt);
        let server = &mut next.servers[s];
        let was_done = match message {
            Message::Acquire => self.acquire(server, attempt, predecessor),
            Message::Extend => self.extend_on(server, attempt, &mut next.wrong),
            Message::Release => {
                let deletes_any = self.mutant.deletes_any && predecessor != 0;
                self.release_on(server, attempt, deletes_any, &mut next.wrong)
            }
        };
        if was_done || self.bounds.strays {
            found.push((Step::Arrive { message, attempt, server: s }, next));
        }
    }

    fn acquire(&self, server: &mut Server, attempt: usize, predecessor: Owner) -> bool {
        let owner = self.owner(attempt);
        let was_set_by = server.set_by;
        let mut is_granted = server.keys.take(owner, predecessor, self.lasts());
        if is_granted {
            server.set_by = number(attempt);
        } else if self.mutant.counts_own_key {
            is_granted = usize::from(was_set_by - 1) / EACH == attempt / EACH;
        }
        answer(&mut server.lanes[attempt].acquire, is_granted);
        is_granted
    }

    fn extend_on(&self, server: &mut Server, attempt: usize, wrong: &mut Option<Wrong>) -> bool {
        let owner = self.owner(attempt);
        let may_repair = match self.mutant.repair {
            Repair::Nowhere => false,
            Repair::WhereFit => self.may_vote(server),
            Repair::Anywhere => true,
        };
        let is_granted = if may_repair && server.keys.owner == 0 {
            server.set_by = number(attempt);
            server.keys.take(owner, 0, self.lasts())
        } else {
            server.keys.extend(owner, self.lasts())
        };
        if is_granted && server.set_by != number(attempt) {
            *wrong = Some(Wrong::ForeignExtend);
        }
        answer(&mut server.lanes[attempt].extend, is_granted);
        is_granted
    }

    fn release_on(
        &self,
        server: &mut Server,
        attempt: usize,
        deletes_any: bool,
        wrong: &mut Option<Wrong>,
    ) -> bool {
        let owner = if deletes_any { server.keys.owner } else { self.owner(attempt) };
        let was_held = server.keys.release(owner);
        if was_held && server.set_by != number(attempt) {
            *wrong = Some(Wrong::ForeignRelease);
        }
        if was_held {
            server.set_by = 0;
        }
        server.lanes[attempt].release = Mail::Over;
        was_held
    }

    /// Forgets what no longer matters, so that states that differ only in that are one.
    fn settle(&self, world: &mut World<N>) {
        // Successors first: what becomes of a predecessor's messages depends on theirs.
        for attempt in Self::begun(world).rev() {
            let c = attempt / EACH;
            let client = world.clients[c];
            let is_current = attempt == Self::current(world, c);
            let is_asking = is_current && client.phase == Phase::Asking;
            let is_holding = is_current && client.phase == Phase::Holding;
            let may_extend = client.extensions < self.bounds.extensions[c];
            let may_hand_over = self.bounds.hand_overs && client.attempts < self.bounds.attempts[c];
            // Messages from before a hand-over may still arrive as long as the successor's acquire may.
            let is_heir_active = client.phase != Phase::Idle
                && attempt + 1 == Self::current(world, c)
                && client.is_heir(attempt + 1);
            let owner = self.owner(attempt);
            for server in &mut world.servers {
                let is_owner = server.keys.owner == owner;
                let lane = &mut server.lanes[attempt];
                if !is_asking && lane.acquire == Mail::Yes {
                    lane.acquire = Mail::Over;
                }
                if !(is_holding && client.is_extending) && lane.extend == Mail::Yes {
                    lane.extend = Mail::Over;
                }
                if self.bounds.strays {
                    continue;
                }
                // The reductions that the head of the model argues for.
                if is_heir_active && server.lanes[attempt + 1].acquire == Mail::Sent {
                    continue;
                }
                let lane = &mut server.lanes[attempt];
                if !is_asking && !is_holding {
                    let release = if is_owner { lane.release } else { Mail::None };
                    *lane = Lane { release, ..Lane::default() };
                } else if is_holding && !client.is_extending && !may_extend && !may_hand_over {
                    *lane = Lane::default();
                }
            }
            self.forget_heir(world, attempt);
        }
    }

    fn forget_heir(&self, world: &mut World<N>, attempt: usize) {
        let c = attempt / EACH;
        let client = world.clients[c];
        let is_over = client.phase == Phase::Idle || attempt != Self::current(world, c);
        let can_matter = |server: &Server| {
            let lane = server.lanes[attempt];
            lane.acquire.is_under_way() || self.mutant.deletes_any && lane.release == Mail::Sent
        };
        if is_over && client.is_heir(attempt) && !world.servers.iter().any(can_matter) {
            world.clients[c].heirs &= !(1 << (attempt % EACH));
        }
    }
}

impl<const N: usize> Model for Leases<N> {
    type State = World<N>;
    type Step = Step;

    fn start(&self) -> World<N> {
        let server = Server { up_for: self.bounds.ttl, ..Server::default() };
        World { servers: [server; N], clients: Default::default(), wrong: None }
    }

    fn steps(&self, world: &World<N>, found: &mut Vec<(Step, World<N>)>) {
        for client in 0..CLIENTS {
            self.client_steps(world, client, found);
        }
        for server in 0..N {
            // A server like the one before it would only give the same states again.
            if server == 0 || world.servers[server] != world.servers[server - 1] {
                self.server_steps(world, server, found);
            }
        }
        found.push((Step::Tick, self.tick(*world)));
    }

    fn canonical(&self, mut world: World<N>) -> World<N> {
        self.settle(&mut world);
        world.servers.sort_unstable_by_key(Server::code);
        world
    }

    fn breach(&self, world: &World<N>) -> Option<&'static str> {
        let holds = [0, 1].map(|client| self.holds(world, client));
        let is_doubled = world.clients.iter().zip(holds).any(|(client, holds)| {
            holds && client.phase == Phase::Holding && self.is_elder_valid(client.elder)
        });
        let is_resumed = (0..CLIENTS).any(|c| holds[c] && world.clients[c].is_overtaken);
        if holds == [true, true] {
            return Some("two clients hold the lock at once");
        }
        if is_doubled && self.mutant.elder == Elder::GoesOn {
            return Some("a lease goes on beside the one that took over from it");
        }
        if is_resumed {
            return Some("a lease goes on although another was granted in between");
        }
        let is_endless = |server: &Server| {
            let ends = 1..=self.lasts();
            server.keys.owner != 0 && !ends.contains(&server.keys.left)
        };
        if world.servers.iter().any(is_endless) {
            return Some("a lock is held for longer than its TTL");
        }
        if self.mutant.exclusion_only {
            return None;
        }
        world.wrong.map(|wrong| match wrong {
            Wrong::ForeignRelease => "a release deletes the lock of another attempt",
            Wrong::ForeignExtend => "an extension prolongs the lock of another attempt",
        })
    }
}

fn number(attempt: usize) -> u8 {
    u8::try_from(attempt).expect("attempts are few") + 1
}

/// The reply to a stray message is never read.
fn answer(mail: &mut Mail, is_granted: bool) {
    *mail = if is_granted && *mail == Mail::Sent { Mail::Yes } else { Mail::Over };
}

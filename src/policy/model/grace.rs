//! The model of the grace after a failover: two servers that replicate one to the other, and two clients that take one
//! lock.
//!
//! A replica has what the primary had at some moment: it copies that whenever the adversary likes. The adversary
//! promotes it at any time, any number of times in a row, copied or not; the primary before it is a replica from
//! then on, and ends no connection. It restarts a primary, with its memory, without, or with what the other server
//! has; deletes the marker; has a command arrive as late as it likes, also when its connection has ended, and at a
//! server that was a replica meanwhile; ends connections; and has clients connect, extend, release, and repeat owed
//! releases whenever they like. Real is `Reign`. The scripts are copied by hand.
//!
//! Time goes in ticks of a second, and a server is a replica for at least one. Waiters send no commands: a release
//! that hands on chooses the first client that holds nothing.

use std::time::Duration;

use super::super::Moment;
use super::super::mutants::Mutant;
use super::super::mutants::grace::Reign;
use super::explore::Model;
pub(super) use world::{BOTH, Bounds, FALLS, LOST, SHUT, Step, What, World};
use world::{
    CLIENTS, Client, Connection, Data, EPOCH, Lease, Marker, Message, NODES, Node, TOKENS,
};

mod world;

pub(super) struct Failovers(pub(super) Bounds);

impl Failovers {
    fn span(&self, ticks: u8) -> Duration {
        Duration::from_secs(ticks.into()) / u32::from(self.0.ticks)
    }

    fn at(&self, tick: u8) -> Moment {
        Moment::from_nanos(0).after(self.span(tick))
    }

    fn micros(&self, tick: u8) -> u64 {
        u64::try_from(self.span(EPOCH + tick).as_micros()).expect("it is short")
    }

    fn longest(&self) -> Duration {
        let [one, other] = self.0.ttls;
        self.span(one.max(other).max(self.0.heirs_ttl))
    }

    /// The longest grace in ticks: no TTL is longer than three seconds.
    fn grace_max(&self) -> u8 {
        3 * self.0.ticks
    }

    /// The server's clock, in tokens.
    fn clock(&self, node: usize, now: u8) -> u8 {
        (EPOCH + now - if node == 1 { self.0.behind } else { 0 }) * TOKENS
    }

    /// `scripts/reign.lua`, and what the client learns from it.
    fn meet(&self, world: &World, client: usize, node: usize, asked: u8) -> World {
        let mut next = *world;
        let now = world.now;
        let Node { run, id, data } = &mut next.nodes[node];
        if node != world.primary {
            let reign =
                Reign::of(0, self.micros(now), self.longest(), self.at(asked), self.at(now));
            next.end(client, false);
            if Mutant::ReplicaIsMet.is_on() {
                next.clients[client].connection = Connection::Knows { node, reign };
            }
            return next;
        }
        let is_it = data.marker.run == *run
            && (data.marker.id == *id || Mutant::RunAloneIsTheReign.is_on());
        if !is_it || Mutant::EachBeginsTheReign.is_on() {
            data.marker = Marker { run: *run, id: *id, began: now };
        }
        let began = data.marker.began;
        let begun = *next.begun.get_or_insert(now);
        let reign = Reign::of(
            self.micros(began),
            self.micros(now),
            self.longest(),
            self.at(asked),
            self.at(now),
        );
        if now >= begun + self.grace_max() && reign.wait(self.at(now)) > Duration::ZERO {
            next.breach = Some(SHUT);
        }
        next.clients[client].connection = Connection::Knows { node, reign };
        next
    }

    /// What a client may do by itself.
    fn client(&self, world: &World, number: usize, found: &mut Vec<(Step, World)>) {
        let client = world.clients[number];
        let now = world.now;
        let (node, reign) = match client.connection {
            Connection::None => {
                for node in 0..NODES {
                    if node == world.primary || Mutant::ReplicaIsMet.is_on() {
                        self.dial(world, number, node, found);
                    }
                }
                return;
            }
            Connection::Asks { node, asked } => {
                found.push((Step::Meet { client: number }, self.meet(world, number, node, asked)));
                return;
            }
            Connection::Knows { node, reign } => (node, reign),
        };
        if node != world.primary || client.message.what != What::Nothing {
            let mut next = *world;
            next.end(number, false);
            found.push((Step::End { client: number }, next));
        }
        if client.message.what != What::Nothing {
            found.push((
                Step::Arrive { client: number, what: client.message.what, to: node },
                self.arrive(world, number, node),
            ));
            if world.stray.is_none() {
                let mut next = *world;
                next.end(number, true);
                found.push((Step::End { client: number }, next));
            }
            return;
        }
        if !reign.is_sure(self.at(now)) {
            self.dial(world, number, node, found);
        }
        if node == world.primary && !self.0.is_left {
            let mut next = *world;
            let mut reign = reign;
            reign.is_used(self.at(now));
            next.clients[number].connection = Connection::Knows { node, reign };
            found.push((Step::Use { client: number }, next));
        }
        self.ask(world, number, node, reign, found);
    }

    /// Asks for the reign.
    fn dial(&self, world: &World, client: usize, node: usize, found: &mut Vec<(Step, World)>) {
        let step = Step::Dial { client, node };
        found.push((step, self.meet(world, client, node, world.now)));
        if client == 0 && world.late < self.0.late {
            let mut next = World { late: world.late + 1, ..*world };
            next.clients[client].connection = Connection::Asks { node, asked: world.now };
            found.push((step, next));
        }
    }

    fn ask(
        &self,
        world: &World,
        number: usize,
        node: usize,
        reign: Reign,
        found: &mut Vec<(Step, World)>,
    ) {
        let client = world.clients[number];
        let (lease, now) = (client.lease, world.now);
        let is_open = reign.grants(self.at(now));
        let hands_on = reign.wait(self.at(now)).is_zero() || Mutant::HandsOnInTheGrace.is_on();
        let mut push = |what, lease: Lease, is_new: bool| {
            let mut next = *world;
            next.attempts += u8::from(is_new);
            next.clients[number].message =
                Message { what, lease, asked: now, floor: if is_new { world.largest } else { 0 } };
            if is_new || matches!(what, What::Release { .. }) {
                next.clients[number].lease = Lease::default();
            }
            if client.owed == lease.owner {
                next.clients[number].owed = 0;
            }
            let Lease { owner, token, .. } = lease;
            let step = Step::Ask { client: number, what, owner, token };
            found.push((step, self.arrive(&next, number, node)));
            if number == 0 && next.late < self.0.late {
                next.late += 1;
                found.push((step, next));
            }
        };
        let may_begin = world.attempts < self.0.attempts;
        let owner = world.attempts + 1;
        let wall = (EPOCH + now) * TOKENS;
        if lease.is_held(now) && self.0.is_left {
            return;
        }
        if lease.is_held(now) {
            let what = match reign.reasserted_by(self.at(now)) {
                Some(by) => What::Repair { by },
                None => What::Extend,
            };
            if lease.ends < now + lease.ttl {
                push(what, lease, false);
            }
            push(What::Release { hands_on }, lease, false);
            if may_begin && self.0.heirs_ttl > 0 {
                let above = if Mutant::TokenIsNotAboveThePredecessors.is_on() {
                    0
                } else {
                    lease.token + 1
                };
                let heir = Lease { owner, token: wall.max(above), ttl: self.0.heirs_ttl, ends: 0 };
                push(What::Acquire { from: lease.owner }, heir, true);
            }
            return;
        }
        if client.owed != 0 {
            let hands_on = is_open || Mutant::HandsOnInTheGrace.is_on();
            push(
                What::Release { hands_on },
                Lease { owner: client.owed, ..Lease::default() },
                false,
            );
        }
        if may_begin && is_open {
            let off = if self.0.is_off { TOKENS } else { 0 };
            let ttl = self.0.ttls[number];
            push(What::Acquire { from: 0 }, Lease { owner, token: wall - off, ttl, ends: 0 }, true);
            if self.0.is_off {
                push(
                    What::Acquire { from: 0 },
                    Lease { owner, token: wall + off, ttl, ends: 0 },
                    true,
                );
            }
        }
    }

    /// The token that the server chooses, as in `scripts/acquire.lua`: the proposal, unless it is far from its clock.
    fn mint(&self, data: &Data, node: usize, now: u8, proposal: u8) -> u8 {
        let clock = self.clock(node, now);
        let is_far = proposal > data.counter + TOKENS && proposal.abs_diff(clock) > TOKENS;
        let token = if is_far { clock } else { proposal };
        token.max(data.counter + 1)
    }

    /// Runs the script; returns whether it gave or kept the owner its lease.
    fn carry_out(&self, next: &mut World, node: usize, message: &mut Message) -> bool {
        let now = next.now;
        let mut data = next.nodes[node].data;
        let holder = data.holder(now);
        let Lease { owner, token, ttl, .. } = message.lease;
        let is_done = match message.what {
            What::Acquire { from } if holder == 0 || holder == from => {
                message.lease.token = self.mint(&data, node, now, token);
                data.counter = message.lease.token;
                true
            }
            What::Extend => holder == owner,
            What::Repair { by } => {
                let takes_over = (token > data.counter && !Mutant::StaleKeysStay.is_on())
                    || Mutant::AnyHolderTakesOver.is_on();
                let is_heard = self.micros(now) < by && (holder == 0 || takes_over);
                if is_heard || holder == owner {
                    data.counter = data.counter.max(token);
                }
                is_heard || holder == owner
            }
            What::Release { .. } => {
                if holder == owner {
                    data.owner = 0;
                }
                next.nodes[node].data = data;
                return holder == owner;
            }
            _ => false,
        };
        if is_done {
            (data.owner, data.ends) = (owner, now + ttl);
            next.nodes[node].data = data;
        }
        is_done
    }

    fn arrive(&self, world: &World, number: usize, node: usize) -> World {
        let mut next = *world;
        let now = world.now;
        if node != world.primary {
            // The server says that it is a replica.
            next.end(number, false);
            return next;
        }
        let mut message = std::mem::take(&mut next.clients[number].message);
        let is_done = self.carry_out(&mut next, node, &mut message);
        let client = &mut next.clients[number];
        let Connection::Knows { reign, .. } = &mut client.connection else { return next };
        let is_sure = reign.is_sure(self.at(now)) || Mutant::GoneIsBelievedUnsure.is_on();
        let is_believed = reign.grants(self.at(now)) || Mutant::GrantIsBelievedLate.is_on();
        if is_done {
            reign.is_used(self.at(message.asked));
        }
        let granted = Lease { ends: message.asked + message.lease.ttl, ..message.lease };
        match message.what {
            What::Acquire { from } if is_done && granted.is_held(now) => {
                if is_believed || from != 0 {
                    client.lease = granted;
                    next.issue(granted.token, message.floor);
                } else {
                    client.owed = granted.owner;
                }
            }
            What::Extend | What::Repair { .. } if client.lease.is_held(now) => {
                if is_done {
                    client.lease = granted;
                } else if is_sure {
                    client.lease = Lease::default();
                    next.breach = Some(LOST);
                }
            }
            What::Release { hands_on: true } if is_done => self.hand_on(&mut next, node),
            _ => {}
        }
        next
    }

    /// Hands the lock to the waiter: the first client that is there and holds nothing.
    fn hand_on(&self, next: &mut World, node: usize) {
        let (now, clock) = (next.now, self.clock(node, next.now));
        let waits = |client: &Client| match client.connection {
            Connection::Knows { node: its, reign } if its == node => {
                let is_free = !client.lease.is_held(now) && client.message.what == What::Nothing;
                is_free.then_some(reign)
            }
            _ => None,
        };
        let mut waiting = next.clients.iter().enumerate();
        let Some((number, reign)) = waiting.find_map(|(at, client)| Some((at, waits(client)?)))
        else {
            return;
        };
        if next.attempts == self.0.attempts {
            return;
        }
        next.attempts += 1;
        let data = &mut next.nodes[node].data;
        let (owner, token) = (next.attempts, clock.max(data.counter + 1));
        let ttl = self.0.ttls[number];
        (data.owner, data.ends, data.counter) = (owner, now + ttl, token);
        if reign.grants(self.at(now)) || Mutant::GrantIsBelievedLate.is_on() {
            next.clients[number].lease = Lease { owner, token, ttl, ends: now + ttl };
            next.issue(token, next.largest);
        } else {
            next.clients[number].owed = owner;
        }
    }
}

impl Model for Failovers {
    type State = World;
    type Step = Step;

    /// Both clients are connected to the first server, whose grace is over.
    fn start(&self) -> World {
        let now = self.grace_max();
        let data = Data { marker: Marker { run: 1, id: 1, began: 0 }, ..Data::default() };
        let reign =
            Reign::of(self.micros(0), self.micros(now), self.longest(), self.at(now), self.at(now));
        let connection = Connection::Knows { node: 0, reign };
        World {
            now,
            primary: 0,
            changed: 0,
            begun: Some(0),
            promotions: 0,
            restarts: 0,
            losses: 0,
            attempts: 0,
            late: 0,
            largest: 0,
            nodes: [Node { run: 1, id: 1, data }, Node { run: 2, id: 1, data: Data::default() }],
            clients: [Client { connection, ..Client::default() }; CLIENTS],
            stray: None,
            breach: None,
        }
    }

    fn steps(&self, world: &World, found: &mut Vec<(Step, World)>) {
        world.servers(&self.0, found);
        for number in 0..CLIENTS {
            self.client(world, number, found);
        }
        if let Some((node, mut message)) = world.stray {
            let mut next = World { stray: None, ..*world };
            if node == world.primary {
                self.carry_out(&mut next, node, &mut message);
            }
            found.push((Step::Stray { what: message.what, owner: message.lease.owner }, next));
        }
    }

    /// Moments that are over are forgotten, with how long ago they were.
    fn canonical(&self, mut world: World) -> World {
        let (now, primary) = (world.now, world.primary);
        let is_over = |began: u8| now >= began + self.grace_max();
        for (number, Node { run, id, data }) in world.nodes.iter_mut().enumerate() {
            if data.holder(now) == 0 {
                (data.owner, data.ends) = (0, 0);
            }
            if number != primary {
                *id = 0;
            }
            if data.marker.run != *run {
                data.marker = Marker::default();
            } else if is_over(data.marker.began) {
                data.marker.began = 0;
            }
        }
        world.begun = world.begun.map(|begun| if is_over(begun) { 0 } else { begun });
        if world.changed < now {
            world.changed = 0;
        }
        for client in &mut world.clients {
            if !client.lease.is_held(now) {
                client.lease = Lease::default();
            }
            if let Connection::Knows { reign, .. } = &mut client.connection {
                let is_sure = reign.is_sure(self.at(now));
                if reign.wait(self.at(now)).is_zero() && (self.0.ticks == 1 || !is_sure) {
                    let used = if is_sure { now } else { 0 };
                    let micros = self.micros(self.grace_max());
                    *reign = Reign::of(0, micros, self.longest(), self.at(used), self.at(0));
                }
            }
        }
        world
    }

    fn breach(&self, world: &World) -> Option<&'static str> {
        let is_held = |client: &Client| client.lease.is_held(world.now);
        match world.clients.iter().all(is_held) {
            true => Some(BOTH),
            false => world.breach.filter(|breach| {
                let is_in_order = *breach != FALLS || self.0.behind == 0;
                is_in_order && !self.0.is_exclusion_alone
            }),
        }
    }
}

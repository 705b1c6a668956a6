//! The machine against simulated servers that run the shipped scripts, with a network and a clock made by a seed.

mod bounds;
mod failovers;
mod limits;
mod loss;
mod queue;
mod scriptless;
mod shares;
mod sharing;
mod slots;
mod soak;
mod taking;
mod traces;
mod turns;

use std::cell::Cell;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits, encode_frame};

use super::server::slot::Slot;
use super::server::{Server, Session, Told};
use crate::extra::{QUEUE, groups};
use crate::fingerprint::rank;
use crate::machine::{
    Effect, FENCED, Fault, Handshake, Kind, LIMITS, LeaseId, Login, Machine, Options, PLAIN,
    Settings,
};
use crate::names::Names;
use crate::policy::fitness::Rules;
use crate::policy::mutants::{self, Mutant};
use crate::policy::{Bounds, End, LeaseState, Loss, Moment, Quorum, Retry, Term, Wait};

thread_local! {
    pub(super) static NOW_MICROS: Cell<u64> = const { Cell::new(0) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

const TTL: Duration = Duration::from_secs(2);
/// How long a client of a Cluster waits before it asks for a map, in microseconds.
const MAP_AFTER: u64 = 200_000;
const BEGAN_MICROS: u64 = 1_800_000_000_000_000;

fn wall() -> u64 {
    BEGAN_MICROS + NOW_MICROS.get()
}

fn random() -> u64 {
    // SplitMix64, by Steele, Lea and Flood.
    let state = RANDOM.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    RANDOM.set(state);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A number below `limit`.
fn below(limit: usize) -> usize {
    usize::try_from(random() % limit as u64).expect("it is small")
}

fn percent(percent: u64) -> bool {
    random() % 100 < percent
}

fn settings(servers: usize) -> Settings {
    Settings {
        quorum: Quorum::new(servers, None).unwrap(),
        timeout: Duration::from_millis(200),
        connect_timeout: Duration::from_millis(500),
        rules: (servers > 1).then_some(Rules {
            restart_quarantine: Some(TTL),
            strict: false,
            in_cluster: false,
            by_sentinels: false,
        }),
        info_if_allowed: &["server"],
        limits: LIMITS,
        nodes_of: None,
        flight_max: Duration::from_secs(5),
        scripts: crate::scripts::of_locks(&[]),
        scriptless: None,
        waits: &QUEUE,
        rank,
        random,
        owner_id: |_| u128::from(random()) << 64 | u128::from(random()),
        wall_micros: wall,
    }
}

/// Bytes under way, each with its time of arrival.
type Way = VecDeque<(u64, Bytes)>;

struct Wire {
    server: usize,
    session: Session,
    to_server: Way,
    to_client: Way,
    decoder: Decoder,
    at_server: BytesMut,
    at_client: BytesMut,
    /// The handshake, while it is under way.
    handshake: Option<Handshake>,
    /// Until when no bytes are carried, in either direction.
    held_until: u64,
    /// The number of commands that the server has run.
    run: usize,
    /// `ASKING` was the last command.
    is_asking: bool,
}

pub(super) struct Client {
    pub(super) machine: Machine,
    wires: Vec<Option<Wire>>,
    leases: Vec<Use>,
    /// Whether the process stands still.
    pub(super) is_paused: bool,
}

/// A lease, as known to its user.
struct Use {
    id: LeaseId,
    is_granted: bool,
    is_releasing: bool,
}

pub(super) struct World {
    pub(super) servers: Vec<Server>,
    pub(super) clients: Vec<Client>,
    /// Connections that their clients no longer read.
    cut: Vec<(usize, Wire)>,
    links: u64,
    latency: u64,
    last_token: u64,
    granted: usize,
    released: usize,
    /// The number of processes that have been shut down, and are not replaced yet.
    ended: usize,
    /// Why machines closed connections.
    faults: Vec<Fault>,
    /// When a server last lost its memory.
    forgot_at: Option<Moment>,
    /// Percentage of pushes that are lost, come late, and come twice, each.
    harmed: u64,
    /// Pushes that come later than replies after them, each with its time and connection.
    late: Vec<(u64, u64, Bytes)>,
    /// The slot of all keys, if the servers are a Cluster.
    slot: Option<Slot>,
}

impl World {
    pub(super) fn new(servers: usize, clients: usize, seed: u64) -> Self {
        NOW_MICROS.set(0);
        RANDOM.set(seed);
        let true_wall = || i64::try_from(wall()).unwrap();
        Self {
            servers: (0..servers)
                .map(|number| Server::new(number, true_wall, 5_000, false))
                .collect(),
            clients: (0..clients)
                .map(|_| Client {
                    machine: Machine::new(
                        (0..servers).map(|at| at.to_string()),
                        settings(servers),
                        now(),
                    ),
                    wires: (0..servers).map(|_| None).collect(),
                    leases: Vec::new(),
                    is_paused: false,
                })
                .collect(),
            cut: Vec::new(),
            links: 0,
            latency: 300,
            last_token: 0,
            granted: 0,
            released: 0,
            ended: 0,
            faults: Vec::new(),
            forgot_at: None,
            harmed: 0,
            late: Vec::new(),
            slot: None,
        }
    }

    /// One step of time, with all its events.
    fn step(&mut self) {
        NOW_MICROS.set(NOW_MICROS.get() + 100);
        self.move_on();
        for client in 0..self.clients.len() {
            if self.clients[client].is_paused {
                continue;
            }
            for link in 0..self.clients[client].wires.len() {
                self.carry(client, link);
            }
            if self.clients[client].machine.due() <= now() {
                self.clients[client].machine.tick(now());
            }
            self.drive(client);
        }
        let mut cut = std::mem::take(&mut self.cut);
        for (server, wire) in &mut cut {
            let told = serve(&mut self.servers, (*server, self.slot.as_ref()), wire, self.latency);
            self.tell(told);
            if wire.to_server.is_empty() {
                self.servers[*server].forget_link(wire.session.link);
            }
        }
        cut.retain(|(_, wire)| !wire.to_server.is_empty());
        self.cut = cut;
        let is_expired = |server: &usize| (NOW_MICROS.get() / 100 + *server as u64) % 10 == 0;
        for server in (0..self.servers.len()).filter(is_expired) {
            if !self.servers[server].is_down() && !self.servers[server].is_frozen {
                let (told, _) = self.servers[server].expire();
                self.tell(told);
            }
        }
        let is_due = |(at, ..): &(u64, u64, Bytes)| *at <= NOW_MICROS.get();
        let (due, late) = std::mem::take(&mut self.late).into_iter().partition(is_due);
        self.late = late;
        let due: Vec<_> = due;
        for (_, link, bytes) in &due {
            self.push(*link, bytes);
        }
    }

    fn carry(&mut self, client: usize, link: usize) {
        let Some(wire) = &mut self.clients[client].wires[link] else { return };
        let server = wire.server;
        let told = serve(&mut self.servers, (server, self.slot.as_ref()), wire, self.latency);
        self.tell(told);
        let Client { machine, wires, .. } = &mut self.clients[client];
        let Some(wire) = &mut wires[link] else { return };
        let is_held = wire.held_until > NOW_MICROS.get();
        while wire.to_client.front().is_some_and(|(at, _)| !is_held && *at <= NOW_MICROS.get()) {
            let (_, bytes) = wire.to_client.pop_front().unwrap();
            wire.at_client.extend_from_slice(&bytes);
        }
        let heard = match &mut wire.handshake {
            None if is_held || wire.at_client.is_empty() => return,
            None => return machine.received(link, &mut wire.at_client, now()),
            Some(handshake) if handshake.ends_at() <= now() => Err(handshake.late()),
            Some(handshake) => handshake.received(&mut wire.at_client, now()),
        };
        match heard {
            Ok(false) => {}
            Ok(true) => {
                let greeted = wire.handshake.take().unwrap();
                machine.connected(link, greeted, now());
            }
            Err(fault) => {
                self.cut.extend(wires[link].take().map(|wire| (server, wire)));
                self.faults.push(fault.clone());
                machine.disconnected(link, fault, now());
                self.wants_map(client);
            }
        }
    }

    /// Does a driver's work.
    fn drive(&mut self, client: usize) {
        let Client { machine, wires, .. } = &mut self.clients[client];
        let (mut dials, mut is_map_wanted) = (Vec::new(), false);
        for effect in std::mem::take(machine.take_effects()) {
            match effect {
                Effect::Dial(link, _) => dials.push(link),
                Effect::Login(link) => machine.log_in(link, None, now()),
                Effect::Close(link, fault) => {
                    self.faults.push(fault);
                    self.cut.extend(wires[link].take().map(|wire| (wire.server, wire)));
                    is_map_wanted = true;
                }
                Effect::Wake(waker) => waker.wake(),
                Effect::Demoted(_) => is_map_wanted = true,
                Effect::Drop(_) | Effect::Tell(_) => {}
            }
        }
        wires.resize_with(machine.links(), || None);
        for link in dials {
            let server = server_at(machine.address(link));
            if self.servers[server].is_down() {
                machine.disconnected(link, Fault::Undialled { is_lasting: false }, now());
                is_map_wanted = true;
                continue;
            }
            self.links += 1;
            let settings = *machine.settings();
            let ends_at = now().after(settings.connect_timeout);
            let handshake = Handshake::new(settings, Login::default(), ends_at, now());
            wires[link] = Some(Wire {
                server,
                session: Session::new(self.links),
                to_server: Way::new(),
                to_client: Way::new(),
                decoder: Decoder::new(Limits::default()),
                at_server: BytesMut::new(),
                at_client: BytesMut::new(),
                handshake: Some(handshake),
                held_until: 0,
                run: 0,
                is_asking: false,
            });
        }
        for (link, wire) in wires.iter_mut().enumerate() {
            let Some(wire) = wire else { continue };
            let out = match &mut wire.handshake {
                Some(handshake) => handshake.output().split(),
                None => machine.output(link, now()).split(),
            };
            let out = out.freeze();
            if !out.is_empty() {
                let arrives = NOW_MICROS.get() + self.latency / 2 + random() % self.latency;
                let after = wire.to_server.back().map_or(0, |(at, _)| *at);
                wire.to_server.push_back((arrives.max(after), out));
            }
        }
        if is_map_wanted {
            self.wants_map(client);
        }
    }

    /// A client of a Cluster asks for a map soon.
    fn wants_map(&mut self, client: usize) {
        if let Some(slot) = &mut self.slot {
            slot.maps_at[client] = slot.maps_at[client].min(NOW_MICROS.get() + MAP_AFTER);
        }
    }

    /// Delivers a server's pushes.
    fn tell(&mut self, told: Vec<Told>) {
        for (link, frame) in told {
            let mut out = BytesMut::new();
            encode_frame(&mut out, &frame);
            let bytes = out.freeze();
            if percent(self.harmed) {
                continue;
            }
            if percent(self.harmed) {
                let at = NOW_MICROS.get() + random() % 3_000_000;
                self.late.push((at, link, bytes.clone()));
                if percent(50) {
                    continue;
                }
            }
            self.push(link, &bytes);
        }
    }

    /// A push goes to the connection, behind the bytes under way.
    fn push(&mut self, link: u64, bytes: &Bytes) {
        let wires = self.clients.iter_mut().flat_map(|client| client.wires.iter_mut().flatten());
        for wire in wires.filter(|wire| wire.session.link == link) {
            let after = wire.to_client.back().map_or(0, |(at, _)| *at);
            let arrives = NOW_MICROS.get() + self.latency / 2 + random() % self.latency;
            wire.to_client.push_back((arrives.max(after), bytes.clone()));
        }
    }

    /// A connection ends; bytes under way to the server still arrive.
    fn cut(&mut self, client: usize, server: usize) {
        let Client { machine, wires, .. } = &mut self.clients[client];
        let is_there = |wire: &Wire| wire.server == server;
        let link = wires.iter().position(|wire| wire.as_ref().is_some_and(is_there));
        let Some(link) = link else { return };
        if let Some(mut wire) = wires[link].take() {
            // Some of them late, after the next connection's first commands.
            if percent(50) {
                let late = random() % 400_000;
                wire.to_server.iter_mut().for_each(|(at, _)| *at += late);
            }
            self.cut.push((server, wire));
            machine.disconnected(link, Fault::Closed, now());
            self.wants_map(client);
        }
    }

    pub(super) fn ask(&mut self, client: usize, kind: &'static Kind, wait: Wait) -> LeaseId {
        self.ask_for(client, kind, wait, (true, Bounds::default()))
    }

    fn ask_for(
        &mut self,
        client: usize,
        kind: &'static Kind,
        wait: Wait,
        (is_renewed, bounds): (bool, Bounds),
    ) -> LeaseId {
        let options = Options { bounds, is_renewed, ..options(kind, wait) };
        self.begin(client, options)
    }

    fn begin(&mut self, client: usize, options: Options) -> LeaseId {
        let id = self.clients[client].machine.acquire(options, now());
        self.clients[client].leases.push(Use { id, is_granted: false, is_releasing: false });
        id
    }

    pub(super) fn run_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        for _ in 0..200_000 {
            if is_so(self) {
                return;
            }
            self.step();
        }
        panic!("not within 20 s: {what}");
    }

    pub(super) fn is_granted(&mut self, client: usize, id: LeaseId) -> bool {
        let context = Context::from_waker(Waker::noop());
        self.clients[client].machine.poll_acquire(id, &context) == Poll::Ready(Ok(()))
    }

    fn is_released(&mut self, client: usize, id: LeaseId) -> Option<End> {
        let context = Context::from_waker(Waker::noop());
        match self.clients[client].machine.poll_release(id, &context) {
            Poll::Ready(end) => Some(end),
            Poll::Pending => None,
        }
    }

    /// The number of a client's commands that servers have run.
    fn asked(&self, client: usize) -> usize {
        self.clients[client].wires.iter().flatten().map(|wire| wire.run).sum()
    }

    /// Whether a living waiter is in a queue.
    fn is_waited_for(&mut self) -> bool {
        self.servers.iter_mut().any(|server| server.next_waiter(b"a").is_some())
    }

    /// Whether any server has the lock's key, or that of a group's other lock.
    fn has_key(&mut self) -> bool {
        self.servers.iter_mut().any(|server| server.has(b"a") || server.has(b"b"))
    }
}

fn options(kind: &'static Kind, wait: Wait) -> Options {
    let names = Names::new(b"", b"a").unwrap();
    let words = if std::ptr::eq(kind, &groups::GROUP) {
        groups::words(&[names.clone(), Names::new(b"", b"b").unwrap()], &[])
    } else {
        Box::default()
    };
    Options {
        kind,
        names,
        term: Term::new(TTL, None).unwrap(),
        bounds: Bounds::default(),
        wait,
        retry: Retry::default(),
        is_renewed: true,
        is_fair: false,
        words,
        said: Box::default(),
    }
}

/// The server at an address, which ends with its number.
fn server_at(address: &str) -> usize {
    let number = address.rsplit(':').next().unwrap();
    number.parse().unwrap()
}

pub(super) fn now() -> Moment {
    Moment::from_nanos((NOW_MICROS.get() + 1_000_000) * 1000)
}

/// The words of a command, with the bug of a release that compares nothing if that is on.
fn said(mut words: Vec<Bytes>) -> Vec<Bytes> {
    let is_release = words.len() == 7 && words[0] == "SET" && words[5] == "PXAT";
    if is_release && Mutant::ReleasedWhoeverHasIt.is_on() {
        words.drain(3..5);
    }
    words
}

fn serve(
    servers: &mut [Server],
    (at, slot): (usize, Option<&Slot>),
    wire: &mut Wire,
    latency: u64,
) -> Vec<Told> {
    let mut all_told = Vec::new();
    let server = &mut servers[at];
    if server.is_down() || server.is_frozen || wire.held_until > NOW_MICROS.get() {
        return all_told;
    }
    while wire.to_server.front().is_some_and(|(at, _)| *at <= NOW_MICROS.get()) {
        let (_, bytes) = wire.to_server.pop_front().unwrap();
        wire.at_server.extend_from_slice(&bytes);
        while let Some(frame) = wire.decoder.decode(&mut wire.at_server).unwrap() {
            let Frame::Array(words) = frame else { panic!("{frame:?}") };
            let words: Vec<Bytes> =
                words.iter().map(|word| word.as_bytes().unwrap().clone()).collect();
            let words = said(words);
            let refusal =
                slot.and_then(|slot| slot.refuses(at, server, &mut wire.is_asking, &words));
            let reply = refusal.unwrap_or_else(|| {
                let (reply, told) = server.run(&mut wire.session, &words);
                all_told.extend(told);
                reply
            });
            wire.run += 1;
            let mut out = BytesMut::new();
            encode_frame(&mut out, &reply);
            let after = wire.to_client.back().map_or(0, |(at, _)| *at);
            let arrives = NOW_MICROS.get() + latency / 2 + random() % latency;
            wire.to_client.push_back((arrives.max(after), out.freeze()));
        }
    }
    all_told
}

#[test]
fn a_lock_is_taken_kept_for_longer_than_its_ttl_and_given_back() {
    for servers in [1, 3, 5] {
        for kind in [&FENCED, &PLAIN] {
            let mut world = World::new(servers, 2, 1);
            world.run_until("links", |world| world.clients[0].machine.serving() == servers);
            let id = world.ask(0, kind, Wait::Never);
            world.run_until("a grant", |world| world.is_granted(0, id));
            assert_eq!(world.clients[0].machine.token(id) > 0, kind.is_fenced);
            let refused = world.ask(1, kind, Wait::Never);
            let context = Context::from_waker(Waker::noop());
            world.run_until("a refusal", |world| {
                matches!(
                    world.clients[1].machine.poll_acquire(refused, &context),
                    Poll::Ready(Err(_))
                )
            });
            for _ in 0..100_000 {
                world.step();
            }
            assert!(world.clients[0].machine.state(id).unwrap().is_held());
            world.clients[0].machine.release(id, now());
            world.run_until("an end", |world| world.is_released(0, id) == Some(End::Released));
            world.clients[0].machine.forget(id, now());
            world.clients[1].machine.forget(refused, now());
            world.run_until("nothing", |world| {
                world.clients.iter().all(|client| client.machine.len() == 0)
            });
            assert!(!world.has_key());
        }
    }
}

#[test]
fn those_that_wait_have_the_lock_one_after_the_other() {
    for kind in [&FENCED, &PLAIN] {
        let mut world = World::new(1, 2, 2);
        for number in 0..10 {
            world.ask(number % 2, kind, Wait::Forever);
        }
        let mut done = 0;
        world.run_until("all of them", |world| {
            for client in 0..2 {
                for at in 0..world.clients[client].leases.len() {
                    let id = world.clients[client].leases[at].id;
                    if !world.clients[client].leases[at].is_granted && world.is_granted(client, id)
                    {
                        world.clients[client].leases[at].is_granted = true;
                        world.clients[client].machine.forget(id, now());
                        done += 1;
                    }
                }
            }
            done == 10
        });
    }
}

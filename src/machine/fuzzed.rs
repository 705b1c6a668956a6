//! A machine whose servers say anything: what the fuzz target `machine` drives.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use leasehold_resp::Frame;

use super::link::State;
use super::routing::Routing;
use super::tests::{Bench, ROUTING, acquire, bulk, greeting, plain, request, settings, stamp};
use super::{LeaseId, Login};
use crate::policy::{LeaseState, Wait};

/// Leases at once.
const LEASES_MAX: usize = 32;

/// Takes, keeps and gives back locks of servers that answer as `input` says: well, or with any bytes, in any order.
///
/// # Panics
///
/// Where a lease is held that no server has granted: by a reply with the stamp of its question.
pub fn drive(input: &[u8]) {
    let mut input = input.iter().copied();
    let mut next = || input.next();
    let (servers, bench) = match next().unwrap_or(0) & 3 {
        0 => (1, Bench::connected(1)),
        1 => (3, Bench::connected(3)),
        _ => (3, routed()),
    };
    let mut fuzzed = Fuzzed {
        bench,
        leases: Vec::new(),
        unanswered: vec![VecDeque::new(); servers],
        stamps: Vec::new(),
        heard: Vec::new(),
        has_granted: false,
    };
    fuzzed.bench.is_told = true;
    while let Some(deed) = next() {
        let server = usize::from(deed >> 4) % servers;
        match deed & 15 {
            0..=2 => fuzzed.ask(deed & 15, next().unwrap_or(0)),
            3 | 4 => fuzzed.give_back(next().unwrap_or(0), deed & 15 == 4),
            5 => fuzzed.bench.pass(Duration::from_millis(20 * u64::from(next().unwrap_or(1)))),
            6 => fuzzed.reconnect(server),
            7 => fuzzed.answer(server, next().unwrap_or(0)),
            8 => fuzzed.route(next().unwrap_or(0)),
            _ => {
                let count = usize::from(next().unwrap_or(0));
                let bytes: Vec<u8> = (0..count).map_while(|_| next()).collect();
                fuzzed.hear(server, &bytes);
            }
        }
        fuzzed.check();
    }
}

/// Three servers that share the keys by their slots.
fn routed() -> Bench {
    let mut bench = Bench::new(3, settings(1));
    let redirect = |text: &[u8], asked: &str| {
        (ROUTING.redirect)(text, asked).filter(|to| ["0", "1", "2"].contains(&&*to.to))
    };
    bench.machine.routes_by(Routing { redirect, ..ROUTING });
    for server in 0..3 {
        bench.dial(server, Login::default());
        bench.answer(server, |command| vec![greeting(command, "")]);
    }
    bench
}

struct Fuzzed {
    bench: Bench,
    leases: Vec<LeaseId>,
    /// The commands of each server's connection, which it has read and not answered.
    unanswered: Vec<VecDeque<Vec<Bytes>>>,
    /// Of all commands that were sent.
    stamps: Vec<Bytes>,
    /// All that servers have said.
    heard: Vec<u8>,
    /// A server has said a stamp: from then on, leases may be held.
    has_granted: bool,
}

impl Fuzzed {
    fn ask(&mut self, how: u8, name: u8) {
        if self.leases.len() == LEASES_MAX {
            return;
        }
        let (bench, name) = (&mut self.bench, [b'a' + name % 4]);
        let id = match how {
            0 => acquire(bench, &name),
            1 => plain(bench, &name),
            _ => request(bench, &name, Wait::Forever),
        };
        self.leases.push(id);
    }

    fn give_back(&mut self, which: u8, is_forgotten: bool) {
        if self.leases.is_empty() {
            return;
        }
        let at = usize::from(which) % self.leases.len();
        let (machine, now, id) = (&mut self.bench.machine, self.bench.now, self.leases[at]);
        if is_forgotten {
            self.leases.swap_remove(at);
            machine.forget(id, now);
        } else if machine.state(id).is_some_and(LeaseState::is_held) {
            machine.release(id, now);
        }
    }

    fn reconnect(&mut self, server: usize) {
        if self.bench.machine.serves(server) {
            self.bench.close(server);
        }
        for _ in 0..20 {
            if self.bench.machine.links[server].state == State::Dialling {
                self.bench.greet(server, Login::default());
                self.unanswered[server].clear();
                return self.answer(server, 0);
            }
            self.bench.pass(Duration::from_millis(100));
        }
    }

    /// The map is another, where keys are served by slots.
    fn route(&mut self, how: u8) {
        let bench = &mut self.bench;
        let masters = ["0", "1", "2"].map(String::from);
        let some = &masters[..1 + usize::from(how & 3) % 3];
        let owner_of = |slot: u16| Some(usize::from(how >> (2 + slot % 4)) % 3);
        bench.machine.route(some, &[], &owner_of, bench.now);
    }

    /// The server does what it was asked until now, or says that another holds the lock, that it is out of order, or that
    /// another server has the key. What it is asked meanwhile is for the next time.
    fn answer(&mut self, server: usize, how: u8) {
        self.read(server);
        for _ in 0..self.unanswered[server].len() {
            let Some(command) = self.unanswered[server].pop_front() else { return };
            let reply = match (&command[0][..], how & 3) {
                (b"EVALSHA" | b"EVAL" | b"SET", 3) if how & 4 != 0 => {
                    let kind = if how & 8 == 0 { "MOVED" } else { "ASK" };
                    let slot = b'a' + how % 4;
                    Frame::Error(format!("{kind} {slot} {}", (how >> 4) % 3).into())
                }
                (b"EVALSHA" | b"EVAL", 0 | 3) => stamp(&command),
                (b"EVALSHA" | b"EVAL", 1) => {
                    let holder = [bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0")];
                    Frame::Array([stamp(&command)].into_iter().chain(holder).collect())
                }
                (b"SET", 1) => Frame::Null,
                (_, 2) => Frame::Error(Bytes::from_static(b"BUSY a script runs")),
                _ => greeting(&command, ""),
            };
            let mut bytes = BytesMut::new();
            leasehold_resp::encode_frame(&mut bytes, &reply);
            self.hear(server, &bytes);
        }
    }

    /// Reads what the machine has written.
    fn read(&mut self, server: usize) {
        let said = self.bench.said(server);
        self.stamps.extend(said.iter().filter_map(|command| command.last().cloned()));
        self.unanswered[server].extend(said);
    }

    fn hear(&mut self, server: usize, bytes: &[u8]) {
        (0..self.unanswered.len()).for_each(|at| self.read(at));
        self.heard.extend_from_slice(bytes);
        self.bench.hear(server, bytes);
    }

    fn check(&mut self) {
        let has_heard = |stamp: &Bytes| {
            !stamp.is_empty() && self.heard.windows(stamp.len()).any(|part| part == &stamp[..])
        };
        let is_held = |id: &LeaseId| self.bench.machine.state(*id).is_some_and(LeaseState::is_held);
        if !self.has_granted && self.leases.iter().any(is_held) {
            self.has_granted = self.stamps.iter().any(has_heard);
            assert!(self.has_granted, "no server has granted it");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        /// What the fuzz target begins with, without what it has learned.
        #[test]
        fn servers_that_say_anything_have_nothing_granted(
            input in proptest::collection::vec(any::<u8>(), 0..400)
        ) {
            super::drive(&input);
        }
    }
}

//! Locks that are taken from their holders, and left to tickets.

use super::soak::FAR;
use super::*;
use crate::extra::takeover::{SEIZED, SEIZED_PLAIN, into_ticket, take_back};

const LIFE: Duration = Duration::from_secs(6);

pub(super) fn world(servers: usize, seed: u64) -> World {
    let mut world = World::new(servers, 2, seed);
    world.run_until("links", |world| {
        world.clients.iter().all(|client| client.machine.serving() == servers)
    });
    world
}

impl World {
    /// A request for the lock of the owner with this id, or of anybody.
    fn take(&mut self, client: usize, from: &[u8]) -> LeaseId {
        let words = [from.into()].into();
        self.begin(client, Options { words, ..options(&SEIZED, Wait::Never) })
    }

    fn is_refused(&mut self, client: usize, id: LeaseId) -> bool {
        let context = Context::from_waker(Waker::noop());
        matches!(self.clients[client].machine.poll_acquire(id, &context), Poll::Ready(Err(_)))
    }

    /// A lock that somebody holds.
    fn held(&mut self, client: usize, kind: &'static Kind) -> LeaseId {
        let id = self.ask(client, kind, Wait::Forever);
        self.run_until("a grant", |world| world.is_granted(client, id));
        id
    }

    /// Checks that its token is larger than all before, and releases it.
    fn passes(&mut self, client: usize, id: LeaseId) {
        self.run_until("its turn", |world| world.is_granted(client, id));
        let token = self.clients[client].machine.token(id);
        assert!(token > self.last_token, "{token} behind {}", self.last_token);
        self.last_token = token;
        self.clients[client].machine.forget(id, now());
    }
}

/// If tokens are dense, one that was not set aside is issued to another, too.
#[test]
fn those_that_wait_beside_a_thief_have_tokens_that_nobody_else_has() {
    for servers in [1, 3] {
        let mut world = world(servers, 11);
        world.servers.iter_mut().for_each(|server| server.put_counter("a", FAR));
        world.held(0, &FENCED);
        let waiting = [(); 3].map(|()| world.ask(1, &FENCED, Wait::Forever));
        (0..500).for_each(|_| world.step());
        let thief = world.take(1, b"");
        world.passes(1, thief);
        waiting.into_iter().for_each(|id| world.passes(1, id));
        let last = world.ask(0, &FENCED, Wait::Forever);
        world.passes(0, last);
    }
}

/// A stolen lease is renewed as any other, and so is one without a token, which goes on within its process.
#[test]
fn what_is_taken_is_kept_and_handed_on() {
    for (servers, kind, by) in [(1, &FENCED, &SEIZED), (3, &PLAIN, &SEIZED_PLAIN)] {
        let mut world = world(servers, 12);
        world.held(0, kind);
        let words = [b""[..].into()].into();
        let thief = world.begin(1, Options { words, ..options(by, Wait::Never) });
        world.run_until("a grant", |world| world.is_granted(1, thief));
        assert_eq!(world.clients[1].machine.token(thief) > 0, kind.is_fenced);
        let next = world.ask(1, kind, Wait::Forever);
        (0..50_000).for_each(|_| world.step());
        assert!(world.clients[1].machine.state(thief).unwrap().is_held());
        world.clients[1].machine.forget(thief, now());
        world.run_until("its turn", |world| world.is_granted(1, next));
    }
}

#[test]
fn a_ticket_is_kept_from_all_until_one_adopts_it() {
    for servers in [1, 3] {
        for kind in [&FENCED, &PLAIN] {
            let mut world = world(servers, 13);
            let first = world.held(0, kind);
            world.last_token = world.clients[0].machine.token(first);
            let waiting = world.ask(0, kind, Wait::Forever);
            (0..500).for_each(|_| world.step());
            let owner = into_ticket(&mut world.clients[0].machine, first, LIFE, now()).unwrap();
            world.run_until("an end", |world| world.is_released(0, first) == Some(End::Released));
            world.clients[0].machine.forget(first, now());
            // For longer than its maker's lease.
            (0..40_000).for_each(|_| world.step());
            assert!(!world.is_granted(0, waiting));
            let adopter = world.take(1, &owner[..32]);
            world.passes(1, adopter);
            let late = world.take(0, &owner[..32]);
            world.run_until("a refusal", |world| world.is_refused(0, late));
            world.run_until("its turn", |world| world.is_granted(0, waiting));
        }
    }
}

/// Whether the owner or the ticket has the lock by then, and whatever happens to connections.
#[test]
fn a_ticket_that_nobody_has_is_given_back_whenever_its_maker_goes() {
    for seed in 0..40_u8 {
        let servers = [1, 3][usize::from(seed) % 2];
        let mut world = world(servers, seed.into());
        let id = world.held(0, &FENCED);
        into_ticket(&mut world.clients[0].machine, id, LIFE, now()).unwrap();
        (0..below(12)).for_each(|_| world.step());
        if percent(50) {
            world.cut(0, below(servers));
        }
        (0..below(12)).for_each(|_| world.step());
        take_back(&mut world.clients[0].machine, id, now());
        world.clients[0].machine.forget(id, now());
        if percent(50) {
            (0..below(12)).for_each(|_| world.step());
            world.cut(0, below(servers));
        }
        let most = NOW_MICROS.get() + 1_500_000;
        world.run_until("a free lock", |world| !world.has_key());
        assert!(NOW_MICROS.get() < most, "seed {seed}: it has expired");
        world.run_until("nothing", |world| world.clients[0].machine.len() == 0);
        assert!(!world.has_key(), "seed {seed}");
    }
}

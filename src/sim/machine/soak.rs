//! Random runs of a few clients, and the known bugs that they have to notice.

use super::queue::{hand_over, leave};
use super::*;

/// Steps of a run, of 100 microseconds each.
const STEPS: u32 = 200_000;
/// A token beyond each clock, and below the largest one.
pub(super) const FAR: u64 = 8_000_000_000_000_000;

fn bounds() -> Bounds {
    let some = || percent(50).then(|| Duration::from_millis(random() % 1_000 + 1));
    Bounds { at_least: some(), at_most: some(), lock_delay: some() }
}

/// Requests, releases, connections that end or stand still, servers that stop, for 20 simulated seconds.
fn soak(servers: usize, seed: u32) -> (usize, usize) {
    let mut world = World::new(servers, 3, seed.into());
    world.latency = [200, 2_000, 50_000][seed as usize / 3 % 3];
    world.harmed = [0, 10, 30][seed as usize % 4 % 3];
    let kind = if seed % 2 == 0 { &FENCED } else { &PLAIN };
    // Only dense tokens are issued twice if none are set aside. No server loses its memory then.
    if seed % 4 == 2 && seed % 5 != 0 {
        let counters = (0..).map(|at| FAR + 1_000 * at);
        world.servers.iter_mut().zip(counters).for_each(|(server, it)| server.put_counter("a", it));
    }
    for _ in 0..STEPS {
        world.step();
        world.meddle(servers, seed);
        for client in 0..world.clients.len() {
            world.request(client, kind);
            world.act(client, 1_000);
        }
        world.check();
    }
    world.ends(seed);
    (world.granted, world.released)
}

impl World {
    /// In the end everything is released: by the machine, or by its users.
    pub(super) fn ends(&mut self, seed: u32) {
        for client in 0..self.clients.len() {
            if seed % 2 == 1 {
                self.shut_down(client);
            }
            for it in std::mem::take(&mut self.clients[client].leases) {
                self.clients[client].machine.forget(it.id, now());
            }
        }
        for server in &mut self.servers {
            server.start();
        }
        self.run_until("nothing", |world| {
            world.clients.iter().all(|client| client.machine.len() == 0)
        });
        // Locks that stay taken by bounds end by themselves.
        let most = NOW_MICROS.get() + 3_000_000;
        self.run_until("no key", |world| !world.has_key());
        assert!(NOW_MICROS.get() < most, "seed {seed} at {}", NOW_MICROS.get());
    }

    pub(super) fn meddle(&mut self, servers: usize, seed: u32) {
        if random() % 20_000 == 0 {
            let (client, server) = (below(3), below(servers));
            self.cut(client, server);
        }
        // Sometimes for longer than a TTL, and all of a client's connections at once.
        if random() % 50_000 == 0 {
            let (client, held_until) = (below(3), NOW_MICROS.get() + random() % 3_000_000);
            let is_all = percent(50);
            for wire in self.clients[client].wires.iter_mut().flatten() {
                if is_all || percent(50) {
                    wire.held_until = held_until;
                }
            }
        }
        // A user that may publish can forge a push to the next waiter.
        if random() % 10_000 == 0 {
            let server = below(servers);
            let told = self.servers[server].forge_push("a", "9007199254740991");
            self.tell(told);
        }
        if seed % 5 == 0 && random() % 50_000 == 0 {
            let server = below(servers);
            if self.servers[server].is_down() {
                self.servers[server].start();
            } else if !self.servers.iter().any(Server::is_down) {
                // With the restart quarantine it may lose all its memory.
                self.stop(server, servers == 1 || self.slot.is_some() || percent(50));
            }
        }
        if random() % 50_000 == 0 {
            let server = below(servers);
            self.servers[server].flush_scripts();
        }
        // One process at a time.
        if self.ended == 0 && random() % 40_000 == 0 {
            self.shut_down(0);
            self.ended = 1;
        } else if self.ended > 0 {
            self.begin_again(0);
        }
    }

    /// A process ends: nothing is held any more, and each request has its answer.
    fn shut_down(&mut self, client: usize) {
        let Client { machine, leases, .. } = &mut self.clients[client];
        machine.shut_down(now());
        let context = Context::from_waker(Waker::noop());
        for it in &*leases {
            assert!(machine.poll_acquire(it.id, &context).is_ready());
            assert!(machine.poll_lost(it.id, &mut None, &context, now()).is_ready());
        }
    }

    /// After a shutdown has released everything, another process replaces it.
    fn begin_again(&mut self, client: usize) {
        let context = Context::from_waker(Waker::noop());
        let machine = &mut self.clients[client].machine;
        if machine.len() > 0 || machine.poll_shut_down(&context).is_pending() {
            return;
        }
        let servers = self.servers.len();
        for server in 0..servers {
            self.cut(client, server);
        }
        let addresses = (0..servers).map(|at| at.to_string());
        self.clients[client].machine = Machine::new(addresses, settings(servers), now());
        self.routes(client);
        self.ended -= 1;
    }

    fn stop(&mut self, server: usize, remembers: bool) {
        if !remembers {
            self.forgot_at = Some(now());
        }
        self.servers[server].stop(remembers);
        for client in 0..self.clients.len() {
            self.cut(client, server);
        }
        self.cut.retain(|(at, _)| *at != server);
    }

    pub(super) fn request(&mut self, client: usize, kind: &'static Kind) {
        if self.clients[client].leases.len() < 4 && random() % 300 == 0 {
            let wait = match random() % 3 {
                0 => Wait::Never,
                1 => Wait::AtMost(Duration::from_millis(random() % 500)),
                _ => Wait::Forever,
            };
            let bounds = if percent(10) { bounds() } else { Bounds::default() };
            self.ask_for(client, kind, wait, (percent(70), bounds));
        }
    }

    /// A client's users act on their leases; holders keep one for about `hold` steps.
    pub(super) fn act(&mut self, client: usize, hold: u64) {
        let mut at = 0;
        while at < self.clients[client].leases.len() {
            let gone = self.act_on(client, at, hold);
            if gone {
                let it = self.clients[client].leases.swap_remove(at);
                self.clients[client].machine.forget(it.id, now());
            } else {
                at += 1;
            }
        }
    }

    /// Acts on a lease; returns whether its user is done with it.
    fn act_on(&mut self, client: usize, at: usize, hold: u64) -> bool {
        let Use { id, is_granted, is_releasing } = self.clients[client].leases[at];
        let context = Context::from_waker(Waker::noop());
        let machine = &mut self.clients[client].machine;
        if is_releasing {
            return match machine.poll_release(id, &context) {
                Poll::Ready(end) => {
                    let is_given_back = matches!(end, End::Released | End::HandedOver);
                    self.released += usize::from(is_given_back);
                    true
                }
                Poll::Pending => false,
            };
        }
        if !is_granted {
            return match machine.poll_acquire(id, &context) {
                Poll::Ready(Ok(())) => {
                    let token = machine.token(id);
                    let until = machine.state(id).and_then(LeaseState::until);
                    self.clients[client].leases[at].is_granted = true;
                    self.granted += 1;
                    until.iter().for_each(|until| self.lasts(*until));
                    if token > 0 {
                        assert!(token > self.last_token, "{token} behind {}", self.last_token);
                        self.last_token = token;
                    }
                    false
                }
                Poll::Ready(Err(_)) => true,
                Poll::Pending => random() % 20_000 == 0,
            };
        }
        if random() % hold == 0 && percent(80) || !machine.state(id).unwrap().is_held() {
            if percent(50) {
                return true;
            }
            machine.release(id, now());
            self.clients[client].leases[at].is_releasing = true;
        }
        false
    }

    /// Checks that a quorum of servers has the key for as long as a holder counts on it. A server may have lost it
    /// between its answer and the grant: that is for the restart quarantine.
    fn lasts(&mut self, until: Moment) {
        if self.forgot_at.is_some_and(|at| now().since(at) < 2 * TTL) {
            return;
        }
        let left = u64::try_from(until.since(now()).as_millis()).unwrap();
        let lasts = |server: &mut &mut Server| {
            server.look(&[&"a".into()])[0].lasts.is_some_and(|ms| ms >= left)
        };
        let lasting =
            self.servers.iter_mut().filter_map(|mut server| lasts(&mut server).then_some(()));
        let (lasting, servers) = (lasting.count(), self.servers.len());
        let needed = if self.slot.is_some() { 1 } else { servers / 2 + 1 };
        assert!(lasting >= needed, "{lasting} of {servers} keys last {left} ms");
    }

    /// Checks that nobody holds the lock beside another.
    pub(in crate::sim) fn check(&self) {
        let holds = |client: &Client| {
            let held = client.leases.iter().filter(|it| {
                let state = client.machine.state(it.id);
                state.and_then(LeaseState::until).is_some_and(|until| now() < until)
            });
            held.count()
        };
        let holders: usize = self.clients.iter().map(holds).sum();
        assert!(holders <= 1, "{holders} at {}", NOW_MICROS.get());
    }
}

#[test]
fn no_two_hold_a_lock_whatever_connections_do() {
    let mut all_released = 0;
    for seed in 0..9 {
        let servers = [1, 3, 5][seed as usize % 3];
        let (granted, released) = soak(servers, seed);
        assert!(granted > 10, "seed {seed}: {granted} granted");
        all_released += released;
    }
    assert!(all_released > 90, "{all_released} given back");
}

/// Bugs of this machine's parts are noticed, so the runs above can fail.
#[test]
fn known_bugs_of_its_parts_are_noticed() {
    let soaked = |seed: u32| _ = soak([1, 3, 5][seed as usize % 3], seed);
    let bugs = [
        Mutant::TimedOutCountsAsHeld,
        Mutant::CountersPerServer,
        Mutant::ValidityFromTheReply,
        Mutant::CountsFromThePush,
        Mutant::AnyTokenIsPushed,
    ];
    for mutant in bugs {
        mutants::set(Some(mutant));
        assert!(
            [6, 0, 2, 1, 3, 4, 5, 7, 8].iter().any(|seed| panics(|| soaked(*seed))),
            "{mutant:?}"
        );
    }
    mutants::set(Some(Mutant::DeadEndTheSearch));
    assert!(panics(|| hand_over(1, &FENCED, 20)));
    mutants::set(Some(Mutant::QueueIsNotLeft));
    assert!(panics(leave));
    mutants::set(None);
}

pub(super) fn panics(scene: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(scene)).is_err()
}

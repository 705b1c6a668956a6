//! Injects faults, within the budget.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::history::At;
use super::plan::{Fault, Plan, key};
use super::prng::Prng;
use super::world::{World, lock};
use crate::clock::simulated::{Client, elapsed};

/// After this many commands, a run gets no more faults. Each new connection carries all releases that are owed:
/// many, if each connection is soon harmed, and a lease lasts for minutes.
const DEEDS_MAX: u64 = 100_000;

/// Minimum time that a server is a replica: a reign that was learned before lapses meanwhile, and its clock goes on
/// past all tokens that it has granted (docs/guarantees.md).
const DEMOTED_MIN: Duration = Duration::from_secs(2);

/// The faults that set a server back, drawn apart from all others.
pub(crate) struct Setbacks {
    faults: Vec<Fault>,
    prng: Prng,
    server: usize,
    /// When the next one may begin.
    next_at: At,
}

impl Setbacks {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut prng = Prng::new(plan.seed ^ 0x5E7_BACC);
        let server = prng.index(plan.servers);
        Self { faults: plan.setbacks(), prng, server, next_at: At::ZERO }
    }

    /// The fault that comes now, if any; at other moments the server's state is saved.
    fn next(&mut self, world: &World) -> Option<Fault> {
        let mut server = world.server(self.server);
        if self.faults.is_empty() || server.is_down() || server.is_replica() {
            return None;
        }
        if !server.has_saved() || self.prng.percent(25) {
            server.save();
            return None;
        }
        let comes = self.prng.percent(35) && elapsed() >= self.next_at;
        comes.then(|| self.prng.pick(&self.faults))
    }
}

pub(crate) struct Injector {
    pub(crate) world: Arc<World>,
    pub(crate) clients: Vec<Arc<Client>>,
    pub(crate) prng: Prng,
    /// Servers that lost keys, and when.
    pub(crate) losses: Vec<(usize, At)>,
    pub(crate) setbacks: Setbacks,
}

impl Injector {
    pub(crate) async fn run(mut self) {
        let faults = self.world.plan.clone().without_setbacks().faults;
        let pace = self.world.plan.longest_ttl;
        while elapsed() < self.world.plan.length && self.world.history().deeds() < DEEDS_MAX {
            sleep(self.up_to(pace)).await;
            if !faults.is_empty() {
                let fault = self.prng.pick(&faults);
                self.harm(fault);
            }
            self.set_back();
            if self.world.plan.is_beyond && self.prng.percent(40) {
                self.take_everywhere();
            }
        }
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        self.prng.millis(0..u64::try_from(most.as_millis()).expect("it is short") + 1)
    }

    fn harm(&mut self, fault: Fault) {
        let server = self.prng.index(self.world.plan.servers);
        let client = self.prng.index(self.clients.len());
        let ttl = self.world.plan.longest_ttl;
        let length = if self.prng.percent(30) { self.up_to(ttl * 3) } else { self.up_to(ttl / 4) };
        self.world
            .history()
            .note(format!("{fault:?} of server {server}, client {client}, {length:?}"));
        match fault {
            Fault::Delay | Fault::Ghost | Fault::Drift | Fault::Outage | Fault::Newcomer => {}
            Fault::Snapshot | Fault::Demotion => {}
            Fault::Lost | Fault::Stray | Fault::Twice | Fault::OnlyPushes => {
                self.world.harm_one(server, fault);
            }
            Fault::DeadWaiters | Fault::Forgery if self.world.server(server).is_down() => {}
            Fault::Forgery => {
                let name = key(self.prng.index(self.world.plan.names));
                let token = self.prng.pick(&["1", "1000000", "9007199254740991"]);
                let told = self.world.server(server).forge_push(&name, token);
                self.world.tell(told);
            }
            Fault::DeadWaiters => {
                let name = key(self.prng.index(self.world.plan.names));
                let dead = self.prng.pick(&[1, 15, 16, 17, 60, 600]);
                self.world.server(server).put_dead_waiters(&name, dead, self.prng.percent(30));
            }
            Fault::Cut => self.world.cut_one(server),
            Fault::Partition => self.world.block(client, server, elapsed() + length),
            Fault::Restart | Fault::Forget if self.world.server(server).is_down() => {}
            Fault::Restart => self.reboot(server, true, length),
            Fault::Forget => {
                lock(&self.world.counters_lost).insert(server);
                self.reboot(server, false, length);
            }
            Fault::Freeze => {
                self.world.server(server).is_frozen = true;
                let world = Arc::clone(&self.world);
                tokio::spawn(async move {
                    sleep(length).await;
                    world.thaw(server);
                });
            }
            Fault::Refuse => {
                self.world.server(server).is_busy = true;
                let world = Arc::clone(&self.world);
                tokio::spawn(async move {
                    sleep(length).await;
                    world.server(server).is_busy = false;
                });
            }
            // A single server may lose counters, which its clock makes up for, and no locks.
            Fault::Evict if self.world.plan.servers == 1 || self.may_lose(server) => {
                let number = self
                    .prng
                    .index(self.world.plan.names + usize::from(self.world.plan.has_shares));
                let shared = self.world.plan.shared().filter(|_| number == self.world.plan.names);
                let name = key(shared.map_or(number, |[lock, _]| lock));
                let takes_counter = self.prng.percent(20) || self.world.plan.servers == 1;
                if takes_counter {
                    lock(&self.world.counters_lost).insert(server);
                }
                let key = if takes_counter { format!("{{{name}}}:fence") } else { name };
                let told = self.world.server(server).lose(key.as_bytes());
                self.world.tell(told);
            }
            Fault::Flush => self.world.server(server).flush_scripts(),
            Fault::Pause => self.pause(client, length),
            Fault::ClientStep => {
                let micros = i64::try_from(self.up_to(ttl * 100).as_micros()).expect("it is short");
                self.clients[client].step_wall(if self.prng.percent(50) {
                    micros
                } else {
                    -micros
                });
            }
            Fault::StepBack => self.step(server, -1, length),
            Fault::StepForward if self.may_lose(server) => self.step(server, 1, length),
            Fault::Evict | Fault::StepForward => {}
        }
    }

    fn set_back(&mut self) {
        let Some(fault) = self.setbacks.next(&self.world) else { return };
        let (server, ttl) = (self.setbacks.server, self.world.plan.longest_ttl);
        let most = u64::try_from(ttl.as_millis()).expect("it is short");
        // Mostly short, so that some client sends nothing to the server meanwhile.
        let most = if self.setbacks.prng.percent(30) { most / 4 } else { most / 50 };
        let length = self.setbacks.prng.millis(0..most + 1);
        let is_demotion = fault == Fault::Demotion;
        if is_demotion && self.world.plan.servers > 1 && !self.may_lose(server) {
            return;
        }
        lock(&self.world.counters_lost).insert(server);
        self.world.history().note(format!("{fault:?} of server {server}, {length:?}"));
        if !is_demotion {
            self.world.server(server).will_begin_older();
            return self.reboot(server, false, length);
        }
        let length = DEMOTED_MIN + length;
        self.setbacks.next_at = elapsed() + length;
        self.world.demote(server, self.setbacks.prng.percent(80));
        let world = Arc::clone(&self.world);
        tokio::spawn(async move {
            sleep(length).await;
            world.server(server).promote();
        });
    }

    /// A server ends and starts again, at once or only after a while; its clock may be behind then.
    fn reboot(&mut self, server: usize, remembers: bool, length: Duration) {
        let ttl = self.world.plan.longest_ttl;
        let plan = self.world.plan.clone();
        let is_out = plan.has(Fault::Outage) && self.prng.percent(60);
        let is_behind = plan.has(Fault::StepBack) && self.prng.percent(40);
        let behind = if is_behind { self.up_to(ttl * 3) } else { Duration::ZERO };
        let behind = i64::try_from(behind.as_micros()).expect("it is short");
        self.world.stop(server, remembers);
        if !is_out {
            return self.world.start(server, behind);
        }
        let world = Arc::clone(&self.world);
        tokio::spawn(async move {
            sleep(length).await;
            world.start(server, behind);
        });
    }

    fn pause(&mut self, client: usize, length: Duration) {
        let client = Arc::clone(&self.clients[client]);
        if client.is_paused() {
            return;
        }
        client.stop();
        tokio::spawn(async move {
            sleep(length).await;
            client.resume();
        });
    }

    fn step(&mut self, server: usize, sign: i64, length: Duration) {
        let micros = i64::try_from(length.as_micros()).expect("it is short");
        self.world.server(server).step_wall(sign * micros);
        self.world.look_at_expiry(server);
    }

    /// Whether this server may lose keys now: at most k of them do in any lease's life.
    fn may_lose(&mut self, server: usize) -> bool {
        let (now, window) = (elapsed(), self.world.plan.longest_ttl * 5 / 2);
        self.losses.retain(|(_, at)| *at + window > now);
        let mut servers: Vec<usize> = self.losses.iter().map(|(server, _)| *server).collect();
        servers.push(server);
        servers.sort_unstable();
        servers.dedup();
        let may = servers.len() <= self.world.plan.losses_max();
        if may {
            self.losses.push((server, now));
        }
        may
    }

    /// Beyond every budget: all servers lose a lock and its counter.
    fn take_everywhere(&mut self) {
        let name = key(self.prng.index(self.world.plan.names));
        for server in 0..self.world.plan.servers {
            lock(&self.world.counters_lost).insert(server);
            for key in [name.clone(), format!("{{{name}}}:fence")] {
                let told = self.world.server(server).lose(key.as_bytes());
                self.world.tell(told);
            }
        }
    }
}

//! Does harm to the servers and to the ways to them, within a budget, and heals it again.
//!
//! It runs on a thread of its own, because starting and stopping servers blocks. The seed decides
//! what it does; how that meets what the clients do at that moment is up to the machine.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_resp::Frame;
use tokio::runtime::Handle;

use crate::budget::Budget;
use crate::client::{Stage, key};
use crate::fleet::Fleet;
use crate::history::{At, Disturbance};
use crate::plan::{Kind, LONGEST_TTL, Plan};
use crate::prng::Prng;
use crate::trouble::{Cure, Trouble};
use leasehold_testing::{Client, Fault};

mod healing;

/// How much longer than any lease a loss of memory is counted.
const MARGIN: Duration = Duration::from_millis(500);
/// Of a lane, for cutting a reply or a command in the middle.
const FRAME_BYTES: u64 = 120;

/// Of each round some time brings no new faults but keys that are lost, so that clients get on.
const ROUND: Duration = Duration::from_secs(4);
const HARM: Duration = Duration::from_millis(2800);

pub(crate) struct Injector {
    plan: Arc<Plan>,
    stage: Arc<Stage>,
    fleet: Fleet,
    prng: Prng,
    budget: Budget,
    troubles: Vec<Trouble>,
    runtime: Handle,
}

/// Where a fault strikes: one way to one server.
#[derive(Clone, Copy)]
struct Target {
    server: usize,
    way: usize,
}

impl Injector {
    /// Must be called inside the runtime that the fleet was started in.
    pub(crate) fn new(plan: Arc<Plan>, stage: Arc<Stage>, fleet: Fleet, prng: Prng) -> Self {
        let losses_max = if plan.is_beyond { plan.servers } else { plan.losses_max() };
        let budget = Budget::new(losses_max, LONGEST_TTL + MARGIN);
        let runtime = Handle::current();
        Self { plan, stage, fleet, prng, budget, troubles: Vec::new(), runtime }
    }

    /// Injects faults until `end`, heals everything, and gives the servers back.
    pub(crate) fn run(mut self, end: At) -> Fleet {
        while self.now() < end && !self.stage.is_over.load(Ordering::Relaxed) {
            self.heal_what_is_due();
            if self.plan.takes_keys {
                self.take_keys();
            }
            std::thread::sleep(self.prng.millis(self.plan.gap_ms.clone()));
            if self.now().as_millis() % ROUND.as_millis() > HARM.as_millis() {
                continue;
            }
            let kind = self.prng.pick(&self.plan.kinds);
            let target = Target {
                server: self.prng.index(self.plan.servers),
                way: self.prng.index(self.plan.ways),
            };
            self.inject(kind, target);
        }
        for trouble in std::mem::take(&mut self.troubles) {
            self.heal(&trouble);
        }
        self.fleet
    }

    fn now(&self) -> At {
        self.stage.recorder.now()
    }

    fn done(&self, what: &'static str, target: Target, way: bool, details: &str) {
        self.stage.recorder.count(what);
        let Target { server, way: number } = target;
        let whose = if way { format!(" on way {number}") } else { String::new() };
        self.stage.recorder.note(format!("{what}: server {server}{whose}{details}"));
    }

    fn inject(&mut self, kind: Kind, target: Target) {
        match kind {
            Kind::Kill | Kind::KillEmpty => self.kill(target, kind == Kind::KillEmpty),
            Kind::Freeze => self.freeze(target),
            Kind::Delay => {
                let fault = Fault::Delay(self.prng.millis(1..250));
                self.impair("fault: delay", target, fault);
            }
            Kind::Dribble => {
                let fault = Fault::Dribble(self.prng.index(16) + 1);
                self.impair("fault: dribble", target, fault);
            }
            Kind::Stall => self.impair("fault: stall", target, Fault::Stall),
            Kind::Blackhole => self.impair("fault: blackhole", target, Fault::Blackhole),
            Kind::Refuse => self.refuse(target),
            Kind::Isolate => self.isolate(target.way),
            Kind::Cut | Kind::Reset | Kind::ResetMidFrame | Kind::HalfClose => {
                self.sever(kind, target);
            }
            Kind::ScriptFlush => {
                self.command(target, "fault: SCRIPT FLUSH", &["SCRIPT", "FLUSH"]);
            }
            Kind::ClientKill => {
                let words = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
                self.command(target, "fault: CLIENT KILL", &words);
            }
        }
    }

    /// Whether one more server may be away, for the way or, without one, on all.
    fn may_impair(&mut self, server: usize, way: Option<usize>) -> bool {
        let meets = |trouble: &Trouble| trouble.meets(server, way);
        if self.troubles.iter().any(meets) {
            return false;
        }
        if self.prng.percent(self.plan.storm_percent) {
            return true;
        }
        let outages_max = self.plan.outages_max();
        let ways = way.map_or(0..self.plan.ways, |way| way..way + 1);
        ways.into_iter().all(|way| {
            let mut away: Vec<usize> = self
                .troubles
                .iter()
                .filter(|trouble| trouble.way.is_none_or(|other| other == way))
                .map(|trouble| trouble.server)
                .collect();
            away.sort_unstable();
            away.dedup();
            away.len() < outages_max
        })
    }

    fn add(&mut self, Target { server, way }: Target, on_way: bool, lasts: Duration, cure: Cure) {
        let ends = self.now() + lasts;
        self.troubles.push(Trouble { server, way: on_way.then_some(way), ends, cure });
    }

    fn kill(&mut self, target: Target, empty: bool) {
        if !self.may_impair(target.server, None) {
            return;
        }
        let what = if empty { "fault: killed and emptied" } else { "fault: killed" };
        let begun = self.now();
        self.fleet.servers[target.server].kill();
        if empty {
            self.fleet.forget(target.server);
        }
        self.done(what, target, false, "");
        let lasts = self.prng.millis(1..400);
        self.add(target, false, lasts, Cure::Restart { killed_at: begun, empty });
    }

    fn freeze(&mut self, target: Target) {
        if !self.may_impair(target.server, None) {
            return;
        }
        self.fleet.servers[target.server].stop();
        let lasts = self.prng.millis(1..2000);
        self.done("fault: frozen", target, false, &format!(" for {lasts:?}"));
        self.add(target, false, lasts, Cure::Continue);
    }

    fn impair(&mut self, what: &'static str, target: Target, fault: Fault) {
        let Target { server, way } = target;
        if !self.may_impair(server, Some(way)) {
            return;
        }
        let proxy = &self.fleet.proxies[way][server];
        let directions = self.prng.index(3);
        if directions != 0 {
            proxy.to_server().set(fault);
        }
        if directions != 1 {
            proxy.to_client().set(fault);
        }
        let lasts = self.prng.millis(1..1500);
        let directions = ["replies", "commands", "both ways"][directions];
        self.done(what, target, true, &format!(", {directions}, {fault:?}, for {lasts:?}"));
        let cure = if fault == Fault::Blackhole { Cure::Reopen } else { Cure::Pass };
        self.add(target, true, lasts, cure);
    }

    fn refuse(&mut self, target: Target) {
        let Target { server, way } = target;
        if !self.may_impair(server, Some(way)) {
            return;
        }
        let proxy = &mut self.fleet.proxies[way][server];
        self.runtime.block_on(proxy.refuse());
        proxy.reset();
        self.done("fault: refused", target, true, "");
        let lasts = self.prng.millis(1..1000);
        self.add(target, true, lasts, Cure::Accept);
    }

    /// Nothing that the clients of one way ask reaches any server, while the others go on: the hour
    /// of a caller that takes silence for consent.
    fn isolate(&mut self, way: usize) {
        let is_troubled = self.troubles.iter().any(|trouble| trouble.way == Some(way));
        if is_troubled || self.plan.ways == 1 {
            return;
        }
        let lasts = self.prng.millis(200..1500);
        for server in 0..self.plan.servers {
            self.fleet.proxies[way][server].to_server().set(Fault::Blackhole);
            self.add(Target { server, way }, true, lasts, Cure::Reopen);
        }
        self.stage.recorder.count("fault: a way isolated");
        self.stage.recorder.note(format!("fault: way {way} isolated for {lasts:?}"));
    }

    /// What is over at once.
    fn sever(&mut self, kind: Kind, target: Target) {
        let after = self.prng.within(0..FRAME_BYTES);
        let proxy = &self.fleet.proxies[target.way][target.server];
        let lane = if self.prng.percent(50) { proxy.to_server() } else { proxy.to_client() };
        let what = match kind {
            Kind::Cut => {
                proxy.cut();
                "fault: cut"
            }
            Kind::HalfClose => {
                lane.half_close();
                "fault: half-closed"
            }
            Kind::ResetMidFrame => {
                lane.reset_after(usize::try_from(after).expect("a few bytes"));
                "fault: reset within a frame"
            }
            _ => {
                proxy.reset();
                "fault: reset"
            }
        };
        self.done(what, target, true, "");
    }

    /// A connection to a server that runs; none where it is down or frozen.
    fn client(&self, server: usize) -> Option<Client> {
        let is_away = |trouble: &Trouble| trouble.server == server && trouble.stops_server();
        (!self.troubles.iter().any(is_away)).then(|| self.fleet.servers[server].client())
    }

    fn command(&self, target: Target, what: &'static str, words: &[&str]) {
        if let Some(mut client) = self.client(target.server) {
            client.call(words);
            self.done(what, target, false, "");
        }
    }

    /// Takes a lock's key from as many servers as may lose it.
    fn take_keys(&mut self) {
        let name = self.prng.index(self.plan.wholes());
        let first = self.prng.index(self.plan.servers);
        for step in 0..self.plan.servers {
            let server = (first + step) % self.plan.servers;
            let begun = self.now();
            if !self.budget.allows(name, server, begun) {
                continue;
            }
            let Some(mut client) = self.client(server) else { continue };
            let lock = key(name);
            let words = if self.prng.percent(50) {
                vec!["DEL", &lock]
            } else {
                vec!["PEXPIRE", &lock, "1"]
            };
            let begun = self.now();
            let reply = client.call(&words);
            let ended = self.now();
            if reply == Frame::Integer(0) {
                continue;
            }
            self.budget.spend(name, server, ended);
            let target = Target { server, way: 0 };
            self.done("fault: key taken", target, false, &format!(", {words:?}"));
            let disturbance = Disturbance { name: Some(name), begun, ended };
            self.stage.recorder.history().disturbances.push(disturbance);
        }
    }
}

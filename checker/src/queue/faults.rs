//! What is done to processes, connections and servers while many wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::order::Disturbed;
use super::world::World;
use super::{NAMES, Scene, key, lock};
use crate::history::{At, Disturbance};
use crate::prng::Prng;

const GAP_MS: std::ops::Range<u64> = 50..500;
const STOPPED_MS: std::ops::Range<u64> = 100..4000;
const PAUSED_MS: std::ops::Range<u64> = 50..1700;
/// Two default timeouts of a command, less what a busy machine takes.
const SILENT_MAX: Duration = Duration::from_millis(900);
/// A master that was replaced shows looks at it the queue that it had, until the Sentinels have it follow.
const FOLLOWS_AFTER: Duration = Duration::from_secs(5);
/// Slots of the three masters of a Cluster, and of no lock.
const FAR_APART: [u16; 3] = [0, 8000, 16_000];
/// Between two losses of memory, so that most of a run is within the budget.
const LOSSES_APART: Duration = Duration::from_secs(12);
/// A client that is told of a grant was granted it a TTL before at the earliest: the longest.
const TTL_MAX: Duration = Duration::from_secs(3);
/// A waiter learns by its next question that its slot is elsewhere, which is a third of its TTL later at the
/// most. Then it enters the queue again.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

pub(super) struct Injector {
    scene: Arc<Scene>,
    pub(super) world: World,
    prng: Prng,
    runtime: Handle,
    /// Clients whose processes go on at these times.
    stopped: Vec<(At, usize)>,
    lost_at: At,
    /// When the service was last looked at, and its master's port then.
    master: (At, Option<u16>),
}

impl Injector {
    pub(super) fn new(scene: Arc<Scene>, world: World, prng: Prng, runtime: Handle) -> Self {
        Self {
            scene,
            world,
            prng,
            runtime,
            stopped: Vec::new(),
            lost_at: Duration::ZERO,
            master: (Duration::ZERO, None),
        }
    }

    /// One fault after another until `end`; all is healed then.
    pub(super) fn run(&mut self, end: Duration) {
        while self.now() < end {
            sleep(self.prng.millis(GAP_MS));
            self.resume(self.now());
            self.note_failover();
            match self.prng.index(10) {
                0 | 1 => self.some_processes("processes killed", "KILL"),
                2 | 3 => self.some_processes("processes stopped", "STOP"),
                4 => self.kill_connections(),
                5 => self.pause(),
                6 => {
                    self.count("fault: SCRIPT FLUSH");
                    self.world.tell(&["SCRIPT", "FLUSH"]);
                }
                7 if self.may_lose() => self.flush(),
                _ => self.harm_servers(),
            }
        }
        self.resume(Duration::MAX);
        self.note_failover();
        *lock(&self.scene.healed) = Some(Instant::now());
        self.scene.stage.is_over.store(true, Ordering::Relaxed);
    }

    fn now(&self) -> At {
        self.scene.stage.recorder.now()
    }

    fn count(&self, what: &'static str) {
        self.scene.stage.recorder.count(what);
        self.scene.stage.recorder.note(what.to_owned());
    }

    /// Whether one server's loss of memory is due. A Redlock of three in five tolerates none at all.
    fn may_lose(&self) -> bool {
        let is_one = !matches!(&self.world, World::Servers(servers) if servers.len() > 1);
        is_one && self.now() > self.lost_at + LOSSES_APART
    }

    /// At most a third of all.
    fn some_processes(&mut self, what: &'static str, signal: &str) {
        let all = self.scene.processes.len();
        for _ in 0..=self.prng.index(all / 3) {
            let client = self.prng.index(all);
            let begun = self.now();
            if !self.scene.processes[client].signal(signal) {
                continue;
            }
            let until = begun + self.prng.millis(STOPPED_MS);
            self.scene.stage.recorder.count(what);
            self.scene.stage.recorder.note(format!("{what}: {client}, until {until:.3?}"));
            if signal == "STOP" {
                self.stopped.push((until, client));
            }
            self.disturb(Some(client), begun, until);
        }
    }

    fn resume(&mut self, now: At) {
        self.stopped.retain(|(until, client)| {
            let is_due = *until <= now;
            if is_due {
                self.scene.processes[*client].signal("CONT");
            }
            !is_due
        });
    }

    /// Some time on from now, for what was done since `begun` to all or to one.
    fn disturb(&self, client: Option<usize>, begun: At, ended: At) {
        let ended = ended.max(self.now()) + SETTLED_AFTER;
        lock(&self.scene.disturbed).push(Disturbed { client, begun, ended });
    }

    /// Sentinels take a master for dead that was paused, or that a busy machine kept waiting.
    fn note_failover(&mut self) {
        let World::Sentinel(sentinels) = &self.world else { return };
        let (at, port) = (self.now(), sentinels.master_port());
        let (begun, known) = std::mem::replace(&mut self.master, (at, Some(port)));
        if known.is_some_and(|known| known != port) {
            self.count("failovers that were seen");
            self.disturb(None, begun, at + FOLLOWS_AFTER);
            self.lose(begun);
        }
    }

    fn lose(&mut self, begun: At) {
        self.lost_at = self.now();
        let disturbance = Disturbance { name: None, begun, ended: self.lost_at + TTL_MAX };
        self.scene.stage.recorder.history().disturbances.push(disturbance);
    }

    fn kill_connections(&self) {
        let begun = self.now();
        self.count("fault: CLIENT KILL of all");
        for kind in ["normal", "pubsub"] {
            self.world.tell(&["CLIENT", "KILL", "TYPE", kind]);
        }
        self.disturb(None, begun, begun);
    }

    fn pause(&mut self) {
        let (begun, lasts) = (self.now(), self.prng.millis(PAUSED_MS));
        let servers = self.world.servers();
        let server = servers[self.prng.index(servers.len())];
        let millis = lasts.as_millis().to_string();
        server.client().try_call(&["CLIENT", "PAUSE", &millis]).ok();
        self.count("fault: CLIENT PAUSE");
        // A waiter that hears nothing for this time takes another connection, and enters again.
        if lasts >= SILENT_MAX {
            self.disturb(None, begun, begun + lasts);
        }
    }

    fn flush(&mut self) {
        let begun = self.now();
        self.count("fault: FLUSHALL");
        self.world.tell(&["FLUSHALL"]);
        self.disturb(None, begun, begun);
        self.lose(begun);
    }

    fn harm_servers(&mut self) {
        let begun = self.now();
        let loses = self.may_lose();
        match &mut self.world {
            World::Servers(servers) => {
                let server = self.prng.index(servers.len());
                if loses {
                    servers[server].cli(&["FLUSHALL"]);
                }
                servers[server].kill();
                sleep(self.prng.millis(0..700));
                servers[server].restart();
                self.count(if loses {
                    "fault: server restarted without memory"
                } else {
                    "fault: server restarted with memory"
                });
            }
            World::Sentinel(sentinels) if loses => {
                let old = sentinels.master_port();
                let is_killed = self.prng.percent(50);
                if is_killed {
                    sentinels.kill_master();
                } else {
                    self.runtime.block_on(sentinels.failover());
                }
                self.runtime.block_on(sentinels.wait_for_master_other_than(old));
                if is_killed {
                    sentinels.restart(old);
                }
                self.count(if is_killed {
                    "fault: master killed"
                } else {
                    "fault: failover by hand"
                });
            }
            World::Sentinel(_) => return,
            World::Cluster(cluster) => {
                let slot = cluster.slot(&key(self.prng.index(NAMES)));
                let from = cluster.master_of(slot);
                let mut masters = FAR_APART.map(|slot| cluster.master_of(slot)).into_iter();
                let to = masters.rfind(|master| *master != from).expect("there are three");
                if loses {
                    self.runtime.block_on(cluster.promote_replica_of(from));
                    self.count("fault: failover in the Cluster");
                } else {
                    cluster.begin_migration(slot, from, to);
                    sleep(self.prng.millis(0..700));
                    cluster.migrate_keys(slot, from, to);
                    cluster.end_migration(slot, from, to);
                    self.count("fault: slot moved");
                }
            }
        }
        self.disturb(None, begun, begun);
        if loses {
            self.lose(begun);
        }
    }
}

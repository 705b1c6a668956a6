//! One client: waits for a lock, works under it for a moment, and waits again, in a new process where the
//! last one was killed.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use leasehold_testing::leases::Part;

use super::order::{Granted, Who};
use super::{Scene, key, lock};
use crate::adapter::{Adapter, Reply, signal};
use crate::client::{Client, STUCK};
use crate::history::Lease;

/// Entries of a queue live for a TTL: long enough for a busy machine.
const TTLS_MS: [u64; 2] = [2000, 3000];
/// A third wait with a limit; the others for longer than a run.
const LIMITS_MS: [u64; 6] = [100, 1500, NO_LIMIT, NO_LIMIT, NO_LIMIT, NO_LIMIT];
const NO_LIMIT: u64 = 86_400_000;
/// How long a wait may go on when nothing fails any more.
const DRAIN_MAX: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_millis(500);

/// The process of a client, for the faults: none while it starts or ends.
#[derive(Default)]
pub(super) struct Process(Mutex<Option<u32>>);

impl Process {
    /// Whether there was one. Its id is nobody else's until its own thread has seen its end.
    pub(super) fn signal(&self, name: &str) -> bool {
        let process = lock(&self.0);
        process.iter().for_each(|id| signal(*id, name));
        process.is_some()
    }
}

pub(super) struct Waiter {
    pub(super) client: Client,
    pub(super) scene: Arc<Scene>,
    pub(super) command: Vec<String>,
    pub(super) urls: Vec<String>,
    /// Waits that were begun.
    pub(super) attempt: u32,
}

impl Waiter {
    /// Gives back its client, and its leases, each with its TTL.
    pub(super) fn run(mut self) -> (Client, Vec<(Lease, Duration)>) {
        let mut leases = Vec::new();
        let number = self.client.number;
        while !self.client.stage.is_over.load(Ordering::Relaxed) {
            *lock(&self.scene.processes[number].0) = Some(self.client.adapter.process_id());
            let is_alive = self.wait_and_hold(&mut leases);
            *lock(&self.scene.processes[number].0) = None;
            match is_alive {
                Some(true) => {}
                Some(false) => {
                    self.client.count("processes begun again");
                    self.client.adapter = Adapter::start(&self.command, &self.urls);
                }
                None => break,
            }
        }
        (self.client, leases)
    }

    /// Whether its process seems to live; none where it waits for ever.
    fn wait_and_hold(&mut self, leases: &mut Vec<(Lease, Duration)>) -> Option<bool> {
        self.attempt += 1;
        let (scene, client) = (Arc::clone(&self.scene), &mut self.client);
        let name = client.prng.index(scene.stage.registers.len());
        let (ttl, limit) = (client.prng.pick(&TTLS_MS), client.prng.pick(&LIMITS_MS));
        let who: Who = (client.number, self.attempt);
        let question = format!("wait {} {ttl} {limit} {}.{}", key(name), who.0, who.1);
        let begun = client.now();
        let hope = || lock(&scene.healed).is_none_or(|healed| healed.elapsed() < DRAIN_MAX);
        let token = match client.adapter.ask_while(&question, PATIENCE, hope) {
            Reply::Granted(token) => token,
            Reply::Stuck => {
                client.count(STUCK);
                return None;
            }
            Reply::Gone => return Some(false),
            _ => {
                client.count("waits that ended without the lock");
                sleep(client.prng.millis(1..20));
                return Some(true);
            }
        };
        if let Some(token) = token {
            lock(&scene.grants).insert(who, Granted { token, at: client.now() });
        }
        // One in fifty stays longer than its lease.
        let stay = if client.prng.percent(2) { ttl + ttl / 5 } else { client.prng.within(0..30) };
        let ttl = Duration::from_millis(ttl);
        let stay = Duration::from_millis(stay);
        client.hold((name, Part::Whole, ttl), begun, token, stay, leases);
        Some(true)
    }
}

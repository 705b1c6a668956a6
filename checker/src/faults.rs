//! What a lock has to survive without a loss of the server's memory: commands and replies that come late,
//! connections that end, servers and clients that stand still for a while.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use leasehold_testing::{Fault, FaultProxy, RedisServer};

use crate::adapter::signal;
use tokio::runtime::Handle;

use crate::client::Stage;
use crate::prng::Prng;

const GAP_MS: std::ops::Range<u64> = 20..150;
/// Longer than some leases, shorter than others.
const LASTS_MS: std::ops::Range<u64> = 50..900;

pub(crate) struct Injector {
    pub(crate) stage: Arc<Stage>,
    pub(crate) servers: Vec<RedisServer>,
    /// By client and server.
    pub(crate) ways: Vec<Vec<FaultProxy>>,
    /// Of the clients.
    pub(crate) processes: Vec<u32>,
    pub(crate) prng: Prng,
}

impl Injector {
    /// One fault after another until `end`; all is healed then.
    pub(crate) fn run(&mut self, end: Duration) {
        while self.stage.recorder.now() < end {
            sleep(self.prng.millis(GAP_MS));
            let client = self.prng.index(self.processes.len());
            let server = self.prng.index(self.servers.len());
            let lasts = self.prng.millis(LASTS_MS);
            match self.prng.index(if self.servers.len() > 1 { 6 } else { 5 }) {
                0 => self.pause(client, lasts),
                1 => self.freeze(server, lasts),
                2 => {
                    self.told("fault: connection reset", client, Duration::ZERO);
                    self.ways[client][server].reset();
                }
                3 => {
                    self.told("fault: commands delayed", client, lasts);
                    self.ways[client][server].to_server().set(Fault::Delay(lasts));
                    sleep(lasts);
                    self.ways[client][server].to_server().set(Fault::Pass);
                }
                5 => self.part(server, lasts),
                _ => {
                    self.told("fault: replies delayed", client, lasts);
                    self.ways[client][server].to_client().set(Fault::Delay(lasts));
                    sleep(lasts);
                    self.ways[client][server].to_client().set(Fault::Pass);
                }
            }
        }
        self.stage.is_over.store(true, Ordering::Relaxed);
    }

    /// Cuts each client off from one server, which is another one for each as far as there are others.
    fn part(&mut self, first: usize, lasts: Duration) {
        self.told("fault: each client cut off from one server", first, lasts);
        let (runtime, servers) = (Handle::current(), self.servers.len());
        for (client, ways) in self.ways.iter_mut().enumerate() {
            let way = &mut ways[(first + client) % servers];
            runtime.block_on(way.refuse());
            way.reset();
        }
        sleep(lasts);
        for way in self.ways.iter_mut().flatten() {
            runtime.block_on(way.accept());
        }
    }

    fn pause(&self, client: usize, lasts: Duration) {
        self.told("fault: client stopped", client, lasts);
        signal(self.processes[client], "STOP");
        sleep(lasts);
        signal(self.processes[client], "CONT");
    }

    fn freeze(&self, server: usize, lasts: Duration) {
        self.told("fault: server stopped", server, lasts);
        self.servers[server].stop();
        sleep(lasts);
        self.servers[server].cont();
    }

    fn told(&self, what: &'static str, which: usize, lasts: Duration) {
        self.stage.recorder.count(what);
        self.stage.recorder.note(format!("{what}: {which}, for {lasts:?}"));
    }
}

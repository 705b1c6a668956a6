//! The servers, and the ways to them.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::{ErrorKind, Locker, Tolerance};

use crate::client::key;
use crate::plan::{LONGEST_TTL, Plan};
use crate::prng::Prng;
use leasehold_testing::{FaultProxy, RedisServer, soon};

pub(crate) struct Fleet {
    pub(crate) servers: Vec<RedisServer>,
    /// By way and server.
    pub(crate) proxies: Vec<Vec<FaultProxy>>,
}

impl Fleet {
    pub(crate) fn start(plan: &Plan) -> Self {
        let servers: Vec<RedisServer> =
            (0..plan.servers).map(|_| RedisServer::builder().append_only().start()).collect();
        let ways = || servers.iter().map(|server| FaultProxy::start(server.address())).collect();
        let proxies = (0..plan.ways).map(|_| ways()).collect();
        Self { servers, proxies }
    }

    /// Takes the memory of a server that was killed. A server that was killed as soon as it had started has none.
    pub(crate) fn forget(&self, server: usize) {
        let directory = self.servers[server].directory().join("appendonlydir");
        if let Err(error) = std::fs::remove_dir_all(directory) {
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
        }
    }

    /// Leaves fence counters behind that no wall clock of this day reaches, each a little different.
    pub(crate) fn run_ahead(&self, plan: &Plan, prng: &mut Prng) {
        const HOUR: Duration = Duration::from_secs(3600);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let hour_ahead = u64::try_from((now + HOUR).as_micros()).expect("below 2^53");
        for server in &self.servers {
            for name in 0..plan.wholes() {
                let counter = (hour_ahead + prng.within(0..1000)).to_string();
                server.cli(&["SET", &format!("{{{}}}:fence", key(name)), &counter]);
            }
        }
    }

    /// A locker for a group of clients, over its way to the servers.
    pub(crate) async fn locker(&self, plan: &Plan, group: usize) -> Locker {
        let ways = &self.proxies[group % plan.ways];
        let connecting = async {
            loop {
                let builder = Locker::builder()
                    .nodes(ways.iter().map(FaultProxy::url))
                    .quorum(plan.quorum)
                    .ttl(LONGEST_TTL)
                    .max_ttl(LONGEST_TTL)
                    .restart_quarantine(plan.restart_quarantine)
                    .command_timeout(plan.command_timeout)
                    .connect_timeout(Duration::from_millis(500));
                // A machine that is busy for that long makes no test fail.
                match builder.connect().await {
                    Ok(locker) => break locker,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
                }
            }
        };
        let locker = soon("a locker", connecting).await;
        let Tolerance { memory_losses, outages, .. } = locker.tolerance();
        assert_eq!(memory_losses, plan.losses_max(), "{plan}");
        assert_eq!(outages, plan.servers - plan.quorum, "{plan}");
        locker
    }
}

//! The servers, and the ways to them.

use std::time::Duration;

use leasehold::{Locker, Tolerance};

use crate::plan::{LONGEST_TTL, Plan};
use crate::support::{FaultProxy, RedisServer, soon};

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

    /// Takes the memory of a server that was killed.
    pub(crate) fn forget(&self, server: usize) {
        let directory = self.servers[server].directory().join("appendonlydir");
        std::fs::remove_dir_all(directory)
            .expect("a server that keeps its data has that directory");
    }

    /// A locker for a group of clients, over its way to the servers.
    pub(crate) async fn locker(&self, plan: &Plan, group: usize) -> Locker {
        let builder = Locker::builder()
            .nodes(self.proxies[group % plan.ways].iter().map(FaultProxy::url))
            .quorum(plan.quorum)
            .ttl(LONGEST_TTL)
            .longest_ttl(LONGEST_TTL)
            .restart_guard(plan.restart_guard)
            .command_timeout(plan.command_timeout)
            .connect_timeout(Duration::from_millis(500));
        let locker = soon("a locker", builder.connect()).await.expect("all servers are well");
        let Tolerance { memory_losses, outages, .. } = locker.tolerance();
        assert_eq!(memory_losses, plan.losses_max(), "{plan}");
        assert_eq!(outages, plan.servers - plan.quorum, "{plan}");
        locker
    }
}

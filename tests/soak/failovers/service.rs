//! A primary with replicas that take its place: by Sentinels, or in a Cluster.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leasehold::{Acquire, Locker};
use leasehold_testing::sentinel::Setup;
use leasehold_testing::{Cluster, RedisServer, Sentinels};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::caller::{TTL_LONG, key};
use super::course::Failover;
use super::issued::{FREE, FREED, Stage};
use super::sets::{follow, is_linked, until, use_on};
use crate::history::At;
use crate::prng::Prng;

/// Of a Cluster the nodes that serve the names of this soak, the one or the other: beside them are two masters, which
/// vote.
const NODES: [usize; 2] = [0, 3];
/// How long a node must be silent to be taken for dead: while one is to be, and while none is.
const NODE_TIMEOUTS_MS: [&str; 2] = ["800", "15000"];
/// Sentinels that give a promotion up are asked for another.
const PROMOTED_WITHIN: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(5);

pub(crate) enum Service {
    Sentinels(Box<Sentinels>),
    Cluster(Box<Cluster>),
}

fn is_primary(server: &RedisServer) -> bool {
    let mut client = server.client();
    let answer = client.try_call(&["INFO", "replication"]);
    let info = answer.ok().and_then(|info| info.as_bytes().cloned()).unwrap_or_default();
    String::from_utf8_lossy(&info).contains("role:master")
}

/// What a replica logs in with: nothing, or what is refused.
fn log_in_as(server: &RedisServer, user: &str) {
    let mut client = server.client();
    for setting in ["masteruser", "masterauth"] {
        client.try_call(&["CONFIG", "SET", setting, user]).ok();
    }
}

impl Service {
    /// Nobody but this program has a replica promoted. Blocks.
    pub(crate) fn sentinels() -> Self {
        let down_after_ms = 120_000;
        let sentinels = Sentinels::start_as(Setup { down_after_ms, ..Setup::default() });
        // Else each step of a failover takes up to ten seconds.
        for sentinel in 0..sentinels.sentinel_ports().len() {
            let periods = ["INFO-PERIOD", "500", "PUBLISH-PERIOD", "300", "TILT-PERIOD", "1000"];
            let set = sentinels.ask(sentinel, &[&["SENTINEL", "DEBUG"], &periods[..]].concat());
            assert!(set.error().is_none(), "{set:?}");
        }
        Self::Sentinels(Box::new(sentinels))
    }

    /// The same.
    pub(crate) fn cluster() -> Self {
        let cluster = Cluster::start_beside_others();
        assert!(NODES.contains(&cluster.master_of(cluster.slot(&key(0)))));
        let service = Self::Cluster(Box::new(cluster));
        service.takes_for_dead_after(NODE_TIMEOUTS_MS[1]);
        service
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sentinels(sentinels) => sentinels.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    fn takes_for_dead_after(&self, timeout_ms: &str) {
        if let Self::Cluster(cluster) = self {
            for node in cluster.nodes() {
                node.cli(&["CONFIG", "SET", "cluster-node-timeout", timeout_ms]);
            }
        }
    }

    fn server(&self, port: u16) -> &RedisServer {
        match self {
            Self::Sentinels(sentinels) => sentinels.server(port),
            Self::Cluster(cluster) => &cluster[Self::node(cluster, port)],
        }
    }

    fn node(cluster: &Cluster, port: u16) -> usize {
        NODES.into_iter().find(|node| cluster[*node].port() == port).expect("it is one of the two")
    }

    /// The ports of the primary and of its replicas, once these follow.
    fn settled(&self, stage: &Stage) -> (u16, Vec<u16>) {
        let (master, ports): (u16, Vec<u16>) = match self {
            Self::Sentinels(sentinels) => (
                Handle::current().block_on(sentinels.wait_until_all_follow_one()),
                sentinels.servers().iter().map(RedisServer::port).collect(),
            ),
            Self::Cluster(cluster) => {
                let is_one =
                    || NODES.into_iter().filter(|node| is_primary(&cluster[*node])).count() == 1;
                until(stage, "one of the two nodes is the master", is_one);
                let master = NODES.into_iter().find(|node| is_primary(&cluster[*node]));
                let port = |node: usize| cluster[node].port();
                (port(master.unwrap_or(NODES[0])), NODES.map(port).to_vec())
            }
        };
        let replicas: Vec<u16> = ports.into_iter().filter(|port| *port != master).collect();
        until(stage, "all replicas are linked", || {
            replicas.iter().all(|port| is_linked(self.server(*port)))
        });
        (master, replicas)
    }

    fn kill(&mut self, port: u16) {
        match self {
            Self::Sentinels(sentinels) => _ = sentinels.kill_master(),
            Self::Cluster(cluster) => cluster.kill(Self::node(cluster, port)),
        }
    }

    /// A replica is to take the place of the primary, by itself where nodes take that one for dead; the port of the
    /// one that says it has, and when.
    fn promotes(&self, stage: &Stage, replicas: &[u16], is_asked: bool) -> (u16, At) {
        match self {
            Self::Sentinels(sentinels) => Handle::current().block_on(sentinels.failover()),
            Self::Cluster(_) if is_asked => {
                self.server(replicas[0]).cli(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
            }
            Self::Cluster(_) => {}
        }
        let begun = Instant::now();
        loop {
            let promoted = replicas.iter().find(|port| is_primary(self.server(**port)));
            let at = stage.now();
            let is_over = stage.is_over.load(Ordering::Relaxed);
            if promoted.is_some() || is_over || begun.elapsed() > PROMOTED_WITHIN {
                break (promoted.copied().unwrap_or(replicas[0]), at);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Until all have heard of the successor; its port.
    fn agrees(&self, stage: &Stage, master: u16, successor: u16) -> u16 {
        match self {
            Self::Sentinels(sentinels) => {
                Handle::current().block_on(sentinels.wait_for_master_other_than(master))
            }
            Self::Cluster(_) => {
                until(stage, "the replica is the master", || is_primary(self.server(successor)));
                successor
            }
        }
    }

    /// A killed server is back, with nothing.
    fn restart(&mut self, port: u16, master: u16) {
        match self {
            Self::Sentinels(sentinels) => {
                sentinels.restart(port);
                // The Sentinels would tell it later.
                follow(sentinels.server(port), sentinels.server(master));
            }
            Self::Cluster(cluster) => cluster.restart(Self::node(cluster, port)),
        }
    }

    /// With or without a SIGKILL of the primary, to a replica that most often has not heard all. Names of the `probe` are
    /// asked for once a replica is promoted.
    pub(crate) fn fail_over(
        &mut self,
        stage: &Arc<Stage>,
        prng: &mut Prng,
        probe: Option<&Locker>,
    ) {
        let runtime = Handle::current();
        let (master, replicas) = self.settled(stage);
        // A replica that hears of nothing has it as held.
        let freed = probe.and_then(|locker| runtime.block_on(asked(locker, FREED)).ok());
        let is_late = prng.percent(75);
        if is_late {
            replicas.iter().for_each(|port| log_in_as(self.server(*port), "nobody"));
            self.server(master).cli(&["CLIENT", "KILL", "TYPE", "replica"]);
        }
        if let Some(guard) = freed {
            runtime.block_on(guard.release()).ok();
        }
        if is_late {
            use_on(stage, prng, "that no replica hears of");
        }
        let is_killed = prng.percent(40);
        // Of a Cluster whose other masters vote for a replica, once they take the primary for dead.
        let is_asked = !is_killed || prng.percent(50);
        if !is_asked {
            self.takes_for_dead_after(NODE_TIMEOUTS_MS[0]);
        }
        let begun = stage.now();
        stage.recorder.note(format!("promotion begins, the master is killed: {is_killed}"));
        if is_killed {
            self.kill(master);
        }
        let (first, promoted) = self.promotes(stage, &replicas, is_asked);
        let successor = self.agrees(stage, master, first);
        if !is_killed {
            until(stage, "the other follows", || !is_primary(self.server(master)));
        }
        let agreed = stage.now();
        let probing = probe.map(|locker| runtime.spawn(all_had(locker.clone(), Arc::clone(stage))));
        replicas.iter().for_each(|port| log_in_as(self.server(*port), ""));
        if is_killed {
            self.restart(master, successor);
        }
        self.takes_for_dead_after(NODE_TIMEOUTS_MS[1]);
        if let Some(probing) = probing {
            let had = runtime.block_on(probing).expect("it ends well");
            stage.course().failovers.push(Failover { begun, promoted, successor, agreed, had });
        }
    }
}

fn asked(locker: &Locker, name: usize) -> Acquire {
    locker.lock(key(name)).ttl(TTL_LONG).into_future()
}

/// When the first and the last of the locks are granted that nobody holds.
async fn all_had(locker: Locker, stage: Arc<Stage>) -> [At; 2] {
    let had = |name| {
        let (locker, stage) = (locker.clone(), Arc::clone(&stage));
        async move {
            loop {
                match asked(&locker, name).await {
                    Ok(guard) => {
                        let at = stage.now();
                        guard.release().await.ok();
                        break at;
                    }
                    Err(error) => stage.refused("a probe", &error),
                }
                sleep(POLL).await;
            }
        }
    };
    let (freed, free) = tokio::join!(had(FREED), had(FREE));
    [freed.min(free), freed.max(free)]
}

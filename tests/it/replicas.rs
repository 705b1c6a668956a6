//! The number of replicas that have a lease, with real replicas that freeze.

use std::time::Duration;

use leasehold::{Builder, ErrorKind, Guard, LockRequest, Locker};
use leasehold_testing::{RedisServer, STUCK, eventually, soon};

const TTL: Duration = Duration::from_secs(60);
/// Far longer than replicas need, also on a busy machine.
const WITHIN: Duration = Duration::from_secs(4);
/// What replicas that stand still are given.
const SHORT: Duration = Duration::from_millis(100);
/// Half of it is the most that a `WAIT` may take.
const COMMAND: Duration = Duration::from_secs(10);

/// A master and its replicas, which are linked.
pub(crate) struct Replicated {
    master: RedisServer,
    replicas: Vec<RedisServer>,
}

impl Replicated {
    pub(crate) async fn start(replicas: usize) -> Self {
        let prompt = || RedisServer::builder().arg("--repl-diskless-sync-delay").arg("0");
        let master = prompt().start();
        let port = master.port().to_string();
        let replica = |_| prompt().arg("--replicaof").arg("127.0.0.1").arg(port.clone()).start();
        let replicas = (0..replicas).map(replica).collect();
        let replicated = Self { master, replicas };
        replicated.are_linked().await;
        replicated
    }

    async fn are_linked(&self) {
        let all = self.replicas.len().to_string();
        eventually("the replicas follow", || self.master.cli_text(&["WAIT", &all, "50"]) == all)
            .await;
    }

    fn holding(&self, name: &str) -> usize {
        self.replicas.iter().filter(|server| server.cli_text(&["EXISTS", name]) == "1").count()
    }

    pub(crate) fn builder(&self) -> Builder {
        Locker::builder().node(self.master.url()).ttl(TTL).command_timeout(COMMAND)
    }
}

async fn take(request: LockRequest) -> Guard {
    soon("it is granted", request.into_future()).await.unwrap()
}

async fn replicated(guard: &Guard, replicas: u32, within: Duration) -> u32 {
    soon("it is counted", guard.replicated(replicas, within)).await.unwrap()
}

#[tokio::test]
async fn it_counts_the_replicas_that_have_the_lease() {
    let servers = Replicated::start(2).await;
    let locker = servers.builder().connect().await.unwrap();
    let guard = take(locker.lock("a")).await;
    assert_eq!(replicated(&guard, 2, WITHIN).await, 2);
    assert_eq!(servers.holding("a"), 2);
    let plain = locker.lock("d").unfenced().await.unwrap();
    assert_eq!(soon("it is counted", plain.replicated(2, WITHIN)).await.unwrap(), 2);

    servers.replicas[0].stop();
    assert_eq!(replicated(&guard, 1, WITHIN).await, 1);
    assert_eq!(replicated(&guard, 2, SHORT).await, 1);
    servers.replicas[1].stop();
    assert_eq!(replicated(&guard, 2, SHORT).await, 0);
    assert!(!guard.is_lost());
    servers.replicas.iter().for_each(RedisServer::cont);
    assert_eq!(replicated(&guard, 2, WITHIN).await, 2);
    guard.release().await.unwrap();
}

#[cfg(feature = "groups")]
#[tokio::test]
async fn it_counts_the_replicas_that_have_all_of_several_locks() {
    let servers = Replicated::start(2).await;
    let locker = servers.builder().connect().await.unwrap();
    let several = take(locker.lock_all(["a", "b"])).await;
    assert_eq!(replicated(&several, 2, WITHIN).await, 2);
}

/// To a connection that wrote nothing a server says at once that all replicas have all of it.
#[tokio::test]
async fn a_connection_that_wrote_nothing_yet_is_not_told_that_all_have_it() {
    let servers = Replicated::start(1).await;
    let (holder, waiter) = (servers.builder(), servers.builder());
    let (holder, waiter) = (holder.connect().await.unwrap(), waiter.connect().await.unwrap());
    let held = take(holder.lock("a")).await;
    let waiting = tokio::spawn(waiter.lock("a").into_future());
    let is_queued = || servers.master.cli_text(&["EXISTS", "{a}:queue"]) == "1";
    eventually("it is in the queue", is_queued).await;
    servers.are_linked().await;
    servers.replicas[0].stop();
    held.release().await.unwrap();
    // The release of the other process was its grant.
    let guard = soon("it is granted", waiting).await.unwrap().unwrap();
    assert_eq!(replicated(&guard, 1, SHORT).await, 0);
    servers.master.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let mut counted = guard.replicated(1, SHORT).await;
    while counted.as_ref().is_err_and(|error| error.kind() != ErrorKind::Lost) {
        tokio::task::yield_now().await;
        counted = guard.replicated(1, SHORT).await;
    }
    assert_eq!(counted.unwrap(), 0);
    servers.replicas[0].cont();
    assert_eq!(replicated(&guard, 1, WITHIN).await, 1);
}

/// One `WAIT` at a time is under way, and others that came meanwhile have no time left: nothing is late behind them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_whose_replica_is_away_keeps_a_connection_no_longer_than_one_caller() {
    const CALLERS: usize = 32;
    let servers = Replicated::start(1).await;
    servers.replicas[0].stop();
    let builder = servers.builder().command_timeout(Duration::from_millis(500));
    let locker = builder.connect().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..CALLERS {
        let request = locker.lock(format!("lock-{number}")).ttl(Duration::from_secs(3));
        tasks.spawn(async move {
            let guard = request.await.unwrap();
            // Each is cut to 250 ms: one behind the other they would take 8 s.
            let count = guard.replicated(1, STUCK).await.unwrap();
            guard.release().await.unwrap();
            count
        });
    }
    let counts = soon("all are told", tasks.join_all()).await;
    assert_eq!(counts, [0; CALLERS]);
    assert_eq!((locker.stats().lost(), locker.stats().unknown), (0, 0));
}

#[tokio::test]
async fn it_says_that_a_lease_is_lost_or_its_server_away() {
    let mut servers = Replicated::start(0).await;
    let locker = servers.builder().connect().await.unwrap();
    let lost = take(locker.lock("a")).await;
    let away = take(locker.lock("b")).await;
    assert_eq!(replicated(&away, 1, Duration::ZERO).await, 0, "there is no replica");
    assert_eq!(replicated(&away, 0, Duration::MAX).await, 0);
    servers.master.cli(&["DEL", "a"]);
    let error = lost.replicated(1, WITHIN).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Lost && lost.is_lost(), "{error}");
    servers.master.kill();
    let error = soon("its end", away.replicated(1, WITHIN)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn over_several_servers_it_is_what_a_quorum_reaches() {
    let servers =
        [Replicated::start(1).await, Replicated::start(1).await, Replicated::start(0).await];
    let urls = servers.each_ref().map(|server| server.master.url());
    let builder = Locker::builder().nodes(urls).ttl(TTL).max_ttl(TTL).restart_quarantine(false);
    let locker = builder.command_timeout(COMMAND).connect().await.unwrap();
    let guard = take(locker.lock("a")).await;
    assert_eq!(replicated(&guard, 1, WITHIN).await, 1);
    servers[0].replicas[0].stop();
    assert_eq!(replicated(&guard, 1, SHORT).await, 0);
    guard.release().await.unwrap();
}

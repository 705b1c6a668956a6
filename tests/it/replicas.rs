//! Leases that replicas acknowledge, with real replicas that freeze.

use std::time::Duration;

use leasehold::{Builder, Guard, LockRequest, Locker, Loss};
use leasehold_testing::{RedisServer, STUCK, eventually, soon};

const TTL: Duration = Duration::from_secs(30);
/// Far longer than replicas need, also on a busy machine.
const WITHIN: Duration = Duration::from_millis(1500);
const COMMAND: Duration = Duration::from_secs(10);

/// A master and its two replicas, which are linked.
struct Replicated {
    master: RedisServer,
    replicas: [RedisServer; 2],
}

impl Replicated {
    async fn start() -> Self {
        let prompt = || RedisServer::builder().arg("--repl-diskless-sync-delay").arg("0");
        let master = prompt().start();
        let port = master.port().to_string();
        let replicas = [(); 2]
            .map(|()| prompt().arg("--replicaof").arg("127.0.0.1").arg(port.clone()).start());
        let replicated = Self { master, replicas };
        replicated.are_linked().await;
        replicated
    }

    async fn are_linked(&self) {
        eventually("the replicas follow", || self.master.cli_text(&["WAIT", "2", "50"]) == "2")
            .await;
    }

    fn holding(&self, name: &str) -> usize {
        let all = self.replicas.iter().chain([&self.master]);
        all.filter(|server| server.cli_text(&["EXISTS", name]) == "1").count()
    }

    fn builder(&self) -> Builder {
        Locker::builder().node(self.master.url()).ttl(TTL).command_timeout(COMMAND)
    }
}

async fn take(request: LockRequest) -> Guard {
    soon("it is granted", request.into_future()).await.unwrap()
}

#[tokio::test]
async fn a_lease_is_with_the_replicas_when_it_is_granted_and_renewed() {
    let servers = Replicated::start().await;
    let locker = servers.builder().replicas(2, WITHIN).connect().await.unwrap();
    for name in ["a", "b"] {
        let guard = take(locker.lock(name)).await;
        assert_eq!(servers.holding(name), 3);
        guard.extend().await.unwrap();
        guard.release().await.unwrap();
    }
    let plain = locker.lock("c").unfenced().await.unwrap();
    assert_eq!(servers.holding("c"), 3);
    plain.release().await.unwrap();

    let short = take(locker.lock("d").ttl(Duration::from_secs(3))).await;
    eventually("it is renewed, again and again", || locker.stats().renewed > 3).await;
    assert!(!short.is_lost());
    assert_eq!(servers.holding("d"), 3);
}

/// A new connection on which nothing was written yet could be told that all have all of it.
#[tokio::test]
async fn a_lease_that_too_few_replicas_acknowledge_is_given_back() {
    let servers = Replicated::start().await;
    servers.replicas[0].stop();
    let locker = servers.builder().connect().await.unwrap();
    let error = locker.try_lock("a").replicas(2, WITHIN).await.map(|_: Guard| ()).unwrap_err();
    assert!(error.is_unreplicated(), "{error}");
    assert!(!error.is_contended() && !error.is_unknown() && !error.is_misuse(), "{error}");
    assert!(error.to_string().contains("1 of 2 replicas"), "{error}");
    eventually("it is given back", || servers.master.cli_text(&["EXISTS", "a"]) == "0").await;

    take(locker.lock("a").replicas(1, WITHIN)).await.release().await.unwrap();
    let held = take(locker.lock("a")).await;
    let error = locker.try_lock("a").replicas(2, WITHIN).await.map(|_: Guard| ()).unwrap_err();
    assert!(error.is_contended() && !error.is_unreplicated(), "{error}");
    held.release().await.unwrap();

    // A waiter goes on when they are back.
    let waiting = tokio::spawn(locker.lock("a").replicas(2, WITHIN).into_future());
    eventually("it has tried", || locker.stats().attempts > 4).await;
    servers.replicas[0].cont();
    let guard = soon("it is granted", waiting).await.unwrap().unwrap();
    assert_eq!(servers.holding("a"), 3);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_renewal_that_too_few_replicas_acknowledge_does_not_count() {
    let servers = Replicated::start().await;
    let locker = servers.builder().connect().await.unwrap();
    let short = || locker.lock("a").ttl(Duration::from_secs(3));
    let guard = take(short().replicas(2, Duration::from_millis(500))).await;
    let alone = take(locker.lock("b").ttl(Duration::from_secs(3))).await;
    eventually("it is renewed", || locker.stats().renewed > 2).await;
    servers.replicas.iter().for_each(RedisServer::stop);
    assert_eq!(soon("it ends", guard.lost()).await, Loss::Expired);
    assert!(!alone.is_lost(), "what asks for no replicas goes on");
    servers.replicas.iter().for_each(RedisServer::cont);
    drop(guard);
    servers.are_linked().await;
    take(short().replicas(2, WITHIN)).await.release().await.unwrap();
}

/// The server counts replicas a few times for all of them: a caller that comes while it counts is not told that
/// nobody knows, and nobody's count waits for everybody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_without_its_replica_is_told_so_definitely_and_by_few_questions() {
    const CALLERS: u64 = 64;
    let mut servers = Replicated::start().await;
    let locker = servers.builder().connect().await.unwrap();
    let crowd = async |within| {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..CALLERS {
            let request = locker.try_lock(format!("lock-{number}")).replicas(2, within);
            tasks.spawn(async move { request.await.map(drop) });
        }
        soon("all are told", tasks.join_all()).await
    };
    crowd(WITHIN).await.into_iter().for_each(|outcome| outcome.unwrap());
    for is_killed in [false, true] {
        if is_killed {
            servers.replicas[1].cont();
            servers.replicas[1].kill();
        } else {
            servers.replicas[1].stop();
        }
        let before = waits(&servers.master);
        for outcome in crowd(Duration::from_millis(300)).await {
            let error = outcome.unwrap_err();
            assert!(error.is_unreplicated() && !error.is_unknown(), "{error}");
            assert!(error.to_string().contains("1 of 2 replicas"), "{error}");
        }
        let asked = waits(&servers.master) - before;
        assert!(asked < CALLERS, "{asked} questions for {CALLERS} callers");
        let kept = || servers.master.cli_text(&["DBSIZE"]).parse::<u64>().unwrap() - CALLERS;
        eventually("all is given back but the counters", || kept() == 0).await;
    }
    assert_eq!(locker.stats().unknown, 0);
}

/// How often the server was asked for replicas.
fn waits(server: &RedisServer) -> u64 {
    let info = server.cli_text(&["INFO", "commandstats"]);
    let wait = info.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls="));
    wait.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
}

/// A caller that needs fewer is told by the question of one that needs more, and one that gives up keeps nobody.
#[tokio::test]
async fn callers_that_need_more_replicas_than_there_are_keep_nobody_else() {
    let servers = Replicated::start().await;
    servers.replicas[0].stop();
    let locker = servers.builder().connect().await.unwrap();
    let forever = Duration::from_secs(600);
    let mut stuck: Vec<_> = (0..3)
        .map(|number| {
            let request = locker.try_lock(format!("stuck-{number}")).replicas(2, forever);
            tokio::spawn(request.into_future())
        })
        .collect();
    eventually("they wait", || waits(&servers.master) > 2).await;
    for number in 0..3 {
        let name = format!("lock-{number}");
        take(locker.lock(&name).replicas(1, WITHIN)).await.release().await.unwrap();
        // The one that looks after the question may be any of them.
        stuck.remove(0).abort();
    }
    for number in 0..3 {
        let name = format!("stuck-{number}");
        eventually("it is given back", || servers.master.cli_text(&["EXISTS", &name]) == "0").await;
    }
    take(locker.lock("a").replicas(1, WITHIN)).await.release().await.unwrap();
}

/// What replicas are given does not end with what a command is given.
#[tokio::test]
async fn replicas_may_be_given_longer_than_a_command() {
    let servers = Replicated::start().await;
    let builder = Locker::builder().node(servers.master.url()).ttl(TTL).no_renewal();
    let locker = builder.command_timeout(Duration::from_millis(400)).connect().await.unwrap();
    let guard = take(locker.lock("a").replicas(2, STUCK)).await;
    servers.replicas[0].stop();
    let asked = waits(&servers.master);
    let (extended, ()) = tokio::join!(guard.extend(), async {
        // Each takes a twentieth of a second at the least.
        eventually("it is waited for", || waits(&servers.master) > asked + 20).await;
        servers.replicas[0].cont();
    });
    extended.unwrap();
    guard.release().await.unwrap();
}

/// What replicas acknowledge after the lease's end is no lease.
#[tokio::test]
async fn a_grant_that_is_acknowledged_too_late_is_none() {
    let servers = Replicated::start().await;
    servers.replicas[0].stop();
    let locker = servers.builder().connect().await.unwrap();
    let request = locker.try_lock("a").ttl(Duration::from_secs(1));
    let asking = tokio::spawn(request.replicas(2, Duration::from_secs(600)).into_future());
    eventually("it is granted", || servers.master.cli_text(&["EXISTS", "a"]) == "1").await;
    eventually("it ends", || servers.master.cli_text(&["EXISTS", "a"]) == "0").await;
    servers.replicas[0].cont();
    let error = soon("it is told", asking).await.unwrap().map(drop).unwrap_err();
    assert!(error.is_timeout() && !error.is_unreplicated(), "{error}");
}

/// A connection that ends while replicas are asked leaves nobody waiting.
#[tokio::test]
async fn a_connection_that_ends_meanwhile_is_told() {
    let servers = Replicated::start().await;
    servers.replicas[0].stop();
    let locker = servers.builder().connect().await.unwrap();
    let request = locker.try_lock("a").replicas(2, Duration::from_secs(600));
    let asking = tokio::spawn(request.into_future());
    eventually("it waits", || waits(&servers.master) > 2).await;
    servers.master.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let error = soon("it is told", asking).await.unwrap().map(drop).unwrap_err();
    assert!(error.is_unknown() || error.is_unavailable(), "{error}");
    take(locker.lock("a").replicas(1, WITHIN)).await.release().await.unwrap();
}

/// Leases of this kind are waited for and handed on like others, among themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_waited_for_and_handed_on() {
    let servers = Replicated::start().await;
    let locker = servers.builder().connect().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..6 {
        let locker = locker.clone();
        tasks.spawn(async move {
            for _ in 0..20 {
                let request = locker.lock("a");
                let request = if task % 2 == 0 { request.replicas(2, WITHIN) } else { request };
                request.await.unwrap().release().await.unwrap();
            }
        });
    }
    while let Some(done) = soon("all have their turns", tasks.join_next()).await {
        done.unwrap();
    }
    eventually("it is free everywhere", || servers.holding("a") == 0).await;
}

#[tokio::test]
async fn what_cannot_be_awaited_is_refused() {
    let server = RedisServer::start();
    let builder = || Locker::builder().node(server.url());
    let locker = builder().connect().await.unwrap();
    let error = locker.lock("a").replicas(0, WITHIN).await.map(|_: Guard| ()).unwrap_err();
    assert!(error.is_misuse(), "{error}");
    let error = builder().replicas(0, WITHIN).connect().await.map(|_| ()).unwrap_err();
    assert!(error.is_misuse(), "{error}");
    assert_eq!(server.cli_text(&["EXISTS", "a"]), "0");
    let soon = Duration::from_millis(50);
    let error = locker.try_lock("a").replicas(1, soon).await.map(|_: Guard| ()).unwrap_err();
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
}

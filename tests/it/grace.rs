//! `Builder::failover_grace` on real servers: the promoted replica lacks the last writes.

#![allow(clippy::disallowed_methods, reason = "what real servers do takes real time")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{ErrorKind, Event, Locker};
use leasehold_resp::Frame;
#[cfg(feature = "cluster")]
use leasehold_testing::Cluster;
use leasehold_testing::{FaultProxy, Fleet, RedisServer, eventually, rights, soon, whole};
#[cfg(feature = "sentinel")]
use leasehold_testing::{Sentinels, sentinel::Setup};

/// Long enough for any failover here.
const TTL: Duration = Duration::from_secs(12);

/// One primary with a replica, which fails over.
enum Primary {
    /// Behind one address: it becomes a replica of one that has not heard of the last, and a primary again.
    Alone(Box<[RedisServer; 2]>),
    /// Behind one address, which leads to its replica once it is dead: its connections end.
    Moving(Box<[RedisServer; 2]>, FaultProxy),
    #[cfg(feature = "sentinel")]
    Sentinels(Box<Sentinels>),
    #[cfg(feature = "cluster")]
    Cluster(Box<Cluster>),
}

fn info(server: &RedisServer, section: &str, name: &str) -> String {
    let info = server.cli_text(&["INFO", section]);
    let value = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned());
    info.lines().find_map(value).unwrap()
}

/// Its grace is over before it begins.
fn has_reigned_for_long(server: &RedisServer, marker: &str) {
    let (run, id) =
        (info(server, "server", "run_id"), info(server, "replication", "master_replid"));
    server.cli(&["SET", marker, &format!("{run} {id} 1")]);
}

/// From here on it hears of nothing.
fn is_cut_off(replica: &RedisServer) {
    replica.cli(&["CONFIG", "SET", "masteruser", "nobody"]);
    replica.cli(&["CONFIG", "SET", "masterauth", "nothing"]);
}

async fn is_linked(replica: &RedisServer) {
    eventually("it follows", || info(replica, "replication", "master_link_status") == "up").await;
}

impl Primary {
    async fn alone() -> Self {
        let builder = RedisServer::builder().arg("--repl-diskless-sync-delay").arg("0");
        let (server, other) = (builder.clone().start(), builder.start());
        other.cli(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]);
        is_linked(&other).await;
        has_reigned_for_long(&server, "{leasehold}:reign");
        Self::Alone(Box::new([server, other]))
    }

    async fn moving() -> Self {
        let Self::Alone(servers) = Self::alone().await else { unreachable!("it is that") };
        let front = FaultProxy::start(servers[0].address());
        Self::Moving(servers, front)
    }

    #[cfg(feature = "sentinel")]
    async fn sentinels() -> Self {
        let setup = Setup { down_after_ms: 120_000, ..Setup::default() };
        let sentinels = Sentinels::start_as(setup);
        let master = sentinels.wait_until_all_follow_one().await;
        let replicas = sentinels.servers().iter().filter(|server| server.port() != master);
        for replica in replicas {
            is_linked(replica).await;
        }
        has_reigned_for_long(sentinels.server(master), "{leasehold}:reign");
        Self::Sentinels(Box::new(sentinels))
    }

    #[cfg(feature = "cluster")]
    fn cluster() -> Self {
        let cluster = Cluster::start();
        for master in 0..3 {
            let markers = (0..).map(|number| format!("{{leasehold:{number}}}:reign"));
            let is_its = |key: &String| cluster.master_of(cluster.slot(key)) == master;
            let marker = markers.into_iter().find(is_its).unwrap();
            has_reigned_for_long(&cluster[master], &marker);
        }
        Self::Cluster(Box::new(cluster))
    }

    async fn locker(&self, has_grace: bool) -> Locker {
        let url = match self {
            Self::Alone(servers) => servers[0].url(),
            Self::Moving(_, front) => front.url(),
            #[cfg(feature = "sentinel")]
            Self::Sentinels(sentinels) => sentinels.url(),
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => cluster.url(),
        };
        let builder = Locker::builder().node(url).ttl(TTL).failover_grace(has_grace);
        soon("it connects", builder.connect()).await.unwrap()
    }

    /// Replicas hear of nothing from here on.
    async fn is_late(&self) {
        match self {
            Self::Alone(servers) => {
                servers[1].cli(&["REPLICAOF", "NO", "ONE"]);
            }
            Self::Moving(servers, _) => {
                is_cut_off(&servers[1]);
                servers[0].cli(&["CLIENT", "KILL", "TYPE", "replica"]);
            }
            #[cfg(feature = "sentinel")]
            Self::Sentinels(sentinels) => {
                let master = sentinels.master_port();
                let replicas = sentinels.servers().iter().filter(|it| it.port() != master);
                replicas.for_each(is_cut_off);
                sentinels.server(master).cli(&["CLIENT", "KILL", "TYPE", "replica"]);
            }
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => {
                cluster.nodes().for_each(is_cut_off);
                cluster
                    .nodes()
                    .for_each(|node| _ = node.cli(&["CLIENT", "KILL", "TYPE", "replica"]));
            }
        }
    }

    /// A replica takes the place of the primary that has the lock of this name.
    async fn fails_over(&mut self, _name: &str) {
        match self {
            Self::Alone(servers) => {
                let [server, other] = &**servers;
                server.cli(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
                is_linked(server).await;
                tokio::time::sleep(Duration::from_millis(1100)).await;
                server.cli(&["REPLICAOF", "NO", "ONE"]);
            }
            Self::Moving(servers, front) => {
                servers[0].kill();
                servers[1].cli(&["REPLICAOF", "NO", "ONE"]);
                front.lead_to(servers[1].address());
            }
            #[cfg(feature = "sentinel")]
            Self::Sentinels(sentinels) => {
                let master = sentinels.kill_master();
                sentinels.failover().await;
                sentinels.wait_for_master_other_than(master).await;
            }
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => {
                let slot = cluster.slot(_name);
                let master = cluster.master_of(slot);
                let replica = cluster.replica_of(master);
                cluster.kill(master);
                cluster[replica].cli(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
                cluster.wait_until_failed_over(slot).await;
            }
        }
    }
}

/// One holds a lease that it does not renew, and another asks for the lock once the primary has failed over. Whether both
/// hold it. With a grace a lease that is renewed is kept by a successor that has never heard of it, and its lock is granted
/// behind it.
async fn are_both_granted(mut primary: Primary, has_grace: bool) -> bool {
    let (one, other) = (primary.locker(has_grace).await, primary.locker(has_grace).await);
    primary.is_late().await;
    let held = soon("a grant", one.lock("{a}").no_renewal().into_future()).await.unwrap();
    let kept = soon("a grant", one.lock("{a}:kept").into_future()).await.unwrap();
    primary.fails_over("{a}").await;
    let next = tokio::spawn(other.lock("{a}:kept").into_future());
    let mut refused = 0;
    let asking = async {
        loop {
            match other.try_lock("{a}").await {
                Ok(guard) => break guard,
                Err(error) => {
                    assert_ne!(error.kind(), ErrorKind::Misuse, "{error}");
                    refused += u32::from(error.to_string().contains("the primary changed"));
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let second = soon("a grant", asking).await;
    let are_both = !held.is_lost();
    assert_eq!(refused > 0, has_grace);
    if has_grace {
        // A grace is over, and it lasts as long as a lease.
        assert!(!kept.is_lost() && !next.is_finished());
        let token = kept.fence();
        kept.release().await.unwrap();
        let next = soon("the next", next).await.unwrap().unwrap();
        assert!(next.fence() > token);
    }
    drop(second);
    are_both
}

/// Without a grace both are granted the lock: so the replica was late.
async fn survives(primary: impl AsyncFn() -> Primary) {
    assert!(are_both_granted(primary().await, false).await);
    assert!(!are_both_granted(primary().await, true).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_survives_a_primary_behind_one_address_that_was_a_replica_meanwhile() {
    survives(Primary::alone).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_survives_a_primary_behind_one_address_that_leads_to_its_replica() {
    survives(Primary::moving).await;
}

#[cfg(feature = "sentinel")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_survives_a_failover_by_sentinels_that_lost_it() {
    survives(Primary::sentinels).await;
}

#[cfg(feature = "cluster")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_survives_a_failover_of_a_node_that_lost_it() {
    survives(async || Primary::cluster()).await;
}

/// A lock that is granted once the grace is over, of which all that ask before are told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_survives_a_restart_that_forgets_all() {
    let mut server = RedisServer::start();
    has_reigned_for_long(&server, "{leasehold}:reign");
    let connect = async || {
        let builder = Locker::builder().node(server.url()).ttl(Duration::from_secs(3));
        soon("it connects", builder.failover_grace(true).connect()).await.unwrap()
    };
    let (one, other) = (connect().await, connect().await);
    let kept = soon("a grant", one.lock("kept").into_future()).await.unwrap();
    let forgotten =
        soon("a grant", one.lock("forgotten").no_renewal().into_future()).await.unwrap();
    server.restart();
    assert_eq!(server.cli_text(&["EXISTS", "forgotten"]), "0");
    let next = tokio::spawn(other.lock("kept").into_future());
    let _second = soon("the grace is over", other.lock("forgotten").into_future()).await.unwrap();
    assert!(forgotten.is_lost() && !kept.is_lost() && !next.is_finished());
    kept.release().await.unwrap();
    soon("the next", next).await.unwrap().unwrap().release().await.unwrap();
}

/// One of three servers becomes a replica of one that has never heard of the lock, and a primary again, while all connections
/// to it stay. Another restarts with nothing, or never had the lock. Whether two hold it: with the restart quarantine and the
/// grace, or with neither.
async fn are_both_granted_by_three(are_guarded: bool, restarts: bool) -> bool {
    let mut fleet = Fleet::start(3);
    let late = RedisServer::builder().arg("--repl-diskless-sync-delay").arg("0").start();
    fleet.iter().for_each(|server| has_reigned_for_long(server, "{leasehold}:reign"));
    let connect = async || {
        let builder = Locker::builder().nodes(fleet.urls()).ttl(TTL);
        let builder = builder.restart_quarantine(are_guarded).failover_grace(are_guarded);
        soon("it connects", builder.connect()).await.unwrap()
    };
    let (one, other) = (connect().await, connect().await);
    // One that may not vote yet is not asked.
    let asked = async {
        loop {
            let guard = one.lock("a").no_renewal().await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            if fleet.holding("a") == 3 {
                break guard;
            }
            guard.release().await.unwrap();
        }
    };
    let held = soon("all have it", asked).await;
    fleet[0].cli(&["REPLICAOF", "127.0.0.1", &late.port().to_string()]);
    is_linked(&fleet[0]).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    fleet[0].cli(&["REPLICAOF", "NO", "ONE"]);
    if restarts {
        fleet[1].restart();
    } else {
        fleet[1].cli(&["DEL", "a"]);
    }
    assert_eq!(fleet.holding("a"), 1);
    let mut said = Vec::new();
    let asking = async {
        loop {
            match other.try_lock("a").await {
                Ok(guard) => break guard,
                Err(error) => said.push(error.to_string()),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let _second = soon("a grant", asking).await;
    let says = |words: &str| said.iter().any(|text| text.contains(words));
    assert_eq!(says("the primary changed"), are_guarded);
    assert!(!says("no lock command has"), "what the server grants in its grace is no nonsense");
    !held.is_lost()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_of_one_of_three_does_not_vote_nor_does_another_that_restarted() {
    let both = async |are_guarded, restarts| are_both_granted_by_three(are_guarded, restarts).await;
    assert_eq!(tokio::join!(both(true, true), both(true, false)), (false, false));
    assert_eq!(tokio::join!(both(false, true), both(false, false)), (true, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_ask_are_told_of_a_grace_and_when_it_is_over_nobody_is() {
    let server = RedisServer::start();
    let long = Duration::from_secs(3600);
    let told: Arc<Mutex<Vec<(String, Duration, Duration)>>> = Arc::default();
    let connect = async || {
        let told = Arc::clone(&told);
        let observer = move |event: &Event<'_>| {
            if let Event::PrimaryChanged { server, since, left, .. } = *event {
                told.lock().unwrap().push((server.to_owned(), since, left));
            }
        };
        let builder = Locker::builder().node(server.url()).max_ttl(long).observer(observer);
        soon("it connects", builder.failover_grace(true).connect()).await.unwrap()
    };
    let locker = connect().await;
    let waiting = locker.lock("a").wait_at_most(Duration::from_millis(100)).into_future();
    let waited = soon("an end", waiting).await.unwrap_err();
    for error in [locker.try_lock("a").await.unwrap_err(), waited] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let words = ["the primary changed", "ago", "ask again in"];
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
    }
    let stats = locker.stats().servers.remove(0);
    assert!(stats.grace.is_some_and(|left| left < long), "{stats}");
    assert!(stats.to_string().contains("grants nothing new for"), "{stats}");
    let said = std::mem::take(&mut *told.lock().unwrap());
    let [(address, since, left)] = &said[..] else { panic!("{said:?}") };
    assert!(*address == stats.server && *since + *left == long && *left > Duration::ZERO);
    has_reigned_for_long(&server, "{leasehold}:reign");
    let later = connect().await;
    later.try_lock("a").await.unwrap().release().await.unwrap();
    assert!(later.stats().servers[0].grace.is_none() && told.lock().unwrap().is_empty());
}

/// The second pattern of the row is for a Cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grace_takes_the_rights_of_its_row_and_without_one_of_them_nothing_is_granted() {
    let server = RedisServer::start();
    has_reigned_for_long(&server, "{app:leasehold}:reign");
    let all = [rights::of("fenced"), rights::row("grace")].concat();
    let needed = ["~{app:leasehold}:reign", "+info|replication"];
    for lacking in [None].into_iter().chain(needed.map(Some)) {
        let granted: Vec<_> = all.iter().filter(|it| Some(&***it) != lacking).cloned().collect();
        rights::grant(&server, &granted);
        let builder = Locker::builder().node(rights::url(&server)).key_prefix(rights::PREFIX);
        let locker = soon("it connects", builder.failover_grace(true).connect()).await.unwrap();
        match (lacking, locker.try_lock("job").await) {
            (None, granted) => granted.unwrap().release().await.unwrap(),
            (Some(right), granted) => {
                let error = granted.expect_err(right);
                assert_eq!(error.kind(), ErrorKind::Auth, "{right}: {error}");
                let named = if right.starts_with('~') { right } else { "info" };
                assert!(error.to_string().contains(named), "{right}: {error}");
            }
        }
    }
}

const STAMP: &str = "8123456789012345";

/// Whether the server has the lease of `me` once its holder has said that it holds, with this token and until then.
fn is_heard(server: &RedisServer, token: &str, by: &str) -> bool {
    let script = whole(include_str!("../../scripts/repair.lua"));
    let words = ["EVAL", &script, "2", "a", "{a}:fence", "me", "60000", token, by, STAMP];
    match server.cli(&words) {
        Frame::Bulk(stamp) => stamp == STAMP,
        Frame::Array(items) => {
            assert_eq!(items[..], [Frame::Bulk(STAMP.into()), Frame::Integer(0)]);
            false
        }
        other => panic!("{other:?}"),
    }
}

/// What one holder says of its lease is none of the others' trouble.
#[test]
fn several_holders_are_heard_in_one_command_and_each_for_itself() {
    let server = RedisServer::start();
    let script = whole(include_str!("../../scripts/repair.lua"));
    server.cli(&["SET", "other", "its", "PX", "60000"]);
    server.cli(&["SET", "{other}:fence", "8"]);
    server.cli(&["HSET", "none", "field", "value"]);
    server.cli(&["SET", "own", "c", "PX", "60000"]);
    let mut words = vec!["EVAL", &*script, "8"];
    words.extend(["other", "{other}:fence", "free", "{free}:fence"]);
    words.extend(["none", "{none}:fence", "own", "{own}:fence"]);
    for owner in ["a", "b", "x", "c"] {
        words.extend([owner, "60000", "7"]);
    }
    words.extend(["9000000000000000", STAMP]);
    let kept = [0, 1, 0, 1].map(Frame::Integer);
    let said = [Frame::Bulk(STAMP.into())].into_iter().chain(kept).collect();
    assert_eq!(server.cli(&words), Frame::Array(said));
    assert_eq!(
        ["other", "free", "own"].map(|key| server.cli_text(&["GET", key])),
        ["its", "b", "c"]
    );
    let counters = ["{other}:fence", "{free}:fence", "{own}:fence"];
    assert_eq!(counters.map(|key| server.cli_text(&["GET", key])), ["8", "7", "7"]);
    server.cli(&["DEL", "other", "none"]);
    assert_eq!(server.cli(&words), Frame::Bulk(STAMP.into()));
}

#[test]
fn a_holder_is_heard_while_the_grace_lasts_and_takes_over_from_none_but_an_earlier_owner() {
    let server = RedisServer::start();
    let (in_time, late) = ("9000000000000000", "1");
    assert!(!is_heard(&server, "7", late));
    assert_eq!(server.cli(&["EXISTS", "a"]), Frame::Integer(0));
    assert!(is_heard(&server, "7", in_time));
    assert_eq!(
        (server.cli_text(&["GET", "a"]), server.cli_text(&["GET", "{a}:fence"])),
        ("me".into(), "7".into())
    );
    // What is its own is extended at any time.
    server.cli(&["PEXPIRE", "a", "1000"]);
    assert!(is_heard(&server, "7", late));
    assert!(matches!(server.cli(&["PTTL", "a"]), Frame::Integer(left) if left > 50_000));
    for (counter, token, by, is_taken) in [
        ("6", "7", in_time, true),
        ("6", "7", late, false),
        ("7", "7", in_time, false),
        // Without a token.
        ("6", "0", in_time, false),
    ] {
        server.cli(&["SET", "a", "other\0", "PX", "60000"]);
        server.cli(&["SET", "{a}:fence", counter]);
        assert_eq!(is_heard(&server, token, by), is_taken, "{counter} {token} {by}");
        let owner = if is_taken { "me\0" } else { "other\0" };
        assert_eq!(server.cli_text(&["GET", "a"]), owner, "with its mark, as somebody waits");
        assert_eq!(server.cli_text(&["GET", "{a}:fence"]), if is_taken { token } else { counter });
    }
}

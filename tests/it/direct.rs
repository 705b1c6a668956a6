//! Locks that are taken and given back without a script, where one server decides alone.

use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, Locker, Vote};
use leasehold_resp::Frame;
use leasehold_testing::{RedisServer, Stepwise, binary, eventually, soon};

const TTL: Duration = Duration::from_secs(60);
const WEEK_SECS: i64 = 7 * 24 * 3600;

async fn locker(server: &RedisServer) -> Locker {
    Locker::builder().node(server.url()).ttl(TTL).connect().await.unwrap()
}

async fn take(locker: &Locker) -> Guard {
    soon("a grant", locker.lock("a").into_future()).await.unwrap()
}

/// Takes the lock by the script, and gives it back: its counter is known to live from here on.
async fn seed(locker: &Locker) -> u64 {
    let guard = take(locker).await;
    let token = guard.fence().get();
    guard.release().await.unwrap();
    token
}

/// How often a command was carried out.
fn calls(server: &RedisServer, command: &str) -> u64 {
    let statistics = server.cli_text(&["INFO", "commandstats"]);
    let begins = format!("cmdstat_{command}:calls=");
    let line = statistics.lines().find_map(|line| line.strip_prefix(&begins));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

fn scripts(server: &RedisServer) -> u64 {
    calls(server, "evalsha") + calls(server, "eval")
}

fn seconds_left(server: &RedisServer, key: &str) -> i64 {
    let Frame::Integer(left) = server.cli(&["TTL", key]) else { panic!("a TTL is a number") };
    left
}

#[tokio::test]
async fn a_name_that_is_used_again_is_taken_without_a_script() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let mut last = seed(&locker).await;
    let before = scripts(&server);
    for drawn in 1..=20 {
        let guard = take(&locker).await;
        assert_eq!(guard.fence().get(), last + 1, "it is drawn");
        assert_eq!(server.cli_text(&["GET", "{a}:fence"]), guard.fence().to_string());
        assert!((1..=60).contains(&seconds_left(&server, "a")));
        last = guard.fence().get();
        guard.release().await.unwrap();
        assert_eq!(server.cli(&["EXISTS", "a"]), Frame::Integer(0));
        let releases = if deletes_if_equal() { 0 } else { drawn };
        assert_eq!(scripts(&server), before + releases);
    }
    assert!(seconds_left(&server, "{a}:fence") > WEEK_SECS - 3600);
}

fn is_valkey() -> bool {
    !binary::is_redis()
}

fn deletes_if_equal() -> bool {
    binary::has_at_least((8, 4), (9, 0))
}

/// Whatever was lost, a token is above all before it, and is not shown before that is so.
#[tokio::test]
async fn a_counter_that_was_lost_is_set_anew_before_its_token_is_given_out() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let first = seed(&locker).await;
    for lost in [vec!["DEL", "{a}:fence"], vec!["SET", "{a}:fence", "1600000000000000"]] {
        server.cli(&lost);
        let guard = take(&locker).await;
        assert!(guard.fence().get() > first, "{} after {lost:?}", guard.fence());
        assert!(guard.remaining() > TTL / 2);
        assert!(seconds_left(&server, "{a}:fence") > WEEK_SECS - 3600);
        guard.release().await.unwrap();
        let before = scripts(&server);
        take(&locker).await.release().await.unwrap();
        let most = before + u64::from(!deletes_if_equal());
        assert_eq!(scripts(&server), most, "it is drawn from again");
    }
}

#[tokio::test]
async fn a_refused_draw_from_a_lost_counter_leaves_none_that_stays_for_ever() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    seed(&locker).await;
    server.cli(&["SET", "a", "another"]);
    server.cli(&["DEL", "{a}:fence"]);
    let error = locker.try_lock("a").await.unwrap_err();
    assert_eq!(error.report().holder().unwrap().owner, "another");
    assert_eq!(server.cli_text(&["GET", "{a}:fence"]), "1");
    assert!(seconds_left(&server, "{a}:fence") > WEEK_SECS - 3600);
    let draws = calls(&server, "incrby");
    assert_eq!(locker.try_lock("a").await.unwrap_err().kind(), ErrorKind::Contended);
    assert_eq!(calls(&server, "incrby"), draws, "what was refused is asked by the script next");
}

/// A waiter is ahead of a newcomer, also where the lock is free.
#[tokio::test]
async fn a_newcomer_gives_back_what_others_wait_for() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let last = seed(&locker).await;
    let _lives = server.put_waiter("a");
    let error = locker.try_lock("a").fair().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
    assert!(matches!(error.report().servers()[0].vote, Vote::Queued { waiting: 1 }), "{error}");
    assert_eq!(calls(&server, "incrby"), 1, "it was tried without a script");
    eventually("it is given back", || server.cli(&["EXISTS", "a"]) == Frame::Integer(0)).await;
    let guard = locker.try_lock("a").await.unwrap();
    assert!(guard.fence().get() > last, "one that does not mind takes it");
}

/// The value is compared whole: what was changed is not this owner's to delete.
#[tokio::test]
async fn a_lock_whose_value_was_changed_is_left_alone_and_lost() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    seed(&locker).await;
    let guard = take(&locker).await;
    server.cli(&["APPEND", "a", "x"]);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(server.cli(&["EXISTS", "a"]), Frame::Integer(1));
}

#[tokio::test]
async fn a_locker_without_the_right_to_draw_asks_the_script_and_tries_no_more() {
    let server = RedisServer::start();
    if binary::lacks(binary::has_at_least((6, 2), (7, 2)), "counts of refused commands") {
        return;
    }
    let mut rules = vec!["ACL", "SETUSER", "worker", "on", ">pw", "~*", "&*", "+@all", "-incrby"];
    rules.extend(deletes_if_equal().then(|| if is_valkey() { "-delifeq" } else { "-delex" }));
    assert_eq!(server.cli_text(&rules), "OK");
    let url = format!("redis://worker:pw@{}", server.address());
    let locker = Locker::builder().node(url).ttl(TTL).connect().await.unwrap();
    let mut last = seed(&locker).await;
    for _ in 0..3 {
        let guard = take(&locker).await;
        assert!(guard.fence().get() > last);
        last = guard.fence().get();
        guard.release().await.unwrap();
    }
    let statistics = server.cli_text(&["INFO", "commandstats"]);
    let refused = ["incrby:", "delifeq:", "delex:"].map(|command| format!("cmdstat_{command}"));
    let lines = statistics.lines().filter(|line| refused.iter().any(|it| line.starts_with(it)));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 1 + usize::from(deletes_if_equal()), "{statistics}");
    assert!(lines.iter().all(|line| line.contains("rejected_calls=1,")), "{lines:?}");
}

#[tokio::test]
async fn a_draw_that_is_not_answered_keeps_nobody_past_the_limit() {
    let server = RedisServer::start();
    let builder = Locker::builder().node(server.url()).ttl(TTL);
    let locker = builder.command_timeout(Duration::from_secs(3600)).connect().await.unwrap();
    seed(&locker).await;
    server.stop();
    let request = locker.lock("a").wait_at_most(Duration::from_millis(50));
    let error = soon("the limit", request.into_future()).await.unwrap_err();
    assert_eq!((error.is_timeout(), error.kind()), (true, ErrorKind::Unavailable), "{error}");
    server.cont();
    take(&locker).await.release().await.unwrap();
}

/// How often somebody comes between.
const ROUNDS: usize = 20;

/// A client whose commands can be halted, and the request of it whose `SET` was carried out and whose
/// `INCRBY` was not yet.
struct Halted {
    victim: tokio::task::JoinHandle<Result<Guard, Error>>,
    proxy: Stepwise,
    locker: Locker,
}

impl Halted {
    async fn behind(server: &RedisServer, command: &'static str) -> Self {
        let proxy = Stepwise::start(server.address());
        let locker = Locker::builder().node(proxy.url()).ttl(TTL);
        let locker = locker.command_timeout(Duration::from_secs(3600)).connect().await.unwrap();
        seed(&locker).await;
        proxy.halt_behind(command);
        let waits = locker.clone();
        let victim = tokio::spawn(async move { waits.lock("a").await });
        proxy.halted().await;
        eventually("the lock is set", || server.cli(&["EXISTS", "a"]) == Frame::Integer(1)).await;
        Self { victim, proxy, locker }
    }

    /// The other one, which came between, gives the lock back: only then the victim gets it.
    async fn waits_for(self, other: Guard) {
        self.proxy.go_on();
        eventually("it waits", || self.victim.is_finished() || self.locker.stats().waiting == 1)
            .await;
        if self.victim.is_finished() {
            let victim = soon("it has ended", self.victim).await.unwrap().unwrap();
            panic!(
                "holds with {} beside {}, lost: {}",
                victim.fence(),
                other.fence(),
                victim.is_lost()
            );
        }
        assert!(!other.is_lost());
        other.extend().await.unwrap();
        let token = other.fence();
        other.release().await.unwrap();
        let victim = soon("the lock", self.victim).await.unwrap().unwrap();
        assert!(victim.fence() > token, "{} after {token}", victim.fence());
        victim.release().await.unwrap();
    }
}

#[cfg(feature = "takeover")]
#[tokio::test]
async fn a_thief_between_the_taking_and_the_draw_keeps_the_lock_and_has_the_larger_token() {
    let server = RedisServer::start();
    let other = locker(&server).await;
    for _ in 0..ROUNDS {
        let halted = Halted::behind(&server, "SET").await;
        let thief = other.lock("a").steal().await.unwrap();
        assert_eq!(thief.report().taken_from().count(), 1);
        halted.waits_for(thief).await;
    }
}

#[tokio::test]
async fn an_owner_behind_a_deletion_between_the_taking_and_the_draw_keeps_the_lock() {
    let server = RedisServer::start();
    let other = locker(&server).await;
    for _ in 0..ROUNDS {
        let halted = Halted::behind(&server, "SET").await;
        assert_eq!(server.cli(&["DEL", "a"]), Frame::Integer(1));
        halted.waits_for(other.try_lock("a").await.unwrap()).await;
    }
}

/// The byte that says that somebody waits makes the lock nobody else's.
#[tokio::test]
async fn a_lock_that_is_waited_for_before_the_proof_is_its_owners() {
    let server = RedisServer::start();
    let other = locker(&server).await;
    let halted = Halted::behind(&server, "INCRBY").await;
    let before = server.cli_text(&["GET", "{a}:fence"]);
    let waiter = tokio::spawn(other.lock("a").into_future());
    eventually("it is marked", || server.cli_text(&["GET", "a"]).ends_with('\0')).await;
    halted.proxy.go_on();
    let guard = soon("a grant", halted.victim).await.unwrap().unwrap();
    assert_eq!(guard.fence().to_string(), before, "it was drawn");
    let token = guard.fence();
    guard.release().await.unwrap();
    let next = soon("the lock", waiter).await.unwrap().unwrap();
    assert!(next.fence() > token);
}

fn replicates(server: &RedisServer, of: &RedisServer) {
    server.cli(&["REPLICAOF", "127.0.0.1", &of.port().to_string()]);
}

async fn is_replica(server: &RedisServer, of: &RedisServer) {
    replicates(server, of);
    let up = || server.cli_text(&["INFO", "replication"]).contains("master_link_status:up");
    eventually("it has all", up).await;
}

fn is_promoted(server: &RedisServer) {
    server.cli(&["REPLICAOF", "NO", "ONE"]);
}

/// Another server has what this one had once: this one becomes its replica, and is promoted again.
#[tokio::test]
async fn a_server_that_was_demoted_and_promoted_while_its_client_slept_repeats_no_token() {
    for _ in 0..5 {
        let (server, other) = (RedisServer::start(), RedisServer::start());
        let locker = locker(&server).await;
        seed(&locker).await;
        is_replica(&other, &server).await;
        is_promoted(&other);
        let mut last = 0;
        for _ in 0..10 {
            last = seed(&locker).await;
        }
        is_replica(&server, &other).await;
        is_promoted(&server);
        // The client sleeps for longer than it may draw without a script.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let next = seed(&locker).await;
        assert!(next > last, "{next} after {last}");
    }
}

/// Whichever name is refused, nothing is drawn for any other on that connection.
#[tokio::test]
async fn a_refusal_of_a_replica_ends_the_right_to_draw_for_all_names() {
    for _ in 0..5 {
        let (server, other) = (RedisServer::start(), RedisServer::start());
        let locker = locker(&server).await;
        seed(&locker).await;
        is_replica(&other, &server).await;
        is_promoted(&other);
        locker.try_lock("b").await.unwrap().release().await.unwrap();
        let mut last = 0;
        for _ in 0..10 {
            last = seed(&locker).await;
        }
        replicates(&server, &other);
        assert!(locker.try_lock("b").await.is_err());
        is_replica(&server, &other).await;
        is_promoted(&server);
        let next = seed(&locker).await;
        assert!(next > last, "{next} after {last}");
    }
}

//! Servers whose wall clocks are set forward and back under a lease: Redis expires keys by them.

use std::time::Duration;

use leasehold::{Builder, ErrorKind, Guard, Locker, Loss};
use leasehold_resp::Frame;
use leasehold_testing::{Fleet, RedisServer, eventually, soon};

/// Longer than a busy machine keeps anything waiting.
const TTL: Duration = Duration::from_secs(90);
/// Longer than a busy machine keeps a holder from renewing, and ends while a test waits for it.
const SHORT: Duration = Duration::from_secs(6);
/// In seconds, and beyond every TTL here.
const STEP: i64 = 3600;

fn server() -> RedisServer {
    RedisServer::builder().wall_clock().start()
}

async fn locker(server: &RedisServer) -> Locker {
    Locker::connect(&server.url()).await.unwrap()
}

async fn take(locker: &Locker, ttl: Duration) -> Guard {
    soon("a lock", locker.lock("a").ttl(ttl).into_future()).await.unwrap()
}

async fn is_contended(locker: &Locker) -> bool {
    match soon("an answer", locker.try_lock("a").ttl(TTL).into_future()).await {
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::Contended || panic!("{error}"),
    }
}

fn number(server: &RedisServer, command: &[&str]) -> i64 {
    let Frame::Integer(number) = server.cli(command) else { panic!("{command:?}") };
    number
}

fn uptime(server: &RedisServer) -> i64 {
    let info = server.cli_text(&["INFO", "server"]);
    let line = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"));
    line.unwrap().trim().parse().unwrap()
}

/// What the others here rely on.
#[tokio::test]
async fn a_server_goes_by_the_clock_that_it_is_given() {
    let server = server();
    server.cli(&["SET", "a", "b", "PX", "90000"]);
    let expires_at = number(&server, &["PEXPIRETIME", "a"]);
    server.set_wall_clock(-STEP);
    eventually("it lives for longer", || number(&server, &["PTTL", "a"]) > STEP * 1000).await;
    assert_eq!(number(&server, &["PEXPIRETIME", "a"]), expires_at);
    eventually("its uptime is negative", || uptime(&server) < 0).await;
    server.set_wall_clock(STEP);
    eventually("it ends", || server.cli_text(&["GET", "a"]).is_empty()).await;
    eventually("it is up for longer", || uptime(&server) >= STEP).await;
}

#[tokio::test]
async fn a_holder_is_told_when_its_key_expires_early_and_leaves_the_next_ones_alone() {
    let server = server();
    let (first, second) = (locker(&server).await, locker(&server).await);
    let guard = take(&first, SHORT).await;
    server.set_wall_clock(STEP);
    let next = take(&second, TTL).await;
    assert!(next.fence() > guard.fence(), "whatever the clocks say");
    // By its next renewal, which comes before its end.
    assert_eq!(soon("the loss", guard.lost()).await, Loss::Gone);
    let value = server.cli_text(&["GET", "a"]);
    drop(guard);
    soon("whatever it sends", first.shutdown(TTL)).await;
    assert_eq!(server.cli_text(&["GET", "a"]), value, "it is the second one's");
    next.extend().await.unwrap();
    next.release().await.unwrap();
}

/// With client tracking there is no waiting for a renewal.
#[tokio::test]
async fn a_holder_whose_key_is_watched_is_told_of_its_early_expiry_at_once() {
    let server = server();
    let locker = locker(&server).await;
    let guard = take(&locker, Duration::from_secs(STEP.unsigned_abs())).await;
    let lost = tokio::spawn(async move { guard.lost().await });
    eventually("it is watched", || locker.stats().renewed == 1).await;
    server.set_wall_clock(2 * STEP);
    assert_eq!(soon("the loss", lost).await.unwrap(), Loss::Gone);
}

#[tokio::test]
async fn a_clock_set_back_keeps_a_lease_alive_for_longer_and_has_never_two_holders() {
    let server = server();
    let (first, second) = (locker(&server).await, locker(&server).await);
    let guard = soon("a lock", first.lock("a").ttl(SHORT).no_renewal().into_future()).await;
    let guard = guard.unwrap();
    server.set_wall_clock(-STEP);
    eventually("it lives for longer", || number(&server, &["PTTL", "a"]) > STEP * 500).await;
    // Its holder does not go by the server's clock.
    assert_eq!(soon("the loss", guard.lost()).await, Loss::Expired);
    assert!(number(&server, &["PTTL", "a"]) > STEP * 500);
    assert!(is_contended(&second).await, "it lives on at the server");
    drop(guard);
    let next = take(&second, TTL).await;
    assert!(is_contended(&first).await);
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_clock_set_back_has_renewals_go_on() {
    let server = server();
    let locker = locker(&server).await;
    let guard = take(&locker, SHORT).await;
    server.set_wall_clock(-STEP);
    let before = locker.stats().renewed;
    // Three in a TTL: this is beyond its end.
    eventually("renewals", || locker.stats().renewed >= before + 4).await;
    assert!(!guard.is_lost());
    // Safety rule 16: each gives it its own end, or it would stay for an hour after its holder died.
    assert!(number(&server, &["PTTL", "a"]) <= 6000);
    guard.release().await.unwrap();
    assert_eq!(number(&server, &["EXISTS", "a"]), 0);
}

/// The servers have just started, so the restart quarantine would keep them from voting for a TTL.
fn quorum(fleet: &Fleet) -> Builder {
    Locker::builder().nodes(fleet.urls()).restart_quarantine(false).ttl(TTL)
}

#[tokio::test]
async fn clocks_of_a_minority_that_are_set_forward_or_back_cost_no_lease() {
    let fleet = Fleet::start_as(5, &RedisServer::builder().wall_clock());
    let holder = quorum(&fleet).connect().await.unwrap();
    let rival = quorum(&fleet).connect().await.unwrap();
    let guard = take(&holder, SHORT).await;
    eventually("all have it", || fleet.holding("a") == 5).await;
    let set = |first, second| {
        fleet[0].set_wall_clock(first);
        fleet[1].set_wall_clock(second);
    };
    set(STEP, STEP);
    eventually("all have it again", || fleet.holding("a") == 5).await;
    for (first, second) in [(2 * STEP, 2 * STEP), (-STEP, 2 * STEP), (0, 0)] {
        set(first, second);
        assert!(is_contended(&rival).await);
        let before = holder.stats().renewed;
        eventually("a renewal", || holder.stats().renewed > before).await;
        assert!(!guard.is_lost());
    }
    guard.release().await.unwrap();
    eventually("it is free", || fleet.holding("a") == 0).await;
    take(&rival, TTL).await.release().await.unwrap();
}

/// Where no script may call TIME, a key tells the server's clock: no client's clock is believed, for a token neither.
#[tokio::test]
async fn tokens_are_by_the_servers_clock_also_where_no_script_may_ask_for_it() {
    let server = RedisServer::builder().wall_clock().arg("--rename-command").arg("TIME").arg("");
    let server = server.start();
    let locker = locker(&server).await;
    let mut tokens = Vec::new();
    for (name, step) in [("ahead", 2 * STEP), ("behind", -2 * STEP)] {
        server.set_wall_clock(step);
        let guard = soon("a lock", locker.lock(name).into_future()).await.unwrap();
        tokens.push(guard.fence().get() / 1_000_000);
    }
    let apart = tokens[0].saturating_sub(tokens[1]);
    assert!(apart > 3 * STEP.unsigned_abs(), "{tokens:?}: the client's clock has not moved");
}

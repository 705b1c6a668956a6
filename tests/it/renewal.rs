//! Renewal: leases are renewed until they are released, not longer; and repaired on servers of a quorum that lost them.

mod kept;
mod observed;

use std::time::Duration;

use leasehold::{Builder, ErrorKind, Guard, Locker, Loss};
use leasehold_resp::Frame;
use leasehold_testing::{Client, Fleet, RedisServer, eventually, soon};

/// Renewed often; longer than a busy machine keeps a process waiting.
pub(crate) const SHORT: Duration = Duration::from_millis(900);
/// So long that no key is ever free because of it.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

async fn locker(server: &RedisServer) -> Locker {
    Locker::connect(&server.url()).await.unwrap()
}

pub(crate) async fn take(locker: &Locker, name: &str, ttl: Duration) -> Guard {
    soon("a lock", locker.lock(name).ttl(ttl).into_future()).await.unwrap()
}

pub(crate) fn pttl(server: &RedisServer, key: &str) -> i64 {
    let Frame::Integer(pttl) = server.cli(&["PTTL", key]) else { panic!() };
    pttl
}

pub(crate) async fn until_renewed(locker: &Locker, times: u64) {
    let before = locker.stats().renewed;
    eventually("renewals", || locker.stats().renewed >= before + times).await;
}

#[tokio::test]
async fn a_lease_is_held_for_many_ttls() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guards = [
        take(&locker, "a", SHORT).await,
        take(&locker, "b", SHORT * 2).await,
        take(&locker, "c", LONG).await,
    ];
    // Three renewals a TTL: this is beyond three of the shorter one's.
    until_renewed(&locker, 16).await;
    for guard in guards {
        assert!(!guard.is_lost());
        guard.release().await.unwrap();
    }
    assert_eq!(locker.stats().held, 0);
}

#[tokio::test]
async fn a_quorum_of_servers_renews() {
    let fleet = Fleet::start(5);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", SHORT).await;
    until_renewed(&locker, 10).await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    eventually("it is free everywhere", || fleet.holding("a") == 0).await;
}

/// redisson #7272: the renewal outlived the unlock.
#[tokio::test]
async fn renewal_ends_with_the_guard() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let released = take(&locker, "released", SHORT).await;
    let dropped = take(&locker, "dropped", SHORT).await;
    until_renewed(&locker, 4).await;
    released.release().await.unwrap();
    drop(dropped);
    let kept = take(&locker, "kept", SHORT).await;
    assert_eq!(locker.stats().held, 1);
    // Now only one is renewed, and nothing brings the others back.
    until_renewed(&locker, 6).await;
    assert_eq!(server.cli_text(&["EXISTS", "released", "dropped"]), "0");
    assert!(!kept.is_lost());
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_ends_with_its_ttl() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("a").ttl(SHORT).no_renewal().await.unwrap();
    assert_eq!(soon("its end", guard.lost()).await, Loss::Expired);
    assert_eq!(guard.loss(), Some(Loss::Expired));
    assert_eq!(locker.stats().losses(Loss::Expired), 1);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

/// As a server's clock that is set back would leave it: the lock must not outlive its holder for long.
#[tokio::test]
async fn renewal_gives_a_lease_that_ends_too_late_its_own_end_again() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = take(&locker, "a", SHORT).await;
    server.cli(&["PEXPIRE", "a", "3600000"]);
    until_renewed(&locker, 3).await;
    let left = pttl(&server, "a");
    assert!(left > 0 && u128::try_from(left).unwrap() <= SHORT.as_millis(), "{left}");
    guard.release().await.unwrap();
}

/// RedLock.net #48: a renewal created the lost key again, and hid that another had held it.
#[tokio::test]
async fn renewal_never_takes_a_lost_lock_again() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = take(&locker, "a", SHORT).await;
    server.cli(&["DEL", "a"]);
    assert_eq!(soon("its loss", guard.lost()).await, Loss::Gone);
    assert_eq!(server.cli(&["EXISTS", "a"]), Frame::Integer(0));
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Gone));
}

/// The lease is given back while its renewal is under way, again and again: no renewal brings it
/// back, and none prolongs the next owner's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_releases_race_renewals() {
    const ROUNDS: u32 = 10_000;
    const TTL: Duration = Duration::from_millis(12);
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let racer = |name: &'static str, locker: Locker, mut client: Client| async move {
        for round in 0..ROUNDS / 4 {
            let guard = locker.lock(name).ttl(TTL).min_validity(Duration::ZERO).await.unwrap();
            // A renewal is due after 4 ms: give back around that moment.
            match round % 4 {
                0 => tokio::time::sleep(Duration::from_millis(4)).await,
                _ => tokio::task::yield_now().await,
            }
            match guard.release().await {
                Ok(()) => assert_eq!(client.text(&["EXISTS", name]), "0", "a renewal came behind"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Lost, "{error}"),
            }
        }
    };
    let racers: Vec<_> = ["a", "b", "c", "d"]
        .map(|name| tokio::spawn(racer(name, locker.clone(), server.client())))
        .into();
    for racer in racers {
        racer.await.unwrap();
    }
    assert!(locker.stats().renewed > 0, "some were renewed");
    eventually("all are free", || server.cli_text(&["EXISTS", "a", "b", "c", "d"]) == "0").await;
    // A foreign lock of a TTL that is far longer is neither prolonged nor deleted.
    server.cli(&["SET", "a", "other", "PX", "60000"]);
    let last = take(&locker, "b", SHORT).await;
    until_renewed(&locker, 5).await;
    drop(last);
    assert_eq!(server.cli_text(&["GET", "a"]), "other");
    assert!(pttl(&server, "a") <= 60_000);
}

/// The servers have just started, so the restart quarantine would keep them from voting for a TTL.
pub(crate) fn quorum(fleet: &Fleet) -> Builder {
    Locker::builder().nodes(fleet.urls()).max_ttl(LONG).restart_quarantine(false)
}

pub(crate) fn fence_of(server: &RedisServer, name: &str) -> u64 {
    server.cli_text(&["GET", &format!("{{{name}}}:fence")]).parse().unwrap_or(0)
}

#[tokio::test]
async fn servers_that_lost_a_lease_are_given_it_back() {
    let fleet = Fleet::start(5);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", Duration::from_secs(2)).await;
    eventually("all have it", || fleet.holding("a") == 5).await;
    for server in fleet.iter().take(2) {
        server.cli(&["FLUSHALL"]);
    }
    eventually("all have it again", || fleet.holding("a") == 5).await;
    assert!(!guard.is_lost());
    eventually("both have said so", || locker.stats().repaired >= 2).await;
    let owners = fleet.cli_all(&["GET", "a"]);
    assert!(owners.iter().all(|owner| *owner == owners[4]), "{owners:?}");
    assert!(fleet.iter().all(|server| fence_of(server, "a") == guard.fence().get()));
    guard.release().await.unwrap();
    eventually("all are free", || fleet.holding("a") == 0).await;
}

#[tokio::test]
async fn a_lease_that_a_quorum_lost_is_lost_and_nobody_is_given_it_back() {
    let fleet = Fleet::start(5);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", Duration::from_secs(1)).await;
    eventually("all have it", || fleet.holding("a") == 5).await;
    for server in fleet.iter().take(3) {
        server.cli(&["DEL", "a"]);
    }
    assert_eq!(soon("its loss", guard.lost()).await, Loss::NoQuorum);
    assert_eq!(locker.stats().repaired, 0);
    assert!(fleet.iter().take(3).all(|server| server.cli_text(&["EXISTS", "a"]) == "0"));
}

#[tokio::test]
async fn what_another_has_there_is_not_overwritten() {
    let fleet = Fleet::start(3);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", SHORT).await;
    eventually("all have it", || fleet.holding("a") == 3).await;
    fleet[0].cli(&["SET", "a", "other", "PX", "3600000"]);
    until_renewed(&locker, 4).await;
    assert_eq!(fleet[0].cli_text(&["GET", "a"]), "other");
    fleet[0].cli(&["DEL", "a"]);
    eventually("all have it again", || fleet.holding("a") == 3).await;
    assert!(!guard.is_lost());
}

/// A server in quarantine may have forgotten another's lease: it is given nothing.
#[tokio::test]
async fn a_restarted_server_is_given_a_lease_back_only_when_it_may_vote() {
    const TTL: Duration = Duration::from_secs(3);
    let mut fleet = Fleet::start(3);
    let builder = || Locker::builder().nodes(fleet.urls()).ttl(TTL);
    let locker = builder().connect().await.unwrap();
    let guard = soon("the first quarantine's end", locker.lock("a").into_future()).await.unwrap();
    eventually("all have it", || fleet.holding("a") == 3).await;
    fleet[0].restart();
    until_renewed(&locker, 1).await;
    until_renewed(&locker, 1).await;
    assert_eq!(fleet[0].cli_text(&["EXISTS", "a"]), "0", "it is in quarantine");
    eventually("it has it again", || fleet.holding("a") == 3).await;
    let uptime = fleet[0].cli_text(&["INFO", "server"]);
    let uptime = uptime.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")).unwrap();
    assert!(uptime.trim().parse::<u64>().unwrap() >= TTL.as_secs() - 1, "{uptime}");
    assert!(!guard.is_lost());
}

//! A shutdown uses its time: releases without an answer are repeated until they have one. No lock here becomes free by
//! its TTL.

use std::time::Duration;

use leasehold::{Locker, Shutdown};

use crate::stats::{LONG, SHORT, quorum, take};
use leasehold_testing::{FaultProxy, Fleet, RedisServer, eventually, soon};

const NAMES: [&str; 3] = ["a", "b", "c"];

fn assert_all_free(server: &RedisServer) {
    assert_eq!(server.cli_text(&["EXISTS", "a", "b", "c"]), "0");
}

fn assert_all_released(mut ended: Shutdown) {
    assert!(ended.unreleased.is_empty(), "{ended}");
    ended.released.sort_unstable();
    assert_eq!(ended.released, NAMES);
}

async fn locker_at(url: String) -> Locker {
    Locker::builder().node(url).ttl(LONG).connect().await.unwrap()
}

#[tokio::test]
async fn connections_that_have_just_been_lost_are_dialled_again() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    for _ in 0..9 {
        let locker = locker_at(proxy.url()).await;
        let mut guards = Vec::new();
        for name in NAMES {
            guards.push(take(&locker, name, LONG).await);
        }
        proxy.cut();
        assert_all_released(soon("the end", locker.shutdown(LONG)).await);
        assert_all_free(&server);
    }
}

#[tokio::test]
async fn a_server_that_refuses_releases_is_asked_again() {
    let server = RedisServer::start();
    let locker = locker_at(server.url()).await;
    let mut guards = Vec::new();
    for name in NAMES {
        guards.push(take(&locker, name, LONG).await);
    }
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let ended = locker.shutdown(Duration::from_millis(100)).await;
    assert_eq!((ended.released.len(), ended.unreleased.len()), (0, 3), "{ended}");
    assert!(ended.unreleased.iter().all(|left| left.reason.contains("NOREPLICAS")), "{ended}");
    let again = tokio::spawn(async move { locker.shutdown(LONG).await });
    tokio::time::sleep(SHORT).await;
    assert!(!again.is_finished());
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert_all_released(soon("the end", again).await.unwrap());
    assert_all_free(&server);
}

/// A repetition would be refused like the first release.
#[tokio::test]
async fn a_right_that_is_missing_ends_the_wait() {
    let server = RedisServer::start();
    let locker = locker_at(server.url()).await;
    let (held, dropped) = (take(&locker, "a", LONG).await, take(&locker, "b", LONG).await);
    server.cli(&["ACL", "SETUSER", "default", "-eval", "-evalsha", "-fcall"]);
    let ended = soon("the end", locker.shutdown(LONG)).await;
    assert_eq!((ended.released.len(), ended.unreleased.len()), (0, 2), "{ended}");
    assert!(ended.unreleased.iter().all(|left| left.reason.contains("NOPERM")), "{ended}");
    drop((held, dropped));
}

/// Nobody holds the locks any more, so the end says nothing of them unless they are left.
#[cfg(feature = "groups")]
#[tokio::test]
async fn what_dropped_guards_owe_is_waited_for_and_reported() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = locker_at(proxy.url()).await;
    let one = take(&locker, "a", LONG).await;
    let several = locker.lock_all(["b", "c"]).await.unwrap();
    server.stop();
    proxy.cut();
    drop((one, several));
    let ended = locker.shutdown(SHORT).await;
    let mut unreleased = ended.unreleased.clone();
    unreleased.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    assert_eq!((&*unreleased[0].name, &*unreleased[1].name), ("a", "b, c"), "{ended}");
    assert_eq!((ended.released.len(), unreleased.len()), (0, 2), "{ended}");
    let again = tokio::spawn(async move { locker.shutdown(LONG).await });
    tokio::time::sleep(SHORT).await;
    assert!(!again.is_finished());
    server.cont();
    let ended = soon("the end", again).await.unwrap();
    assert!(ended.released.is_empty() && ended.unreleased.is_empty(), "{ended}");
    assert_all_free(&server);
}

/// The lock is free for others, so the end does not wait for a server that is gone.
#[tokio::test]
async fn what_is_owed_to_a_minority_that_is_away_is_not_waited_for() {
    let mut fleet = Fleet::start(3);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", LONG).await;
    eventually("all have it", || fleet.holding("a") == 3).await;
    fleet[1].kill();
    eventually("it is noticed", || !locker.stats().servers[1].connected).await;
    drop(guard);
    let ended = soon("the end", locker.shutdown(LONG)).await;
    assert!(ended.released.is_empty() && ended.unreleased.is_empty(), "{ended}");
    assert!([0, 2].iter().all(|well| fleet[*well].cli_text(&["EXISTS", "a"]) == "0"));
}

/// Nor for one that takes everything and answers nothing: a dial to it would last for minutes.
#[tokio::test]
async fn what_is_owed_to_a_minority_that_is_frozen_is_not_waited_for() {
    let fleet = Fleet::start(3);
    let locker = quorum(&fleet).connect_timeout(Duration::from_secs(600)).connect().await.unwrap();
    let guard = take(&locker, "a", LONG).await;
    eventually("all have it", || fleet.holding("a") == 3).await;
    fleet[1].stop();
    drop(guard);
    let ended = soon("the end", locker.shutdown(LONG)).await;
    assert!(ended.released.is_empty() && ended.unreleased.is_empty(), "{ended}");
    fleet[1].cont();
    eventually("it carries out what it got", || fleet.holding("a") == 0).await;
}

#[tokio::test]
async fn an_end_with_nothing_to_give_back_takes_no_time() {
    let server = RedisServer::start();
    let locker = locker_at(server.url()).await;
    take(&locker, "a", LONG).await.release().await.unwrap();
    server.stop();
    let ended = soon("the end", locker.shutdown(LONG)).await;
    assert!(ended.unreleased.is_empty(), "{ended}");
    server.cont();
}

//! One of several locks, whichever is free first.

use std::time::Duration;

use leasehold::{ErrorKind, Guard, Locker};
#[cfg(feature = "cluster")]
use leasehold_testing::Cluster;
use leasehold_testing::{Fleet, RedisServer, eventually, soon};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// So long that no key is ever free because of it.
const TTL: Duration = Duration::from_secs(3600);

async fn connect(urls: impl IntoIterator<Item = String>) -> Locker {
    // Servers that have just started would be kept from voting for a TTL.
    let builder = Locker::builder().nodes(urls).restart_quarantine(false).ttl(TTL).max_ttl(TTL);
    soon("it connects", builder.connect()).await.unwrap()
}

async fn any(locker: &Locker) -> Guard {
    soon("one of them", locker.lock_any(NAMES).into_future()).await.unwrap()
}

/// In the order given; one that all are taken from is refused, or waits for whichever comes free.
async fn has_each_in_turn(locker: Locker, other: Locker, holding: impl Fn(&str) -> bool) {
    let (first, second) = (any(&locker).await, any(&other).await);
    assert_eq!((first.name(), second.name()), (&b"a"[..], &b"b"[..]));
    let third = any(&other).await;
    assert_eq!(third.name(), b"c");
    let refused = other.lock_any(NAMES).wait_at_most(Duration::ZERO).await;
    let error = refused.map(|_| ()).unwrap_err();
    assert!(error.kind() == ErrorKind::Contended && !error.is_timeout(), "{error}");
    // Enough for a last answer of each server on a busy machine.
    let limit = Duration::from_secs(1);
    let error = other.lock_any(NAMES).wait_at_most(limit).await.map(|_| ()).unwrap_err();
    assert!(error.kind() == ErrorKind::Contended && error.is_timeout(), "{error}");
    let waiting = tokio::spawn({
        let other = other.clone();
        async move { any(&other).await }
    });
    eventually("it waits for each", || other.stats().waiting == 3).await;
    second.release().await.unwrap();
    let next = soon("it is woken", waiting).await.unwrap();
    assert_eq!(next.name(), b"b");
    assert_eq!(other.stats().waiting, 0);
    drop((first, third, next));
    for name in NAMES {
        eventually("it is free", || !holding(name)).await;
    }
    assert_eq!(locker.stats().held + other.stats().held, 0);
}

#[tokio::test]
async fn the_first_that_is_free_is_had_in_the_order_given() {
    let server = RedisServer::start();
    let (locker, other) = (connect([server.url()]).await, connect([server.url()]).await);
    has_each_in_turn(locker, other, |name| server.cli_text(&["EXISTS", name]) == "1").await;
}

#[tokio::test]
async fn the_first_that_is_free_is_had_of_a_quorum() {
    let fleet = Fleet::start(3);
    let (locker, other) = (connect(fleet.urls()).await, connect(fleet.urls()).await);
    has_each_in_turn(locker, other, |name| fleet.holding(name) > 0).await;
}

#[cfg(feature = "cluster")]
#[tokio::test]
async fn the_first_that_is_free_is_had_of_a_cluster() {
    let cluster = Cluster::start();
    let url = || [cluster.seed_url(3)];
    let (locker, other) = (connect(url()).await, connect(url()).await);
    has_each_in_turn(locker, other, |name| cluster.holding(name)).await;
}

/// All of them come free at one moment.
#[tokio::test]
async fn a_waiter_has_the_first_that_comes_free_and_leaves_nothing_else() {
    let server = RedisServer::start();
    let (locker, other) = (connect([server.url()]).await, connect([server.url()]).await);
    for _ in 0..20 {
        let all = locker.lock_all(NAMES).await.unwrap();
        let waiting = [&locker, &other, &other].map(|locker| {
            let locker = locker.clone();
            tokio::spawn(async move {
                let guard = any(&locker).await;
                let name = guard.name().to_vec();
                guard.release().await.unwrap();
                name
            })
        });
        eventually("they wait", || locker.stats().waiting + other.stats().waiting == 9).await;
        all.release().await.unwrap();
        for waits in waiting {
            let name = soon("one of them", waits).await.unwrap();
            assert!(NAMES.iter().any(|known| known.as_bytes() == name));
        }
        eventually("all are free", || server.cli_text(&["EXISTS", "a", "b", "c"]) == "0").await;
    }
}

#[tokio::test]
async fn one_that_is_dropped_at_any_point_leaves_nothing() {
    let server = RedisServer::start();
    let (locker, other) = (connect([server.url()]).await, connect([server.url()]).await);
    for micros in (0..60).map(|step| step * 50) {
        let held = other.lock_all(["a", "b"]).await.unwrap();
        let request = locker.lock_any(NAMES).into_future();
        let had = tokio::time::timeout(Duration::from_micros(micros), request).await;
        drop(held);
        drop(had);
        eventually("all are free", || server.cli_text(&["EXISTS", "a", "b", "c"]) == "0").await;
    }
    assert_eq!((locker.stats().held, locker.stats().waiting), (0, 0));
}

#[tokio::test]
async fn names_that_cannot_be_are_refused_and_one_that_is_given_twice_is_one() {
    let server = RedisServer::start();
    let locker = connect([server.url()]).await;
    for request in [locker.lock_any([""; 0]), locker.lock_any(["a", ""])] {
        assert_eq!(request.await.map(|_| ()).unwrap_err().kind(), ErrorKind::Misuse);
    }
    let guard = locker.lock_any(["a", "a"]).await.unwrap();
    let request = locker.lock_any(["a", "a"]).reject_reentrant();
    assert!(request.await.map(|_| ()).unwrap_err().is_held_here());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn the_limit_holds_for_all_tries_together_where_a_server_is_silent() {
    let server = RedisServer::start();
    let builder = Locker::builder().node(server.url()).command_timeout(TTL);
    let locker = builder.connect().await.unwrap();
    locker.lock("a").await.unwrap().release().await.unwrap();
    server.stop();
    let request = locker.lock_any(NAMES).wait_at_most(Duration::from_millis(50));
    let error = soon("it gives up", request.into_future()).await.map(|_| ()).unwrap_err();
    assert_eq!((error.is_timeout(), error.kind()), (true, ErrorKind::Unavailable), "{error}");
    server.cont();
    for name in NAMES {
        eventually("nothing is left", || server.cli_text(&["EXISTS", name]) == "0").await;
    }
}

/// A server that does not answer takes a command's time for all of them, and not for each.
#[tokio::test]
async fn of_many_none_is_had_soon_where_the_server_does_not_answer() {
    let server = RedisServer::start();
    let builder = Locker::builder().node(server.url()).command_timeout(Duration::from_secs(1));
    let locker = soon("it connects", builder.connect()).await.unwrap();
    let names: Vec<String> = (0..64).map(|number| number.to_string()).collect();
    server.stop();
    let request = locker.lock_any(&names).wait_at_most(Duration::ZERO).into_future();
    let error = soon("an answer", request).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    server.cont();
    eventually("nothing is left", || server.cli_text(&["EXISTS", "0", "1", "63"]) == "0").await;
}

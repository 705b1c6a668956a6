//! Every way in which a lease ends is counted once, and reported once.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::{ErrorKind, Guard, Locker};

use super::{LONG, SHORT, observed, take};
use leasehold_testing::{RedisServer, eventually, soon};

/// Begins a release and drops it before the server has answered.
fn cancel(guard: Guard) {
    let mut release = pin!(guard.release());
    let polled = release.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending), "it was answered too soon");
}

async fn hand_over(locker: &Locker, guard: Guard) {
    let next = tokio::spawn(locker.lock("a").into_future());
    eventually("it waits", || locker.stats().waiting == 1).await;
    guard.release().await.unwrap();
    drop(soon("its turn", next).await.unwrap().unwrap());
}

#[tokio::test]
async fn each_lease_is_told_to_have_ended_once_however_it_did() {
    let server = RedisServer::start();
    let (locker, heard) = observed(&server).await;
    take(&locker, "a", LONG).await.release().await.unwrap();
    take(&locker, "a", LONG).await.release_in_background().unwrap();
    drop(take(&locker, "a", LONG).await);
    cancel(take(&locker, "a", LONG).await);
    hand_over(&locker, take(&locker, "a", LONG).await).await;
    let stats = locker.stats();
    assert_eq!((stats.granted, stats.released, stats.lost()), (6, 6, 0));
    // Lost: at its end, and gone when it is released.
    let ended = locker.lock("a").ttl(SHORT).no_renewal().await.unwrap();
    soon("its loss", ended.lost()).await;
    assert_eq!(ended.release().await.unwrap_err().kind(), ErrorKind::Lost);
    let gone = take(&locker, "a", LONG).await;
    server.cli(&["DEL", "app:a"]);
    assert_eq!(gone.release().await.unwrap_err().kind(), ErrorKind::Lost);
    let stats = locker.stats();
    assert_eq!((stats.granted, stats.released, stats.lost()), (8, 6, 2));
    // No server says that it is free.
    let unconfirmed = take(&locker, "a", LONG).await;
    server.stop();
    let error = soon("the answer", unconfirmed.release()).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    server.cont();
    take(&locker, "a", LONG).await.release().await.unwrap();
    let _left = take(&locker, "b", LONG).await;
    locker.shutdown(Duration::from_secs(10)).await;
    let stats = locker.stats();
    assert_eq!((stats.granted, stats.released, stats.lost(), stats.held), (11, 8, 3, 0));
    let told = heard.take();
    let count = |what: &str| told.iter().filter(|told| told.starts_with(what)).count();
    assert_eq!((count("Granted"), count("Released"), count("Lost")), (11, 8, 3), "{told:?}");
}

/// From its first renewal on a lease is watched, whether anybody waits for its loss or not: it is
/// known to be lost before the next renewal, which another lease that began with it is told of.
#[tokio::test]
async fn a_lease_that_nobody_waits_for_is_watched_once_it_has_been_renewed() {
    const TTL: Duration = Duration::from_secs(3);
    let server = RedisServer::start();
    let (locker, heard) = observed(&server).await;
    let (guard, _control) = (take(&locker, "a", TTL).await, take(&locker, "b", TTL).await);
    heard.until("Renewed app:b").await;
    heard.take();
    let is_watched = || !server.cli_text(&["INFO", "stats"]).contains("tracking_total_keys:0");
    eventually("the server tells of it", is_watched).await;
    server.cli(&["DEL", "app:a"]);
    eventually("it is lost", || guard.is_lost()).await;
    assert_eq!(heard.take(), ["Lost app:a Gone"], "before the next renewal of the other");
}

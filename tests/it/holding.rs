//! Leases with a minimum or maximum time of holding, whatever their TTL.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use leasehold::{ErrorKind, Event, Locker, Loss};
use leasehold_resp::Frame;
#[cfg(feature = "cluster")]
use leasehold_testing::Cluster;
use leasehold_testing::{Fleet, RedisServer, eventually, soon};

/// Renewed often; longer than a busy machine keeps a process waiting.
const SHORT: Duration = Duration::from_millis(900);
/// So long that no key is ever free because of it.
const LONG: Duration = Duration::from_secs(3600);
/// Longer than a lease of [`SHORT`] that is not renewed.
const LIMIT: Duration = Duration::from_secs(2);

fn pttl(server: &RedisServer, key: &str) -> i64 {
    let Frame::Integer(left) = server.cli(&["PTTL", key]) else { panic!("no PTTL") };
    left
}

async fn connect(urls: impl IntoIterator<Item = String>) -> Locker {
    // Servers that have just started would be kept from voting for a TTL.
    let builder = Locker::builder().nodes(urls).restart_quarantine(false);
    soon("it connects", builder.connect()).await.unwrap()
}

/// Held for longer than its TTL, renewed until then, lost at its limit, and free once it is dropped.
async fn is_held_for_its_limit(locker: &Locker, name: &str, is_there: impl Fn() -> bool) {
    let request = locker.lock(name).ttl(SHORT).hold_at_most(LIMIT);
    let guard = soon("a lock", request.into_future()).await.unwrap();
    assert!(guard.remaining() <= SHORT);
    assert_eq!(soon("its limit", guard.lost()).await, Loss::HeldLongest);
    assert!(locker.stats().renewed >= 2, "it lasted beyond its TTL");
    assert_eq!((guard.loss(), guard.remaining()), (Some(Loss::HeldLongest), Duration::ZERO));
    assert_eq!(locker.stats().losses(Loss::HeldLongest), 1);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::HeldLongest), "{error}");
    eventually("it is free", || !is_there()).await;
}

/// Taken until its time and not longer, by nobody, however it is given back.
async fn stays_taken(urls: Vec<String>, keys: impl Fn(&str) -> Vec<i64>) {
    let (locker, other) = (connect(urls.clone()).await, connect(urls).await);
    let take = async |name: &str| {
        let request = locker.lock(name).ttl(SHORT).hold_at_least(LONG).label("nightly");
        soon("a lock", request.into_future()).await.unwrap()
    };
    let (released, dropped, shut) = (take("a").await, take("b").await, take("c").await);
    released.release().await.unwrap();
    drop(dropped);
    let ended = locker.shutdown(SHORT).await;
    assert!(ended.unreleased.is_empty(), "{ended:?}");
    drop(shut);
    assert_eq!(locker.stats().held, 0);
    let hour = i64::try_from(LONG.as_millis()).unwrap();
    for name in ["a", "b", "c"] {
        eventually("it stays taken, on every server, beyond its TTL", || {
            let lasting = |left: &i64| (hour / 2..=hour).contains(left);
            keys(name).iter().all(lasting)
        })
        .await;
        let error = other.try_lock(name).await.map(|_| ()).unwrap_err();
        let holder = error.report().holder().expect("it says so");
        assert_eq!(
            (error.kind(), holder.label.as_deref()),
            (ErrorKind::Contended, Some("nightly"))
        );
    }
}

#[tokio::test]
async fn a_lock_that_is_held_at_least_stays_taken_however_it_is_given_back() {
    let server = RedisServer::start();
    stays_taken(vec![server.url()], |key| vec![pttl(&server, key)]).await;
}

#[tokio::test]
async fn a_quorums_lock_that_is_held_at_least_stays_taken_on_each_server() {
    let fleet = Fleet::start(3);
    stays_taken(fleet.urls(), |key| fleet.iter().map(|it| pttl(it, key)).collect()).await;
}

#[cfg(feature = "cluster")]
#[tokio::test]
async fn a_clusters_lock_that_is_held_at_least_stays_taken() {
    let cluster = Cluster::start();
    let master = |key: &str| cluster.master_of(cluster.slot(key));
    let left = |key: &str| vec![pttl(cluster.nodes().nth(master(key)).unwrap(), key)];
    stays_taken(vec![cluster.seed_url(3)], left).await;
}

/// Waiters in this process and in another get it then: it is not handed over before, and the time
/// is over by itself.
#[tokio::test]
async fn a_waiter_gets_a_lock_once_it_has_been_held_for_long_enough() {
    let server = RedisServer::start();
    let (locker, other) = (connect([server.url()]).await, connect([server.url()]).await);
    let at_least = Duration::from_secs(3);
    let guard = locker.lock("a").ttl(LONG).hold_at_least(at_least).await.unwrap();
    let waiting = [&locker, &other].map(|locker| {
        let request = locker.lock("a").into_future();
        tokio::spawn(async move { request.await.unwrap().release().await.unwrap() })
    });
    for locker in [&locker, &other] {
        eventually("it waits", || locker.stats().waiting == 1).await;
    }
    guard.release().await.unwrap();
    assert_eq!(locker.stats().handed_over, 0);
    assert!((1..=3000).contains(&pttl(&server, "a")), "it is taken for the rest of its time");
    for waits in waiting {
        soon("its turn", waits).await.unwrap();
    }
    // One that is over when the lock is given back leaves nothing.
    let guard = locker.lock("b").ttl(LONG).hold_at_least(Duration::from_millis(1)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2)).await;
    guard.release().await.unwrap();
    assert_eq!(server.cli_text(&["EXISTS", "b"]), "0");
    let request = locker.lock("a").hold_at_least(LONG).hold_at_most(LIMIT);
    assert_eq!(request.await.map(|_| ()).unwrap_err().kind(), ErrorKind::Misuse);
}

#[tokio::test]
async fn a_lease_ends_at_its_limit_although_it_is_renewed() {
    let server = RedisServer::start();
    let locker = connect([server.url()]).await;
    is_held_for_its_limit(&locker, "a", || server.cli_text(&["EXISTS", "a"]) == "1").await;
}

#[tokio::test]
async fn a_quorums_lease_ends_at_its_limit_although_it_is_renewed() {
    let fleet = Fleet::start(3);
    let locker = connect(fleet.urls()).await;
    is_held_for_its_limit(&locker, "a", || fleet.holding("a") > 0).await;
}

#[cfg(feature = "cluster")]
#[tokio::test]
async fn a_clusters_lease_ends_at_its_limit_although_it_is_renewed() {
    let cluster = Cluster::start();
    let locker = connect([cluster.seed_url(3)]).await;
    is_held_for_its_limit(&locker, "a", || cluster.holding("a")).await;
}

/// A holder that does not end keeps its key for no longer than the TTL that ran at the limit: what
/// would only last beyond the limit is not asked for.
#[tokio::test]
async fn a_limit_is_moved_by_nothing_and_nothing_is_renewed_for_what_comes_behind_it() {
    let server = RedisServer::start();
    let heard = Arc::new(AtomicU32::new(0));
    let observer = {
        let heard = Arc::clone(&heard);
        move |event: &Event<'_>| {
            if matches!(event, Event::Lost { reason: Loss::HeldLongest, .. }) {
                heard.fetch_add(1, Relaxed);
            }
        }
    };
    let builder = Locker::builder().node(server.url()).observer(observer);
    let locker = builder.connect().await.unwrap();
    let limit = Duration::from_millis(400);
    let guard = locker.lock("a").ttl(LONG).hold_at_most(limit).await.unwrap();
    assert!(guard.remaining() <= limit);
    guard.extend().await.unwrap();
    assert!(guard.remaining() <= limit);
    let error = soon("its end", guard.run(std::future::pending::<()>())).await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::HeldLongest));
    assert_eq!(guard.extend().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(heard.load(Relaxed), 1);
    // Its holder has not let go of it.
    assert_eq!(server.cli_text(&["EXISTS", "a"]), "1");
    drop(guard);
    eventually("it is free", || server.cli_text(&["EXISTS", "a"]) == "0").await;
    // Its TTL lasts until its limit, so that there is nothing to renew it for.
    let renewed = locker.stats().renewed;
    let guard = locker.lock("b").ttl(limit * 6).hold_at_most(limit * 4).await.unwrap();
    eventually("its end", || guard.is_lost()).await;
    assert_eq!((guard.loss(), locker.stats().renewed), (Some(Loss::HeldLongest), renewed));
    // What ends before its limit ends as ever.
    let guard = locker.lock("a").ttl(SHORT).hold_at_most(LONG).no_renewal().await.unwrap();
    assert_eq!(soon("its end", guard.lost()).await, Loss::Expired);
    let error = locker.lock("a").hold_at_most(Duration::ZERO).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
}

/// A lease that nobody gave back keeps its lock for the delay, on every server, whether its holder was
/// killed or let go of it later; and one that was given back does not.
async fn is_delayed(urls: Vec<String>, keys: impl Fn(&str) -> Vec<i64>) {
    let (locker, other) = (connect(urls.clone()).await, connect(urls).await);
    let is_free = |name: &str| keys(name).iter().all(|left| *left == -2);
    let request = |name: &str| locker.lock(name).ttl(SHORT).lock_delay(LONG).label("printer");
    let guard = request("a").await.unwrap();
    assert!(guard.remaining() <= SHORT);
    let error = other.try_lock("a").await.map(|_| ()).unwrap_err();
    let holder = error.report().holder().expect("it says so");
    assert!(holder.lock_delay == Some(LONG) && !holder.is_delay(), "{error}");
    guard.extend().await.unwrap();
    guard.release().await.unwrap();
    assert!(is_free("a"));
    drop(request("a").await.unwrap());
    eventually("what is dropped in time is free", || is_free("a")).await;

    let guard = request("b").no_renewal().await.unwrap();
    assert_eq!(soon("its end", guard.lost()).await, Loss::Expired);
    let is_delayed = |name: &str| {
        let hour = i64::try_from(LONG.as_millis()).unwrap();
        keys(name).iter().all(|left| (hour / 2..=hour).contains(left))
    };
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    let lost = request("c").no_renewal().await.unwrap();
    soon("its end", lost.lost()).await;
    drop(lost);
    let shut = request("d").await.unwrap();
    let lost = request("e").no_renewal().await.unwrap();
    soon("its end", lost.lost()).await;
    let ended = locker.shutdown(LIMIT).await;
    assert_eq!(ended.released, ["d"], "{ended:?}");
    drop((shut, lost));
    for name in ["b", "c", "e"] {
        eventually("only the delay is left", || is_delayed(name)).await;
        let error = other.try_lock(name).await.map(|_| ()).unwrap_err();
        let holder = error.report().holder().expect("it says so");
        assert!(error.kind() == ErrorKind::Contended && holder.is_delay(), "{name}: {error}");
        assert!(error.to_string().contains("lock-delay for another"), "{error}");
    }
    assert!(is_free("d"));
}

#[tokio::test]
async fn a_lock_whose_lease_nobody_gave_back_stays_taken_for_its_delay() {
    let server = RedisServer::start();
    is_delayed(vec![server.url()], |key| vec![pttl(&server, key)]).await;
}

#[tokio::test]
async fn a_quorums_lock_whose_lease_nobody_gave_back_stays_taken_for_its_delay() {
    let fleet = Fleet::start(3);
    is_delayed(fleet.urls(), |key| fleet.iter().map(|it| pttl(it, key)).collect()).await;
}

/// Renewal keeps the delay behind the lease, and an unfenced lock, whose key is written by one plain
/// command, has it as well. A waiter has the lock once the delay is over.
#[tokio::test]
async fn a_delay_is_renewed_and_waited_out() {
    let server = RedisServer::start();
    let (locker, other) = (connect([server.url()]).await, connect([server.url()]).await);
    let request = locker.lock("a").ttl(SHORT).lock_delay(LONG);
    let guard = soon("a lock", request.unfenced().into_future()).await.unwrap();
    let hour = i64::try_from(LONG.as_millis()).unwrap();
    assert!(pttl(&server, "a") > hour);
    eventually("it is renewed", || locker.stats().renewed >= 2).await;
    assert!(pttl(&server, "a") > hour && guard.remaining() <= SHORT);
    guard.release().await.unwrap();
    let request = locker.lock("a").ttl(SHORT).no_renewal().lock_delay(SHORT);
    let guard = soon("a lock", request.into_future()).await.unwrap();
    let waiting = other.lock("a").into_future();
    let waiting = tokio::spawn(async move { waiting.await.unwrap().release().await });
    eventually("it waits", || other.stats().waiting == 1).await;
    soon("its end", guard.lost()).await;
    assert_eq!(other.stats().waiting, 1, "the lease is over, and the lock is not free");
    soon("its turn", waiting).await.unwrap().unwrap();
    let most = Duration::from_secs(24 * 3600);
    let request = locker.lock("a").lock_delay(most + Duration::from_nanos(1));
    assert_eq!(request.await.map(|_| ()).unwrap_err().kind(), ErrorKind::Misuse);
    let guarded = Locker::builder().node(server.url()).restart_quarantine(true);
    let guarded = guarded.ttl(SHORT).max_ttl(SHORT * 2).connect().await.unwrap();
    let request = guarded.lock("a").ttl(SHORT).lock_delay(SHORT + Duration::from_millis(1));
    let error = request.await.map(|_| ()).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Misuse && error.to_string().contains("with lock_delay"),
        "{error}"
    );
}

#[cfg(feature = "groups")]
#[tokio::test]
async fn of_several_that_are_held_at_least_one_that_is_gone_is_lost_and_ends_no_connection() {
    let server = RedisServer::start();
    let locker = connect([server.url()]).await;
    let request = locker.lock_all(["a", "b"]).ttl(LONG).hold_at_least(LONG);
    let guard = soon("locks", request.into_future()).await.unwrap();
    server.cli(&["DEL", "b"]);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Gone), "{error}");
}

/// 8 s passed until the next third of its TTL: the server tells no connection of what that has done itself.
#[tokio::test]
async fn a_lock_that_stays_taken_goes_to_a_waiter_of_the_same_process_when_its_time_is_over() {
    let server = RedisServer::start();
    let locker = connect([server.url()]).await;
    let request = locker.lock("a").ttl(LONG).hold_at_least(Duration::from_secs(1));
    let guard = soon("a lock", request.into_future()).await.unwrap();
    let waiting = locker.lock("a").ttl(LONG).into_future();
    let waiting = tokio::spawn(async move { waiting.await.unwrap().release().await });
    eventually("it is in the queue", || server.cli_text(&["EXISTS", "{a}:queue"]) == "1").await;
    let woken = locker.stats().woken;
    guard.release().await.unwrap();
    eventually("it asks", || locker.stats().woken > woken).await;
    soon("its turn", waiting).await.unwrap().unwrap();
}

/// Likewise where its question was under way when the lease was given back, and was answered by what was so before.
#[tokio::test]
async fn a_lock_that_stays_taken_is_asked_for_again_where_the_question_was_under_way() {
    let server = RedisServer::start();
    let builder = Locker::builder().node(server.url()).command_timeout(Duration::from_secs(15));
    let locker = soon("it connects", builder.connect()).await.unwrap();
    let request = locker.lock("a").ttl(LONG).hold_at_least(Duration::from_secs(1));
    let guard = soon("a lock", request.into_future()).await.unwrap();
    let (held, short) = (locker.clone(), Duration::from_millis(100));
    // From here on the first question of a request that waits is the queue's.
    assert!(held.lock("a").wait_at_most(short).await.is_err());
    server.cli(&["CLIENT", "PAUSE", "300", "ALL"]);
    let waiting = tokio::spawn(locker.lock("a").ttl(LONG).into_future());
    eventually("it waits", || locker.stats().waiting == 1).await;
    let woken = locker.stats().woken;
    guard.release().await.unwrap();
    eventually("it asks once more", || locker.stats().woken > woken).await;
    soon("its turn", waiting).await.unwrap().unwrap().release().await.unwrap();
}

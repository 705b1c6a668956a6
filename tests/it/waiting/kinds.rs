//! The kind of an error: exactly one, and an outage is not contention.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{Error, ErrorKind, Locker, Retry};

use super::limits::{LIMIT, STIR, builder, held, saying, silent};
use super::{LONG, locker, take, until_waiting};
use leasehold_testing::{Action, RedisServer, ScriptedServer, eventually, soon};

/// What a caller is told, both one that waits for a while and one that does not.
async fn told(locker: &Locker) -> [Error; 2] {
    let waits = locker.lock("a").wait_at_most(LIMIT).into_future();
    let waits = soon("the limit", waits).await.unwrap_err();
    let does_not = soon("its end", locker.try_lock("a").into_future()).await.unwrap_err();
    [waits, does_not]
}

fn check(error: &Error, kind: ErrorKind) {
    assert_eq!(error.kind(), kind, "{error}");
}

#[tokio::test]
async fn a_held_lock_is_told_as_contention_and_a_missing_server_as_an_outage() {
    let mut server = RedisServer::start();
    let (holder, locker) = (locker(&server).await, locker(&server).await);
    let guard = take(&holder, "a").await;
    let [waited, tried] = told(&locker).await;
    check(&waited, ErrorKind::Contended);
    check(&tried, ErrorKind::Contended);
    assert!(waited.is_timeout() && !tried.is_timeout());
    server.kill();
    let [waited, tried] = told(&locker).await;
    check(&waited, ErrorKind::Unavailable);
    check(&tried, ErrorKind::Unavailable);
    assert!(waited.is_timeout() && !tried.is_timeout());
    assert_eq!((locker.stats().timed_out, locker.stats().failed), (1, 2));
    drop(guard);
}

/// One server of three names a holder; that is no reason to wait for that holder where the other two
/// are down, and the only reason where they are not.
#[tokio::test]
async fn a_holder_that_a_minority_names_in_an_outage_is_no_contention() {
    let servers = [saying(held), saying(silent), saying(silent)];
    let timeout = Duration::from_millis(50);
    let outage = builder(&servers.each_ref()).command_timeout(timeout).connect().await.unwrap();
    for error in told(&outage).await {
        check(&error, ErrorKind::Unavailable);
    }
    let servers = [saying(held), saying(held), saying(silent)];
    let contended = builder(&servers.each_ref()).command_timeout(timeout).connect().await.unwrap();
    for error in told(&contended).await {
        check(&error, ErrorKind::Contended);
    }
}

#[tokio::test]
async fn each_other_way_to_fail_has_its_kind() {
    let server = RedisServer::start();
    let guarded = Locker::builder().node(server.url()).ttl(LONG).restart_quarantine(true);
    let guarded = guarded.connect().await.unwrap();
    check(&told(&guarded).await[1], ErrorKind::Unavailable);
    let locker = locker(&server).await;
    check(&locker.lock("").await.unwrap_err(), ErrorKind::Misuse);
    server.cli(&["LPUSH", "a", "no lock"]);
    for error in told(&locker).await {
        check(&error, ErrorKind::Misuse);
    }
    let lost = take(&locker, "b").await;
    server.cli(&["DEL", "b"]);
    check(&lost.extend().await.unwrap_err(), ErrorKind::Lost);
    let right = saying(|_| Action::error("NOPERM this user has no permissions to run 'evalsha'"));
    let right = builder(&[&right]).connect().await.unwrap();
    for error in told(&right).await {
        check(&error, ErrorKind::Auth);
    }
    let password = ScriptedServer::start(|_| Action::error("WRONGPASS invalid password"));
    let url = password.url().replace("redis://", "redis://:guess@");
    check(&Locker::connect(&url).await.unwrap_err(), ErrorKind::Auth);
    locker.shutdown(LONG).await;
    check(&locker.lock("a").await.unwrap_err(), ErrorKind::ShutDown);
}

/// By default a caller that does not wait barges; a fair one leaves the lock to waiters.
#[tokio::test]
async fn a_fair_try_takes_no_lock_that_others_wait_for() {
    let server = RedisServer::start();
    let (waits, other) = (locker(&server).await, locker(&server).await);
    server.cli(&["SET", "a", "another"]);
    let waiting = tokio::spawn(waits.lock("a").into_future());
    until_waiting(&waits, 1).await;
    let counted = || server.cli_text(&["EXISTS", "{a}:queue"]) == "1";
    eventually("the server counts it", counted).await;
    // As if the waiter stood still.
    waiting.abort();
    eventually("it has left", || server.cli_text(&["HLEN", "{a}:queue"]) != "4").await;
    let _lives = server.put_waiter("a");
    server.cli(&["DEL", "a"]);
    for request in [other.try_lock("a").fair(), other.lock("a").wait_at_most(Duration::ZERO).fair()]
    {
        let error = request.await.unwrap_err();
        check(&error, ErrorKind::Contended);
        assert!(error.to_string().contains("waiters come first (1)"), "{error}");
    }
    assert_eq!(
        other.try_lock("a").unfenced().fair().await.unwrap_err().kind(),
        ErrorKind::Contended
    );
    other.try_lock("a").await.unwrap().release().await.unwrap();
    other.try_lock("a").unfenced().await.unwrap().release().await.unwrap();
}

/// All in a line are told the same, whichever of them asked.
#[tokio::test]
async fn a_failure_told_by_the_first_in_line_is_of_the_same_kind() {
    let has_right = Arc::new(AtomicBool::new(true));
    let may = Arc::clone(&has_right);
    let server = saying(move |command| match may.load(Ordering::Relaxed) {
        true => held(command),
        false => Action::error("NOPERM this user has no permissions to run 'evalsha'"),
    });
    let locker = builder(&[&server]).connect().await.unwrap();
    let retry = Retry::fixed(Duration::from_millis(20));
    let waiting = [0, 1].map(|_| tokio::spawn(locker.lock("a").retry(retry).into_future()));
    until_waiting(&locker, 2).await;
    has_right.store(false, Ordering::Relaxed);
    server.send(server.accepted() - 1, STIR);
    for waiter in waiting {
        check(&soon("its end", waiter).await.unwrap().unwrap_err(), ErrorKind::Auth);
    }
}

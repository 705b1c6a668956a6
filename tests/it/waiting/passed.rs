//! Leases that are passed on within a process, without a release.

use std::future::IntoFuture;
use std::time::Duration;

use leasehold::{ErrorKind, Guard, Locker, Vote};
use leasehold_testing::{Fleet, RedisServer, eventually, soon};
use tokio::task::JoinHandle;

use super::{LONG, free, locker, scripts_run, take, until_waiting};

/// What a server sets aside.
const ASIDE: u64 = 15;

type Waiting = JoinHandle<Result<Guard, leasehold::Error>>;

async fn wait(
    locker: &Locker,
    request: impl IntoFuture<IntoFuture = leasehold::Acquire>,
) -> Waiting {
    let before = locker.stats().waiting;
    let waiting = tokio::spawn(request.into_future());
    until_waiting(locker, before + 1).await;
    waiting
}

async fn granted(waiting: Waiting) -> Guard {
    soon("the lock", waiting).await.unwrap().unwrap()
}

/// A holder that took over from another by the server, so that tokens are set aside for those after it.
async fn successor(locker: &Locker) -> Guard {
    let first = take(locker, "a").await;
    let next = wait(locker, locker.lock("a")).await;
    first.release().await.unwrap();
    granted(next).await
}

#[tokio::test]
async fn a_lease_is_passed_on_without_a_question_and_its_tokens_rise() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let mut holder = successor(&locker).await;
    let (owner, counter) = (server.cli_text(&["GET", "a"]), server.cli_text(&["GET", "{a}:fence"]));
    assert_eq!(counter, (holder.fence().get() + ASIDE).to_string());
    let mut waiting = Vec::new();
    for _ in 0..ASIDE {
        waiting.push(wait(&locker, locker.lock("a")).await);
    }
    let before = scripts_run(&server);
    for next in waiting {
        let token = holder.fence().get();
        assert!(!holder.is_lost());
        holder.release().await.unwrap();
        holder = granted(next).await;
        assert_eq!(holder.fence().get(), token + 1);
        assert!(holder.remaining() > LONG / 2 && holder.remaining() < LONG);
    }
    assert_eq!(scripts_run(&server), before, "nobody asked");
    assert_eq!(server.cli_text(&["GET", "a"]), owner);
    assert_eq!(server.cli_text(&["GET", "{a}:fence"]), counter);
    holder.extend().await.unwrap();
    let last = holder.fence();
    holder.release().await.unwrap();
    assert!(free(&server, "a"));
    let other = self::locker(&server).await;
    assert!(take(&other, "a").await.fence() > last);
}

/// What another asks for, a server grants.
#[tokio::test]
async fn a_lease_is_passed_on_only_to_a_request_for_such_a_one() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let request = || locker.lock("a");
    for (what, request) in [
        ("another TTL", request().ttl(LONG / 2)),
        ("a label", request().label("next")),
        ("no renewal", request().no_renewal()),
        ("a rest", request().hold_at_least(Duration::from_millis(1))),
        ("a lock-delay", request().lock_delay(Duration::from_millis(1))),
    ] {
        let holder = successor(&locker).await;
        let owner = server.cli_text(&["GET", "a"]);
        let next = wait(&locker, request).await;
        holder.release().await.unwrap();
        let guard = granted(next).await;
        assert_ne!(server.cli_text(&["GET", "a"]), owner, "{what}");
        guard.release().await.unwrap();
        eventually("it is free", || free(&server, "a")).await;
    }
    let holder = successor(&locker).await;
    let owner = server.cli_text(&["GET", "a"]);
    let unfenced = tokio::spawn(request().unfenced().into_future());
    until_waiting(&locker, 1).await;
    holder.release().await.unwrap();
    let guard = soon("the lock", unfenced).await.unwrap().unwrap();
    assert_ne!(server.cli_text(&["GET", "a"]), owner, "without a token");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_lease_that_was_passed_on_is_lost_where_its_key_is() {
    let server = RedisServer::start();
    let locker = Locker::builder().node(server.url()).ttl(Duration::from_secs(3)).connect().await;
    let locker = locker.unwrap();
    let holder = successor(&locker).await;
    let next = wait(&locker, locker.lock("a")).await;
    holder.release().await.unwrap();
    let guard = granted(next).await;
    server.cli(&["DEL", "a"]);
    soon("it is told", guard.lost()).await;
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

/// Nobody behind it asks a server for as long as it lasts.
#[tokio::test]
async fn a_wait_that_runs_out_behind_a_lease_that_was_handed_over_names_its_holder() {
    let server = RedisServer::start();
    let builder = Locker::builder().node(server.url()).ttl(LONG).label("the holder");
    let locker = builder.connect().await.unwrap();
    let holder = successor(&locker).await;
    let waiting = locker.lock("a").wait_at_most(Duration::from_millis(100));
    let error = soon("its end", waiting.into_future()).await.unwrap_err();
    assert!(error.is_timeout() && error.kind() == ErrorKind::Contended, "{error}");
    let named = error.report().holder().unwrap();
    assert_eq!(named.label.as_deref(), Some("the holder"));
    assert!(named.remaining.is_some_and(|left| left > LONG / 2 && left < LONG), "{error}");
    holder.release().await.unwrap();
    assert!(free(&server, "a"));
}

/// A waiter that goes away with what it was given has it given back.
#[tokio::test]
async fn a_lease_that_nobody_takes_up_is_given_back() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let holder = successor(&locker).await;
    let next = wait(&locker, locker.lock("a")).await;
    let handed_over = locker.stats().handed_over;
    // On this thread the waiter cannot run in between.
    drop(holder);
    assert_eq!(locker.stats().handed_over, handed_over + 1);
    next.abort();
    eventually("it is free", || free(&server, "a")).await;
    assert!(next.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_lease_of_several_servers_is_passed_on() {
    let fleet = Fleet::start(3);
    let builder = Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_quarantine(false);
    let locker = builder.connect().await.unwrap();
    let holder = successor(&locker).await;
    eventually("all have it", || fleet.holding("a") == 3).await;
    let token = holder.fence().get();
    let next = wait(&locker, locker.lock("a")).await;
    let owners = fleet.cli_all(&["GET", "a"]);
    let before: Vec<_> = fleet.iter().map(scripts_run).collect();
    holder.release().await.unwrap();
    let guard = granted(next).await;
    assert_eq!(guard.fence().get(), token + 1);
    assert_eq!(fleet.cli_all(&["GET", "a"]), owners);
    assert_eq!(fleet.iter().map(scripts_run).collect::<Vec<_>>(), before);
    let report = guard.report();
    let have_granted = report.servers().iter().all(|server| server.vote == Vote::Granted);
    assert!(have_granted, "as to the one before: {report}");
    guard.release().await.unwrap();
    eventually("it is free everywhere", || fleet.holding("a") == 0).await;
}

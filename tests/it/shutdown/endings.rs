//! The shutdown of a locker: waiters get an error, leases are released, and what could not be is reported.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use leasehold::{ErrorKind, Locker, Loss, Unreleased};

use crate::stats::{LONG, SHORT, quorum, take};
use leasehold_testing::scripted::greeting;
use leasehold_testing::{Action, Command, FaultProxy, Fleet, RedisServer, ScriptedServer};
use leasehold_testing::{eventually, soon};

/// The name of each lock that is reported.
fn names(unreleased: &[Unreleased]) -> Vec<&str> {
    unreleased.iter().map(|left| &left.name[..]).collect()
}

#[cfg(feature = "groups")]
#[tokio::test]
async fn each_waiter_and_each_newcomer_is_told() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let other = Locker::connect(&server.url()).await.unwrap();
    let held = take(&other, "held", LONG).await;
    let own = take(&locker, "own", LONG).await;
    let (one, two, three) = (locker.clone(), locker.clone(), locker.clone());
    let requests = [
        tokio::spawn(async move { one.lock("held").await.map(drop) }),
        tokio::spawn(async move { two.lock("own").wait_at_most(LONG).await.map(drop) }),
        tokio::spawn(async move { three.with_lock("held", async |_| ()).await }),
    ];
    eventually("all wait", || locker.stats().waiting == 3).await;
    let several = locker.clone();
    let several = tokio::spawn(async move { several.lock_all(["free", "held"]).await.map(drop) });
    let contended = locker.stats().contended;
    eventually("it tries", || locker.stats().contended > contended).await;
    let report = soon("the end", locker.shutdown(LONG)).await;
    assert_eq!((report.released, report.unreleased), (vec!["own".to_owned()], vec![]));
    for request in requests.into_iter().chain([several]) {
        let error = soon("it is told", request).await.unwrap().unwrap_err();
        assert!(error.kind() == ErrorKind::ShutDown && error.loss().is_none(), "{error}");
    }
    assert_eq!(locker.lock("new").await.unwrap_err().kind(), ErrorKind::ShutDown);
    assert_eq!(locker.try_lock("new").unfenced().await.unwrap_err().kind(), ErrorKind::ShutDown);
    assert_eq!(locker.stats().waiting, 0);
    drop(own);
    // Of another locker nothing has changed.
    assert!(!held.is_lost());
    held.release().await.unwrap();
    assert_eq!(server.cli_text(&["EXISTS", "own", "held", "free", "new"]), "0");
}

/// Requests come, wait, are granted and give back while the end comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_in_the_midst_of_requests_leaves_nothing_held() {
    let server = RedisServer::start();
    for _ in 0..10 {
        let locker = Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap();
        let busy: Vec<_> = (0..60)
            .map(|number: u32| {
                let locker = locker.clone();
                tokio::spawn(async move {
                    loop {
                        match locker.lock(format!("n{}", number % 20)).await {
                            Ok(guard) => {
                                tokio::task::yield_now().await;
                                drop(guard);
                            }
                            Err(error) => return error,
                        }
                    }
                })
            })
            .collect();
        eventually("it is busy", || locker.stats().granted > 200).await;
        let report = soon("the end", locker.shutdown(LONG)).await;
        assert!(report.unreleased.is_empty(), "{report:?}");
        for busy in busy {
            let error = soon("it is told", busy).await.unwrap();
            assert_eq!(error.kind(), ErrorKind::ShutDown, "{error}");
        }
        eventually("nothing is held", || {
            (0..20).all(|number| server.cli_text(&["EXISTS", &format!("n{number}")]) == "0")
        })
        .await;
        assert_eq!((locker.stats().held, locker.stats().waiting), (0, 0));
    }
}

#[tokio::test]
async fn a_server_that_is_frozen_is_reported_and_the_guards_know() {
    let server = RedisServer::start();
    let locker = Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap();
    let guards = [take(&locker, "a", LONG).await, take(&locker, "b", LONG).await];
    server.stop();
    let report = soon("the end", locker.shutdown(Duration::from_millis(50))).await;
    assert!(report.released.is_empty(), "{report:?}");
    let mut unreleased = names(&report.unreleased);
    unreleased.sort_unstable();
    assert_eq!(unreleased, ["a", "b"]);
    assert!(report.unreleased.iter().all(|left| !left.reason.is_empty()));
    for guard in guards {
        assert_eq!(soon("the loss", guard.lost()).await, Loss::ShutDown);
        let error = soon("an answer", guard.release()).await.unwrap_err();
        assert_eq!(error.loss(), Some(Loss::ShutDown), "{error}");
    }
    server.cont();
    eventually("what was sent is carried out", || server.cli_text(&["EXISTS", "a", "b"]) == "0")
        .await;
}

#[tokio::test]
async fn a_server_that_is_away_is_reported() {
    let mut server = RedisServer::start();
    let locker = Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap();
    let guard = take(&locker, "a", LONG).await;
    server.kill();
    eventually("it is noticed", || !locker.stats().servers[0].connected).await;
    let report = soon("the end", locker.shutdown(SHORT)).await;
    assert!(report.released.is_empty());
    assert_eq!(names(&report.unreleased), ["a"]);
    assert_eq!(guard.loss(), Some(Loss::ShutDown));
}

#[tokio::test]
async fn a_quorum_that_is_free_is_enough_for_a_lock_to_be_released() {
    let mut fleet = Fleet::start(3);
    let locker = quorum(&fleet).connect().await.unwrap();
    let _guard = take(&locker, "a", LONG).await;
    eventually("all have it", || fleet.holding("a") == 3).await;
    fleet[1].kill();
    eventually("it is noticed", || !locker.stats().servers[1].connected).await;
    let report = soon("the end", locker.shutdown(LONG)).await;
    assert_eq!((report.released, report.unreleased), (vec!["a".to_owned()], vec![]));
    assert!([0, 2].iter().all(|well| fleet[*well].cli_text(&["EXISTS", "a"]) == "0"));
}

/// Safety rule 12, also after the end.
#[tokio::test]
async fn a_guard_that_outlives_its_locker_takes_nothing_from_the_next_holder() {
    let server = RedisServer::start();
    let locker = Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap();
    let other = Locker::connect(&server.url()).await.unwrap();
    let (dropped, released) = (take(&locker, "a", LONG).await, take(&locker, "b", LONG).await);
    soon("the end", locker.shutdown(LONG)).await;
    let next = [take(&other, "a", LONG).await, take(&other, "b", LONG).await];
    drop(dropped);
    assert_eq!(released.release().await.unwrap_err().kind(), ErrorKind::ShutDown);
    drop(locker);
    for guard in next {
        guard.extend().await.unwrap();
        guard.release().await.unwrap();
    }
}

/// It was lost before, and that is what its holder is told.
#[tokio::test]
async fn the_end_does_not_change_why_a_lease_was_lost_before() {
    let server = RedisServer::start();
    let locker = Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap();
    let guard = locker.lock("a").ttl(SHORT).no_renewal().await.unwrap();
    assert_eq!(soon("the loss", guard.lost()).await, Loss::Expired);
    soon("the end", locker.shutdown(LONG)).await;
    let error = guard.release().await.unwrap_err();
    assert_eq!((error.loss(), error.kind()), (Some(Loss::Expired), ErrorKind::Lost));
    assert_eq!(locker.stats().losses(Loss::ShutDown), 0);
}

#[tokio::test]
async fn work_under_a_lease_ends_with_the_locker() {
    let server = RedisServer::start();
    let locker = Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap();
    let other = locker.clone();
    let working = tokio::spawn(async move {
        other.with_lock("a", async |_| std::future::pending::<()>().await).await
    });
    eventually("it works", || locker.stats().held == 1).await;
    soon("the end", locker.shutdown(LONG)).await;
    let error = soon("the end of the work", working).await.unwrap().unwrap_err();
    assert_eq!(error.loss(), Some(Loss::ShutDown), "{error}");
    assert_eq!(server.cli_text(&["EXISTS", "a"]), "0");
}

/// Whatever they wait for, and for however long.
#[cfg(feature = "groups")]
#[tokio::test]
async fn requests_that_pause_between_tries_are_told_at_once() {
    let (server, mut away) = (RedisServer::start(), RedisServer::start());
    let seldom = leasehold::Retry::fixed(LONG).jitter(false);
    let other = Locker::connect(&server.url()).await.unwrap();
    let _held = take(&other, "held", LONG).await;
    let locker = Locker::connect(&server.url()).await.unwrap();
    let several = tokio::spawn(locker.lock_all(["free", "held"]).retry(seldom).into_future());
    // Once on its way, and once as a waiter.
    eventually("it waits", || locker.stats().contended >= 2).await;
    let cut_off = Locker::connect(&away.url()).await.unwrap();
    away.kill();
    let failing = tokio::spawn(cut_off.lock("a").ttl(LONG).retry(seldom).into_future());
    eventually("it waits", || cut_off.stats().attempts == 1).await;
    soon("the end", locker.shutdown(LONG)).await;
    // Its request may have been granted by the server that is away: the end would wait for that.
    soon("the end", cut_off.shutdown(SHORT)).await;
    for request in [several, failing] {
        let error = soon("it is told", request).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ShutDown, "{error}");
    }
}

/// Safety rule 4: a release goes to every server, also to one that is away, as soon as it is back.
#[tokio::test]
async fn a_server_that_is_away_at_the_end_is_told_when_it_is_back() {
    let fleet = Fleet::start(3);
    let mut proxy = FaultProxy::start(fleet[2].address());
    let urls = [fleet[0].url(), fleet[1].url(), proxy.url()];
    let builder = Locker::builder().nodes(urls).restart_quarantine(false).ttl(LONG);
    let locker = builder.connect().await.unwrap();
    let guard = take(&locker, "a", LONG).await;
    eventually("all have it", || fleet.holding("a") == 3).await;
    proxy.refuse().await;
    proxy.cut();
    eventually("it is noticed", || !locker.stats().servers[2].connected).await;
    let report = soon("the end", locker.shutdown(LONG)).await;
    assert_eq!((report.released, report.unreleased), (vec!["a".to_owned()], vec![]));
    proxy.accept().await;
    eventually("it is free there too", || fleet.holding("a") == 0).await;
    drop(guard);
}

/// Whether the command is about this lock, with this number of words behind the lock and the owner.
fn is_about(command: &Command, lock: &str, rest: usize) -> bool {
    let is_script = command.is(&["EVALSHA"]) || command.is(&["EVAL"]);
    is_script && command.word(3) == lock && command.words.len() == 5 + rest
}

/// A renewal that is under way when the locker ends has nothing left to renew: whatever becomes of
/// it, nobody is told of a failure. The end goes on meanwhile, for a release without an answer.
#[tokio::test]
async fn a_renewal_under_way_at_the_end_does_not_fail() {
    let mut is_released = false;
    let server = ScriptedServer::start(move |command| match greeting(command) {
        Some(answer) => answer,
        None if is_about(command, "a", 2) => Action::Silence,
        None if !command.is_release() => Action::granted(command),
        None if std::mem::replace(&mut is_released, true) => Action::Silence,
        None => Action::Close,
    });
    let builder = Locker::builder().node(server.url()).command_timeout(LONG);
    let locker = builder.connect().await.unwrap();
    let _renewed = take(&locker, "a", 4 * SHORT).await;
    let is_extension = |command: &Command| is_about(command, "a", 2);
    soon("a renewal", server.until(|commands| commands.iter().any(is_extension))).await;
    let ended = locker.clone();
    let end = tokio::spawn(async move { ended.shutdown(LONG).await });
    server.until_released(2).await;
    assert!(!end.is_finished());
    assert_eq!(locker.stats().renewals_failed, 0);
    end.abort();
}

/// What its caller does not wait for is given back anyway.
#[tokio::test]
async fn an_end_that_is_dropped_leaves_nothing_held() {
    let fleet = Fleet::start(3);
    let mut proxy = FaultProxy::start(fleet[2].address());
    let urls = [fleet[0].url(), fleet[1].url(), proxy.url()];
    let builder = Locker::builder().nodes(urls).restart_quarantine(false).ttl(LONG);
    let locker = builder.connect().await.unwrap();
    let guard = take(&locker, "a", LONG).await;
    eventually("all have it", || fleet.holding("a") == 3).await;
    proxy.refuse().await;
    proxy.cut();
    eventually("it is noticed", || !locker.stats().servers[2].connected).await;
    let mut end = Box::pin(locker.shutdown(LONG));
    let polled = end.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    drop(end);
    assert_eq!(guard.loss(), Some(Loss::ShutDown));
    drop(guard);
    proxy.accept().await;
    eventually("it is free everywhere", || fleet.holding("a") == 0).await;
}

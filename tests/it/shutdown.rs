//! The shutdown of a locker, and its counters until then.

mod endings;
mod owing;
mod settling;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{BreakerState, ErrorKind, Event, Locker, Loss};
use leasehold_testing::{Fault, FaultProxy, Fleet, RedisServer, eventually, soon};

/// So long that no key is ever free because of it.
const LONG: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_shutdown_gives_everything_back_and_lets_nobody_in() {
    let server = RedisServer::start();
    let locker = Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap();
    let mut guards = Vec::new();
    for number in 0..100 {
        guards.push(locker.lock(format!("n{number}")).await.unwrap());
    }
    let waiting = tokio::spawn(locker.lock("n7").into_future());
    eventually("it waits", || locker.stats().waiting == 1).await;
    let report = soon("the end", locker.clone().shutdown(LONG)).await;
    assert_eq!(report.released.len(), 100);
    assert!(report.released.contains(&"n7".to_owned()));
    assert!(report.unreleased.is_empty(), "{report:?}");
    assert_eq!(report.to_string(), "released 100 locks");
    assert_eq!(server.cli_text(&["EXISTS", "n0", "n7", "n99"]), "0");
    let error = soon("it is told", waiting).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShutDown, "{error}");
    assert_eq!(locker.lock("new").await.unwrap_err().kind(), ErrorKind::ShutDown);
    assert_eq!(locker.try_lock("new").await.unwrap_err().kind(), ErrorKind::ShutDown);
    #[cfg(feature = "groups")]
    assert_eq!(locker.lock_all(["new", "newer"]).await.unwrap_err().kind(), ErrorKind::ShutDown);
    assert_eq!(server.cli_text(&["EXISTS", "new"]), "0");
    let guard = guards.pop().unwrap();
    assert_eq!(soon("its loss", guard.lost()).await, Loss::ShutDown);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::ShutDown), "{error}");
    assert_eq!(locker.stats().losses(Loss::ShutDown), 100);
    drop(guards);
    assert_eq!(locker.stats().held, 0);
    assert!(locker.shutdown(LONG).await.released.is_empty(), "once is enough");
}

#[tokio::test]
async fn what_could_not_be_given_back_is_reported_with_its_reason() {
    let fleet = Fleet::start(3);
    let builder = Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_quarantine(false);
    let locker = builder.connect().await.unwrap();
    let _guard = locker.lock("a").await.unwrap();
    eventually("all have it", || fleet.holding("a") == 3).await;
    fleet[0].stop();
    fleet[1].stop();
    let report = soon("the end", locker.shutdown(Duration::from_millis(50))).await;
    assert!(report.released.is_empty());
    assert_eq!(report.unreleased[0].name, "a");
    fleet[0].cont();
    fleet[1].cont();
    eventually("what was sent is carried out", || fleet.holding("a") == 0).await;
}

#[tokio::test]
async fn a_server_that_is_frozen_keeps_no_other_from_being_counted() {
    let fleet = Fleet::start(3);
    let builder = Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_quarantine(false);
    let locker = builder.command_timeout(LONG).connect().await.unwrap();
    let _guard = locker.lock("a").await.unwrap();
    eventually("all have it", || fleet.holding("a") == 3).await;
    fleet[0].stop();
    let report = soon("the end", locker.shutdown(Duration::from_secs(1))).await;
    assert_eq!(report.released, ["a"]);
    fleet[0].cont();
}

#[tokio::test]
async fn an_acquire_whose_connection_ends_is_unknown_and_leaves_nothing_behind() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let builder = Locker::builder().node(proxy.url()).ttl(LONG);
    let locker = builder.command_timeout(LONG).connect().await.unwrap();
    proxy.to_client().set(Fault::Blackhole);
    let asked = tokio::spawn(locker.try_lock("a").into_future());
    eventually("it was granted", || server.cli_text(&["EXISTS", "a"]) == "1").await;
    proxy.to_client().set(Fault::Pass);
    proxy.cut();
    let error = soon("it is told", asked).await.unwrap().unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert_eq!(locker.stats().unknown, 1);
    eventually("it is given back", || server.cli_text(&["EXISTS", "a"]) == "0").await;
}

#[tokio::test]
async fn everything_is_counted_and_told() {
    let server = RedisServer::start();
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let observer = move |event: &Event<'_>| {
        let text = format!("{event:?}");
        let kind = text.split([' ', '{']).next().unwrap_or_default().to_owned();
        seen.lock().unwrap().push((kind, event.name().to_vec()));
    };
    let builder = Locker::builder().node(server.url()).ttl(LONG).observer(observer);
    let locker = builder.connect().await.unwrap();
    let first = locker.lock("a").await.unwrap();
    assert_eq!(locker.try_lock("a").await.unwrap_err().kind(), ErrorKind::Contended);
    let next = tokio::spawn(locker.lock("a").into_future());
    let is_refused = || locker.stats().waiting == 1 && locker.stats().contended >= 2;
    eventually("it waits, and has been refused", is_refused).await;
    assert_eq!(locker.stats().held, 1);
    first.release().await.unwrap();
    soon("the next", next).await.unwrap().unwrap().release().await.unwrap();
    let stats = locker.stats();
    assert_eq!((stats.granted, stats.released, stats.handed_over, stats.held), (2, 2, 1, 0));
    assert!(stats.contended >= 2 && stats.attempts >= 4, "{stats}");
    assert_eq!((stats.lost(), stats.unknown, stats.failed), (0, 0, 0));
    assert_eq!(stats.wait.count(), 2);
    assert!(stats.hold.max().unwrap() > Duration::ZERO);
    assert_eq!(stats.servers[0].server, server.address().to_string());
    assert_eq!(stats.servers[0].breaker, BreakerState::Closed);
    assert!(stats.servers[0].connected);
    let events = events.lock().unwrap();
    let count = |kind: &str| events.iter().filter(|(seen, _)| seen == kind).count();
    assert_eq!((count("Granted"), count("Released"), count("HandedOver")), (2, 2, 1));
    assert!(events.iter().all(|(_, name)| name == b"a"));
}

#[tokio::test]
async fn a_server_that_is_away_shows_in_the_stats() {
    let mut fleet = Fleet::start(3);
    let builder = Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_quarantine(false);
    let locker = builder.connect().await.unwrap();
    fleet[1].kill();
    let noticed = async {
        while locker.stats().servers[1].breaker == BreakerState::Closed {
            drop(locker.lock("a").await.unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("its breaker opens", noticed).await;
    let servers = locker.stats().servers;
    assert!(!servers[1].connected && servers[0].connected);
    assert_eq!(servers[0].breaker, BreakerState::Closed);
}

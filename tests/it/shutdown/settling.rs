//! Acquires whose reply is late, or never comes.

use std::time::Duration;

use leasehold::{Builder, Guard, LockRequest, Locker};

use crate::stats::{LONG, ttl_at};
use leasehold_testing::{Fault, FaultProxy, RedisServer, eventually, soon};

const TIMEOUT: Duration = Duration::from_secs(1);

fn through(proxy: &FaultProxy) -> Builder {
    Locker::builder().node(proxy.url()).ttl(LONG).command_timeout(TIMEOUT)
}

/// How many scripts the server was asked to run.
fn scripts_run(server: &RedisServer) -> u64 {
    let info = server.cli_text(&["INFO", "commandstats"]);
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    let calls = line.and_then(|line| line.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// Takes a lock, with the reply held up until the question has been put a second time.
async fn take_late(server: &RedisServer, proxy: &FaultProxy, request: LockRequest) -> Guard {
    let before = scripts_run(server);
    proxy.to_client().set(Fault::Delay(LONG));
    let asked = tokio::spawn(request.into_future());
    eventually("it is asked twice", || scripts_run(server) >= before + 2).await;
    proxy.to_client().set(Fault::Pass);
    soon("the lock", asked).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_late_reply_costs_validity_and_not_the_lock() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = through(&proxy).connect().await.unwrap();
    locker.lock("warm").await.unwrap().release().await.unwrap();
    // Beside the counter of the first, each name has its lock and its counter.
    for (name, keys) in [("a", "3"), ("b", "4")] {
        let guard = take_late(&server, &proxy, locker.lock(name).label("only")).await;
        // Both questions were one owner's, and the later one's token is the one that counts.
        assert_eq!(server.cli_text(&["DBSIZE"]), keys);
        assert!(server.cli_text(&["GET", name]).contains("only"));
        let counter = server.cli_text(&["GET", &format!("{{{name}}}:fence")]);
        assert_eq!(counter, guard.fence().to_string());
        assert!(guard.remaining() <= ttl_at(&server, name), "the holder's is the shorter");
        assert!(!locker.try_lock(name).await.unwrap_err().is_unknown());
        // Nothing of the first question gives back what the second one holds.
        guard.extend().await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(server.cli_text(&["EXISTS", name]), "0");
    }
    assert_eq!(locker.stats().unknown, 0);
}

#[tokio::test]
async fn a_lease_whose_acquire_was_settled_is_renewed_as_any_other() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = through(&proxy).connect().await.unwrap();
    locker.lock("warm").await.unwrap().release().await.unwrap();
    let request = locker.lock("a").ttl(TIMEOUT * 4);
    let guard = take_late(&server, &proxy, request).await;
    eventually("it is renewed", || locker.stats().renewed >= 4).await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    assert_eq!(server.cli_text(&["EXISTS", "a"]), "0");
}

/// Whatever was granted is given back, over the next connection.
#[tokio::test]
async fn an_acquire_that_nobody_answers_is_unknown_and_its_key_goes_before_its_ttl() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = through(&proxy).connect().await.unwrap();
    locker.lock("warm").await.unwrap().release().await.unwrap();
    proxy.to_client().set(Fault::Blackhole);
    let asked = tokio::spawn(locker.try_lock("a").into_future());
    eventually("it was granted", || server.cli_text(&["EXISTS", "a"]) == "1").await;
    let error = soon("it is told", asked).await.unwrap().unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert_eq!((locker.stats().unknown, locker.stats().granted), (1, 1));
    proxy.to_client().set(Fault::Pass);
    proxy.cut();
    eventually("it is given back", || server.cli_text(&["EXISTS", "a"]) == "0").await;
    let again = soon("the lock", locker.lock("a").into_future()).await.unwrap();
    again.release().await.unwrap();
}

/// A caller whose limit is over before the reply comes is told nothing of what was granted.
#[tokio::test]
async fn an_acquire_that_outlasts_its_callers_limit_is_given_back() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = through(&proxy).connect().await.unwrap();
    locker.lock("warm").await.unwrap().release().await.unwrap();
    let before = scripts_run(&server);
    proxy.to_client().set(Fault::Blackhole);
    let request = locker.lock("a").wait_at_most(TIMEOUT / 20);
    assert!(soon("it is told", request.into_future()).await.is_err());
    eventually("it was granted", || scripts_run(&server) > before).await;
    eventually("it is given back", || server.cli_text(&["EXISTS", "a"]) == "0").await;
}

/// A connection that is reset while an acquire is out on it; the waiting request goes on by itself.
#[tokio::test]
async fn a_waiting_request_rides_out_a_connection_that_is_reset_under_it() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = through(&proxy).connect().await.unwrap();
    locker.lock("warm").await.unwrap().release().await.unwrap();
    proxy.to_client().set(Fault::Blackhole);
    let asked = tokio::spawn(locker.lock("a").into_future());
    eventually("it was granted", || server.cli_text(&["EXISTS", "a"]) == "1").await;
    let first = server.cli_text(&["GET", "a"]);
    // In this order: the answer may only now come to the proxy.
    proxy.reset();
    proxy.to_client().set(Fault::Pass);
    let guard = soon("the lock", asked).await.unwrap().unwrap();
    assert_ne!(server.cli_text(&["GET", "a"]), first, "another owner than the one in doubt");
    guard.release().await.unwrap();
    assert_eq!(server.cli_text(&["EXISTS", "a"]), "0");
}

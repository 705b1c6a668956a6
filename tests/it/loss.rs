//! The loss of a lease and its reason: reported in time, whatever notices it first, and final.

#![allow(clippy::disallowed_methods, reason = "a process that is stopped looks at its clock")]
#![allow(clippy::print_stdout, reason = "a process that is stopped tells its parent what it sees")]

mod reasons;
mod runtimes;
#[cfg(feature = "tokio-util")]
mod tokens;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold::{ErrorKind, Guard, Locker, Loss};
use leasehold_testing::{RedisServer, STUCK, eventually, soon};

/// So long that neither its end nor a renewal ever comes.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(400);

async fn locker(server: &RedisServer) -> Locker {
    Locker::connect(&server.url()).await.unwrap()
}

async fn take(locker: &Locker, ttl: Duration) -> Guard {
    soon("a lock", locker.lock("a").ttl(ttl).into_future()).await.unwrap()
}

/// Somebody waits for the loss, and the server is going to tell of it.
async fn watched(server: &RedisServer, locker: &Locker) -> tokio::task::JoinHandle<Loss> {
    let guard = take(locker, LONG).await;
    let waiting = tokio::spawn(async move { guard.lost().await });
    // It is renewed once, over the connection that is told.
    eventually("it is watched", || locker.stats().renewed == 1).await;
    eventually("it is tracked", || tracked_keys(server) > 0).await;
    waiting
}

fn tracked_keys(server: &RedisServer) -> u64 {
    let info = server.cli_text(&["INFO", "stats"]);
    let line = info.lines().find_map(|line| line.strip_prefix("tracking_total_keys:"));
    line.unwrap().trim().parse().unwrap()
}

/// redisson #4698: the holder of a lock that was deleted was never told.
#[tokio::test]
async fn a_lock_that_is_deleted_by_hand_is_known_to_be_lost_long_before_the_next_renewal() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let lost = watched(&server, &locker).await;
    server.cli(&["DEL", "a"]);
    assert_eq!(soon("the loss", lost).await.unwrap(), Loss::Gone);
    assert_eq!(locker.stats().losses(Loss::Gone), 1);
}

#[tokio::test]
async fn a_lock_that_is_taken_by_hand_is_known_to_be_lost() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let lost = watched(&server, &locker).await;
    server.cli(&["SET", "a", "other"]);
    assert_eq!(soon("the loss", lost).await.unwrap(), Loss::Gone);
    assert_eq!(server.cli_text(&["GET", "a"]), "other");
}

#[tokio::test]
async fn a_flush_is_known_and_so_is_a_deletion_after_the_watching_connection_was_killed() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let lost = watched(&server, &locker).await;
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    // The end of the connection has the lease renewed, on the next one that tells.
    let deleted = async {
        while !lost.is_finished() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            server.cli(&["FLUSHALL"]);
        }
    };
    soon("the loss", deleted).await;
    assert_eq!(lost.await.unwrap(), Loss::Gone);
}

#[tokio::test]
async fn without_tracking_the_next_renewal_finds_out() {
    let server = RedisServer::start();
    server.cli(&["ACL", "SETUSER", "default", "-client|tracking"]);
    let locker = locker(&server).await;
    let guard = take(&locker, SHORT).await;
    server.cli(&["DEL", "a"]);
    assert_eq!(soon("the loss", guard.lost()).await, Loss::Gone);
}

/// Safety rule 7: by a local timer that needs no reply.
#[tokio::test]
async fn a_server_that_stops_during_renewal_costs_the_lease_at_its_deadline() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = take(&locker, SHORT).await;
    eventually("it is renewed", || locker.stats().renewed > 0).await;
    server.stop();
    assert_eq!(soon("the loss", guard.lost()).await, Loss::Expired);
    assert_eq!(guard.remaining(), Duration::ZERO);
    server.cont();
}

#[tokio::test]
async fn a_server_that_goes_on_in_time_costs_nothing() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = take(&locker, Duration::from_secs(6)).await;
    server.stop();
    eventually("a renewal has failed", || locker.stats().renewals_failed > 0).await;
    server.cont();
    let before = locker.stats().renewed;
    eventually("it is renewed", || locker.stats().renewed > before).await;
    assert!(!guard.is_lost());
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    let before = locker.stats().renewed;
    eventually("on new connections too", || locker.stats().renewed > before).await;
    guard.release().await.unwrap();
}

#[tokio::test]
async fn work_is_dropped_when_the_lease_is_lost() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = take(&locker, SHORT).await;
    assert_eq!(guard.run(async { 7 }).await.unwrap(), 7);
    let short = Duration::from_millis(50);
    let brief = locker.lock("brief").ttl(short).no_renewal().await.unwrap();
    // The whole lease is over within one poll.
    let error = brief.run(async { std::thread::sleep(2 * short) }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    server.cli(&["DEL", "a"]);
    let (done, dropped) = tokio::sync::oneshot::channel::<()>();
    let work = async move {
        let _done = done;
        std::future::pending::<()>().await;
    };
    let error = soon("the loss", guard.run(work)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(error.loss(), Some(Loss::Gone));
    assert!(dropped.await.is_err(), "the work is gone");
}

#[tokio::test]
async fn a_lock_is_held_for_a_piece_of_work_and_no_longer() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let token = locker
        .with_lock("a", async |lease| {
            assert_eq!(locker.try_lock("a").await.unwrap_err().kind(), ErrorKind::Contended);
            lease.fence()
        })
        .await
        .unwrap();
    assert!(locker.try_lock("a").await.unwrap().fence() > token);
    let lost = locker.lock("b").ttl(SHORT).with(async |_| {
        server.cli(&["DEL", "b"]);
        std::future::pending::<()>().await;
    });
    assert_eq!(soon("the loss", lost).await.unwrap_err().loss(), Some(Loss::Gone));
    let other = locker.clone();
    let panicking = tokio::spawn(async move {
        other.lock("c").ttl(LONG).with(async |_| panic!("as it has to")).await
    });
    assert!(panicking.await.is_err());
    let again = soon("it was given back", locker.lock("c").into_future()).await.unwrap();
    again.release().await.unwrap();
}

#[test]
fn guards_outlive_their_runtime_and_the_last_locker() {
    let server = RedisServer::start();
    let first = tokio::runtime::Runtime::new().unwrap();
    let second = tokio::runtime::Runtime::new().unwrap();
    let guard = first.block_on(async {
        let locker = locker(&server).await;
        let guard = take(&locker, SHORT).await;
        drop(locker);
        tokio::time::sleep(SHORT * 3).await;
        assert!(!guard.is_lost(), "it is renewed without its locker");
        guard
    });
    // Used on another runtime, while the one that keeps it lives.
    second.block_on(async {
        tokio::time::sleep(SHORT * 3).await;
        assert!(!guard.is_lost());
        soon("another renewal", guard.extend()).await.unwrap();
    });
    drop(first);
    let loss = second.block_on(soon("nobody keeps it", guard.lost()));
    assert!(matches!(loss, Loss::Expired | Loss::Suspended), "{loss:?}");
    assert!(guard.is_lost());
    drop(second);
    // Outside any runtime.
    drop(guard);
}

#[tokio::test]
async fn a_runtime_that_stood_still_is_told_so_by_the_first_to_find_out() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = take(&locker, SHORT).await;
    eventually("it is renewed", || locker.stats().renewed > 0).await;
    std::thread::sleep(Duration::from_secs(3));
    eventually("it is noticed", || locker.stats().lost() == 1).await;
    assert_eq!(guard.loss(), Some(Loss::Suspended));
    assert_eq!(locker.stats().held, 0);
}

/// Each is given back around the moment of its renewal, whose answer is then that it is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lease_that_was_given_back_is_not_lost_later() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let tasks: Vec<_> = (0..40_u64)
        .map(|task| {
            let locker = locker.clone();
            tokio::spawn(async move {
                let mut lost = 0;
                for round in 0..60 {
                    let ttl = Duration::from_millis(90);
                    let request = locker.try_lock(format!("n{task}")).ttl(ttl);
                    let Ok(guard) = request.min_validity(Duration::ZERO).await else { continue };
                    tokio::time::sleep(Duration::from_millis(28 + (round + task) % 4)).await;
                    lost += u64::from(guard.release().await.is_err());
                }
                lost
            })
        })
        .collect();
    let mut lost = 0;
    for task in tasks {
        lost += task.await.unwrap();
    }
    // Renewals that are still under way end within a command's timeout.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(locker.stats().lost(), lost);
}

#[tokio::test]
async fn a_release_that_finds_the_key_gone_is_a_loss_and_no_release() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("a").ttl(LONG).no_renewal().await.unwrap();
    server.cli(&["DEL", "a"]);
    assert_eq!(guard.release().await.unwrap_err().loss(), Some(Loss::Gone));
    let stats = locker.stats();
    assert_eq!((stats.released, stats.losses(Loss::Gone), stats.held), (0, 1, 0));
}

/// Set in the process that is to be stopped: the server's URL.
const CHILD: &str = "LEASEHOLD_TEST_CHILD";
/// Long enough for a busy machine to renew the lease until the process is stopped.
const STOPPED_TTL: Duration = Duration::from_secs(2);

/// The process is stopped for longer than its TTL. On waking, nobody in it is told that the lease
/// still holds, before any reply can have come.
#[test]
fn a_process_that_was_stopped_knows_on_waking_that_its_lease_is_lost() {
    if let Ok(url) = std::env::var(CHILD) {
        return hold_until_stopped(&url);
    }
    let server = RedisServer::start();
    let name = "loss::a_process_that_was_stopped_knows_on_waking_that_its_lease_is_lost";
    let child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, server.url())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let signal = |signal: &str| {
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    };
    let is_held = || server.cli_text(&["EXISTS", "a"]) == "1";
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(eventually("it holds", is_held));
    std::thread::sleep(Duration::from_millis(700));
    signal("-STOP");
    runtime.block_on(eventually("its key has expired", || !is_held()));
    // Far beyond what could still be taken for a late beat.
    std::thread::sleep(Duration::from_secs(3));
    signal("-CONT");
    let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert!(output.contains("the first look: lost"), "{output}");
    assert!(output.contains("why: Suspended"), "{output}");
}

/// Looks at its clock, and at its lease at once after a gap that is longer than the TTL.
fn hold_until_stopped(url: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let guard = runtime.block_on(async {
        let locker = Locker::connect(url).await.unwrap();
        locker.lock("a").ttl(STOPPED_TTL).await.unwrap()
    });
    let began = Instant::now();
    while began.elapsed() < STUCK {
        let before = Instant::now();
        std::thread::sleep(Duration::from_millis(1));
        if before.elapsed() > STOPPED_TTL {
            println!("the first look: {}", if guard.is_lost() { "lost" } else { "held" });
            println!("why: {:?}", guard.loss().unwrap());
            return;
        }
        assert!(!guard.is_lost(), "it is renewed");
    }
}

//! A lock that is watched from outside.

use std::time::Duration;

use leasehold::inspect::{LockState, LockView, LockWatch};
use leasehold::{ErrorKind, Guard, Locker};
use leasehold_testing::{Fleet, RedisServer, binary, eventually, soon};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::lease::runtimes::outside_of_a_runtime;

/// So long that no key is ever free because of it.
const TTL: Duration = Duration::from_secs(3600);

async fn connect(urls: impl IntoIterator<Item = String>, label: &str) -> Locker {
    // Servers that have just started would be kept from voting for a TTL.
    let builder = Locker::builder().nodes(urls).restart_quarantine(false).ttl(TTL).max_ttl(TTL);
    soon("it connects", builder.label(label).connect()).await.unwrap()
}

async fn take(locker: &Locker) -> Guard {
    soon("the lock", locker.lock("a").into_future()).await.unwrap()
}

fn holder(view: &LockView) -> Option<&str> {
    let held = view.holders.first().filter(|_| view.state == LockState::Held);
    held.and_then(|first| first.holder.label.as_deref())
}

/// Waits until the watch has shown this holder, or none; others may come before.
async fn shows(watch: &mut LockWatch, expected: Option<&str>) {
    let shown = async { while holder(&watch.changed().await.unwrap()) != expected {} };
    soon("the holder is shown", shown).await;
}

fn scripts_run(server: &RedisServer) -> Vec<String> {
    let stats = server.cli_text(&["INFO", "commandstats"]);
    let of = |line: &&str| line.starts_with("cmdstat_eval");
    let calls = stats.lines().filter(of).filter_map(|line| line.split(',').next());
    calls.map(str::to_owned).collect()
}

/// Waits until the server has what it tells of.
async fn until_told(server: &RedisServer) {
    let tracked = || !server.cli_text(&["INFO", "stats"]).contains("tracking_total_keys:0");
    eventually("the server tells", tracked).await;
    // The look that had it do so has its answer.
    sleep(Duration::from_millis(50)).await;
}

async fn shows_each_holder(urls: Vec<String>) {
    let one = connect(urls.clone(), "one").await;
    let other = connect(urls.clone(), "other").await;
    let third = connect(urls, "third").await;
    // Also of one's own locks, of which servers do not tell the connections that they are taken on.
    for locker in [&third, &one] {
        let mut watch = locker.watch("a");
        assert_eq!(holder(&soon("the first", watch.changed()).await.unwrap()), None);
        let guard = take(&one).await;
        shows(&mut watch, Some("one")).await;
        let mut waiting = tokio::spawn(other.lock("a").into_future());
        let mut here = tokio::spawn(one.lock("a").into_future());
        eventually("both wait", || other.stats().waiting + one.stats().waiting == 2).await;
        guard.release().await.unwrap();
        let (first, holds, next) = tokio::select! {
            guard = &mut waiting => (guard, "other", here),
            guard = &mut here => (guard, "one", waiting),
        };
        shows(&mut watch, Some(holds)).await;
        first.unwrap().unwrap().release().await.unwrap();
        // A look between the two holders would show none as well.
        next.await.unwrap().unwrap().release().await.unwrap();
        shows(&mut watch, None).await;
    }
}

#[tokio::test]
async fn each_holder_is_shown_and_when_there_is_none() {
    let server = RedisServer::start();
    shows_each_holder(vec![server.url()]).await;
}

#[tokio::test]
async fn each_holder_with_a_quorum_is_shown() {
    let fleet = Fleet::start(3);
    shows_each_holder(fleet.urls()).await;
}

#[tokio::test]
async fn what_a_minority_shows_is_no_change() {
    let fleet = Fleet::start(3);
    let locker = connect(fleet.urls(), "one").await;
    let mut watch = locker.watch("a");
    shows(&mut watch, None).await;
    let value = "0123456789abcdef0123456789abcdef:other";
    let servers: Vec<&RedisServer> = fleet.iter().collect();
    servers[0].cli(&["SET", "a", value]);
    assert!(timeout(Duration::from_millis(300), watch.changed()).await.is_err());
    servers[1].cli(&["SET", "a", value]);
    let view = soon("a quorum", watch.changed()).await.unwrap();
    assert_eq!((view.state, holder(&view)), (LockState::Held, Some("other")));
    servers[1].cli(&["DEL", "a"]);
    let view = soon("less than a quorum", watch.until_free()).await.unwrap();
    assert_eq!(view.state, LockState::Partial);
}

#[tokio::test]
async fn a_watch_is_told_and_does_not_ask() {
    let server = RedisServer::start();
    let (locker, holding) = (connect([server.url()], "").await, connect([server.url()], "h").await);
    let guard = holding.lock("a").no_renewal().await.unwrap();
    let mut watch = locker.watch("a");
    shows(&mut watch, Some("h")).await;
    let freed = tokio::spawn(async move { watch.until_free().await });
    until_told(&server).await;
    let before = scripts_run(&server);
    sleep(Duration::from_millis(400)).await;
    assert_eq!(scripts_run(&server), before, "nobody asks");
    guard.release().await.unwrap();
    assert_eq!(soon("it is free", freed).await.unwrap().unwrap().state, LockState::Free);
}

#[tokio::test]
async fn a_lease_that_is_broken_by_the_same_process_is_shown_at_once() {
    let server = RedisServer::start();
    let locker = connect([server.url()], "").await;
    server.cli(&["SET", "a", "0123456789abcdef0123456789abcdef~:gone"]);
    let mut watch = locker.watch("a");
    shows(&mut watch, Some("gone")).await;
    let freed = tokio::spawn(async move { watch.until_free().await });
    until_told(&server).await;
    let seen = locker.inspect("a").await.unwrap();
    assert!(locker.break_lease(&seen).await.unwrap().is_complete());
    // It is asked for without being told too, but not so soon.
    let freed = timeout(Duration::from_secs(3), freed).await.unwrap();
    assert_eq!(freed.unwrap().unwrap().state, LockState::Free);
}

#[tokio::test]
async fn a_renewal_is_no_change() {
    let server = RedisServer::start();
    let (locker, holding) = (connect([server.url()], "").await, connect([server.url()], "h").await);
    let guard = holding.lock("a").ttl(Duration::from_millis(600)).await.unwrap();
    let mut watch = locker.watch("a");
    shows(&mut watch, Some("h")).await;
    let renewed = async { eventually("it is renewed", || holding.stats().renewed > 3).await };
    tokio::select! {
        seen = watch.changed() => panic!("{seen:?}"),
        () = renewed => {}
    }
    drop(guard);
    shows(&mut watch, None).await;
}

#[tokio::test]
async fn a_lock_whose_holder_vanished_is_free_when_its_ttl_is_over() {
    let server = RedisServer::start();
    let locker = connect([server.url()], "").await;
    server.cli(&["SET", "a", "0123456789abcdef0123456789abcdef:gone", "PX", "300"]);
    let mut watch = locker.watch("a");
    assert_eq!(holder(&soon("it is held", watch.changed()).await.unwrap()), Some("gone"));
    soon("it is free", watch.until_free()).await.unwrap();
}

#[tokio::test]
async fn without_tracking_a_watch_asks_now_and_then() {
    if binary::lacks(binary::is_seven(), "rights to do all of a command but one thing") {
        return;
    }
    let server = RedisServer::start();
    server.cli(&["ACL", "SETUSER", "default", "-client|tracking"]);
    let (locker, holding) = (connect([server.url()], "").await, connect([server.url()], "h").await);
    let mut watch = locker.watch("a");
    shows(&mut watch, None).await;
    let guard = take(&holding).await;
    shows(&mut watch, Some("h")).await;
    guard.release().await.unwrap();
    soon("it is free", watch.until_free()).await.unwrap();
}

#[tokio::test]
async fn a_change_is_not_lost_with_a_future_that_is_dropped() {
    let server = RedisServer::start();
    let (locker, holding) = (connect([server.url()], "").await, connect([server.url()], "h").await);
    let mut watch = locker.watch("a");
    shows(&mut watch, None).await;
    let guard = take(&holding).await;
    let seen = async {
        for patience in (0..).map(Duration::from_micros) {
            if let Ok(seen) = timeout(patience * 50, watch.changed()).await {
                return seen.unwrap();
            }
        }
        unreachable!("it goes on")
    };
    assert_eq!(holder(&soon("the change", seen).await), Some("h"));
    drop(guard);
}

#[tokio::test]
async fn an_outage_is_told_once_and_its_end_too() {
    let mut server = RedisServer::start();
    let locker = connect([server.url()], "").await;
    let mut watch = locker.watch("a");
    shows(&mut watch, None).await;
    server.kill();
    let error = soon("the outage", watch.changed()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(timeout(Duration::from_millis(300), watch.changed()).await.is_err());
    let free = tokio::spawn(async move { watch.until_free().await });
    server.restart();
    soon("it serves again", free).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_watch_ends_with_its_locker_and_is_refused_for_what_is_no_lock() {
    let server = RedisServer::start();
    let locker = connect([server.url()], "").await;
    let mut nameless = locker.watch("");
    for _ in 0..2 {
        let error = soon("an error", nameless.changed()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse);
    }
    let error = soon("an error", nameless.until_free()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    server.cli(&["RPUSH", "list", "1"]);
    let error = soon("an error", locker.watch("list").until_free()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    let mut watch = locker.watch("a");
    shows(&mut watch, None).await;
    let watching = tokio::spawn(async move { watch.changed().await });
    until_told(&server).await;
    locker.shutdown(Duration::from_secs(1)).await;
    assert_eq!(soon("the end", watching).await.unwrap().unwrap_err().kind(), ErrorKind::ShutDown);
}

#[tokio::test]
async fn watches_open_no_connections() {
    let server = RedisServer::start();
    let locker = connect([server.url()], "").await;
    let clients = || server.cli_text(&["CLIENT", "LIST"]).lines().count();
    let before = clients();
    let mut watches = [locker.watch("a"), locker.watch("b")];
    for watch in &mut watches {
        shows(watch, None).await;
    }
    assert_eq!(clients(), before);
}

/// The runtime of the caller has no I/O.
#[test]
fn a_watch_on_another_runtime_is_told_of_changes_on_the_lockers_own() {
    let server = RedisServer::start();
    let own = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let locker = own.block_on(Locker::connect(&server.url())).unwrap();
    let other = Builder::new_current_thread().enable_time().build().unwrap();
    other.block_on(async {
        let mut watch = locker.watch("a");
        soon("the first look", watch.changed()).await.unwrap();
        let _watching = tokio::spawn(async move { watch.changed().await });
        until_told(&server).await;
    });
}

/// Which of the readers is shown is the one whose share lasts longest: each renewal makes it another.
#[cfg(feature = "sharing")]
#[tokio::test]
async fn renewals_of_readers_are_no_change() {
    let server = RedisServer::start();
    let (one, other) =
        (connect([server.url()], "one").await, connect([server.url()], "other").await);
    let ttl = Duration::from_millis(1500);
    let mut readers = Vec::new();
    for locker in [&one, &other] {
        readers.push(soon("a reader", locker.read("a").ttl(ttl).into_future()).await.unwrap());
        sleep(ttl / 6).await;
    }
    let mut watch = one.watch("a");
    assert_eq!(watch.changed().await.unwrap().state, LockState::Held);
    let renewed = || one.stats().renewed.min(other.stats().renewed) >= 4;
    tokio::select! {
        view = watch.changed() => panic!("{view:?}"),
        () = eventually("they are renewed", renewed) => {}
    }
    drop(readers.pop());
    assert_eq!(soon("a change", watch.changed()).await.unwrap().holders[0].shares, Some(1));
}

/// An application's own keys may be called as a lock's queue and counter.
#[tokio::test]
async fn a_foreign_key_where_a_queue_would_be_hides_no_lock() {
    let server = RedisServer::start();
    let locker = connect([server.url()], "one").await;
    let guard = take(&locker).await;
    server.cli(&["RPUSH", "{a}:queue", "job"]);
    let view = locker.inspect("a").await.unwrap();
    assert_eq!((view.state, view.waiting), (LockState::Held, 0));
    guard.release().await.unwrap();
}

/// Outside of a runtime there is no timer then, by which it would rest between two looks.
#[test]
fn a_watch_says_each_time_that_the_runtime_of_its_locker_has_ended() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut watch = runtime.block_on(Locker::connect(&server.url())).unwrap().watch("a");
    drop(runtime);
    // In a thread: a watch that never rests gives nobody a turn.
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..2 {
            let error = outside_of_a_runtime(watch.changed()).unwrap_err();
            tell.send(error.to_string()).unwrap();
        }
    });
    for _ in 0..2 {
        let error = told.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(error.contains("the tokio runtime"), "{error}");
    }
}

//! Safety rule 15: a release is sent again until a server has given a final answer. No lock here becomes free by its
//! TTL, which is an hour.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use leasehold::{Error, Guard, Locker};
use leasehold_resp::Frame;
use leasehold_testing::{FaultProxy, Fleet, RedisServer, STUCK, eventually, soon};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const TTL: Duration = Duration::from_secs(3600);

async fn locker_at(url: String, command_timeout: Duration) -> Locker {
    let builder = Locker::builder().node(url).ttl(TTL).command_timeout(command_timeout);
    builder.connect().await.unwrap()
}

fn exists(server: &RedisServer, key: &str) -> bool {
    server.cli(&["EXISTS", key]) == Frame::Integer(1)
}

/// A guard that is dropped and one whose release is awaited, both while the server refuses.
async fn give_back_to_a_server_that_refuses(dropped: Guard, released: Guard) -> Error {
    drop(dropped);
    soon("the server refuses it", released.release()).await.unwrap_err()
}

async fn are_free(server: &RedisServer) {
    let is_free = || !exists(server, "dropped") && !exists(server, "released");
    eventually("both locks are free", is_free).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_a_busy_server_refuses_is_sent_again() {
    let server = RedisServer::builder().arg("--lua-time-limit").arg("10").start();
    let locker = locker_at(server.url(), STUCK).await;
    let (dropped, released) =
        (locker.lock("dropped").await.unwrap(), locker.lock("released").await.unwrap());
    let mut client = server.client();
    let busy =
        tokio::task::spawn_blocking(move || client.call(&["EVAL", "while true do end", "0"]));
    let is_busy = || server.cli(&["PING"]).error().is_some_and(|text| text.starts_with(b"BUSY"));
    eventually("the server is busy", is_busy).await;
    let error = give_back_to_a_server_that_refuses(dropped, released).await;
    assert!(error.to_string().contains("BUSY"), "{error}");
    assert_eq!(server.cli(&["SCRIPT", "KILL"]), Frame::Simple("OK".into()));
    soon("the script has ended", busy).await.unwrap();
    are_free(&server).await;
}

/// Acquires that a busy server did not run leave nothing to give back: only the release of the lock that was
/// held goes out once the server runs commands again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_busy_server_did_not_run_is_not_given_back() {
    let server = RedisServer::builder().arg("--lua-time-limit").arg("10").start();
    let locker = locker_at(server.url(), STUCK).await;
    let (held, seeded) = (locker.lock("held").await.unwrap(), locker.lock("seeded").await.unwrap());
    seeded.release().await.unwrap();
    let mut client = server.client();
    let busy =
        tokio::task::spawn_blocking(move || client.call(&["EVAL", "while true do end", "0"]));
    let is_busy = || server.cli(&["PING"]).error().is_some_and(|text| text.starts_with(b"BUSY"));
    eventually("the server is busy", is_busy).await;
    let names = (0..20).map(|number| format!("other:{number}"));
    for name in names.chain(["seeded".into()]) {
        let refused = locker.try_lock(&name).await.unwrap_err();
        let unfenced = locker.try_lock(&name).unfenced().await.unwrap_err();
        assert!(refused.to_string().contains("BUSY"), "{refused}");
        assert!(unfenced.to_string().contains("BUSY"), "{unfenced}");
    }
    drop(held);
    assert_eq!(server.cli(&["SCRIPT", "KILL"]), Frame::Simple("OK".into()));
    soon("the script has ended", busy).await.unwrap();
    eventually("the lock is free", || !exists(&server, "held")).await;
    // Whatever waits is sent once a second.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let stats = server.cli_text(&["INFO", "commandstats"]);
    let calls = |command: &str| {
        let of = stats.lines().find_map(|line| line.strip_prefix(command)?.strip_prefix(":calls="));
        of.map_or(0, |of| of.split(',').next().unwrap().parse::<u32>().unwrap())
    };
    let ran = ["eval", "evalsha", "delex", "delifeq"].map(|name| calls(&format!("cmdstat_{name}")));
    // Two acquires and a release, the script that held the server up, and the release that waited.
    assert_eq!(ran.iter().sum::<u32>(), 5, "{stats}");
}

#[tokio::test]
async fn a_release_that_a_server_without_replicas_refuses_is_sent_again() {
    let server = RedisServer::start();
    let locker = locker_at(server.url(), STUCK).await;
    let (dropped, released) =
        (locker.lock("dropped").await.unwrap(), locker.lock("released").await.unwrap());
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let error = give_back_to_a_server_that_refuses(dropped, released).await;
    assert!(error.to_string().contains("NOREPLICAS"), "{error}");
    assert!(exists(&server, "dropped") && exists(&server, "released"));
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    are_free(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_a_loading_server_refuses_is_sent_again() {
    let server =
        RedisServer::builder().arg("--loading-process-events-interval-bytes").arg("1024").start();
    let locker = locker_at(server.url(), STUCK).await;
    let (dropped, released) =
        (locker.lock("dropped").await.unwrap(), locker.lock("released").await.unwrap());
    server.cli(&["DEBUG", "POPULATE", "1000", "key", "100"]);
    server.cli(&["CONFIG", "SET", "key-load-delay", "2000"]);
    let mut client = server.client();
    let reloading = tokio::task::spawn_blocking(move || client.call(&["DEBUG", "RELOAD"]));
    let is_loading = || server.cli_text(&["INFO", "persistence"]).contains("loading:1");
    eventually("it loads", is_loading).await;
    let error = give_back_to_a_server_that_refuses(dropped, released).await;
    assert!(error.to_string().contains("LOADING"), "{error}");
    soon("it has loaded", reloading).await.unwrap();
    are_free(&server).await;
}

/// The bytes of an acquire reach the server after its connection was given up, and after the release
/// that was sent on the next one.
#[tokio::test]
async fn an_acquire_that_arrives_after_its_release_is_released_once_more() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = locker_at(proxy.url(), Duration::from_millis(100)).await;
    proxy.to_server().detain();
    let error = soon("it is told", locker.try_lock("late").into_future()).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    // The release of the late one went out before this, on the connection that both share.
    let next = soon("a new connection", locker.lock("next").into_future()).await.unwrap();
    soon("it serves", next.release()).await.unwrap();
    assert!(!exists(&server, "{late}:fence"), "the acquire has not arrived");
    proxy.to_server().let_go();
    eventually("it arrives", || exists(&server, "{late}:fence")).await;
    eventually("it is released once more", || !exists(&server, "late")).await;
}

/// The same of a lease that the other servers granted, and whose release was answered on the next
/// connection before the acquire arrived.
#[tokio::test]
async fn a_release_that_was_answered_on_another_connection_is_sent_again() {
    let fleet = Fleet::start(3);
    let proxy = FaultProxy::start(fleet[2].address());
    let urls = [fleet[0].url(), fleet[1].url(), proxy.url()];
    let builder = Locker::builder().nodes(urls).restart_quarantine(false).ttl(TTL);
    let locker = builder.command_timeout(Duration::from_millis(400)).connect().await.unwrap();
    let before = proxy.accepted();
    proxy.to_server().detain();
    let late = soon("a lock", locker.lock("late").into_future()).await.unwrap();
    soon("another connection", proxy.until_accepted(before + 1)).await;
    eventually("it is ready", || locker.stats().servers[2].connected).await;
    soon("it is given back", late.release()).await.unwrap();
    // Behind that release, on the connection that both share.
    let _next = soon("a lock", locker.lock("next").into_future()).await.unwrap();
    eventually("all have the next one", || fleet.holding("next") == 3).await;
    assert!(!exists(&fleet[2], "{late}:fence"), "the acquire has not arrived");
    proxy.to_server().let_go();
    eventually("it arrives", || exists(&fleet[2], "{late}:fence")).await;
    eventually("it is released once more", || !exists(&fleet[2], "late")).await;
}

/// Another process's request for a lock that is held. It waits in the queue, if there is one: Redis 5 has no pushes.
async fn waits(other: &Locker, server: &RedisServer, name: &str) -> JoinHandle<Guard> {
    let request = other.lock(name);
    let waiting = tokio::spawn(async { request.await.unwrap() });
    let polls = server.cli(&["ACL", "WHOAMI"]).error().is_some();
    let is_queued = || polls || exists(server, &format!("{{{name}}}:queue"));
    eventually("it waits", || other.stats().waiting == 1 && is_queued()).await;
    waiting
}

/// The socket takes a part, or all, of which the server has taken a part when its first replies come. Nobody reads that a
/// command for several locks has not freed one, because another process waits for it.
#[tokio::test]
async fn releases_that_are_many_go_out_behind_the_last_handle() {
    for (count, bytes) in [(1500, 8000), (3000, 10)] {
        let server = RedisServer::start();
        let other = locker_at(server.url(), STUCK).await;
        let locker = locker_at(server.url(), STUCK).await;
        let names: Vec<String> = (0..count).map(|number| format!("{number:0bytes$}")).collect();
        let mut guards = Vec::new();
        for name in &names {
            guards.push(locker.lock(name).await.unwrap());
        }
        let waiting = waits(&other, &server, &names[count / 2]).await;
        server.stop();
        drop((guards, locker));
        server.cont();
        soon("the next has it", waiting).await.unwrap().release().await.unwrap();
        let command: Vec<_> =
            ["EXISTS"].into_iter().chain(names.iter().map(|it| &it[..])).collect();
        eventually("all are free", || server.cli_text(&command) == "0").await;
    }
}

/// The same of a runtime that ends after its guards, or before them, while there is a handle.
#[tokio::test]
async fn releases_that_are_many_go_out_although_their_runtime_ends() {
    for ends_first in [false, true] {
        let server = RedisServer::start();
        let other = locker_at(server.url(), STUCK).await;
        let url = server.url();
        let (hold, held) = oneshot::channel();
        let (end, ended) = mpsc::channel();
        let holder = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let locker = runtime.block_on(locker_at(url, STUCK));
            let take = |number| locker.lock(format!("n{number}")).into_future();
            let guards: Vec<_> =
                (0..100).map(|number| runtime.block_on(take(number)).unwrap()).collect();
            hold.send(()).unwrap();
            ended.recv().unwrap();
            if ends_first {
                drop(runtime);
                drop(guards);
            } else {
                drop((guards, runtime));
            }
            locker
        });
        held.await.unwrap();
        let waiting = waits(&other, &server, "n77").await;
        end.send(()).unwrap();
        soon("the next has it", waiting).await.unwrap().release().await.unwrap();
        eventually("all are free", || server.cli(&["DBSIZE"]) == Frame::Integer(100)).await;
        holder.join().unwrap();
    }
}

/// Another process has waited for the lock, and given up: its mark is left.
#[tokio::test]
async fn a_lock_whose_release_is_gathered_is_free_for_the_next_request_of_its_process() {
    let server = RedisServer::start();
    let (locker, other) =
        (locker_at(server.url(), STUCK).await, locker_at(server.url(), STUCK).await);
    for number in [31, 77] {
        let mut guards = Vec::new();
        for number in 0..100 {
            guards.push(locker.lock(format!("n{number}")).await.unwrap());
        }
        let name = format!("n{number}");
        let waiting = waits(&other, &server, &name).await;
        waiting.abort();
        let queue = format!("{{{name}}}:queue");
        let has_left = || ["0", "2"].contains(&&*server.cli_text(&["HLEN", &queue]));
        eventually("its entry is gone", has_left).await;
        drop(guards);
        let again = soon("its answer", locker.try_lock(&name).into_future()).await;
        again.unwrap().release().await.unwrap();
    }
}

/// Where much is under way. A lock for which another process waits goes on to that one, also where the server has forgotten the
/// scripts: then releases go out one by one, once.
#[tokio::test]
async fn releases_of_many_locks_go_out_together() {
    let server = RedisServer::start();
    let (locker, other) =
        (locker_at(server.url(), STUCK).await, locker_at(server.url(), STUCK).await);
    for is_flushed in [true, false] {
        let mut guards = Vec::new();
        for number in 0..100 {
            guards.push(locker.lock(format!("n{number}")).unfenced().await.unwrap());
        }
        let waiting = waits(&other, &server, "n77").await;
        if is_flushed {
            server.cli(&["SCRIPT", "FLUSH"]);
        }
        server.cli(&["CONFIG", "RESETSTAT"]);
        drop(guards);
        let next = soon("the next has it", waiting).await.unwrap();
        let names: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
        let mut words = vec!["EXISTS"];
        words.extend(names.iter().map(String::as_str));
        eventually("the others are free", || server.cli(&words) == Frame::Integer(1)).await;
        let stats = server.cli_text(&["INFO", "commandstats"]);
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        let calls: u32 = calls.unwrap().split(',').next().unwrap().parse().unwrap();
        assert!(is_flushed || calls < 50, "{stats}");
        next.release().await.unwrap();
    }
}

/// Of 30 guards that are dropped nobody knows what comes next: the caller may keep the only thread, or may be outside of a
/// runtime that nobody drives.
#[test]
fn locks_of_many_dropped_guards_go_on_while_nobody_drives_their_runtime() {
    let others = Runtime::new().unwrap();
    for has_thread in [true, false] {
        let server = RedisServer::start();
        let runtime = match has_thread {
            true => Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap(),
            false => Builder::new_current_thread().enable_all().build().unwrap(),
        };
        let locker = runtime.block_on(locker_at(server.url(), STUCK));
        let other = others.block_on(locker_at(server.url(), STUCK));
        let (mut guards, mut waiting) = (Vec::new(), Vec::new());
        for name in (0..30).map(|number| format!("n{number}")) {
            guards.push(runtime.block_on(locker.lock(&name).into_future()).unwrap());
            waiting.push(others.spawn(other.lock(&name).into_future()));
        }
        let is_queued = |number| exists(&server, &format!("{{n{number}}}:queue"));
        let polls = server.cli(&["ACL", "WHOAMI"]).error().is_some();
        let all_wait = || other.stats().waiting == 30 && (polls || (0..30).all(is_queued));
        others.block_on(eventually("all wait", all_wait));
        let (end, ended) = mpsc::channel::<()>();
        if has_thread {
            runtime.spawn(async move {
                drop(guards);
                ended.recv()
            });
        } else {
            drop(guards);
        }
        for next in waiting {
            let next = others.block_on(soon("the next has it", next)).unwrap().unwrap();
            others.block_on(soon("it is given back", next.release())).unwrap();
        }
        drop(end);
        drop(locker);
    }
}

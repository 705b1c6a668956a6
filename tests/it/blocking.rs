//! Locks for programs without async, through proxies with faults, and on servers that fail.
//!
//! The proxies are tasks of the test's runtime; blocking calls run on threads beside it.

use std::time::Duration;

use leasehold::blocking::{Guard, Locker};
use leasehold::{Builder, ErrorKind, Loss};
use leasehold_testing::{Fault, FaultProxy, Fleet, Harm, RedisServer, STUCK, eventually, soon};
use tokio::sync::oneshot;

/// So long that nothing ends because of it.
const LONG: Duration = Duration::from_secs(3600);
/// Renewed often, and soon over.
const SHORT: Duration = Duration::from_millis(500);
/// Of a command to a server that does not answer.
const TIMEOUT: Duration = Duration::from_millis(200);

/// What comes of `call`, on a thread that nobody waits for where it hangs.
async fn off<T: Send + 'static>(what: &str, call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, outcome) = oneshot::channel();
    std::thread::spawn(move || sender.send(call()));
    soon(what, outcome).await.expect("it does not panic")
}

async fn connect(builder: Builder) -> Locker {
    off("a locker", move || builder.restart_quarantine(false).connect_blocking().unwrap()).await
}

async fn locker(url: String, ttl: Duration) -> Locker {
    connect(leasehold::Locker::builder().node(url).ttl(ttl).command_timeout(TIMEOUT)).await
}

async fn take(locker: &Locker, name: &'static str) -> Guard {
    let request = locker.lock(name);
    off("a lock", move || request.wait().unwrap()).await
}

async fn give_back(guard: Guard) {
    off("a release", move || guard.release().unwrap()).await;
}

async fn until_free(server: &RedisServer, name: &str) {
    eventually("it is free", || server.cli_text(&["EXISTS", name]) == "0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_in_any_way_is_made_again_and_the_lease_lives_on() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = locker(proxy.url(), LONG).await;
    let guard = take(&locker, "kept").await;
    type Way = fn(&FaultProxy);
    let ways: [Way; 4] = [
        FaultProxy::reset,
        FaultProxy::cut,
        |proxy| proxy.to_client().half_close(),
        |proxy| proxy.to_client().reset_after(5),
    ];
    for harm in ways {
        harm(&proxy);
        give_back(take(&locker, "a").await).await;
        assert_eq!(guard.loss(), None);
    }
    off("an extension", move || {
        guard.extend().unwrap();
        guard.release().unwrap();
    })
    .await;
    until_free(&server, "kept").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_slow_only_costs_time() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let builder = leasehold::Locker::builder().node(proxy.url()).ttl(LONG);
    let locker = connect(builder.command_timeout(STUCK)).await;
    for fault in [Fault::Delay(Duration::from_millis(30)), Fault::Dribble(1)] {
        proxy.set_both(fault);
        let guard = take(&locker, "a").await;
        off("an extension", move || {
            guard.extend().unwrap();
            guard.release().unwrap();
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_keeps_nobody_and_has_nothing_in_the_end() {
    let server = RedisServer::start();
    let locker = locker(server.url(), SHORT).await;
    let guard = take(&locker, "held").await;
    server.stop();
    let request = locker.try_lock("a");
    let error = off("its end", move || request.wait().err().unwrap()).await;
    assert!(error.is_unknown(), "{error}");
    let request = locker.lock("a").wait_at_most(TIMEOUT);
    let error = off("the limit", move || request.wait().err().unwrap()).await;
    assert!(error.is_timeout(), "{error}");
    eventually("it is lost", || guard.is_lost()).await;
    assert_eq!((guard.loss(), guard.remaining()), (Some(Loss::Expired), Duration::ZERO));
    let guard = off("its end", move || {
        assert_eq!(guard.extend().unwrap_err().kind(), ErrorKind::Lost);
        guard
    })
    .await;
    let error = off("a release", move || guard.release().unwrap_err()).await;
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    server.cont();
    give_back(take(&locker, "a").await).await;
    until_free(&server, "a").await;
    until_free(&server, "held").await;
}

/// Nobody waits for the release, and nothing else is due for an hour.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_a_silent_connection_swallows_is_sent_again() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = locker(proxy.url(), LONG).await;
    let request = locker.lock("a").no_renewal();
    let guard = off("a lock", move || request.wait().unwrap()).await;
    // The clock's thread has seen to all that was due behind the acquire.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = proxy.accepted();
    proxy.to_server().set(Fault::Blackhole);
    drop(guard);
    soon("another connection", proxy.until_accepted(before + 1)).await;
    proxy.to_server().set(Fault::Pass);
    until_free(&server, "a").await;
}

/// The socket takes a part, or all, of which the server has taken a part when its first replies come. Nobody reads that a
/// command for several locks has not freed one, because another process waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn releases_that_are_many_go_out_behind_the_last_handle() {
    for (count, bytes) in [(1500, 8000), (3000, 10)] {
        let server = RedisServer::start();
        let builder = leasehold::Locker::builder().node(server.url()).ttl(LONG);
        let locker = connect(builder.command_timeout(STUCK)).await;
        let names: Vec<String> = (0..count).map(|number| format!("{number:0bytes$}")).collect();
        let requests: Vec<_> = names.iter().map(|name| locker.lock(name)).collect();
        let take = move || requests.into_iter().map(|it| it.wait().unwrap()).collect::<Vec<_>>();
        let guards = off("all locks", take).await;
        let other = leasehold::Locker::connect(&server.url()).await.unwrap();
        let waiting = tokio::spawn(other.lock(&names[count / 2]).into_future());
        eventually("it waits", || other.stats().waiting == 1).await;
        server.stop();
        off("it waits for nothing", move || drop((guards, locker))).await;
        server.cont();
        soon("the next has it", waiting).await.unwrap().unwrap().release().await.unwrap();
        let command: Vec<_> =
            ["EXISTS"].into_iter().chain(names.iter().map(|it| &it[..])).collect();
        eventually("all are free", || server.cli_text(&command) == "0").await;
    }
}

/// As where the process ends behind its drops: nobody reads what servers answer.
#[tokio::test(flavor = "multi_thread")]
async fn locks_of_many_dropped_guards_go_on_although_nobody_reads_an_answer() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let builder = leasehold::Locker::builder().node(proxy.url()).ttl(LONG);
    let locker = connect(builder.command_timeout(STUCK)).await;
    let other = leasehold::Locker::connect(&server.url()).await.unwrap();
    let (mut guards, mut waiting) = (Vec::new(), Vec::new());
    for number in 0..30 {
        let (request, name) = (locker.lock(format!("n{number}")), format!("n{number}"));
        guards.push(off("a lock", move || request.wait().unwrap()).await);
        waiting.push(tokio::spawn(other.lock(name).into_future()));
    }
    eventually("all wait", || other.stats().waiting == 30).await;
    proxy.to_client().set(Fault::Stall);
    off("it waits for nothing", move || drop(guards)).await;
    for next in waiting {
        soon("the next has it", next).await.unwrap().unwrap().release().await.unwrap();
    }
    drop(locker);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_killed_serves_again_and_one_that_waits_gets_its_lock() {
    let mut server = RedisServer::start();
    let locker = locker(server.url(), SHORT).await;
    let guard = take(&locker, "a").await;
    server.kill();
    eventually("it is lost", || guard.is_lost()).await;
    assert_eq!(guard.loss(), Some(Loss::Expired));
    let request = locker.lock("a").wait_at_most(STUCK);
    let waiting = tokio::spawn(off("the lock", move || request.wait()));
    server.restart();
    let next = waiting.await.unwrap().unwrap();
    assert!(next.fence() > guard.fence());
    give_back(next).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_are_flushed_are_sent_again() {
    let server = RedisServer::start();
    let (locker, other) = (locker(server.url(), SHORT).await, locker(server.url(), LONG).await);
    let flush = || server.cli(&["SCRIPT", "FLUSH"]);
    flush();
    let guard = take(&locker, "a").await;
    flush();
    let request = other.lock("a");
    let waiting = tokio::spawn(off("the lock", move || request.wait().unwrap()));
    eventually("it is in the queue", || server.cli_text(&["EXISTS", "{a}:queue"]) == "1").await;
    flush();
    let left = || server.cli_text(&["PTTL", "a"]).parse::<u64>().unwrap();
    let mut before = left();
    // A renewal is seen by more time than there was.
    eventually("it is renewed", || std::mem::replace(&mut before, left()) < before).await;
    assert_eq!(guard.loss(), None);
    flush();
    give_back(guard).await;
    flush();
    give_back(waiting.await.unwrap()).await;
    until_free(&server, "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_waits_in_a_queue_comes_back_when_its_connection_has_ended() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let (one, other) = (locker(server.url(), LONG).await, locker(proxy.url(), LONG).await);
    let guard = take(&one, "a").await;
    let request = other.lock("a");
    let waiting = tokio::spawn(off("the lock", move || request.wait().unwrap()));
    let is_queued = || server.cli_text(&["EXISTS", "{a}:queue"]) == "1";
    eventually("it is in the queue", is_queued).await;
    proxy.reset();
    server.cli(&["DEL", "{a}:queue"]);
    eventually("it is in the queue again", is_queued).await;
    give_back(guard).await;
    give_back(waiting.await.unwrap()).await;
    until_free(&server, "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_that_go_wrong_grant_nothing() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    proxy.to_client().know_replies();
    let locker = locker(proxy.url(), LONG).await;
    server.cli(&["SET", "held", "another"]);
    let stray = Harm::Stray(b"*3\r\n:1234567890123456\r\n$7\r\ngranted\r\n:1780000000000000\r\n");
    for harm in [Harm::Lost, Harm::Twice, Harm::Stray(b"+OK\r\n"), stray] {
        proxy.to_client().harm_next_reply(harm);
        for _ in 0..3 {
            let request = locker.try_lock("held");
            assert!(off("its end", move || request.wait().is_err()).await, "{harm:?}");
        }
        give_back(take(&locker, "a").await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_servers_do_without_one() {
    let mut fleet = Fleet::start(3);
    let builder = leasehold::Locker::builder().nodes(fleet.urls()).ttl(LONG);
    let locker = connect(builder.command_timeout(TIMEOUT)).await;
    for is_frozen in [true, false] {
        if is_frozen {
            fleet[0].stop();
        } else {
            fleet[1].kill();
        }
        let guard = take(&locker, "a").await;
        off("an extension", move || {
            guard.extend().unwrap();
            guard.release().unwrap();
        })
        .await;
        if is_frozen {
            fleet[0].cont();
        } else {
            fleet[1].restart();
        }
        eventually("it is free everywhere", || fleet.holding("a") == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_takes_no_longer_than_it_may_and_says_what_is_left() {
    let server = RedisServer::start();
    let locker = locker(server.url(), LONG).await;
    let guard = take(&locker, "a").await;
    server.stop();
    let ended = off("its end", move || locker.shutdown(TIMEOUT)).await;
    let left: Vec<&str> = ended.unreleased.iter().map(|it| it.name.as_str()).collect();
    assert!(left == ["a"] && ended.released.is_empty(), "{ended}");
    assert_eq!(guard.loss(), Some(Loss::ShutDown));
    server.cont();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ttl_that_a_restart_or_a_failover_would_cut_short_is_refused() {
    let server = RedisServer::start();
    let builder = || leasehold::Locker::builder().node(server.url()).ttl(SHORT);
    let guarded = [builder().restart_quarantine(true), builder().failover_grace(true)];
    for builder in guarded {
        let locker = off("a locker", move || builder.connect_blocking().unwrap()).await;
        let request = locker.lock("a").ttl(2 * SHORT);
        let error = off("its end", move || request.wait().err().unwrap()).await;
        assert!(
            error.kind() == ErrorKind::Misuse && error.to_string().contains("Builder::max_ttl"),
            "{error}"
        );
        give_back(take(&locker, "a").await).await;
    }
    let request = locker(server.url(), SHORT).await.lock("a").ttl(2 * SHORT);
    give_back(off("a lock", move || request.wait().unwrap()).await).await;
}

/// A server that is stopped accepts nobody, and its queue is full: the system lets the next one wait there for ever.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_socket_whose_queue_is_full_keeps_nobody() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};

    let directory = std::env::temp_dir().join(format!("leasehold-full-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("redis.sock");
    let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&listener, 0).unwrap();
    let _waits = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let builder = leasehold::Locker::builder().node(format!("redis+unix://{}", path.display()));
    let connecting = move || builder.connect_blocking().err().unwrap();
    let error = off("its end", connecting).await;
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

//! Acquiring a lock on a real server: granted, refused, waited for.

use std::collections::HashSet;
use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, Locker};
use leasehold_resp::Frame;
use leasehold_testing::binary::{has_at_least, lacks};
use leasehold_testing::{RedisServer, eventually, soon};

const TTL: Duration = Duration::from_secs(60);

async fn locker(server: &RedisServer) -> Locker {
    Locker::builder().node(server.url()).ttl(TTL).connect().await.unwrap()
}

fn refused<F: leasehold::Fencing>(result: Result<Guard<F>, Error>) -> Error {
    result.map(|_| ()).unwrap_err()
}

#[tokio::test]
async fn a_lock_is_taken_refused_to_others_and_given_back() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("invoice:42").label("billing").await.unwrap();
    assert!(!guard.is_lost());
    assert!(guard.remaining() <= TTL - TTL / 100 - Duration::from_millis(2));

    let error = refused(locker.try_lock("invoice:42").await);
    assert_eq!(error.kind(), ErrorKind::Contended);
    assert!(!error.is_timeout());
    let holder = error.report().holder().unwrap();
    assert_eq!(holder.label.as_deref(), Some("billing"));
    assert!(holder.remaining.unwrap() <= TTL);
    assert!(error.to_string().contains("\"billing\""), "{error}");

    let first = guard.fence();
    guard.release().await.unwrap();
    let again = locker.try_lock("invoice:42").await.unwrap();
    assert!(again.fence() > first);
}

/// The lock key is the name, its value begins with the owner id.
#[tokio::test]
async fn the_keys_are_what_other_tools_expect() {
    let server = RedisServer::start();
    let locker = Locker::builder().node(server.url()).key_prefix("app:").connect().await.unwrap();
    let label = String::from("worker 7");
    let guard = locker.lock("job").label(&label).await.unwrap();
    assert!(!label.is_empty(), "it is still the caller's");
    assert_eq!(guard.name(), b"app:job");
    let value = server.cli_text(&["GET", "app:job"]);
    let (id, label) = value.split_at(32);
    assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{value}");
    assert_eq!(label, "~:worker 7");
    let Frame::Integer(pttl) = server.cli(&["PTTL", "app:job"]) else { panic!() };
    assert!((1..=10_000).contains(&pttl), "{pttl}");
    assert_eq!(server.cli_text(&["GET", "{app:job}:fence"]), guard.fence().to_string());
    let Frame::Integer(idle) = server.cli(&["TTL", "{app:job}:fence"]) else { panic!() };
    assert!(idle > 6 * 24 * 3600, "the counter outlives its leases by far");

    let fence = guard.fence();
    guard.release().await.unwrap();
    assert_eq!(server.cli(&["EXISTS", "app:job"]), Frame::Integer(0));
    assert_eq!(server.cli_text(&["GET", "{app:job}:fence"]), fence.to_string());
}

#[tokio::test]
async fn another_librarys_lock_on_the_same_key_excludes_us() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    server.cli(&["SET", "shared", "redis-py token"]);
    for error in [
        refused(locker.try_lock("shared").await),
        refused(locker.try_lock("shared").unfenced().await),
    ] {
        assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
        let holder = error.report().holder().unwrap();
        assert_eq!(holder.owner, "redis-py token");
        assert_eq!(holder.remaining, None, "it never ends");
    }
    assert_eq!(server.cli_text(&["GET", "shared"]), "redis-py token");
}

#[tokio::test]
async fn an_unfenced_lock_leaves_no_counter_and_excludes_fenced_ones() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("plain").unfenced().label("me").await.unwrap();
    assert_eq!(server.cli(&["EXISTS", "{plain}:fence"]), Frame::Integer(0));
    let error = refused(locker.try_lock("plain").unfenced().await);
    assert_eq!(error.report().holder().unwrap().label.as_deref(), Some("me"));
    assert_eq!(refused(locker.try_lock("plain").await).kind(), ErrorKind::Contended);
    guard.release().await.unwrap();
    locker.try_lock("plain").await.unwrap().release().await.unwrap();
}

/// Safety rule 8: a server accepts only what is above all it accepted before.
#[tokio::test]
async fn tokens_rise_even_where_the_counter_is_ahead_of_our_clock() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    server.cli(&["SET", "{ahead}:fence", "9000000000000000"]);
    let mut last = 9_000_000_000_000_000;
    for _ in 0..3 {
        let guard = locker.lock("ahead").await.unwrap();
        assert_eq!(guard.fence().get(), last + 1);
        last = guard.fence().get();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn keys_that_hold_something_else_are_named_and_left_alone() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    server.cli(&["LPUSH", "list", "1"]);
    let error = refused(locker.try_lock("list").await);
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    assert!(error.to_string().contains("another type"), "{error}");
    assert_eq!(refused(locker.try_lock("list").unfenced().await).kind(), ErrorKind::Misuse);

    for counter in ["not a number", "9007199254740991", "1e300"] {
        server.cli(&["SET", "{odd}:fence", counter]);
        let error = refused(locker.lock("odd").await);
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        assert!(error.to_string().contains("2^53"), "{error}");
        assert_eq!(server.cli(&["EXISTS", "odd"]), Frame::Integer(0));
        assert_eq!(server.cli_text(&["GET", "{odd}:fence"]), counter);
    }
}

#[tokio::test]
async fn a_waiter_gets_the_lock_when_it_is_released() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("baton").await.unwrap();
    let first = guard.fence();
    let waiter = tokio::spawn({
        let locker = locker.clone();
        async move { locker.lock("baton").await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    let next = soon("the waiter's turn", waiter).await.unwrap().unwrap();
    assert!(next.fence() > first);
}

#[tokio::test]
async fn a_waiter_gets_the_lock_when_its_holder_vanishes() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    server.cli(&["SET", "orphan", "a holder that crashed", "PX", "300"]);
    let guard = soon("the holder's end", locker.lock("orphan").into_future()).await.unwrap();
    assert!(!guard.is_lost());
}

#[tokio::test]
async fn a_wait_that_runs_out_names_the_holder() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let _guard = locker.lock("busy").label("nightly").await.unwrap();
    for limit in [Duration::ZERO, Duration::from_millis(500)] {
        let error = refused(locker.lock("busy").wait_at_most(limit).await);
        assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
        assert_eq!(error.is_timeout(), !limit.is_zero(), "{error}");
        assert_eq!(error.report().holder().unwrap().label.as_deref(), Some("nightly"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_hold_a_lock_at_once_and_tokens_follow_their_order() {
    let server = RedisServer::start();
    let held = std::sync::Arc::new(std::sync::Mutex::new(Vec::<u64>::new()));
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut contenders = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let locker = locker(&server).await;
        let (held, inside) = (held.clone(), inside.clone());
        contenders.spawn(async move {
            for _ in 0..10 {
                let guard = locker.lock("critical").await.unwrap();
                assert!(!inside.swap(true, std::sync::atomic::Ordering::SeqCst), "two at once");
                held.lock().unwrap().push(guard.fence().get());
                tokio::task::yield_now().await;
                inside.store(false, std::sync::atomic::Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(done) = contenders.join_next().await {
        done.unwrap();
    }
    let held = held.lock().unwrap();
    assert_eq!(held.len(), 80);
    assert!(held.is_sorted(), "{held:?}");
    assert_eq!(held.iter().collect::<HashSet<_>>().len(), 80);
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_refused_before_anything_is_sent() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let long = "x".repeat(300);
    let requests = [
        locker.lock(""),
        locker.lock("a}b"),
        locker.lock("a:fence"),
        locker.lock("x".repeat(20_000)),
        locker.lock("a").ttl(Duration::from_millis(9)),
        locker.lock("a").ttl(Duration::from_secs(100_000)),
        locker.lock("a").min_validity(TTL),
        locker.lock("a").label(long),
    ];
    for request in requests {
        let error = refused(request.await);
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    }
    assert_eq!(server.cli(&["DBSIZE"]), Frame::Integer(0));
    for builder in [
        Locker::builder(),
        Locker::builder().nodes([server.url(), server.url()]),
        Locker::builder().node("http://127.0.0.1"),
        Locker::builder().node(server.url()).ttl(Duration::ZERO),
        Locker::builder().node(server.url()).command_timeout(Duration::ZERO),
        Locker::builder().node(server.url()).connect_timeout(Duration::MAX),
    ] {
        let error = builder.connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    }
}

/// rslock made the same key of `["a","bc"]` and `["ab","c"]`; here a name is a key, byte for byte.
#[tokio::test]
async fn names_are_bytes_and_different_names_are_different_locks() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let names: [&[u8]; 6] = [b"a", b"A", b"a ", b"a\n", b"a\0", b"a\xff"];
    let mut guards = Vec::new();
    for name in names {
        guards.push(locker.try_lock(name).await.unwrap());
    }
    assert_eq!(server.cli(&["DBSIZE"]), Frame::Integer(12));
    drop(guards);
    eventually("all are given back", || server.cli(&["DBSIZE"]) == Frame::Integer(6)).await;
}

#[tokio::test]
async fn one_server_that_may_evict_locks_is_warned_of_and_serves() {
    let server = RedisServer::builder().append_only().start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    assert_eq!(locker.warnings(), [] as [String; 0]);
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let locker = Locker::connect(&server.url()).await.unwrap();
    let warnings = locker.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("allkeys-lru"), "{warnings:?}");
    locker.lock("a").await.unwrap().release().await.unwrap();
}

/// The lock is free at once after a restart, and the former holder does not know yet. What a user without
/// `+info|persistence` is not told, is not warned of.
#[tokio::test]
async fn one_server_that_keeps_no_log_is_warned_of_unless_the_restart_quarantine_makes_up_for_it() {
    let server = RedisServer::start();
    if leasehold_testing::has_least_rights() {
        server.cli(&["ACL", "SETUSER", "default", "+info|persistence"]);
    }
    let builder = || Locker::builder().node(server.url());
    for builder in [builder(), builder().refuse_evicting()] {
        let warnings = builder.connect().await.unwrap().warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let of_it = |text: &str| warnings[0].contains(text);
        assert!(
            of_it("a restart may forget held locks") && of_it("appendonly yes"),
            "{warnings:?}"
        );
    }
    let guarded = builder().restart_quarantine(true).connect().await.unwrap();
    assert_eq!(guarded.warnings(), [] as [String; 0]);
    // What is lost of this by a restart of the server alone is nothing; the doctor says what a power cut costs.
    server.cli(&["CONFIG", "SET", "appendonly", "yes"]);
    server.cli(&["CONFIG", "SET", "appendfsync", "everysec"]);
    let logging = builder().connect().await.unwrap();
    assert_eq!(logging.warnings(), [] as [String; 0]);
}

/// Locks are not re-entrant: a holder that waits for its own lock can find out at once, and is told at its limit.
#[cfg(feature = "groups")]
#[tokio::test]
async fn a_holder_that_waits_for_its_own_lock_is_told() {
    let fleet = leasehold_testing::Fleet::start(3);
    let builder = || Locker::builder().nodes(fleet.urls()).restart_quarantine(false);
    let (locker, other) = (builder().connect().await.unwrap(), builder().connect().await.unwrap());
    let guard = locker.lock_all(["a", "b"]).await.unwrap();
    let attempts = locker.stats().attempts;
    for request in [locker.lock("b"), locker.try_lock("a"), locker.clone().lock_all(["x", "b"])] {
        let error = request.reject_reentrant().await.map(|_| ()).unwrap_err();
        assert!(
            error.is_held_here() && error.kind() == ErrorKind::Contended && !error.is_timeout(),
            "{error}"
        );
        assert_eq!(error.kind(), leasehold::ErrorKind::Contended);
    }
    assert_eq!(locker.stats().attempts, attempts, "no server was asked");
    let error = locker.try_lock("b").await.map(|_| ()).unwrap_err();
    assert!(error.is_held_here() && !error.is_timeout(), "{error}");
    assert!(error.to_string().contains("through this same locker"), "{error}");
    let limit = Duration::from_millis(500);
    let at_limit = |locker: &Locker| locker.lock("b").wait_at_most(limit).into_future();
    let error = at_limit(&locker).await.map(|_| ()).unwrap_err();
    assert!(error.is_held_here() && error.is_timeout(), "{error}");
    assert!(error.to_string().contains("through this same locker"), "{error}");
    // Another locker's guard is another's.
    let error = at_limit(&other).await.map(|_| ()).unwrap_err();
    assert!(!error.is_held_here() && error.is_timeout(), "{error}");
    let error = other.try_lock("b").reject_reentrant().await.map(|_| ()).unwrap_err();
    assert!(!error.is_held_here() && error.kind() == ErrorKind::Contended, "{error}");
    guard.release().await.unwrap();
    locker.lock("b").reject_reentrant().await.unwrap().release().await.unwrap();
}

/// Every value begins with nothing, and many of ours with one digit or another.
#[tokio::test]
async fn another_librarys_value_is_never_taken_for_a_guard_of_this_locker() {
    let server = RedisServer::start();
    let locker = Locker::builder().node(server.url()).connect().await.unwrap();
    let mut guards = Vec::new();
    for number in 0..64 {
        guards.push(locker.lock(format!("held:{number}")).await.unwrap());
    }
    for value in ["", "1", "a"] {
        server.cli(&["SET", "foreign", value]);
        let request = locker.lock("foreign").wait_at_most(Duration::from_millis(200));
        let error = request.await.map(|_| ()).unwrap_err();
        assert!(error.is_timeout() && !error.is_held_here(), "{value:?}: {error}");
    }
    drop(guards);
}

/// The guide plans 135 bytes for each counter, the server's tables included: some 36. With libc's
/// allocator a server is now and then given a block that is larger than what it asked for.
#[tokio::test]
async fn a_fence_counter_takes_no_more_memory_than_the_guide_says() {
    let server = RedisServer::start();
    let locker = Locker::builder().node(server.url()).connect().await.unwrap();
    let name = "invoice:000000000042";
    locker.lock(name).await.unwrap().release().await.unwrap();
    let counter = format!("{{{name}}}:fence");
    let bytes: u64 = server.cli_text(&["MEMORY", "USAGE", &counter]).parse().unwrap();
    assert!((20..=96).contains(&bytes), "{bytes}");
}

/// Servers name the script that called what it may not in words of their own, or do not name it.
#[tokio::test]
async fn a_lock_is_taken_where_no_script_may_ask_for_the_time() {
    if lacks(has_at_least((6, 2), (7, 2)), "SET PXAT, the clock in the place of TIME") {
        return;
    }
    let server = RedisServer::builder().arg("--rename-command").arg("TIME").arg("").start();
    let locker = locker(&server).await;
    let guard = soon("a lock", locker.lock("a").into_future()).await.unwrap();
    guard.extend().await.unwrap();
    guard.release().await.unwrap();
}

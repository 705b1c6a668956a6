//! Servers and networks that fail under a lock: the caller gets the right error, no lock stays held for longer than
//! necessary, and the next acquire works.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::{Error, ErrorKind, Guard, Locker};
use leasehold_resp::Frame;
use leasehold_testing::scripted::greeting;
use leasehold_testing::{Action, Fault, FaultProxy, RedisServer, ScriptedServer, eventually, soon};

/// So long that no key is ever free because of it.
const TTL: Duration = Duration::from_secs(3600);

async fn locker_at(url: String) -> Locker {
    Locker::builder()
        .node(url)
        .ttl(TTL)
        .command_timeout(Duration::from_millis(200))
        .connect()
        .await
        .unwrap()
}

async fn patient_locker_at(url: String) -> Locker {
    Locker::builder()
        .node(url)
        .ttl(TTL)
        .command_timeout(leasehold_testing::STUCK)
        .connect()
        .await
        .unwrap()
}

fn refused(result: Result<Guard, Error>) -> Error {
    result.map(|_| ()).unwrap_err()
}

fn is_free(server: &RedisServer, key: &str) -> bool {
    server.cli(&["EXISTS", key]) == Frame::Integer(0)
}

async fn take_and_release(locker: &Locker, name: &str) {
    let guard = soon("a lock", locker.lock(name).into_future()).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_is_ridden_out_by_a_waiter_and_told_to_others() {
    let mut server = RedisServer::start();
    let locker = locker_at(server.url()).await;
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..32 {
        let locker = locker.clone();
        callers.spawn(async move {
            loop {
                let guard = match locker.try_lock(format!("n{caller}")).await {
                    Ok(guard) => guard,
                    Err(error) => return error,
                };
                if let Err(error) = guard.release().await {
                    return error;
                }
            }
        });
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    server.kill();
    while let Some(error) = soon("every caller is told", callers.join_next()).await {
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    let waiting = tokio::spawn({
        let locker = locker.clone();
        async move { locker.lock("waiting").await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiting.is_finished());
    server.restart();
    soon("the wait ends", waiting).await.unwrap().unwrap().release().await.unwrap();
    take_and_release(&locker, "next").await;
}

#[tokio::test]
async fn a_frozen_server_costs_one_timeout_and_leaves_nothing_held() {
    let server = RedisServer::start();
    let locker = locker_at(server.url()).await;
    take_and_release(&locker, "before").await;
    server.stop();
    let error = refused(soon("it is told", locker.try_lock("during").into_future()).await);
    assert!(error.is_unknown(), "{error}");
    assert!(error.to_string().contains("did not reply within"), "{error}");
    let error = refused(soon("it is told", locker.try_lock("during").into_future()).await);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    server.cont();
    take_and_release(&locker, "after").await;
    eventually("what the frozen server granted late is given back", || is_free(&server, "during"))
        .await;
}

#[tokio::test]
async fn an_error_of_a_guard_says_what_it_is_of_and_counts_from_that() {
    let server = RedisServer::start();
    let locker = locker_at(server.url()).await;
    let guard = locker.lock("a").await.unwrap();
    #[cfg(feature = "takeover")]
    let passed = locker.lock("b").await.unwrap();
    server.stop();
    let told = |error: Error, what: &str| {
        let text = error.to_string();
        assert!(text.starts_with(&format!("{what} of lock \"")) && !text.contains('('), "{text}");
    };
    told(soon("it is told", guard.extend()).await.unwrap_err(), "extension");
    told(soon("it is told", guard.release()).await.unwrap_err(), "release");
    #[cfg(feature = "takeover")]
    told(soon("it is told", passed.into_ticket(TTL)).await.unwrap_err(), "ticket");
    server.cont();
}

/// redis-rs in cluster mode, fred and rueidis sent SET NX again after a dropped connection, and
/// were told that the lock was held: by themselves.
#[tokio::test]
async fn an_acquire_whose_reply_was_lost_does_not_block_the_next_one() {
    for round in 0..10 {
        let server = RedisServer::start();
        let proxy = FaultProxy::start(server.address());
        let locker = patient_locker_at(proxy.url()).await;
        proxy.to_client().set(Fault::Blackhole);
        let asking = tokio::spawn(locker.try_lock("ghost").into_future());
        eventually("the server has granted it", || !is_free(&server, "ghost")).await;
        if round % 2 == 0 {
            proxy.reset();
        } else {
            proxy.cut();
        }
        soon("no byte of the old connection is on its way", proxy.until_open(0)).await;
        proxy.to_client().set(Fault::Pass);
        let error = refused(soon("it is told", asking).await.unwrap());
        assert!(error.is_unknown(), "{error}");
        take_and_release(&locker, "ghost").await;
    }
}

#[tokio::test]
async fn a_guard_dropped_while_disconnected_is_released_by_the_next_connection() {
    let server = RedisServer::start();
    let mut proxy = FaultProxy::start(server.address());
    let locker = locker_at(proxy.url()).await;
    let dropped = locker.lock("dropped").await.unwrap();
    let released = locker.lock("released").await.unwrap();
    proxy.refuse().await;
    proxy.cut();
    soon("the connection is gone", proxy.until_open(0)).await;
    drop(dropped);
    let error = soon("it is told", released.release()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!is_free(&server, "dropped") && !is_free(&server, "released"));
    proxy.accept().await;
    eventually("both are free", || is_free(&server, "dropped") && is_free(&server, "released"))
        .await;
}

#[tokio::test]
async fn a_guard_dropped_after_a_reconnection_is_released_over_the_new_connection() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = locker_at(proxy.url()).await;
    let guard = locker.lock("moved").await.unwrap();
    proxy.cut();
    soon("a new connection", proxy.until_accepted(2)).await;
    take_and_release(&locker, "other").await;
    drop(guard);
    eventually("it is free", || is_free(&server, "moved")).await;
}

/// No dial is waited for: what is known is the answer once other tasks have had their turn.
#[tokio::test]
async fn a_try_at_a_server_that_refuses_connections_is_answered_at_once() {
    let server = RedisServer::start();
    let mut proxy = FaultProxy::start(server.address());
    let locker = locker_at(proxy.url()).await;
    take_and_release(&locker, "a").await;
    proxy.refuse().await;
    proxy.cut();
    let is_refused = |error: &Error| error.to_string().contains("refused");
    let known = async { while !is_refused(&refused(locker.try_lock("a").await)) {} };
    soon("it is known", known).await;
    for _ in 0..100 {
        let mut asked = pin!(locker.try_lock("a").into_future());
        let mut poll = || asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        tokio::task::yield_now().await;
        let Poll::Ready(Err(error)) = poll() else { panic!("it waits") };
        assert!(error.kind() == ErrorKind::Unavailable && is_refused(&error), "{error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    proxy.accept().await;
    let taken = async { while locker.try_lock("a").await.is_err() {} };
    soon("it is dialled again", taken).await;
}

#[tokio::test]
async fn a_server_that_takes_no_more_clients_is_waited_for() {
    let server = RedisServer::start();
    let mut proxy = FaultProxy::start(server.address());
    let locker = locker_at(proxy.url()).await;
    proxy.refuse().await;
    proxy.cut();
    let mut client = server.client();
    eventually("it is the only client", || client.text(&["CLIENT", "LIST"]).lines().count() == 1)
        .await;
    client.call(&["CONFIG", "SET", "maxclients", "1"]);
    proxy.accept().await;
    let waiting = tokio::spawn(locker.lock("a").into_future());
    soon("it is turned away", proxy.until_accepted(3)).await;
    let error = refused(soon("it is told", locker.try_lock("a").into_future()).await);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    client.call(&["CONFIG", "SET", "maxclients", "100"]);
    soon("there is room", waiting).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_lease_is_extended_and_released_over_the_next_connection() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = locker_at(proxy.url()).await;
    let guard = locker.lock("moves").await.unwrap();
    let before = proxy.accepted();
    proxy.cut();
    soon("a new connection", proxy.until_accepted(before + 1)).await;
    soon("extended", guard.extend()).await.unwrap();
    soon("released", guard.release()).await.unwrap();
    assert!(is_free(&server, "moves"));
}

/// Half-open connections lived for a quarter of an hour in others (SE.Redis #1848, lettuce #2082).
#[tokio::test]
async fn a_half_open_connection_is_replaced() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = locker_at(proxy.url()).await;
    proxy.set_both(Fault::Blackhole);
    let error = refused(soon("it is told", locker.try_lock("a").into_future()).await);
    assert!(error.is_unknown(), "{error}");
    soon("the end is told", async {
        let mut error = error;
        while error.is_unknown() || !error.to_string().contains("sent nothing") {
            error = refused(locker.try_lock("a").await);
        }
        assert!(!error.to_string().contains("handshake"), "{error}");
    })
    .await;
    // What was swallowed is gone for good, so the old connection could never serve again.
    soon("a new connection", proxy.until_accepted(2)).await;
    proxy.set_both(Fault::Pass);
    take_and_release(&locker, "a").await;
}

#[tokio::test]
async fn a_reset_in_the_middle_of_a_reply_is_no_grant() {
    let server = RedisServer::start();
    for cut_after in 1..18 {
        let proxy = FaultProxy::start(server.address());
        let locker = patient_locker_at(proxy.url()).await;
        // ":1234567890123456\r\n" is 19 bytes.
        proxy.to_client().reset_after(cut_after);
        let error = refused(soon("it is told", locker.try_lock("cut").into_future()).await);
        assert!(error.is_unknown(), "{error}");
        take_and_release(&locker, "cut").await;
    }
}

#[tokio::test]
async fn dribbled_bytes_change_nothing() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = patient_locker_at(proxy.url()).await;
    proxy.to_client().set(Fault::Dribble(1));
    let guard = locker.try_lock("slow").await.unwrap();
    assert_eq!(locker.try_lock("slow").await.unwrap_err().kind(), ErrorKind::Contended);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_wrong_password_is_said_at_once_and_never_shown() {
    let server = RedisServer::builder().arg("--requirepass").arg("right").start();
    let url = |password: &str| format!("redis://:{password}@127.0.0.1:{}", server.port());
    for url in [url("hunter2"), server.url().replace(":right@", "")] {
        let error = Locker::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let locker = Locker::connect(&url("right")).await.unwrap();
    assert!(!format!("{locker:?}").contains("right"));
    take_and_release(&locker, "a").await;

    // The password changes, and the connection that knew the old one is closed.
    let mut client = server.client();
    client.call(&["CONFIG", "SET", "requirepass", "other"]);
    client.call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let error = refused(soon("it is told", locker.lock("a").into_future()).await);
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
}

#[tokio::test]
async fn a_loading_server_is_unavailable_until_it_is_not() {
    let loading = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let server = ScriptedServer::start({
        let loading = loading.clone();
        move |command| {
            let is_script = command.is(&["EVALSHA"]) || command.is(&["EVAL"]);
            match greeting(command) {
                Some(answer) => answer,
                None if is_script && !loading.load(std::sync::atomic::Ordering::SeqCst) => {
                    Action::granted(command)
                }
                None => Action::error("LOADING Redis is loading the dataset in memory"),
            }
        }
    });
    let locker = patient_locker_at(server.url()).await;
    let error = refused(locker.try_lock("a").await);
    assert!(error.kind() == ErrorKind::Unavailable && !error.is_unknown(), "{error}");
    assert!(error.to_string().contains("LOADING"), "{error}");
    let waiting = tokio::spawn(locker.lock("a").into_future());
    server.until_received(&["EVALSHA"], 4).await;
    loading.store(false, std::sync::atomic::Ordering::SeqCst);
    soon("it has loaded", waiting).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(server.accepted(), 1, "it was good all the time");
}

/// The same on a real server, made slow to load its dataset again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server_that_loads_its_dataset_is_unavailable_until_it_has() {
    let server =
        RedisServer::builder().arg("--loading-process-events-interval-bytes").arg("1024").start();
    let locker = patient_locker_at(server.url()).await;
    server.cli(&["DEBUG", "POPULATE", "1000", "key", "100"]);
    server.cli(&["CONFIG", "SET", "key-load-delay", "2000"]);
    let mut client = server.client();
    let reloading = tokio::task::spawn_blocking(move || client.call(&["DEBUG", "RELOAD"]));
    let is_loading = || server.cli_text(&["INFO", "persistence"]).contains("loading:1");
    eventually("it loads", is_loading).await;
    let error = refused(locker.try_lock("a").await);
    assert!(error.kind() == ErrorKind::Unavailable && !error.is_unknown(), "{error}");
    assert!(error.to_string().contains("LOADING"), "{error}");
    take_and_release(&locker, "a").await;
    soon("it has loaded", reloading).await.unwrap();
}

#[tokio::test]
async fn a_replica_is_refused_by_name() {
    let master = RedisServer::start();
    let port = master.port().to_string();
    let replica = RedisServer::builder().arg("--replicaof").arg("127.0.0.1").arg(port).start();
    let locker = locker_at(replica.url()).await;
    let error = refused(locker.try_lock("a").await);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("replica"), "{error}");
}

#[tokio::test]
async fn no_server_is_said_with_its_address() {
    let port = leasehold_testing::ports::free();
    let error = Locker::connect(&format!("redis://127.0.0.1:{port}")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && !error.is_unknown(), "{error}");
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    let error = Locker::connect("redis+unix:///nowhere/redis.sock").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("/nowhere/redis.sock"), "{error}");
}

#[tokio::test]
async fn a_protocol_error_ends_the_connection_and_the_next_acquire_works() {
    let mut asked = 0;
    let server = ScriptedServer::start(move |command| {
        if let Some(answer) = greeting(command) {
            return answer;
        }
        asked += 1;
        match asked {
            1 => Action::raw("*1\r\n$-7\r\n"),
            _ => Action::Reply(command.stamp()),
        }
    });
    let locker = patient_locker_at(server.url()).await;
    let connected = server.accepted();
    let error = refused(soon("it is told", locker.try_lock("a").into_future()).await);
    assert!(error.is_unknown(), "{error}");
    assert!(error.to_string().contains("protocol"), "{error}");
    drop(soon("the next", locker.lock("a").into_future()).await.unwrap());
    assert_eq!(server.accepted() - connected, 1);
}

#[tokio::test]
async fn a_locker_that_connects_lazily_waits_for_its_server_from_the_start() {
    let mut server = RedisServer::start();
    server.kill();
    let lazy = |url: &str| Locker::builder().node(url).ttl(TTL).connect_lazily();
    let locker = lazy(&server.url()).unwrap();
    let error = refused(soon("an answer", locker.try_lock("a").into_future()).await);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let waiting = tokio::spawn(locker.lock("a").wait_at_most(TTL).into_future());
    eventually("it waits", || locker.stats().waiting == 1).await;
    server.restart();
    let guard = soon("the lock", waiting).await.unwrap().unwrap();
    guard.release().await.unwrap();
    let wrong = ["http://127.0.0.1", "redis-cluster://127.0.0.1", "redis-sentinel://127.0.0.1/m"];
    for url in wrong {
        assert_eq!(lazy(url).unwrap_err().kind(), ErrorKind::Misuse, "{url}");
    }
}

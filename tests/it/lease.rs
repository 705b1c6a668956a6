//! Keeping a lease and losing it, on a real server.

pub(crate) mod runtimes;

use std::future::IntoFuture;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use leasehold::{ErrorKind, Guard, Locker};
use leasehold_resp::Frame;
use leasehold_testing::{Fault, FaultProxy, RedisServer, eventually, soon};
use tokio::runtime::Runtime;

const TTL: Duration = Duration::from_secs(60);

async fn locker(server: &RedisServer) -> Locker {
    Locker::builder().node(server.url()).ttl(TTL).connect().await.unwrap()
}

fn pttl(server: &RedisServer, key: &str) -> i64 {
    match server.cli(&["PTTL", key]) {
        Frame::Integer(pttl) => pttl,
        other => panic!("{other:?}"),
    }
}

fn is_free(server: &RedisServer, key: &str) -> bool {
    server.cli(&["EXISTS", key]) == Frame::Integer(0)
}

#[tokio::test]
async fn an_extension_counts_from_its_own_request() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("long").await.unwrap();
    server.cli(&["PEXPIRE", "long", "30000"]);
    let before = guard.remaining();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(guard.remaining() < before);
    guard.extend().await.unwrap();
    assert!(pttl(&server, "long") > 30_000);
    assert!(guard.remaining() <= TTL - TTL / 100 - Duration::from_millis(2));
}

/// Safety rule 6: an extension never shortens a lease.
#[tokio::test]
async fn an_extension_gives_a_key_the_lease_own_end_again() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("longer").await.unwrap();
    server.cli(&["PEXPIRE", "longer", "9000000"]);
    guard.extend().await.unwrap();
    assert!((1..=60_000).contains(&pttl(&server, "longer")));
    // A key that somebody made persistent gets an end again.
    server.cli(&["PERSIST", "longer"]);
    guard.extend().await.unwrap();
    assert!((1..=60_000).contains(&pttl(&server, "longer")));
}

/// Redisson #775 and RedLock.net #48: a renewal made a lost key again and hid the gap.
#[tokio::test]
async fn an_extension_of_a_lost_key_says_so_and_never_makes_it_again() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("gone").await.unwrap();
    server.cli(&["DEL", "gone"]);
    assert!(!guard.is_lost(), "nobody has told us");
    let error = guard.extend().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Lost, "{error}");
    assert!(guard.is_lost());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert!(is_free(&server, "gone"));
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

/// Safety rule 12: we never delete, extend or shorten another holder's lock.
#[tokio::test]
async fn another_holders_lock_is_never_touched() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let extended = locker.lock("one").await.unwrap();
    let released = locker.lock("two").await.unwrap();
    let dropped = locker.lock("three").await.unwrap();
    for key in ["one", "two", "three"] {
        server.cli(&["SET", key, "another", "PX", "5000000"]);
    }
    assert_eq!(extended.extend().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(released.release().await.unwrap_err().kind(), ErrorKind::Lost);
    drop(dropped);
    // A command behind the queued release: when it is answered, the release has run.
    locker.lock("behind").await.unwrap().release().await.unwrap();
    for key in ["one", "two", "three"] {
        assert_eq!(server.cli_text(&["GET", key]), "another");
        assert!(pttl(&server, key) > 4_000_000);
    }
}

/// Safety rule 7: lost at the deadline by a local clock, with a server that says nothing.
#[tokio::test]
async fn a_lease_is_lost_at_its_deadline_whatever_the_server_does() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = Locker::builder().node(proxy.url()).connect().await.unwrap();
    let guard = locker.lock("short").ttl(Duration::from_millis(150)).await.unwrap();
    proxy.set_both(Fault::Blackhole);
    eventually("it is lost", || guard.is_lost()).await;
    assert_eq!(guard.remaining(), Duration::ZERO);
    let error = soon("an answer without asking", guard.extend()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
}

#[tokio::test]
async fn a_release_after_the_end_says_that_the_lease_was_lost() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("late").ttl(Duration::from_millis(20)).no_renewal().await.unwrap();
    eventually("it is lost", || guard.is_lost()).await;
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(is_free(&server, "late"));
}

/// rslock #30: dropping a guard did nothing in tokio, or blocked.
#[tokio::test]
async fn a_dropped_guard_gives_its_lock_back() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    drop(locker.lock("dropped").await.unwrap());
    // The release went first, on the same connection.
    let again = locker.try_lock("dropped").await.unwrap();
    assert!(!again.is_lost());
}

#[tokio::test]
async fn a_guard_can_be_dropped_where_there_is_no_runtime() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("elsewhere").await.unwrap();
    let plain = locker.lock("elsewhere too").unfenced().await.unwrap();
    std::thread::spawn(move || drop((guard, plain))).join().unwrap();
    eventually("both are free", || {
        is_free(&server, "elsewhere") && is_free(&server, "elsewhere too")
    })
    .await;
}

#[tokio::test]
async fn a_release_for_later_is_sent_and_counted_and_says_if_the_lease_was_lost() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    locker.lock("soon free").await.unwrap().release_in_background().unwrap();
    // On the same connection, so it cannot overtake the release.
    locker.try_lock("soon free").await.unwrap().release().await.unwrap();
    assert_eq!(locker.stats().held, 0);
    assert_eq!(locker.stats().hold.count(), 2);

    let guard = locker.lock("short").ttl(TTL / 1000).no_renewal().await.unwrap();
    soon("the lease ends", guard.lost()).await;
    assert_eq!(guard.release_in_background().unwrap_err().kind(), ErrorKind::Lost);

    let guard = locker.lock("handed over").await.unwrap();
    let waiter = tokio::spawn(locker.lock("handed over").into_future());
    eventually("it waits", || locker.stats().waiting == 1).await;
    guard.release_in_background().unwrap();
    soon("it is handed over", waiter).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(locker.stats().handed_over, 1);
}

#[tokio::test]
async fn a_guard_that_outlives_its_locker_still_gives_its_lock_back() {
    let server = RedisServer::start();
    let guard = locker(&server).await.lock("last one").await.unwrap();
    guard.extend().await.unwrap();
    drop(guard);
    eventually("it is free", || is_free(&server, "last one")).await;
}

async fn eight_guards(locker: &Locker) -> Vec<Guard> {
    let mut guards = Vec::new();
    for number in 0..8 {
        guards.push(locker.lock(format!("n{number}")).await.unwrap());
    }
    guards
}

/// The TTL is a minute, and nothing here waits that long: what is free was released.
fn wait_until_eight_are_free(server: &RedisServer) {
    let all_free = || (0..8).all(|number| is_free(server, &format!("n{number}")));
    Runtime::new().unwrap().block_on(eventually("all are free", all_free));
}

#[test]
fn guards_can_be_dropped_after_their_runtime() {
    let server = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    let (locker, guards) = runtime.block_on(async {
        let locker = locker(&server).await;
        let guards = eight_guards(&locker).await;
        (locker, guards)
    });
    drop(runtime);
    drop(guards);
    wait_until_eight_are_free(&server);
    drop(locker);
}

#[test]
fn guards_can_be_dropped_while_nobody_drives_their_runtime() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (locker, guards) = runtime.block_on(async {
        let locker = locker(&server).await;
        let guards = eight_guards(&locker).await;
        (locker, guards)
    });
    drop(guards);
    wait_until_eight_are_free(&server);
    drop((locker, runtime));
}

/// More than callers write by themselves; and the task that would write the rest has not run when it ends.
#[tokio::test]
async fn guards_that_are_dropped_with_the_last_handle_give_their_locks_back() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guards = eight_guards(&locker).await;
    drop(locker);
    drop(guards);
    let all_free = || (0..8).all(|number| is_free(&server, &format!("n{number}")));
    eventually("all are free", all_free).await;
}

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// A leader that runs each job of many days under one guard would keep what is left of each job's task.
#[tokio::test]
async fn nothing_is_kept_of_a_caller_that_waits_no_more() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("a").await.unwrap();
    let task = Arc::new(Nobody);
    let waker = Waker::from(Arc::clone(&task));
    let context = &mut Context::from_waker(&waker);
    server.stop();
    assert!(pin!(guard.lost()).poll(context).is_pending());
    assert!(pin!(guard.run(std::future::pending::<()>())).poll(context).is_pending());
    assert!(pin!(guard.extend()).poll(context).is_pending());
    server.cont();
    drop(waker);
    assert_eq!(Arc::strong_count(&task), 1);
}

/// On the runtime of the locker, where no caller has a timer of its own.
#[tokio::test]
async fn tasks_that_extend_one_lease_at_once_are_all_told() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = Arc::new(locker.lock("a").await.unwrap());
    server.stop();
    let extend = |_| {
        let guard = Arc::clone(&guard);
        tokio::spawn(async move { guard.extend().await })
    };
    let extending = [0, 1, 2].map(extend);
    tokio::task::yield_now().await;
    server.cont();
    for extended in extending {
        soon("it is told", extended).await.unwrap().unwrap();
    }
}

/// The lease ended while nobody answered the extension: the error and the guard agree.
#[tokio::test]
async fn an_extension_that_gets_no_answer_before_the_end_says_that_the_lease_is_lost() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = Locker::builder()
        .node(proxy.url())
        .command_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let guard = locker.lock("short").ttl(Duration::from_millis(250)).await.unwrap();
    proxy.set_both(Fault::Blackhole);
    let error = soon("it is told", guard.extend()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Lost && guard.is_lost(), "{error}");
}

#[tokio::test]
async fn an_extension_of_a_key_that_is_no_lock_any_more_says_that_the_lease_is_lost() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("odd").await.unwrap();
    server.cli(&["DEL", "odd"]);
    server.cli(&["LPUSH", "odd", "1"]);
    assert_eq!(guard.extend().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(guard.is_lost());
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(server.cli(&["LLEN", "odd"]), Frame::Integer(1));
}

/// node-redlock #296: a lock that had already expired was returned.
#[tokio::test]
async fn a_grant_that_comes_too_late_is_given_back() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = Locker::builder().node(proxy.url()).connect().await.unwrap();
    proxy.to_client().set(Fault::Delay(Duration::from_millis(60)));
    let request = locker
        .try_lock("late")
        .ttl(Duration::from_millis(100))
        .min_validity(Duration::from_millis(80));
    let error = request.await.unwrap_err();
    assert!(error.is_timeout() && error.kind() != ErrorKind::Contended, "{error}");
    assert_eq!(error.kind(), ErrorKind::TooLate);
    let release = |commands: &str| commands.contains("cmdstat_evalsha:calls=2");
    eventually("the release was sent", || release(&server.cli_text(&["INFO", "commandstats"])))
        .await;
}

/// Validity is counted from the request (safety rule 2): the time that a reply takes is gone.
#[tokio::test]
async fn validity_is_counted_from_before_the_request_was_sent() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let locker = Locker::builder().node(proxy.url()).connect().await.unwrap();
    let delay = Duration::from_millis(100);
    proxy.to_client().set(Fault::Delay(delay));
    let ttl = Duration::from_secs(10);
    let guard = locker.lock("slow").ttl(ttl).await.unwrap();
    assert!(guard.remaining() <= ttl - ttl / 100 - Duration::from_millis(2) - delay);
    guard.extend().await.unwrap();
    assert!(guard.remaining() <= ttl - ttl / 100 - Duration::from_millis(2) - delay);
}

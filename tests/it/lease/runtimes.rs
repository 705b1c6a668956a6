//! Callers on other runtimes than their locker's, or on none, and runtimes that end.

use std::future::{IntoFuture, poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use leasehold::{ErrorKind, Loss};
use leasehold_testing::{RedisServer, STUCK, eventually, soon};
use tokio::runtime::Runtime;

use super::{TTL, is_free, locker};

/// The server answers all, and nobody reads it.
#[test]
fn a_limit_is_a_limit_while_nobody_drives_the_runtime_of_the_locker() {
    let server = RedisServer::start();
    let undriven = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (locker, guard) = undriven.block_on(async {
        let locker = locker(&server).await;
        let guard = locker.lock("held").await.unwrap();
        (locker, guard)
    });
    let within = Duration::from_secs(2);
    Runtime::new().unwrap().block_on(async {
        let error = soon("a try", locker.try_lock("a").into_future()).await.unwrap_err();
        assert!(error.is_unknown(), "{error}");
        let waiting = locker.lock("a").unfenced().wait_at_most(within);
        // The connection may be given up by then.
        let error = soon("a wait", waiting.into_future()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let error = soon("an extension", guard.extend()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let error = soon("a release", guard.release()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        #[cfg(feature = "family")]
        {
            let latch = locker.latch("latch", 1);
            let error = soon("a latch", latch.count_down("us")).await.unwrap_err();
            assert!(error.is_unknown(), "{error}");
        }
    });
    undriven.block_on(eventually("what came meanwhile is given back", || {
        ["a", "held"].iter().all(|key| is_free(&server, key))
    }));
}

/// A future that has been polled on two runtimes that have ended.
fn carried_over<'a, T>(
    future: impl Future<Output = T> + 'a,
) -> Pin<Box<dyn Future<Output = T> + 'a>> {
    let mut future = Box::pin(future);
    for _ in 0..2 {
        Runtime::new().unwrap().block_on(poll_fn(|context| {
            assert!(future.as_mut().poll(context).is_pending());
            Poll::Ready(())
        }));
    }
    future
}

/// Where no runtime is left that has their timers.
#[test]
fn futures_outlive_the_runtimes_that_they_were_polled_on() {
    let server = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    let ours = runtime.block_on(locker(&server));
    let guard = runtime.block_on(ours.lock("a").into_future()).unwrap();
    let waiting = carried_over(ours.lock("a").into_future());
    drop(carried_over(guard.lost()));
    runtime.block_on(guard.release()).unwrap();
    let next = runtime.block_on(waiting).unwrap();
    server.stop();
    let shutdown = carried_over(ours.shutdown(TTL));
    server.cont();
    drop(next);
    assert_eq!(outside_of_a_runtime(shutdown).unreleased.len(), 0);
}

/// Polls on this thread, which no runtime knows of.
pub(crate) fn outside_of_a_runtime<T>(future: impl Future<Output = T>) -> T {
    struct Unparks(Thread);
    impl Wake for Unparks {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    let (mut context, mut future) = (Context::from_waker(&waker), pin!(future));
    for _ in 0..1000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park_timeout(Duration::from_millis(100));
    }
    panic!("it hangs");
}

#[test]
fn a_lock_is_waited_for_kept_and_lost_outside_of_a_runtime() {
    let server = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    let (ours, other) = runtime.block_on(async { (locker(&server).await, locker(&server).await) });
    outside_of_a_runtime(async {
        let guard = ours.lock("a").await.unwrap();
        let waiting = other.lock("a").wait_at_most(Duration::from_millis(50));
        let error = waiting.await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        guard.extend().await.unwrap();
        guard.run(ready(())).await.unwrap();
        guard.release().await.unwrap();
        let ttl = Duration::from_millis(200);
        let brief = other.lock("a").ttl(ttl).no_renewal().await.unwrap();
        assert_eq!(brief.lost().await, Loss::Expired);
    });
}

/// Nobody keeps the lease then, and nothing would tell of its end.
#[test]
fn what_is_asked_outside_of_a_runtime_after_the_end_of_the_lockers_ends_at_once() {
    let server = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    let ours = runtime.block_on(locker(&server));
    let take = |name| runtime.block_on(ours.lock(name).into_future()).unwrap();
    let [kept, extended, released] = ["kept", "extended", "released"].map(take);
    let waiting = thread::spawn(move || {
        outside_of_a_runtime(kept.run(std::future::pending::<()>())).unwrap_err().kind()
    });
    drop(runtime);
    assert_eq!(waiting.join().unwrap(), ErrorKind::Lost);
    outside_of_a_runtime(async {
        extended.extend().await.unwrap_err();
        assert_eq!(extended.lost().await, Loss::Expired);
        released.release().await.unwrap_err();
        let left = ours.shutdown(TTL).await.unreleased;
        extended.release().await.unwrap_err();
        assert!(left.iter().any(|it| it.name == "extended"), "{left:?}");
    });
}

/// Nobody renews its lease then, and nothing would end a pause between two tries.
#[cfg(feature = "family")]
#[test]
fn work_that_is_done_once_outside_of_a_runtime_ends_with_the_lockers() {
    let server = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    let ours = runtime.block_on(locker(&server));
    let (tell, told) = channel();
    thread::spawn(move || {
        let request = ours.idempotent("a", "", TTL).ttl(60 * TTL);
        let begun = tell.clone();
        let worked = outside_of_a_runtime(request.run(async |_| {
            begun.send(None).unwrap();
            std::future::pending::<Result<&str, ()>>().await
        }));
        tell.send(worked.map(|_| ()).map_err(|error| error.kind()).err()).unwrap();
    });
    let told = || told.recv_timeout(TTL / 3).unwrap();
    assert_eq!(told(), None, "it did not begin");
    drop(runtime);
    assert_eq!(told(), Some(ErrorKind::Lost));
}

/// Likewise: the tokens are not there before their time.
#[cfg(feature = "family")]
#[test]
fn tokens_that_are_waited_for_outside_of_a_runtime_are_not_there_when_the_lockers_ends() {
    let server = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    let ours = runtime.block_on(locker(&server));
    let limit =
        ours.limit("a", leasehold::limits::Rate::new(1, Duration::from_secs(3600)).burst(1));
    assert!(runtime.block_on(limit.wait(1, Duration::ZERO)).unwrap().is_allowed());
    let waiting = thread::spawn(move || outside_of_a_runtime(limit.wait(1, 61 * TTL)));
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(100)).await });
    drop(runtime);
    let error = waiting.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("runtime"), "{error}");
}

/// Its timer is one of the runtime that ends, at whatever step of a poll.
#[test]
fn a_shutdown_that_waits_outside_of_a_runtime_ends_with_the_lockers() {
    let server = RedisServer::start();
    for _ in 0..30 {
        let runtime = Runtime::new().unwrap();
        let ours = runtime.block_on(locker(&server));
        let kept = runtime.block_on(ours.lock("a").into_future()).unwrap();
        server.stop();
        let (tells, told) = channel();
        let waiting = thread::spawn(move || {
            let _kept = kept;
            let mut shutdown = pin!(ours.shutdown(Duration::from_secs(60)));
            let mut poll = || shutdown.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            (0..10).for_each(|_| assert!(poll().is_pending()));
            tells.send(()).unwrap();
            loop {
                if let Poll::Ready(shutdown) = poll() {
                    return shutdown.unreleased.len();
                }
            }
        });
        told.recv().unwrap();
        drop(runtime);
        assert_eq!(waiting.join().unwrap(), 1);
        server.cont();
    }
}

/// A socket that is closed with unread replies loses what the server has not read: once 13 of 300 locks stayed, each time.
#[test]
fn all_that_is_dropped_right_before_a_runtime_ends_is_given_back() {
    let server = RedisServer::start();
    for round in 0..6 {
        let runtime = match round % 2 {
            0 => tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            _ => Runtime::new().unwrap(),
        };
        runtime.block_on(async {
            let locker = locker(&server).await;
            let mut guards = Vec::new();
            for number in 0..300 {
                let request = locker.lock(format!("{number}")).unfenced();
                guards.push(request.ttl(Duration::from_secs(600)).await.unwrap());
            }
        });
        drop(runtime);
        let all_are_free = || server.cli_text(&["DBSIZE"]) == "0";
        Runtime::new().unwrap().block_on(eventually("all are free", all_are_free));
    }
}

#[cfg(feature = "full")]
struct Holds(leasehold::Guard);

#[cfg(feature = "full")]
impl Wake for Holds {
    fn wake(self: Arc<Self>) {
        let _held = &self.0;
    }
}

/// A timer has the last copy of the waker of a former poll, and a guard is dropped with that.
#[cfg(feature = "full")]
#[test]
fn what_is_dropped_with_a_waker_may_use_the_locker() {
    let server = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    let ours = runtime.block_on(locker(&server));
    let lock = |name| runtime.block_on(ours.lock(name).into_future()).unwrap();
    let (_held, dropped) = (lock("held"), lock("dropped"));
    let waits = ours.lock_any(["held"]).wait_at_most(TTL).into_future();
    let (tells, told) = channel();
    thread::spawn(move || {
        let mut waits = pin!(waits);
        let mut poll = |waker: &_| waits.as_mut().poll(&mut Context::from_waker(waker));
        assert!(poll(&Waker::from(Arc::new(Holds(dropped)))).is_pending());
        assert!(poll(Waker::noop()).is_pending());
        tells.send(()).unwrap();
    });
    told.recv_timeout(STUCK).unwrap();
    runtime.block_on(eventually("it is given back", || is_free(&server, "dropped")));
}

/// Each of these waits for a while.
#[cfg(feature = "full")]
#[test]
fn what_is_beside_a_lock_is_waited_for_outside_of_a_runtime_too() {
    let server = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    let ours = runtime.block_on(locker(&server));
    const BRIEF: Duration = Duration::from_millis(50);
    outside_of_a_runtime(async {
        let held = ours.lock("a").await.unwrap();
        let both = ours.lock_all(["a", "b"]).wait_at_most(BRIEF).await.unwrap_err();
        assert!(both.is_timeout(), "{both}");
        let any = ours.lock_any(["a"]).wait_at_most(BRIEF).await.unwrap_err();
        assert!(any.is_timeout(), "{any}");
        let rate = leasehold::limits::Rate::new(100, Duration::from_secs(1)).burst(1);
        for _ in 0..2 {
            let token = ours.limit("a", rate).wait(1, BRIEF * 20).await.unwrap();
            assert!(token.is_allowed());
        }
        assert!(!ours.latch("a", 1).wait(BRIEF).await.unwrap().is_open());
        let request = ours.idempotent("a", "", Duration::from_secs(60));
        request.run(async |_| Ok::<_, ()>("receipt")).await.unwrap();
        let mut watch = ours.watch("a");
        assert_eq!(watch.changed().await.unwrap().holders.len(), 1);
        held.release().await.unwrap();
        watch.until_free().await.unwrap();
        assert!(ours.shutdown(BRIEF).await.unreleased.is_empty());
    });
}

#[test]
fn where_nobody_drives_a_runtime_an_error_says_so() {
    let server = RedisServer::start();
    let connected = outside_of_a_runtime(leasehold::Locker::connect(&server.url()));
    let error = connected.unwrap_err();
    assert!(error.kind() == ErrorKind::Misuse && error.to_string().contains("tokio"), "{error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let locker = runtime.block_on(locker(&server));
    let error = outside_of_a_runtime(locker.lock("a").into_future()).unwrap_err();
    assert!(error.to_string().contains("current_thread"), "{error}");
    let guard = runtime.block_on(locker.lock("b").into_future()).unwrap();
    let errors = outside_of_a_runtime(async {
        [guard.extend().await.unwrap_err(), guard.release().await.unwrap_err()]
    });
    assert!(errors.iter().all(|it| it.to_string().contains("current_thread")), "{errors:?}");
    #[cfg(feature = "family")]
    {
        let error = outside_of_a_runtime(locker.latch("a", 1).state()).unwrap_err();
        assert!(error.to_string().contains("current_thread"), "{error}");
    }
    runtime.block_on(async { locker.lock("a").await.unwrap().release().await.unwrap() });
}

/// A locker in a static, and a runtime per test: a hang would be the wrong way to fail.
#[test]
fn a_locker_whose_runtime_has_ended_says_so() {
    let server = RedisServer::start();
    let first = Runtime::new().unwrap();
    let locker = first.block_on(locker(&server));
    let held = first.block_on(locker.lock("held").into_future()).unwrap();
    drop(first);
    Runtime::new().unwrap().block_on(async {
        for _ in 0..2 {
            let error = soon("it is told", locker.lock("a").into_future()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
            assert!(error.to_string().contains("runtime"), "{error}");
        }
        let ended = soon("its end", locker.shutdown(STUCK)).await;
        assert!(ended.unreleased[0].reason.contains("runtime"), "{ended}");
        drop(held);
    });
}

//! Hand-overs under difficulties: a server that accepts no more commands, a runtime without timers, a waker that does
//! more than wake.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use leasehold::{Guard, Locker};

use super::{LONG, take, until_waiting};
use leasehold_testing::{Fault, FaultProxy, Fleet, RedisServer, STUCK, eventually, soon};

/// Names so long that a few acquires are all that may be in flight, and shorter ones for the room
/// that is left.
fn filling() -> impl Iterator<Item = String> {
    let sizes = [(25, 16_000), (60, 600), (60, 8)];
    sizes.into_iter().flat_map(|(count, size)| (0..count).map(move |n| format!("{n:0size$}")))
}

/// What an owner leaves on a server that the next one could not ask goes with the release of the
/// last.
#[tokio::test]
async fn a_lock_that_went_through_three_hands_is_left_nowhere() {
    let fleet = Fleet::start(3);
    let builder = Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_quarantine(false);
    let locker = builder.command_timeout(LONG).connect().await.unwrap();
    let first = take(&locker, "a").await;
    eventually("all have it", || fleet.holding("a") == 3).await;
    fleet[2].stop();
    let mut others = Vec::new();
    for name in filling() {
        others.push(soon("a lock", locker.try_lock(name).into_future()).await.unwrap());
    }
    let mut next = tokio::task::JoinSet::new();
    for _ in 0..2 {
        next.spawn(locker.lock("a").into_future());
    }
    until_waiting(&locker, 2).await;
    let mut holder = first;
    for _ in 0..2 {
        holder.release().await.unwrap();
        // The first to be refused is the first in the line, in any order of asking.
        holder = soon("the next", next.join_next()).await.unwrap().unwrap().unwrap();
    }
    assert_eq!(locker.stats().handed_over, 2);
    fleet[2].cont();
    holder.release().await.unwrap();
    drop(others);
    eventually("it is free everywhere", || fleet.holding("a") == 0).await;
}

/// What has to wait for room needs a timer, and that is not the releaser's.
#[test]
fn a_guard_that_is_dropped_on_a_runtime_without_timers_hands_its_lock_over() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (locker, guard) = runtime.block_on(async {
        let builder = Locker::builder().node(server.url()).ttl(LONG).command_timeout(LONG);
        let locker = builder.connect().await.unwrap();
        let guard = take(&locker, "a").await;
        (locker, guard)
    });
    let waiting = runtime.spawn(locker.lock("a").into_future());
    runtime.block_on(until_waiting(&locker, 1));
    let counted = || server.cli_text(&["EXISTS", "{a}:queue"]) == "1";
    runtime.block_on(eventually("the server has refused it", counted));
    server.stop();
    let attempts = locker.stats().attempts;
    let others: Vec<_> =
        filling().map(|name| runtime.spawn(locker.try_lock(name).into_future())).collect();
    runtime.block_on(eventually("all are asked for", || {
        locker.stats().attempts >= attempts + others.len() as u64
    }));
    let plain = tokio::runtime::Builder::new_current_thread().build().unwrap();
    plain.block_on(async { drop(guard) });
    server.cont();
    drop(runtime.block_on(soon("the lock", waiting)).unwrap().unwrap());
    assert_eq!(locker.stats().handed_over, 1);
}

type Waiting = Pin<Box<dyn Future<Output = Result<Guard, leasehold::Error>> + Send>>;

/// A waker that drops something as it wakes.
struct Drops<T>(Mutex<Option<T>>);

impl<T: Send + 'static> Wake for Drops<T> {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

/// What a waker does is its own affair: it is called where no lock is held.
#[test]
fn a_waker_may_drop_another_waiter_for_the_same() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (done, is_done) = std::sync::mpsc::channel();
    let url = server.url();
    std::thread::spawn(move || {
        runtime.block_on(async {
            let builder = Locker::builder().node(url).ttl(LONG);
            let locker = builder.connect().await.unwrap();
            let guard = take(&locker, "a").await;
            let leaves = tokio::spawn(locker.lock("a").into_future());
            until_waiting(&locker, 1).await;
            let mut cancelled: Waiting = Box::pin(locker.lock("a").into_future());
            let mut woken: Waiting = Box::pin(locker.lock("a").into_future());
            let quiet = &mut Context::from_waker(Waker::noop());
            assert!(woken.as_mut().poll(quiet).is_pending());
            assert!(cancelled.as_mut().poll(quiet).is_pending());
            let drops = Arc::new(Drops(Mutex::new(Some(cancelled))));
            let waker = Waker::from(Arc::clone(&drops));
            assert!(woken.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            // The first leaves the line, and the second has the lock.
            leaves.abort();
            drop(guard);
            eventually("it is woken", || drops.0.lock().unwrap().is_none()).await;
            drop(woken);
        });
        done.send(()).unwrap();
    });
    is_done.recv_timeout(STUCK).expect("nobody waits for a lock of its own");
}

/// The release of its guard is owed to the very connection whose coming it is told of.
#[test]
fn a_waker_may_drop_a_guard_as_the_server_comes_back() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime.block_on(async {
            let proxy = FaultProxy::start(server.address());
            let builder = Locker::builder().node(proxy.url()).ttl(LONG).connect_timeout(LONG);
            let locker = builder.connect().await.unwrap();
            let guard = take(&locker, "a").await;
            let accepted = proxy.accepted();
            proxy.set_both(Fault::Stall);
            proxy.cut();
            soon("it connects again", proxy.until_accepted(accepted + 1)).await;
            let waker = Waker::from(Arc::new(Drops(Mutex::new(Some(guard)))));
            let mut waiting: Waiting = Box::pin(locker.lock("b").into_future());
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            proxy.set_both(Fault::Pass);
            eventually("it is given back", || server.cli_text(&["EXISTS", "a"]) == "0").await;
            drop(soon("the lock", waiting).await.unwrap());
        });
        done.send(()).unwrap();
    });
    is_done.recv_timeout(2 * STUCK).expect("nobody waits for a lock of its own");
}

/// As it is let go of, too: it may be all that is left of a task.
#[test]
fn a_waker_may_own_a_guard_and_go_with_the_request_that_it_waits_for() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime.block_on(async {
            let locker = Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap();
            for is_polled_again in [false, true] {
                let guard = take(&locker, "a").await;
                let waker = Waker::from(Arc::new(Drops(Mutex::new(Some(guard)))));
                let mut asked: Waiting = Box::pin(locker.lock("b").into_future());
                server.stop();
                assert!(asked.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                drop(waker);
                if is_polled_again {
                    let quiet = &mut Context::from_waker(Waker::noop());
                    assert!(asked.as_mut().poll(quiet).is_pending());
                }
                drop(asked);
                server.cont();
                let is_free = || server.cli_text(&["EXISTS", "a", "b"]) == "0";
                eventually("both are given back", is_free).await;
            }
        });
        done.send(()).unwrap();
    });
    is_done.recv_timeout(2 * STUCK).expect("nobody waits for a lock of its own");
}

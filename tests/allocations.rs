//! What a lock costs in memory: counts, not timings, so a noisy machine does not move them.
//!
//! Allocations are counted on the thread that makes them. Every runtime here is a current_thread
//! one, which runs all of its tasks (callers, reader, flusher, sweeper) on the thread that blocks
//! on it, so that nothing of Leasehold goes uncounted.
//!
//! A program of its own: its allocator counts, which would slow all other tests.

#![allow(clippy::print_stdout, reason = "the figures are worth reading with --nocapture")]

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use allocation_counter::{AllocationInfo, measure};
use leasehold::{Fencing, LockRequest, Locker};
use leasehold_testing::scripted::greeting;
use leasehold_testing::{Action, RedisServer, STUCK, ScriptedServer};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

const WARM_UP: u64 = 200;
const PAIRS: u64 = 1000;
const CROWD: u64 = 64;

const CALLERS: u64 = 10_000;
/// Long, so that commands which no bound kept back would stand out beside the callers: all of them
/// at once are 20 MB.
const NAME_LENGTH: usize = 1000;
/// What the connection lets be in flight, each command counted with its bytes, slot and reply.
const IN_FLIGHT_BYTES: u64 = 1024 * 1024;
/// A buffer or a queue that doubles as it grows holds up to twice what is in it, beside the half
/// that it is being copied from; the other end of the double buffer may have grown as far.
const GROWTH: u64 = 4;
/// What it takes to wait for room, which one alone need not: the question, which is then the script's, is on the
/// heap meanwhile.
const WAIT_BYTES: u64 = 3 * 1024;

/// What leases leave for later ones is the process's: one test at a time takes of it.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime starts")
}

fn connect(runtime: &Runtime, server: &RedisServer) -> Locker {
    // On a busy machine the crowd's last ones wait for room for long.
    let builder = Locker::builder().node(server.url()).ttl(STUCK * 10).command_timeout(STUCK);
    runtime.block_on(builder.connect()).expect("the server is up")
}

async fn pair<F: Fencing>(request: LockRequest<F>) {
    let guard = request.await.expect("nobody else takes the lock");
    guard.release().await.expect("nobody else gives it back");
}

/// Runs `count` pairs, each of a request from `ask`, and returns what they allocated.
fn allocations<F: Fencing>(
    runtime: &Runtime,
    count: u64,
    ask: impl Fn() -> LockRequest<F>,
) -> AllocationInfo {
    // On the heap from the start: in debug builds tokio would put it there itself.
    let mut pairs = Box::pin(async {
        for _ in 0..count {
            pair(ask()).await;
        }
    });
    measure(|| runtime.block_on(pairs.as_mut()))
}

#[track_caller]
fn assert_no_allocations<F: Fencing>(what: &str, ask: impl Fn(&Locker) -> LockRequest<F>) {
    let server = RedisServer::start();
    let runtime = current_thread();
    let locker = connect(&runtime, &server);
    allocations(&runtime, WARM_UP, || ask(&locker));
    let info = allocations(&runtime, PAIRS, || ask(&locker));
    println!(
        "{what} pair: {:.3} allocations, {:.0} bytes; left over after {PAIRS}: {} bytes",
        info.count_total as f64 / PAIRS as f64,
        info.bytes_total as f64 / PAIRS as f64,
        info.bytes_current,
    );
    assert_eq!(info.count_total, 0, "{what}: {info:?}");
}

#[test]
fn a_fenced_pair_allocates_nothing() {
    let _turn = turn();
    assert_no_allocations("fenced", |locker| locker.lock("fenced"));
}

#[test]
fn an_unfenced_pair_allocates_nothing() {
    let _turn = turn();
    assert_no_allocations("unfenced", |locker| locker.lock("unfenced").unfenced());
}

/// With this number of callers the flusher writes, too.
#[test]
fn pairs_of_many_callers_keep_the_buffers_that_they_have() {
    let _turn = turn();
    let server = RedisServer::start();
    let runtime = current_thread();
    let locker = connect(&runtime, &server);
    let pairs = |count: u64| {
        let pairs = |name: String| {
            let locker = &locker;
            Box::pin(async move {
                for _ in 0..count {
                    pair(locker.lock(&name).unfenced()).await;
                }
            })
        };
        let mut all: Vec<_> = (0..CROWD).map(|caller| pairs(caller.to_string())).collect();
        measure(|| {
            runtime.block_on(poll_fn(|context| {
                all.retain_mut(|pairs| pairs.as_mut().poll(context).is_pending());
                if all.is_empty() { Poll::Ready(()) } else { Poll::Pending }
            }));
        })
    };
    pairs(WARM_UP);
    let info = pairs(WARM_UP);
    // A queue may grow once more, where more replies than before come together.
    assert!(info.count_total < CROWD, "{info:?}");
}

/// The premise of this file: tasks of a current_thread runtime are counted by the thread that blocks on it.
#[test]
fn what_other_tasks_of_the_runtime_allocate_is_counted() {
    let _turn = turn();
    let runtime = current_thread();
    let (wake, woken) = tokio::sync::oneshot::channel();
    let task = runtime.spawn(async move {
        woken.await.expect("it is woken");
        std::hint::black_box(vec![0_u8; 1_000_000]);
    });
    let info = measure(|| {
        runtime.block_on(async {
            wake.send(()).expect("the task waits");
            task.await.expect("it does not panic");
        });
    });
    assert!(info.bytes_total >= 1_000_000, "{info:?}");
}

/// Spawns `callers` at once, each with a lock of its own, and returns what they allocated.
fn crowd(runtime: &Runtime, locker: &Locker, callers: u64) -> AllocationInfo {
    measure(|| {
        let mut crowd = JoinSet::new();
        runtime.block_on(async {
            for caller in 0..callers {
                let request = locker.try_lock(format!("{caller:0NAME_LENGTH$}"));
                crowd.spawn(pair(request));
            }
            let mut succeeded = 0;
            while let Some(finished) = crowd.join_next().await {
                finished.expect("every caller succeeds");
                succeeded += 1;
            }
            assert_eq!(succeeded, callers);
        });
    })
}

/// What is kept for later callers is bounded, however many there were at once.
#[test]
fn a_burst_of_callers_leaves_little_behind() {
    const BURST: u64 = 1024;
    /// The connection's slots, queues and buffers, and the keeper's places.
    const KEPT_BYTES: i64 = 512 * 1024;
    let _turn = turn();
    let server = RedisServer::start();
    let runtime = current_thread();
    let locker = connect(&runtime, &server);
    crowd(&runtime, &locker, 1);
    let info = crowd(&runtime, &locker, BURST);
    println!("{BURST} callers at once leave {} bytes behind", info.bytes_current);
    assert!(info.bytes_current < KEPT_BYTES, "{info:?}");
}

/// Errors of 3 MB, which no reply may be, and of 60 kB, which nobody would read.
#[test]
fn fifty_callers_of_a_server_with_endless_errors_take_no_more_than_people_read() {
    const SERVER_AND_SOCKETS_BYTES: u64 = 2 * 1024 * 1024;
    let _turn = turn();
    let servers = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for length in [3_000_000, 60_000] {
        let server = servers.block_on(async {
            let error = format!("!{length}\r\n{}\r\n", "x".repeat(length));
            ScriptedServer::start(move |command| {
                greeting(command).unwrap_or_else(|| Action::raw(&error))
            })
        });
        let runtime = current_thread();
        let builder = Locker::builder().node(server.url()).command_timeout(STUCK);
        let locker = runtime.block_on(builder.connect()).expect("the server greets");
        let info = measure(|| {
            let errors = runtime.block_on(async {
                let mut callers = JoinSet::new();
                for caller in 0..50 {
                    callers.spawn(locker.try_lock(format!("{caller}")).into_future());
                }
                callers.join_all().await
            });
            for error in errors {
                let error = error.map(|_| ()).expect_err("it is refused");
                assert!(error.to_string().len() < 2000, "{}", error.to_string().len());
            }
        });
        println!("50 callers, errors of {length} bytes: {} bytes at the most", info.bytes_max);
        assert!(info.bytes_max < SERVER_AND_SOCKETS_BYTES, "{info:?}");
    }
}

#[test]
fn ten_thousand_callers_on_one_connection_cost_what_each_needs_and_a_bounded_rest() {
    let _turn = turn();
    let server = RedisServer::start();
    let runtime = current_thread();
    let locker = connect(&runtime, &server);
    crowd(&runtime, &locker, 1);
    // A holder and a waiter, which have what was kept of the caller before for the next one.
    let holder = runtime.block_on(locker.lock("held").into_future()).expect("it is free");
    let mut waiter = pin!(locker.lock("held").into_future());
    let first_poll = poll_fn(|context| Poll::Ready(waiter.as_mut().poll(context).is_pending()));
    assert!(runtime.block_on(first_poll), "it is held");

    // The task, its future, the request's future, the keys: what no bound of ours can spare.
    let one = crowd(&runtime, &locker, 1).bytes_max;
    let all = crowd(&runtime, &locker, CALLERS).bytes_max;
    let bound = CALLERS * (one + WAIT_BYTES) + GROWTH * IN_FLIGHT_BYTES;
    println!(
        "one caller: {one} bytes; {CALLERS} callers: {all} bytes, {} each; bound {bound}",
        all / CALLERS
    );
    assert!(all <= bound, "{all} bytes for {CALLERS} callers, of {one} for one; bound {bound}");
    drop(holder);
}

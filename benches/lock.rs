//! The cost of each call of a lock, on a server of the bench's own: `cargo bench --bench lock`.
//!
//! Times include the server and two trips through the kernel; `figures` shows Leasehold's part of that.

#![allow(clippy::disallowed_methods, reason = "a benchmark may let time pass")]

use std::time::Duration;

use leasehold::{Fencing, Guard, LockRequest, Locker};
use leasehold_testing::RedisServer;
use leasehold_testing::divan::{self, Bencher, black_box};
use tokio::runtime::{Builder, Runtime};

const NAME: &str = "invoice:42";
const SHAPES: [Shape; 2] = [Shape::CurrentThread, Shape::MultiThread];

fn main() {
    divan::main();
}

/// The runtime whose `block_on` is called.
#[derive(Clone, Copy, Debug)]
enum Shape {
    CurrentThread,
    MultiThread,
}

/// A server, a runtime and a locker, for one benchmark.
struct Bench {
    locker: Locker,
    runtime: Runtime,
    server: RedisServer,
}

impl Bench {
    fn new(shape: Shape) -> Self {
        let server = RedisServer::start();
        let mut builder = match shape {
            Shape::CurrentThread => Builder::new_current_thread(),
            Shape::MultiThread => Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().build().expect("a runtime starts");
        let locker = runtime.block_on(Locker::connect(&server.url())).expect("the server is up");
        Self { locker, runtime, server }
    }

    fn take<F: Fencing>(&self, request: LockRequest<F>) -> Guard<F> {
        self.runtime.block_on(request.into_future()).expect("nobody else takes the lock")
    }

    fn release<F: Fencing>(&self, guard: Guard<F>) {
        self.runtime.block_on(guard.release()).expect("nobody else gives it back");
    }

    fn is_free(&self) -> bool {
        self.server.cli_text(&["EXISTS", NAME]) == "0"
    }
}

fn acquire_and_release<F: Fencing>(
    bencher: Bencher<'_, '_>,
    shape: Shape,
    ask: impl Fn(&Locker) -> LockRequest<F>,
) {
    let bench = Bench::new(shape);
    let guard = bench.take(ask(&bench.locker));
    assert!(!bench.is_free());
    bench.release(guard);
    assert!(bench.is_free());
    bencher.bench_local(|| bench.release(bench.take(ask(&bench.locker))));
}

#[divan::bench(crate = leasehold_testing::divan, args = SHAPES, sample_count = 2000)]
fn acquire_and_release_fenced(bencher: Bencher<'_, '_>, shape: Shape) {
    acquire_and_release(bencher, shape, |locker| locker.lock(NAME));
}

#[divan::bench(crate = leasehold_testing::divan, args = SHAPES, sample_count = 2000)]
fn acquire_and_release_unfenced(bencher: Bencher<'_, '_>, shape: Shape) {
    acquire_and_release(bencher, shape, |locker| locker.lock(NAME).unfenced());
}

#[divan::bench(crate = leasehold_testing::divan, args = SHAPES, sample_count = 2000)]
fn try_lock_refused(bencher: Bencher<'_, '_>, shape: Shape) {
    let bench = Bench::new(shape);
    let one_minute = Duration::from_secs(60);
    let guard = bench.take(bench.locker.lock(NAME).ttl(one_minute).label("the holder"));
    let refused = || bench.runtime.block_on(bench.locker.try_lock(NAME).into_future());
    let error = refused().expect_err("it is held");
    let holder = error.report().holder().expect("the server named the holder");
    assert_eq!(holder.label.as_deref(), Some("the holder"));
    bencher.bench_local(|| black_box(refused().expect_err("it is held")));
    assert!(!guard.is_lost(), "the lease lasted for the whole bench");
}

#[divan::bench(crate = leasehold_testing::divan, args = SHAPES, sample_count = 2000)]
fn extend(bencher: Bencher<'_, '_>, shape: Shape) {
    let bench = Bench::new(shape);
    let guard = bench.take(bench.locker.lock(NAME));
    let extended = || bench.runtime.block_on(guard.extend()).expect("it is held");
    std::thread::sleep(Duration::from_millis(20));
    let before = guard.remaining();
    extended();
    assert!(guard.remaining() > before, "an extended lease lasts longer");
    bencher.bench_local(extended);
}

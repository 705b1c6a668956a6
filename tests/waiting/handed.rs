//! Locks that are handed on where something is in the way: a server that takes no more commands, a
//! runtime without timers, a waker that does more than wake.

use std::future::IntoFuture;

use leasehold::Locker;

use crate::support::{RedisServer, eventually, soon};
use crate::{LONG, take, until_waiting};

/// Names so long that a few acquires are all that may be in flight, and shorter ones for the room
/// that is left.
fn filling() -> impl Iterator<Item = String> {
    let sizes = [(25, 16_000), (60, 600), (60, 8)];
    sizes.into_iter().flat_map(|(count, size)| (0..count).map(move |n| format!("{n:0size$}")))
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
    let counted = || server.cli_text(&["GET", "{a}:waiters"]) == "1";
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

//! Leases and their runtimes: several, one that has ended, and one that stands still.

use std::time::Duration;

use leasehold::{ErrorKind, Locker, Loss};
use tokio::runtime::{Builder, Runtime};

use crate::renewal::{LONG, SHORT, take, until_renewed};
use leasehold_testing::{RedisServer, eventually, soon};

/// Longer than a busy machine keeps the keeper of leases from its work.
const STANDSTILL: Duration = Duration::from_secs(3);

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_locker_is_used_from_another_runtime_than_its_own() {
    let server = RedisServer::start();
    let (own, other) = (runtime(), runtime());
    let locker = own.block_on(Locker::connect(&server.url())).unwrap();
    other.block_on(async {
        let guard = take(&locker, "a", SHORT).await;
        until_renewed(&locker, 6).await;
        assert!(!guard.is_lost());
        assert_eq!(locker.try_lock("a").await.unwrap_err().kind(), ErrorKind::Contended);
        let waiting = tokio::spawn(locker.lock("a").ttl(SHORT).into_future());
        eventually("it waits", || locker.stats().waiting == 1).await;
        guard.release().await.unwrap();
        let next = soon("the next", waiting).await.unwrap().unwrap();
        server.cli(&["DEL", "a"]);
        assert_eq!(soon("the loss", next.lost()).await, Loss::Gone);
    });
    // Waits on one, is released on the other.
    let guard = own.block_on(take(&locker, "b", LONG));
    other.block_on(guard.release()).unwrap();
    assert_eq!(server.cli_text(&["EXISTS", "b"]), "0");
}

#[test]
fn a_guard_keeps_its_lease_when_the_last_locker_is_dropped() {
    let server = RedisServer::start();
    let runtime = runtime();
    runtime.block_on(async {
        let locker = Locker::connect(&server.url()).await.unwrap();
        let guard = take(&locker, "a", SHORT).await;
        // Its end says that several TTLs have passed; it is of another locker.
        let clock = Locker::connect(&server.url()).await.unwrap();
        drop(locker);
        let measure = clock.lock("measure").ttl(SHORT * 4).no_renewal().await.unwrap();
        soon("the end of the measure", measure.lost()).await;
        assert!(!guard.is_lost());
        drop(guard);
        eventually("it is given back", || server.cli_text(&["EXISTS", "a"]) == "0").await;
        // With the last guard of a locker that is dropped, its connections end.
        drop((measure, clock));
        eventually("nobody is connected but us", || {
            server.cli_text(&["CLIENT", "LIST"]).lines().count() == 1
        })
        .await;
    });
}

#[test]
fn what_is_asked_after_the_end_of_the_runtime_ends_with_an_error() {
    let server = RedisServer::start();
    let (own, other) = (runtime(), runtime());
    let locker = own.block_on(Locker::connect(&server.url())).unwrap();
    let [released, extended, dropped] =
        ["released", "extended", "dropped"].map(|name| own.block_on(take(&locker, name, SHORT)));
    own.shutdown_timeout(LONG);
    other.block_on(async {
        let error = soon("an answer", locker.try_lock("a").into_future()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        assert!(error.to_string().contains("runtime"), "{error}");
        let error = soon("an answer", extended.extend()).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Misuse || error.kind() == ErrorKind::Lost, "{error}");
        let error = soon("an answer", released.release()).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Misuse || error.kind() == ErrorKind::Lost, "{error}");
        // Nobody keeps it: what is left is its own timer.
        soon("the loss", extended.lost()).await;
    });
    drop(dropped);
    drop(other);
    drop(extended);
}

/// The runtime stands still for longer than the TTL, with a task that waits for the loss.
async fn stand_still() -> (Loss, Option<Loss>) {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let guard = std::sync::Arc::new(take(&locker, "a", SHORT).await);
    let waits = std::sync::Arc::clone(&guard);
    let waiting = tokio::spawn(async move { waits.lost().await });
    until_renewed(&locker, 1).await;
    // Blocks the thread of the runtime, and so all of it.
    std::thread::sleep(STANDSTILL);
    assert!(guard.is_lost(), "before anything else is done");
    let loss = guard.loss();
    (soon("it is told", waiting).await.unwrap(), loss)
}

#[tokio::test]
async fn a_runtime_that_stood_still_is_told_so_on_going_on() {
    assert_eq!(stand_still().await, (Loss::Suspended, Some(Loss::Suspended)));
}

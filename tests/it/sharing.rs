//! Readers, writers and permits on real servers.

#[cfg(feature = "inspect")]
mod looking;
mod scripts;
mod several;
mod tokens;
mod turning;

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::{ErrorKind, Guard, LockRequest, Locker};
use leasehold_resp::Frame;
#[cfg(feature = "cluster")]
use leasehold_testing::Cluster;
use leasehold_testing::{RedisServer, STUCK, binary, eventually, soon};
use tokio::task::JoinHandle;

#[cfg(feature = "cluster")]
use crate::cluster;
#[cfg(feature = "replicas")]
use crate::replicas::Replicated;

/// So long that nothing is ever free because of it.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(300);

async fn locker(server: &RedisServer) -> Locker {
    Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap()
}

async fn take(request: LockRequest) -> Guard {
    soon("it is granted", request.into_future()).await.unwrap()
}

async fn refused(request: LockRequest) -> leasehold::Error {
    soon("it is refused", request.into_future()).await.map(|_| ()).unwrap_err()
}

/// Without a queue, nothing shows the requests that wait.
async fn until_waiting(server: &RedisServer, count: i64) {
    if !binary::has_queue() {
        return;
    }
    let fields = Frame::Integer(if count == 0 { 0 } else { 2 * count + 2 });
    eventually("they wait", || server.cli(&["HLEN", "{a}:queue"]) == fields).await;
}

fn spawn(request: LockRequest) -> JoinHandle<Guard> {
    tokio::spawn(async move { request.await.unwrap() })
}

async fn joined(waiter: JoinHandle<Guard>) -> Guard {
    soon("a waiter is let in", waiter).await.unwrap()
}

/// Nothing stays but the counter.
async fn until_nothing_is_left(server: &RedisServer) {
    eventually("only the counter stays", || {
        server.cli(&["EXISTS", "a", "{a}:queue", "{a}:shares"]) == Frame::Integer(0)
    })
    .await;
}

#[tokio::test]
async fn readers_share_a_lock_and_a_writer_is_alone_each_in_turn() {
    if binary::lacks_a_queue() {
        return;
    }
    let server = RedisServer::start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    let readers = [take(one.read("a")).await, take(other.try_read("a")).await];
    assert_eq!(readers[0].fence(), readers[1].fence(), "that of the first");
    assert_eq!(refused(one.try_write("a")).await.kind(), ErrorKind::Contended);
    let writer = spawn(one.write("a"));
    until_waiting(&server, 1).await;
    assert_eq!(refused(other.try_read("a")).await.kind(), ErrorKind::Contended, "a writer waits");
    let late = [spawn(one.read("a")), spawn(other.read("a"))];
    until_waiting(&server, 3).await;
    assert_eq!([one.stats().waiting, other.stats().waiting], [2, 1]);
    let [first, second] = readers;
    let read = first.fence();
    first.release().await.unwrap();
    assert!(!writer.is_finished());
    second.release().await.unwrap();
    let writer = joined(writer).await;
    assert!(writer.fence() > read);
    assert!(late.iter().all(|reader| !reader.is_finished()));
    let written = writer.fence();
    writer.release().await.unwrap();
    let [first, second] = late;
    let readers = [joined(first).await, joined(second).await];
    assert!(readers[0].fence() > written && readers[0].fence() == readers[1].fence());
    drop(readers);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_lock_and_other_libraries_find_readers_and_the_other_way_round() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let reader = take(locker.read("a").label("catalog")).await;
    let error = refused(locker.try_lock("a")).await;
    assert!(
        error.kind() == ErrorKind::Contended && error.to_string().contains("catalog"),
        "{error}"
    );
    assert_eq!(server.cli(&["SET", "a", "x", "NX", "PX", "9"]), Frame::Null);
    let lock = spawn(locker.lock("a"));
    until_waiting(&server, 1).await;
    reader.release().await.unwrap();
    let lock = joined(lock).await;
    assert_eq!(refused(locker.try_read("a")).await.kind(), ErrorKind::Contended);
    let reader = spawn(locker.read("a"));
    until_waiting(&server, 1).await;
    lock.release().await.unwrap();
    joined(reader).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn readers_next_to_one_another_in_line_are_let_in_together() {
    const READERS: usize = 30;
    let server = RedisServer::start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    let writer = take(one.write("a")).await;
    let mut readers = Vec::new();
    for number in 0..READERS {
        readers.push(spawn(if number % 2 == 0 { &one } else { &other }.read("a")));
        until_waiting(&server, number as i64 + 1).await;
    }
    writer.release().await.unwrap();
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(joined(reader).await);
    }
    let shares = Frame::Integer(READERS as i64);
    assert_eq!(server.cli(&["ZCARD", "{a}:shares"]), shares);
    drop(guards);
    until_nothing_is_left(&server).await;
}

#[cfg(feature = "election")]
#[tokio::test]
async fn a_candidate_with_a_priority_passes_sharers_in_the_queue_and_they_come_in_together() {
    if binary::lacks_a_queue() {
        return;
    }
    let server = RedisServer::start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    let third = locker(&server).await;
    let writer = take(one.write("a")).await;
    let first = spawn(other.read("a"));
    until_waiting(&server, 1).await;
    let second = spawn(one.read("a"));
    until_waiting(&server, 2).await;
    let campaign = third.elect("a").campaign("urgent").priority(9).into_future();
    let lead = tokio::spawn(campaign);
    until_waiting(&server, 3).await;
    writer.release().await.unwrap();
    let lead = soon("the candidate leads", lead).await.unwrap().unwrap();
    assert!(!first.is_finished() && !second.is_finished(), "they wait behind it");
    // Nobody overtakes what is in the queue.
    assert_eq!(refused(third.try_read("a")).await.kind(), ErrorKind::Contended);
    let term = lead.fence();
    lead.release().await.unwrap();
    let readers = [joined(first).await, joined(second).await];
    assert_eq!(server.cli(&["ZCARD", "{a}:shares"]), Frame::Integer(2));
    assert!(readers.iter().all(|reader| reader.fence() >= term), "a reader has the term or more");

    // And a writer that waits for readers is passed as well.
    let next = spawn(other.write("a"));
    until_waiting(&server, 1).await;
    let campaign = third.elect("a").campaign("urgent").priority(9).into_future();
    let lead = tokio::spawn(campaign);
    until_waiting(&server, 2).await;
    for reader in readers {
        reader.release().await.unwrap();
    }
    let lead = soon("the candidate leads", lead).await.unwrap().unwrap();
    assert!(!next.is_finished());
    lead.release().await.unwrap();
    joined(next).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn no_more_permits_are_held_than_there_are_and_a_heavy_request_is_not_overtaken() {
    if binary::lacks_a_queue() {
        return;
    }
    let server = RedisServer::start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    let permits = [one.semaphore("a", 3), other.semaphore("a", 3)];
    let heavy = take(permits[0].acquire(2)).await;
    let light = take(permits[1].acquire(1)).await;
    assert_ne!(heavy.fence(), light.fence(), "each permit has a token of its own");
    assert_eq!(refused(permits[0].try_acquire(1)).await.kind(), ErrorKind::Contended);
    let next = spawn(permits[0].acquire(3));
    until_waiting(&server, 1).await;
    light.release().await.unwrap();
    assert_eq!(
        refused(permits[1].try_acquire(1)).await.kind(),
        ErrorKind::Contended,
        "there is room, and one before it"
    );
    let last = spawn(permits[1].acquire(1));
    until_waiting(&server, 2).await;
    heavy.release().await.unwrap();
    let next = joined(next).await;
    assert!(!last.is_finished());
    drop(next);
    joined(last).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn of_many_tasks_as_many_as_there_are_permits_are_at_work() {
    let server = RedisServer::start();
    let lockers = [locker(&server).await, locker(&server).await];
    let (working, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for number in 0..40 {
        let permits = lockers[number % 2].semaphore("a", 3);
        let (working, most) = (Arc::clone(&working), Arc::clone(&most));
        tasks.push(tokio::spawn(async move {
            let permit = permits.acquire(1).await.unwrap();
            most.fetch_max(working.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(2)).await;
            working.fetch_sub(1, Ordering::SeqCst);
            if number % 3 == 0 {
                permit.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        soon("all have had a permit", task).await.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 3);
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    for limit in [0, 1_000_001] {
        let error = refused(locker.semaphore("a", limit).acquire(1)).await;
        assert_eq!(error.kind(), ErrorKind::Misuse);
    }
    let three = locker.semaphore("a", 3);
    for weight in [0, 4] {
        let error = refused(three.acquire(weight)).await;
        assert!(
            error.kind() == ErrorKind::Misuse && error.to_string().contains("1 to 3"),
            "{error}"
        );
    }
    let permit = take(three.acquire(1)).await;
    for wait in [Duration::ZERO, LONG] {
        let error = refused(locker.semaphore("a", 5).acquire(1).wait_at_most(wait)).await;
        let text = error.to_string();
        assert!(
            error.kind() == ErrorKind::Misuse
                && text.contains("limit 3")
                && text.contains("limit 5"),
            "{text}"
        );
    }
    let error = refused(locker.read("a")).await;
    assert!(error.kind() == ErrorKind::Misuse && error.to_string().contains("readers"), "{error}");
    permit.release().await.unwrap();
    // The next to wait asks in the queue at once, because the last one was kept waiting.
    let connection = || {
        let all = server.cli_text(&["CLIENT", "LIST"]);
        let ours = all.lines().find(|line| line.contains("name=leasehold")).map(str::to_owned);
        ours.and_then(|line| line.split(' ').next().map(str::to_owned))
    };
    let before = connection();
    let full = take(three.acquire(3)).await;
    assert!(refused(three.acquire(1).wait_at_most(SHORT)).await.is_timeout());
    full.release().await.unwrap();
    let permit = take(locker.semaphore("a", 5).try_acquire(1)).await;
    let error = refused(three.acquire(1).wait_at_most(LONG)).await;
    assert!(error.kind() == ErrorKind::Misuse && error.to_string().contains("limit 5"), "{error}");
    assert!(before.is_some() && connection() == before);
    permit.release().await.unwrap();
    assert_eq!(refused(locker.read("b").lock_delay(LONG)).await.kind(), ErrorKind::Misuse);
    assert_eq!(refused(locker.read("b").hold_at_least(SHORT)).await.kind(), ErrorKind::Misuse);
    #[cfg(feature = "takeover")]
    assert!(
        take(locker.read("b"))
            .await
            .into_ticket(LONG)
            .await
            .is_err_and(|it| it.kind() == ErrorKind::Misuse)
    );
    assert_eq!(refused(locker.read("")).await.kind(), ErrorKind::Misuse);
}

#[tokio::test]
async fn shares_are_renewed_and_one_that_is_gone_is_lost() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    // Longer than a busy machine keeps a process waiting.
    let ttl = 5 * SHORT;
    let reader = take(locker.read("a").ttl(ttl)).await;
    let long = take(locker.read("a")).await;
    let permit = take(locker.semaphore("b", 2).acquire(2).ttl(ttl)).await;
    eventually("they are renewed", || locker.stats().renewed >= 8).await;
    assert!(!reader.is_lost() && !permit.is_lost());
    reader.extend().await.unwrap();
    let error = refused(locker.semaphore("b", 2).try_acquire(1)).await;
    assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
    server.cli(&["DEL", "a"]);
    let next = take(locker.read("a")).await;
    soon("the loss is told", reader.lost()).await;
    assert_eq!(long.release().await.unwrap_err().kind(), ErrorKind::Lost);
    next.release().await.unwrap();
    permit.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_sharer_that_is_gone_is_waited_for_no_longer_than_its_own_ttl() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let permits = locker.semaphore("a", 2);
    let long = take(permits.acquire(1)).await;
    std::mem::forget(take(permits.acquire(1).ttl(SHORT).no_renewal()).await);
    let next = joined(spawn(permits.acquire(1))).await;
    assert!(!long.is_lost());
    drop((long, next));
    until_nothing_is_left(&server).await;
    std::mem::forget(take(locker.read("a").ttl(SHORT).no_renewal()).await);
    joined(spawn(locker.write("a"))).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn a_wait_that_is_dropped_lets_the_next_one_in_and_a_shutdown_gives_back() {
    let server = RedisServer::start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    let reader = take(one.read("a")).await;
    let writer = spawn(other.write("a"));
    until_waiting(&server, 1).await;
    let late = spawn(one.read("a"));
    until_waiting(&server, 2).await;
    writer.abort();
    let late = joined(late).await;
    let waits = spawn(other.semaphore("b", 1).acquire(1));
    joined(waits).await.release().await.unwrap();
    let report = one.shutdown(LONG).await;
    assert_eq!(report.released.len(), 2, "{report:?}");
    drop((reader, late));
    until_nothing_is_left(&server).await;
}

/// The writer had the lock from another of its process, and the next one behind it asked nobody while it read on.
#[tokio::test]
async fn the_next_writer_of_a_process_is_in_the_queue_once_the_one_before_it_reads() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let first = take(locker.write("a")).await;
    let second = spawn(locker.write("a"));
    until_waiting(&server, 1).await;
    let third = spawn(locker.write("a"));
    eventually("both wait", || locker.stats().waiting == 2).await;
    first.release().await.unwrap();
    let mut second = joined(second).await;
    second.downgrade().await.unwrap();
    until_waiting(&server, 1).await;
    second.release().await.unwrap();
    joined(third).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// All keys of a name are in one slot, so each node counts for its own.
#[cfg(feature = "cluster")]
#[tokio::test]
async fn readers_writers_and_permits_are_counted_by_the_node_of_their_slot() {
    let cluster = Cluster::start();
    let (locker, other) = (cluster::connect(&cluster).await, cluster::connect(&cluster).await);
    for name in cluster::spread(&cluster) {
        let mut reader = soon("a reader", locker.read(&name).into_future()).await.unwrap();
        let second = soon("another", other.read(&name).into_future()).await.unwrap();
        assert_eq!(reader.upgrade().await.unwrap_err().kind(), ErrorKind::Contended);
        assert_eq!(
            other.try_lock(&name).await.map(|_| ()).unwrap_err().kind(),
            ErrorKind::Contended
        );
        second.release().await.unwrap();
        reader.upgrade().await.unwrap();
        let waiter = tokio::spawn(other.read(&name).into_future());
        reader.downgrade().await.unwrap();
        let third = soon("it is let in", waiter).await.unwrap().unwrap();
        assert_eq!(third.fence(), reader.fence());
        reader.release().await.unwrap();
        third.release().await.unwrap();
        let permits = other.semaphore(&name, 2);
        let permit = soon("a permit", permits.acquire(2).into_future()).await.unwrap();
        assert_eq!(
            permits.try_acquire(1).await.map(|_| ()).unwrap_err().kind(),
            ErrorKind::Contended
        );
        permit.extend().await.unwrap();
        permit.release().await.unwrap();
        eventually("it is free", || !cluster.holding(&name)).await;
    }
}

/// What has several keys is asked again when its slot has moved: nothing is counted, granted or given back before.
#[cfg(all(feature = "cluster", feature = "family"))]
#[tokio::test]
async fn shares_latches_and_barriers_wait_for_the_end_of_a_move() {
    let cluster = Cluster::start();
    let locker = cluster::connect(&cluster).await;
    let latch = locker.latch("{m}:x", 2);
    let mut party = locker.barrier("{m}:x", 2).party("one");
    assert!(!latch.count_down("one").await.unwrap().is_open());
    assert!(!party.arrive().await.unwrap().is_open());
    let reader = locker.read("{m}:x").await.unwrap();
    let (slot, from, to) = cluster.move_of("{m}:x");
    cluster.begin_migration(slot, from, to);
    let refused = [
        latch.count_down("two").await.map(|_| ()),
        latch.wait(LONG).await.map(|_| ()),
        party.arrive().await.map(|_| ()),
        locker.try_read("{m}:x").await.map(|_| ()),
        reader.release().await,
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "number {number}: {error}");
    }
    cluster.migrate_keys(slot, from, to);
    cluster.end_migration(slot, from, to);
    assert!(latch.count_down("two").await.unwrap().is_open());
    assert!(!party.arrive().await.unwrap().is_open());
    let writer = soon("the reader is given back", locker.write("{m}:x").into_future()).await;
    writer.unwrap().release().await.unwrap();
}

#[tokio::test]
#[cfg(feature = "replicas")]
async fn the_replicas_that_have_a_share_are_counted() {
    let servers = Replicated::start(1).await;
    let locker = servers.builder().connect().await.unwrap();
    let reader = soon("it reads", locker.read("a").into_future()).await.unwrap();
    assert_eq!(soon("it is counted", reader.replicated(1, STUCK)).await.unwrap(), 1);
}

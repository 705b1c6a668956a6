//! Readers that become writers, and writers that become readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::ErrorKind;
use leasehold_testing::{RedisServer, eventually, soon};

use super::{SHORT, joined, locker, refused, spawn, take, until_nothing_is_left, until_waiting};

#[tokio::test]
async fn the_sole_reader_writes_and_reads_on_and_nobody_comes_between() {
    let server = RedisServer::start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    let mut guard = take(one.read("a").label("catalog")).await;
    let read = guard.fence();
    let writer = spawn(other.write("a"));
    until_waiting(&server, 1).await;
    soon("it writes", guard.upgrade()).await.unwrap();
    let written = guard.fence();
    assert!(written > read);
    let error = refused(other.try_read("a")).await;
    assert!(
        error.kind() == ErrorKind::Contended && error.to_string().contains("catalog"),
        "{error}"
    );
    assert!(!writer.is_finished() && guard.remaining() > Duration::from_secs(3000));
    guard.extend().await.unwrap();
    soon("it reads", guard.downgrade()).await.unwrap();
    assert!(guard.fence() > written);
    let written = guard.fence();
    guard.extend().await.unwrap();
    assert!(!writer.is_finished(), "a reader is there");
    guard.release().await.unwrap();
    let writer = joined(writer).await;
    assert!(writer.fence() > written);
    writer.release().await.unwrap();
    until_nothing_is_left(&server).await;
    let stats = one.stats();
    assert_eq!((stats.held, stats.lost(), stats.failed), (0, 0, 0), "{stats}");
}

#[tokio::test]
async fn a_writer_that_becomes_a_reader_lets_in_waiting_readers() {
    let server = RedisServer::start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    let mut guard = take(one.write("a")).await;
    let readers = [spawn(other.read("a")), spawn(one.read("a"))];
    until_waiting(&server, 2).await;
    let writer = spawn(other.write("a"));
    until_waiting(&server, 3).await;
    soon("it reads", guard.downgrade()).await.unwrap();
    for reader in readers {
        let reader = joined(reader).await;
        // Where the writer has to ask again and again, it may have drawn a token in vain.
        assert!(reader.fence() >= guard.fence());
        reader.release().await.unwrap();
    }
    assert!(!writer.is_finished());
    guard.release().await.unwrap();
    joined(writer).await.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

/// Redisson #4796: two readers that want to write wait for one another.
#[tokio::test]
async fn of_two_readers_that_upgrade_neither_waits_and_both_read_on() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    // Renewed soon, and not lost on a busy machine.
    let ttl = Duration::from_secs(2);
    let mut first = take(locker.read("a").ttl(ttl)).await;
    let mut second = take(locker.read("a").ttl(ttl)).await;
    for _ in 0..3 {
        let both = async { tokio::join!(first.upgrade(), second.upgrade()) };
        let (one, other) = soon("neither waits", both).await;
        assert!(
            one.unwrap_err().kind() == ErrorKind::Contended
                && other.unwrap_err().kind() == ErrorKind::Contended
        );
    }
    let renewed = locker.stats().renewed;
    eventually("they are renewed", || locker.stats().renewed >= renewed + 8).await;
    assert!(!first.is_lost() && !second.is_lost());
    second.release().await.unwrap();
    first.upgrade().await.unwrap();
    let renewed = locker.stats().renewed;
    eventually("the writer is renewed", || locker.stats().renewed >= renewed + 4).await;
    assert_eq!(refused(locker.try_read("a")).await.kind(), ErrorKind::Contended);
    first.downgrade().await.unwrap();
    let renewed = locker.stats().renewed;
    eventually("the reader is renewed", || locker.stats().renewed >= renewed + 4).await;
    take(locker.read("a")).await.release().await.unwrap();
    first.release().await.unwrap();
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn of_many_that_read_then_write_one_writes_at_a_time() {
    let server = RedisServer::start();
    let lockers = [locker(&server).await, locker(&server).await];
    let (writing, reading) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks = (0..30_usize).map(|number| {
        let locker = lockers[number % 2].clone();
        let (writing, reading) = (Arc::clone(&writing), Arc::clone(&reading));
        tokio::spawn(async move {
            let mut guard = locker.read("a").await.unwrap();
            reading.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            reading.fetch_sub(1, Ordering::SeqCst);
            match guard.upgrade().await {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
                    guard.release().await.unwrap();
                    guard = locker.write("a").await.unwrap();
                }
            }
            assert_eq!(writing.fetch_add(1, Ordering::SeqCst), 0);
            assert_eq!(reading.load(Ordering::SeqCst), 0);
            tokio::time::sleep(Duration::from_millis(1)).await;
            writing.fetch_sub(1, Ordering::SeqCst);
            guard.downgrade().await.unwrap();
            guard.release().await.unwrap();
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        soon("all have written", task).await.unwrap();
    }
    until_nothing_is_left(&server).await;
}

#[tokio::test]
async fn what_is_gone_is_lost_and_an_upgrade_that_is_dropped_gives_back() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let mut guard = take(locker.read("a")).await;
    server.cli(&["DEL", "a"]);
    assert!(guard.upgrade().await.unwrap_err().kind() == ErrorKind::Lost && guard.is_lost());
    assert_eq!(guard.upgrade().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    let mut guard = take(locker.write("a")).await;
    server.cli(&["DEL", "a"]);
    assert!(guard.downgrade().await.unwrap_err().kind() == ErrorKind::Lost && guard.is_lost());
    for is_upgrade in [true, false] {
        let request = if is_upgrade { locker.read("a") } else { locker.write("a") };
        let mut guard = take(request).await;
        let turn =
            async { if is_upgrade { guard.upgrade().await } else { guard.downgrade().await } };
        // It is sent in its first poll.
        let dropped = tokio::time::timeout(Duration::ZERO, turn).await;
        if let Ok(Ok(())) = dropped {
            continue;
        }
        assert!(guard.is_lost());
        until_nothing_is_left(&server).await;
    }
    let stats = locker.stats();
    assert_eq!(stats.held, 0, "{stats}");
}

#[tokio::test]
async fn only_a_reader_is_upgraded_and_only_a_writer_downgraded() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let mut lock = take(locker.lock("a")).await;
    let mut permit = take(locker.semaphore("b", 1).acquire(1)).await;
    let mut reader = take(locker.read("c")).await;
    let mut writer = take(locker.write("d")).await;
    for guard in [&mut lock, &mut permit, &mut writer] {
        assert_eq!(guard.upgrade().await.unwrap_err().kind(), ErrorKind::Misuse);
    }
    for guard in [&mut lock, &mut permit, &mut reader] {
        assert_eq!(guard.downgrade().await.unwrap_err().kind(), ErrorKind::Misuse);
    }
    for guard in [lock, permit, reader, writer] {
        guard.release().await.unwrap();
    }
    // What a request says of its lease goes on.
    let mut short = take(locker.read("c").hold_at_most(SHORT)).await;
    short.upgrade().await.unwrap();
    let loss = soon("its time is over", short.lost()).await;
    assert_eq!(loss, leasehold::Loss::HeldLongest);
}

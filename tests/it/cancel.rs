//! Callers that are dropped at every await point, thousands of times, beside callers that go on.

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use leasehold::{ErrorKind, Locker};
use leasehold_resp::Frame;
use leasehold_testing::{RedisServer, eventually, soon};

/// So long that no key is ever free because of it.
const TTL: Duration = Duration::from_secs(3600);

async fn locker(server: &RedisServer) -> Locker {
    Locker::builder().node(server.url()).ttl(TTL).connect().await.unwrap()
}

/// Polls at most `polls` times; whether the future ended is its output or none.
async fn poll_up_to<F: Future>(polls: usize, mut future: Pin<&mut F>) -> Option<F::Output> {
    for _ in 0..polls {
        let polled = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

async fn all_free(server: &RedisServer, names: usize) {
    let free = |name: usize| server.cli(&["EXISTS", &format!("n{name}")]) == Frame::Integer(0);
    eventually("every lock is given back", || (0..names).all(free)).await;
}

#[tokio::test]
async fn an_acquire_dropped_at_any_await_point_holds_nothing() {
    const NAMES: usize = 7;
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let staying = tokio::spawn({
        let locker = locker.clone();
        async move {
            for _ in 0..1_000 {
                locker.try_lock("mine").await.unwrap().release().await.unwrap();
            }
        }
    });
    for round in 0..10_000 {
        let name = format!("n{}", round % NAMES);
        let request = locker.lock(&name);
        if round % 2 == 0 {
            drop(poll_up_to(round % 5, pin!(request.into_future())).await);
        } else {
            drop(poll_up_to(round % 5, pin!(request.unfenced().into_future())).await);
        }
    }
    soon("the caller that stays is served", staying).await.unwrap();
    all_free(&server, NAMES).await;
}

#[tokio::test]
async fn a_release_or_extension_dropped_at_any_await_point_leaves_nothing_held() {
    const NAMES: usize = 7;
    let server = RedisServer::start();
    let locker = locker(&server).await;
    for round in 0..2_000 {
        let name = format!("n{}", round % NAMES);
        let guard = locker.lock(&name).await.unwrap();
        let _ = poll_up_to(round % 4, pin!(guard.extend())).await;
        let _ = poll_up_to(round % 5, pin!(guard.release())).await;
    }
    all_free(&server, NAMES).await;
}

/// SCRIPT FLUSH, a restart and a failover all lose the scripts, so NOSCRIPT is routine.
#[tokio::test]
async fn scripts_may_vanish_between_any_two_commands() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let flush = || server.cli(&["SCRIPT", "FLUSH"]);
    for flushes in 0..64_u32 {
        let flush_before = |step: u32| {
            if flushes & (1 << step) != 0 {
                flush();
            }
        };
        flush_before(0);
        let guard = locker.try_lock("n0").await.unwrap();
        flush_before(1);
        assert_eq!(locker.try_lock("n0").await.unwrap_err().kind(), ErrorKind::Contended);
        flush_before(2);
        assert_eq!(
            locker.try_lock("n0").unfenced().await.unwrap_err().kind(),
            ErrorKind::Contended
        );
        flush_before(3);
        guard.extend().await.unwrap();
        flush_before(4);
        guard.release().await.unwrap();
        let guard = locker.try_lock("n0").unfenced().await.unwrap();
        flush_before(5);
        drop(guard);
        all_free(&server, 1).await;
    }
}

#[tokio::test]
async fn an_acquire_cancelled_while_its_script_is_missing_holds_nothing() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    for round in 0..300 {
        server.cli(&["SCRIPT", "FLUSH"]);
        drop(poll_up_to(round % 6, pin!(locker.lock("n0").into_future())).await);
    }
    all_free(&server, 1).await;
}

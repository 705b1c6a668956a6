//! The longest and the shortest durations, wherever the public interface takes one: an error at most, never a panic or
//! an overflow.

use std::time::Duration;

use leasehold::limits::Rate;
use leasehold::{ErrorKind, Locker, Retry};
use leasehold_testing::RedisServer;

const LONGEST: Duration = Duration::MAX;

#[tokio::test]
async fn the_longest_duration_is_taken_or_refused_wherever_one_is_given() {
    let server = RedisServer::start();
    let builder = || Locker::builder().node(&*server.url());
    for builder in [
        builder().ttl(LONGEST),
        builder().command_timeout(LONGEST),
        builder().connect_timeout(LONGEST),
        builder().min_validity(LONGEST),
        builder().max_ttl(LONGEST),
    ] {
        if let Err(error) = builder.connect().await {
            assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        }
    }

    let locker = builder().connect().await.unwrap();
    let request = || locker.lock("a");
    for refused in [
        request().ttl(LONGEST),
        request().min_validity(LONGEST),
        request().hold_at_least(LONGEST),
        request().lock_delay(LONGEST),
    ] {
        assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::Misuse);
    }
    let guard = request().await.unwrap();
    // There is no replica.
    #[cfg(feature = "replicas")]
    assert_eq!(guard.replicated(1, LONGEST).await.unwrap(), 0);
    guard.release().await.unwrap();
    for granted in [
        request().wait_at_most(LONGEST),
        request().hold_at_most(LONGEST),
        request().retry(Retry::fixed(LONGEST).jitter(false)),
    ] {
        granted.await.unwrap().release().await.unwrap();
    }
    for name in ["waits", "waits in the queue"] {
        let holder = locker.lock(name).await.unwrap();
        let other = builder().connect().await.unwrap();
        let retry = Retry::fixed(LONGEST).jitter(false);
        let counted = if name == "waits" { retry.attempts(9) } else { retry };
        let asked = other.lock(name).retry(counted).wait_at_most(Duration::from_millis(30)).await;
        assert_eq!(asked.unwrap_err().kind(), ErrorKind::Contended);
        holder.release().await.unwrap();
    }

    let limit = locker.limit("limit", Rate::new(1, Duration::from_secs(1)));
    assert!(limit.reserve(1, LONGEST).await.is_err_and(|error| error.kind() == ErrorKind::Misuse));
    let done = locker.idempotent("done", b"digest", Duration::from_secs(60));
    let done = done.wait_at_most(LONGEST);
    done.run(async |_| Ok::<_, ()>(vec![])).await.unwrap();
    let latch = locker.latch("latch", 1);
    latch.count_down("party").await.unwrap();
    latch.wait(LONGEST).await.unwrap();
    locker.shutdown(LONGEST).await;
}

#[tokio::test]
async fn a_limit_below_a_millisecond_has_one_try_as_zero_has() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    for nanos in [0, 1, 1_000, 999_999].repeat(5) {
        let limit = Duration::from_nanos(nanos);
        let guard = locker.lock("free").wait_at_most(limit).await.unwrap();
        let refused = locker.lock("free").wait_at_most(limit).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Contended, "{limit:?}: {refused}");
        guard.release().await.unwrap();
    }
}

/// It once said "must be at least 10 ms, not 10 ms".
#[tokio::test]
async fn a_duration_that_is_refused_is_not_written_as_its_bound() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let refused = locker.lock("a").ttl(Duration::from_nanos(9_999_999)).await.unwrap_err();
    assert!(refused.to_string().contains("at least 10 ms, not 9.999999 ms"), "{refused}");
}

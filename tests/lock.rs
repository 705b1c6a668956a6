//! One lock on one real server: taken, kept, refused, given back.

mod support;

use std::time::Duration;

use leasehold::Locker;
use support::RedisServer;

#[tokio::test]
async fn a_lock_is_taken_refused_to_others_and_given_back() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();

    let guard = locker.lock("invoice:42").label("billing").await.unwrap();
    assert!(!guard.is_lost());
    assert!(guard.remaining() > Duration::from_secs(9));
    let error = locker.try_lock("invoice:42").await.unwrap_err();
    assert!(error.is_contended(), "{error}");
    println!("{error}");
    let holder = error.report().holder().unwrap();
    assert_eq!(holder.label.as_deref(), Some("billing"));
    let first = guard.fence();
    guard.release().await.unwrap();

    let again = locker.try_lock("invoice:42").await.unwrap();
    assert!(again.fence() > first);
    println!("{again:?}");
}

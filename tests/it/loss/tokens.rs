//! Tokens that are cancelled when a lease is over.

use leasehold_testing::{RedisServer, eventually, soon};
use tokio::runtime::Runtime;

use super::{LONG, locker, take};

#[tokio::test]
async fn a_token_is_cancelled_by_a_loss_a_release_and_a_drop() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = take(&locker, LONG).await;
    let (token, again) = (guard.cancellation_token(), guard.cancellation_token());
    eventually("its lease is watched", || locker.stats().renewed == 1).await;
    assert!(!token.is_cancelled());
    server.cli(&["DEL", "a"]);
    soon("the loss", again.cancelled()).await;
    assert!(token.is_cancelled() && guard.is_lost() && guard.cancellation_token().is_cancelled());
    drop(guard);

    let guard = take(&locker, LONG).await;
    let token = guard.cancellation_token();
    let releasing = guard.release();
    assert!(!token.is_cancelled(), "nothing was awaited yet");
    releasing.await.unwrap();
    assert!(token.is_cancelled());

    let guard = take(&locker, LONG).await;
    let token = guard.cancellation_token();
    drop(guard);
    assert!(token.is_cancelled());

    drop(locker);
    eventually("no task keeps the connection", || {
        server.cli_text(&["CLIENT", "LIST"]).lines().count() == 1
    })
    .await;
}

#[test]
fn a_token_is_cancelled_where_the_runtime_ends() {
    let server = RedisServer::start();
    let runtime = Runtime::new().unwrap();
    let guard = runtime.block_on(async { take(&locker(&server).await, LONG).await });
    let token = guard.cancellation_token();
    assert!(!token.is_cancelled());
    drop(runtime);
    assert!(token.is_cancelled());
    assert!(guard.cancellation_token().is_cancelled());
}

/// Another lease takes the place of the one that the token was made for.
#[cfg(feature = "sharing")]
#[tokio::test]
async fn a_token_goes_on_with_a_guard_that_is_upgraded() {
    let server = RedisServer::start();
    // Where tests have the rights of locks alone: a share needs more.
    server.cli(&["ACL", "SETUSER", "default", "allkeys", "allchannels", "+@all"]);
    let locker = locker(&server).await;
    let mut guard = locker.read("a").ttl(LONG).await.unwrap();
    let token = guard.cancellation_token();
    guard.upgrade().await.unwrap();
    tokio::task::yield_now().await;
    assert!(!token.is_cancelled());
    let other = locker.read("b").await.unwrap();
    let mut beside = locker.read("b").await.unwrap();
    let (stays, _) = (beside.cancellation_token(), beside.upgrade().await.unwrap_err());
    tokio::task::yield_now().await;
    assert!(!stays.is_cancelled(), "it reads on");
    eventually("its lease is watched", || locker.stats().renewed > 0).await;
    server.cli(&["DEL", "a"]);
    soon("the loss", token.cancelled()).await;
    drop(other);
    let mut given_up = locker.read("c").await.unwrap();
    let token = given_up.cancellation_token();
    server.stop();
    assert!(
        tokio::time::timeout(std::time::Duration::from_millis(50), given_up.upgrade())
            .await
            .is_err()
    );
    assert!(token.is_cancelled() && given_up.is_lost());
    server.cont();
}

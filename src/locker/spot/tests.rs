//! Commands from outside, on a real server.
#![cfg(feature = "cluster")]

use super::*;
use crate::api::tests::locker;
use crate::error::FailureKind;
use crate::support::RedisServer;

/// A scan of all keys goes on while nodes come and go.
#[tokio::test]
async fn a_node_is_not_taken_for_another_that_has_its_link() {
    let servers = [RedisServer::start()];
    let locker = locker(&servers);
    let ask = async |address: &str| {
        let spot = Spot { locker: locker.clone(), at: At::Link(0, address.into()) };
        assert_eq!(spot.address(), address);
        spot.ask(None, None, &[b"PING"], &[], |reply| reply.as_bytes().cloned()).await
    };
    assert_eq!(ask(&locker.driver.address(0)).await.unwrap(), "PONG");
    let gone = ask("another:6379").await.unwrap_err();
    assert_eq!(gone.to_string(), "it serves no slot of the Cluster any more");
    assert_eq!(gone.kind(), FailureKind::Unavailable);
}

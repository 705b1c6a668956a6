//! Names and addresses: resolved at each dial, all of them tried, IPv6 too.

use std::net::ToSocketAddrs;
use std::time::Duration;

use leasehold::{ErrorKind, Locker};
use leasehold_testing::{FaultProxy, RedisServer, ports, soon};

async fn works(url: String) {
    let locker = soon("connecting", Locker::connect(&url)).await.unwrap();
    soon("a lock", locker.lock("a").into_future()).await.unwrap().release().await.unwrap();
}

/// Where `localhost` is `::1` first, nobody listens there.
#[tokio::test]
async fn a_name_of_several_addresses_is_found_at_whichever_serves() {
    let server = RedisServer::start();
    works(format!("redis://localhost:{}", server.port())).await;
    works(format!("valkey://localhost:{}", server.port())).await;
}

#[tokio::test]
async fn an_ipv6_address_in_brackets_is_dialed() {
    let server = RedisServer::builder().bind("::1").start();
    works(format!("redis://[::1]:{}", server.port())).await;
}

#[tokio::test]
async fn every_address_of_a_dead_name_is_in_the_error() {
    let port = ports::free();
    let url = format!("redis://localhost:{port}");
    let error = soon("an error", Locker::connect(&url)).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    for address in ("localhost", port).to_socket_addrs().unwrap() {
        assert!(error.to_string().contains(&format!("{address}: ")), "{error}");
    }
}

/// As behind a name or a balancer that follows the master: connections that are open stay where they are.
#[tokio::test]
async fn an_address_that_leads_to_a_new_master_is_dialed_again() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let proxy = FaultProxy::start(old.address());
    let locker = Locker::connect(&proxy.url()).await.unwrap();
    locker.lock("a").await.unwrap().release().await.unwrap();
    proxy.lead_to(new.address());
    old.cli(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    let taken = async {
        loop {
            match locker.try_lock("a").await {
                Ok(guard) => return guard,
                // The one that was under way when the demoted server was left has no answer.
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let guard = soon("the new master is found", taken).await;
    assert_eq!(new.cli_text(&["EXISTS", "a"]), "1");
    guard.release().await.unwrap();
}

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn a_build_without_tls_does_not_fall_back_to_none() {
    let server = RedisServer::start();
    let url = format!("rediss://127.0.0.1:{}", server.port());
    let error = soon("an error", Locker::connect(&url)).await.map(|_| ()).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Misuse && error.to_string().contains("the feature `tls`"),
        "{error}"
    );
}

#[cfg(not(all(feature = "cluster", feature = "sentinel")))]
async fn assert_left_out(url: &str, feature: &str) {
    let error = soon("an error", Locker::connect(url)).await.map(|_| ()).unwrap_err();
    let remedy = format!("build leasehold with the feature `{feature}`");
    assert!(error.kind() == ErrorKind::Misuse && error.to_string().contains(&remedy), "{error}");
}

#[cfg(not(feature = "cluster"))]
#[tokio::test]
async fn a_build_without_clusters_says_which_feature_they_need() {
    assert_left_out("rediss-cluster://127.0.0.1,127.0.0.2", "cluster").await;
}

#[cfg(not(feature = "sentinel"))]
#[tokio::test]
async fn a_build_without_sentinels_says_which_feature_they_need() {
    assert_left_out("valkey-sentinel://127.0.0.1/main", "sentinel").await;
}

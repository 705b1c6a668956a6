//! A name that leads to another server, while connections to the former one live: a lease belongs to one run of one
//! server.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Builder, ErrorKind, Locker};
use leasehold_testing::{FaultProxy, RedisServer, eventually, soon};
use tokio::task::JoinSet;

const TTL: Duration = Duration::from_secs(2);

fn builder(proxy: &FaultProxy) -> Builder {
    Locker::builder().node(proxy.url()).ttl(TTL)
}

/// A holder and a waiter are connected to one server when the name begins to lead to another one.
async fn waits_for_the_holders_loss(servers: &[RedisServer; 2], name: &str, is_one_locker: bool) {
    let [old, new] = servers.each_ref().map(RedisServer::address);
    let proxy = FaultProxy::start(old);
    let holder = builder(&proxy).connect().await.unwrap();
    let waiter = match is_one_locker {
        true => holder.clone(),
        false => builder(&proxy).connect().await.unwrap(),
    };
    let guard = holder.lock(name).await.unwrap();
    proxy.lead_to(new);
    let refused = waiter.try_lock(name).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Contended, "{refused}");
    // All goes on at the server before until the connections end.
    let refused = waiter.lock(name).wait_at_most(TTL).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Contended, "{refused}");
    assert!(!guard.is_lost());
    proxy.cut();
    let second =
        soon("the waiter is granted the lock", waiter.lock(name).into_future()).await.unwrap();
    if is_one_locker {
        assert!(guard.is_lost(), "two hold {name}");
    }
    // Another process is no faster than its connection: nobody knows a name that has moved from a restart then.
    soon("the holder is told", guard.lost()).await;
    second.release().await.unwrap();
}

/// redis#6258, redisson#1742: five tries of each kind, as many as showed two holders each time.
#[tokio::test]
async fn a_name_that_moves_makes_no_second_holder() {
    let servers = Arc::new([RedisServer::start(), RedisServer::start()]);
    let mut tries = JoinSet::new();
    for number in 0..10 {
        let servers = Arc::clone(&servers);
        tries.spawn(async move {
            let name = format!("lock-{number}");
            waits_for_the_holders_loss(&servers, &name, number % 2 == 1).await;
        });
    }
    while let Some(tried) = tries.join_next().await {
        tried.unwrap();
    }
}

/// A failover that the name follows: the other server has the leases of the one before.
#[tokio::test]
async fn a_lease_that_the_other_server_has_is_kept() {
    let servers = [RedisServer::start(), RedisServer::start()];
    let proxy = FaultProxy::start(servers[0].address());
    let locker = builder(&proxy).connect().await.unwrap();
    let guard = locker.lock("a").await.unwrap();
    let owner = servers[0].cli(&["GET", "a"]);
    let owner = std::str::from_utf8(owner.as_bytes().unwrap()).unwrap().to_owned();
    servers[1].cli(&["SET", "a", &owner, "PX", "2000"]);
    proxy.lead_to(servers[1].address());
    let waiter = locker.clone();
    let waiting = tokio::spawn(async move { waiter.lock("a").await });
    proxy.cut();
    proxy.until_accepted(2).await;
    let renewed = locker.stats().renewed;
    eventually("it is renewed twice there", || locker.stats().renewed > renewed + 1).await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    soon("the waiter's turn comes", waiting).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(servers[1].cli(&["EXISTS", "a"]), leasehold_resp::Frame::Integer(0));
}

/// The connections end before there are new ones.
#[tokio::test]
async fn a_restart_is_no_move_and_keeps_nobody_out() {
    let mut server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let builder = builder(&proxy).max_ttl(Duration::from_secs(3600));
    let locker = builder.connect().await.unwrap();
    let guard = locker.lock("a").await.unwrap();
    let waiter = locker.clone();
    let waiting = tokio::spawn(async move { waiter.lock("a").await });
    eventually("it waits", || locker.stats().waiting == 1).await;
    proxy.until_open(1).await;
    server.kill();
    server.restart();
    let second = soon("the lock is free again", waiting).await.unwrap().unwrap();
    second.release().await.unwrap();
    drop(guard);
}

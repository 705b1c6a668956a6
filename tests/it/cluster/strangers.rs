//! Strange servers at the address of a node that is gone, as when addresses are reused.

use std::future::IntoFuture;

use leasehold::{Error, ErrorKind, Locker};
use leasehold_testing::{Cluster, RedisServer, soon};

use super::{connect, spread, take};

/// Asks until it is refused for this reason, and is granted nothing until then.
async fn is_refused(locker: &Locker, name: &str, is_why: impl Fn(&Error) -> bool) {
    let refused = async { while !is_why(&locker.try_lock(name).await.map(|_| ()).unwrap_err()) {} };
    soon("it is refused", refused).await;
}

/// Takes another lock there: a replica may not have heard of its release when the node dies.
async fn meet_node_of(locker: &Locker, name: &str) {
    take(locker, &format!("{{{name}}} met")).await.release().await.unwrap();
}

/// Before Redis 7 other nodes may notice first: they say that the slot is at port 0 then.
fn is_no_node(error: &Error) -> bool {
    let text = error.to_string();
    text.contains("no node of the Cluster") || text.contains(" :0)")
}

/// It would grant the locks of all slots beside the node's successor.
#[tokio::test]
async fn a_server_that_is_no_node_and_comes_to_the_address_of_one_grants_nothing() {
    let mut cluster = Cluster::start_beside_others();
    let [name, ..] = spread(&cluster);
    let (slot, port) = (cluster.slot(&name), cluster[0].port());
    let locker = connect(&cluster).await;
    meet_node_of(&locker, &name).await;
    cluster.kill(0);
    let waiting = tokio::spawn(locker.lock(&name).into_future());
    let other = RedisServer::builder().port(port).start();
    is_refused(&locker, &name, is_no_node).await;
    cluster.wait_until_failed_over(slot).await;
    let guard = soon("the successor grants it", waiting).await.unwrap().unwrap();
    assert!(cluster.holding(&name));
    assert_eq!(other.cli_text(&["DBSIZE"]), "0");
    guard.release().await.unwrap();
}

/// A Cluster of one node, at this port.
async fn another_cluster(port: u16) -> RedisServer {
    let node = RedisServer::builder().arg("--cluster-enabled").arg("yes").port(port).start();
    node.complete_slots(0..=16_383).await;
    node
}

#[tokio::test]
async fn a_node_of_another_cluster_that_comes_to_the_address_of_one_grants_nothing() {
    let mut cluster = Cluster::start_beside_others();
    let [name, ..] = spread(&cluster);
    let (slot, port, replica) = (cluster.slot(&name), cluster[0].port(), cluster.replica_of(0));
    let (holder, locker) = (connect(&cluster).await, connect(&cluster).await);
    meet_node_of(&locker, &name).await;
    cluster.kill(0);
    let other = another_cluster(port).await;
    is_refused(&locker, &name, is_no_node).await;
    assert_eq!(cluster[replica].cli_text(&["CLUSTER", "FAILOVER", "TAKEOVER"]), "OK");
    cluster.wait_until_failed_over(slot).await;
    let guard = take(&holder, &name).await;
    is_refused(&locker, &name, |error| error.kind() == ErrorKind::Contended).await;
    guard.release().await.unwrap();
    take(&locker, &name).await.release().await.unwrap();
    assert_eq!(other.cli_text(&["DBSIZE"]), "0");
}

/// As an operator replaces a node; it has another id.
#[tokio::test]
async fn a_new_node_of_the_cluster_at_the_address_of_one_that_is_gone_serves() {
    let mut cluster = Cluster::start_beside_others();
    let [name, ..] = spread(&cluster);
    let slot = cluster.slot(&name);
    let locker = connect(&cluster).await;
    meet_node_of(&locker, &name).await;
    cluster.kill(0);
    let from = cluster.wait_until_failed_over(slot).await;
    take(&locker, &name).await.release().await.unwrap();
    let before = cluster.id(0).to_owned();
    cluster.forget(0);
    cluster.replace(0).await;
    assert_ne!(cluster.id(0), before);
    // No map of the nodes has it yet, as it has no slot.
    cluster.begin_migration(slot, from, 0);
    take(&locker, &name).await.release().await.unwrap();
    assert!(cluster.migrate_keys(slot, from, 0) > 0, "counters of tokens are left");
    cluster.end_migration(slot, from, 0);
    let guard = take(&locker, &name).await;
    assert_eq!(cluster[0].cli_text(&["EXISTS", &name]), "1");
    guard.release().await.unwrap();
}

//! Lists of locks while slots move.

use std::collections::BTreeSet;

use leasehold::inspect::{List, LockView};
use leasehold_testing::{Cluster, soon};

use crate::cluster::{connect, spread, take};

/// What is left of a list, and whether that was all.
async fn rest(list: &mut List<LockView>) -> (BTreeSet<String>, bool) {
    let mut names = BTreeSet::new();
    while let Some(view) = soon("a lock", list.next()).await.unwrap() {
        names.insert(String::from_utf8(view.name).unwrap());
    }
    (names, list.is_complete())
}

/// How often nodes were asked what they serve.
fn times_asked(cluster: &Cluster) -> Vec<String> {
    let stats = cluster.nodes().map(|node| node.cli_text(&["INFO", "commandstats"]));
    // Before Redis 7 a server counts all questions of that command together.
    let is_of_nodes = |it: &&str| it.contains("|nodes:") || it.starts_with("cmdstat_cluster:");
    let of_nodes = |text: String| text.lines().filter(is_of_nodes).collect();
    stats.map(of_nodes).collect()
}

#[tokio::test]
async fn a_list_that_has_ended_asks_no_more() {
    let cluster = Cluster::start();
    let locker = connect(&cluster).await;
    let mut list = locker.list("*");
    let before = times_asked(&cluster);
    assert_eq!(rest(&mut list).await, (BTreeSet::new(), true));
    let asked = times_asked(&cluster);
    assert_ne!(asked, before);
    assert_eq!(rest(&mut list).await, (BTreeSet::new(), true));
    assert_eq!(times_asked(&cluster), asked);
}

/// A node is gone through in one step: what comes to it then is not found there, and no more where it was.
#[tokio::test]
async fn a_list_is_not_complete_where_a_slot_has_moved_meanwhile() {
    let cluster = Cluster::start();
    let locker = connect(&cluster).await;
    let names = spread(&cluster);
    let mut guards = Vec::new();
    for name in &names {
        guards.push(take(&locker, name).await);
    }
    let all = BTreeSet::from(names.clone());
    assert_eq!(rest(&mut locker.list("*")).await, (all.clone(), true));

    let mut list = locker.list("*");
    let first = soon("a lock", list.next()).await.unwrap().unwrap().name;
    let to = names.iter().position(|name| name.as_bytes() == first).unwrap();
    let from = (to + 1) % 3;
    let slot = cluster.slot(&names[from]);
    cluster.begin_migration(slot, from, to);
    cluster.migrate_keys(slot, from, to);
    cluster.end_migration(slot, from, to);
    // In exchange for one that is empty.
    let empty = (0..).find(|slot| cluster.master_of(*slot) == to).unwrap();
    cluster.begin_migration(empty, to, from);
    cluster.end_migration(empty, to, from);
    let last = names[(to + 2) % 3].clone();
    assert_eq!(rest(&mut list).await, (BTreeSet::from([last]), false));
    assert!(format!("{:?}", list.failures()).contains("a slot has moved"), "{:?}", list.failures());
    assert_eq!(rest(&mut locker.list("*")).await, (all.clone(), true));

    // Half of the way back.
    cluster.begin_migration(slot, to, from);
    assert!(!rest(&mut locker.list("*")).await.1);
    cluster.migrate_keys(slot, to, from);
    cluster.end_migration(slot, to, from);
    assert_eq!(rest(&mut locker.list("*")).await, (all, true));
    drop(guards);
}

/// Its map of the slots is older than the last of these nodes.
#[tokio::test]
async fn a_list_is_not_complete_without_a_node_that_is_not_known_yet() {
    let mut cluster = Cluster::start();
    let locker = connect(&cluster).await;
    let other = connect(&cluster).await;
    let name = "lock:moved";
    let guard = take(&other, name).await;
    let (slot, from) = (cluster.slot(name), cluster.master_of(cluster.slot(name)));
    let to = cluster.add_node().await;
    cluster.begin_migration(slot, from, to);
    cluster.migrate_keys(slot, from, to);
    cluster.end_migration(slot, from, to);
    assert_eq!(rest(&mut locker.list("*")).await, (BTreeSet::new(), false));
    // It is led there.
    locker.inspect(name).await.unwrap();
    assert_eq!(rest(&mut locker.list("*")).await, (BTreeSet::from([name.to_owned()]), true));
    drop(guard);
}

/// It is asked for its slots, and then scanned.
#[tokio::test]
async fn a_node_that_is_down_is_told_once() {
    let mut cluster = Cluster::of_masters(3);
    let locker = connect(&cluster).await;
    cluster.kill(1);
    let fails = async || {
        let mut list = locker.list("*");
        while let Ok(Some(_)) = list.next().await {}
        list.failures().to_vec()
    };
    // At first its connection has broken, and then there is none.
    let told = soon("its failures are the same", async {
        loop {
            if let [failure] = &fails().await[..] {
                break failure.server.clone();
            }
        }
    });
    assert_eq!(told.await, cluster[1].address().to_string());
}

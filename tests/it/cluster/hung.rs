//! A master that hangs while its kernel still accepts connections: only the map shows its successor.

use std::time::Duration;

use leasehold::Locker;
use leasehold_testing::{Cluster, RedisServer, eventually, soon};

use super::{TTL, spread};

/// Longer than a test waits for anything. Over TLS a dial that takes a connection's place hangs for 30 s by default.
const DIAL: Duration = Duration::from_secs(60);

async fn patient(cluster: &Cluster) -> Locker {
    let builder = Locker::builder().node(cluster.seed_url(3)).ttl(TTL).connect_timeout(DIAL);
    soon("it connects", builder.connect()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_is_found_while_the_dial_of_a_master_hangs() {
    let mut cluster = Cluster::start();
    let locker = patient(&cluster).await;
    let [name, ..] = spread(&cluster);
    let slot = cluster.slot(&name);
    let master = cluster.master_of(slot);
    cluster.stop(master);
    let waiting = tokio::spawn(locker.lock(&name).wait_at_most(DIAL).into_future());
    cluster.wait_until_failed_over(slot).await;
    let guard = soon("the successor grants it", waiting).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// A pause of a second between two questions would allow some 17 of them here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_map_is_asked_for_often_while_something_waits_for_a_master() {
    let mut cluster = Cluster::of_masters(3);
    let locker = patient(&cluster).await;
    let [name, ..] = spread(&cluster);
    let master = cluster.master_of(cluster.slot(&name));
    cluster.stop(master);
    let others: Vec<usize> = (0..3).filter(|node| *node != master).collect();
    let asked = || -> u64 { others.iter().map(|node| map_questions(&cluster[*node])).sum() };
    let before = asked();
    let waiting = tokio::spawn(locker.lock(&name).wait_at_most(DIAL).into_future());
    eventually("the map is asked for", || asked() > before + 40).await;
    waiting.abort();
}

/// How often a node was asked for anything of the Cluster.
fn map_questions(node: &RedisServer) -> u64 {
    let said = node.cli_text(&["INFO", "commandstats"]);
    let of = |line: &str| -> Option<u64> {
        line.strip_prefix("cmdstat_cluster")?.split(['=', ',']).nth(1)?.parse().ok()
    };
    said.lines().filter_map(of).sum()
}

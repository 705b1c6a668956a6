//! A master hangs for which the kernel still takes connections: nothing but the map tells of its successor.

use std::time::Duration;

use leasehold::Locker;
use leasehold_testing::{Cluster, soon};

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

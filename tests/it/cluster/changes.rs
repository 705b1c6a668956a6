//! The Cluster changes while locks are acquired, held and released.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{FencingToken, Locker};
use tokio::task::JoinSet;

use super::{connect, spread, take};
use leasehold_testing::{Cluster, eventually, soon};

/// Short, so that leases are renewed many times while things happen.
const SHORT: Duration = Duration::from_millis(1500);
/// For those that are held all the while: longer than a master may pause for a failover.
const TTL: Duration = Duration::from_secs(9);
const NAMES: usize = 12;

/// Tasks that take the same locks in turn and write down what they see.
pub(super) struct Load {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    granted: AtomicU64,
    /// The holder of each lock, and the largest token seen of it.
    locks: Mutex<HashMap<String, (bool, Option<FencingToken>)>>,
    /// What should not have been.
    wrong: Mutex<Vec<String>>,
}

impl Load {
    pub(super) fn start(lockers: &[Locker]) -> Self {
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        for task in 0..8 {
            let locker = lockers[task % lockers.len()].clone();
            tasks.spawn(Arc::clone(&shared).work(locker, task));
        }
        Self { shared, tasks }
    }

    fn granted(&self) -> u64 {
        self.shared.granted.load(Ordering::Relaxed)
    }

    /// Waits until many more locks have been granted.
    pub(super) async fn goes_on(&self) {
        let before = self.granted();
        eventually("locks are granted", || self.granted() > before + 50).await;
    }

    /// Ends it, and says what was wrong.
    pub(super) async fn end(mut self) -> Vec<String> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = soon("the tasks end", self.tasks.join_next()).await {
            ended.unwrap();
        }
        std::mem::take(&mut *self.shared.wrong.lock().unwrap())
    }
}

impl Shared {
    async fn work(self: Arc<Self>, locker: Locker, task: usize) {
        let mut round = task;
        while !self.is_over.load(Ordering::Relaxed) {
            round += 1;
            let name = format!("load:{}", round % NAMES);
            let Ok(guard) = locker.lock(&name).ttl(SHORT).wait_at_most(SHORT).await else {
                continue;
            };
            self.enter(&name, guard.fence());
            tokio::time::sleep(Duration::from_millis(2)).await;
            self.leave(&name);
            if guard.is_lost() {
                self.wrong.lock().unwrap().push(format!("{name}: lost, {:?}", guard.loss()));
            }
            if round % 2 == 0 {
                let _ = guard.release().await;
            }
        }
    }

    fn enter(&self, name: &str, token: FencingToken) {
        let mut locks = self.locks.lock().unwrap();
        let (is_held, largest) = locks.entry(name.to_owned()).or_default();
        if std::mem::replace(is_held, true) {
            self.wrong.lock().unwrap().push(format!("{name}: two holders"));
        }
        if largest.replace(token) >= Some(token) {
            self.wrong.lock().unwrap().push(format!("{name}: {token} is not the largest"));
        }
        self.granted.fetch_add(1, Ordering::Relaxed);
    }

    fn leave(&self, name: &str) {
        self.locks.lock().unwrap().get_mut(name).unwrap().0 = false;
    }
}

async fn held_ones(locker: &Locker, cluster: &Cluster) -> Vec<leasehold::Guard> {
    let mut held = Vec::new();
    for name in spread(cluster) {
        held.push(soon("it is granted", locker.lock(name).ttl(TTL).into_future()).await.unwrap());
    }
    held
}

/// Nothing of this costs a lease, an order, or the rights of a single holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_nodes_seeds_and_connections_change_and_no_lease_is_lost() {
    let mut cluster = Cluster::start();
    let lockers = [connect(&cluster).await, connect(&cluster).await];
    let held = held_ones(&lockers[0], &cluster).await;
    let load = Load::start(&lockers);
    load.goes_on().await;

    for _ in 0..5 {
        cluster.kill_all_connections();
        load.goes_on().await;
    }
    // The nodes by which the cluster was found are none of it any more.
    let mut masters = Vec::new();
    for (seed, guard) in held.iter().enumerate() {
        let slot = cluster.slot(std::str::from_utf8(guard.name()).unwrap());
        masters.push(cluster.promote_replica_of(seed).await);
        cluster.wait_until_failed_over(slot).await;
        load.goes_on().await;
        cluster.forget(seed);
        cluster.kill(seed);
        load.goes_on().await;
    }
    let new = cluster.add_node().await;
    cluster.migrate_slots(masters[0], new, 500).await;
    load.goes_on().await;
    cluster.migrate_slots(masters[1], masters[2], 1000).await;
    load.goes_on().await;
    cluster.kill_all_connections();
    load.goes_on().await;

    for guard in &held {
        assert!(!guard.is_lost(), "{:?}: {:?}", guard.name(), guard.loss());
        guard.extend().await.unwrap();
    }
    let names: Vec<String> =
        held.iter().map(|guard| String::from_utf8(guard.name().to_vec()).unwrap()).collect();
    for guard in held {
        guard.release().await.unwrap();
    }
    assert!(!names.iter().any(|name| cluster.holding(name)));
    assert_eq!(load.end().await, Vec::<String>::new());
}

/// A replica that is promoted may lack the last writes: what is held by then may be lost, or even
/// be granted to another. All goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_is_killed_and_its_replica_takes_over() {
    let mut cluster = Cluster::start();
    let lockers = [connect(&cluster).await, connect(&cluster).await];
    let load = Load::start(&lockers);
    load.goes_on().await;
    let [name, ..] = spread(&cluster);
    let slot = cluster.slot(&name);
    let held = soon("it is granted", lockers[0].lock(&name).into_future()).await.unwrap();
    let dropped = take(&lockers[0], &format!("{{{name}}}:2")).await;
    let master = cluster.master_of(slot);
    let replica = cluster.replica_of(master);
    let mut side = cluster[replica].client();
    side.text(&["READONLY"]);
    let both = [name.clone(), format!("{{{name}}}:2")];
    eventually("the replica has them", || {
        both.iter().all(|name| side.text(&["EXISTS", name]) == "1")
    })
    .await;

    cluster.kill(master);
    drop(dropped);
    assert_eq!(cluster.wait_until_failed_over(slot).await, replica);
    load.goes_on().await;
    // The lease is with the replica, and goes on there.
    soon("it is extended", async {
        while held.extend().await.is_err() {
            assert!(!held.is_lost(), "{:?}", held.loss());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(cluster.holding(&name));
    eventually("what was owed is paid", || !cluster.holding(&both[1])).await;
    held.release().await.unwrap();
    assert!(!cluster.holding(&name));

    // The one that was killed comes back as a replica, and nothing is asked of it.
    cluster.restart(master);
    load.goes_on().await;
    let next = take(&lockers[1], &name).await;
    next.release().await.unwrap();
    let wrong = load.end().await;
    let worst = wrong.iter().filter(|wrong| wrong.contains("two holders")).count();
    assert!(worst <= NAMES, "a failover breaks each lock once at the most: {wrong:?}");
}

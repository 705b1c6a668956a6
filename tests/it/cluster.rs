//! Locks on a real Redis Cluster, while it changes.

mod atomic;
mod changes;
mod corners;
mod halfway;
mod hung;
mod mapped;
mod strangers;

use std::time::Duration;

use leasehold::{ErrorKind, Guard, Locker, Loss};
use leasehold_testing::{Cluster, eventually, soon};

const TTL: Duration = Duration::from_secs(30);

pub(super) async fn connect(cluster: &Cluster) -> Locker {
    let url = cluster.seed_url(3);
    soon("it connects", Locker::builder().node(url).ttl(TTL).connect()).await.unwrap()
}

pub(super) async fn take(locker: &Locker, name: &str) -> Guard {
    soon("it is granted", locker.lock(name).into_future()).await.unwrap()
}

/// A name for each master.
pub(super) fn spread(cluster: &Cluster) -> [String; 3] {
    [0, 1, 2].map(|node| {
        let mut names = (0..).map(|number| format!("lock:{number}"));
        names.find(|name| cluster.master_of(cluster.slot(name)) == node).unwrap()
    })
}

#[tokio::test]
async fn locks_of_all_slots_are_taken_refused_waited_for_and_given_back() {
    let cluster = Cluster::start();
    let (locker, other) = (connect(&cluster).await, connect(&cluster).await);
    for name in spread(&cluster) {
        let guard = take(&locker, &name).await;
        let error = other.try_lock(&name).await.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
        let waiter = tokio::spawn({
            let (other, name) = (other.clone(), name.clone());
            async move { other.lock(&name).await }
        });
        eventually("it waits", || other.stats().waiting == 1).await;
        guard.extend().await.unwrap();
        let first = guard.fence();
        guard.release().await.unwrap();
        let next = soon("it is woken", waiter).await.unwrap().unwrap();
        assert!(next.fence() > first);
        drop(next);
        eventually("it is free", || !cluster.holding(&name)).await;
    }
}

/// The node that has the key tells of its end, also once that is another node.
#[tokio::test]
async fn a_lost_key_is_told_by_whichever_node_has_it() {
    let cluster = Cluster::start();
    let (locker, other) = (connect(&cluster).await, connect(&cluster).await);
    let name = "{told}:lock";
    let (slot, from, to) = cluster.move_of(name);
    for is_moved in [false, true] {
        if is_moved {
            cluster.begin_migration(slot, from, to);
            cluster.migrate_keys(slot, from, to);
            cluster.end_migration(slot, from, to);
        }
        let guard = take(&locker, name).await;
        let renewed = locker.stats().renewed;
        let deleting = async {
            eventually("it is watched", || locker.stats().renewed > renewed).await;
            cluster[cluster.master_of(slot)].cli_text(&["DEL", name]);
            std::future::pending::<()>().await;
        };
        let error = soon("it is lost", guard.run(deleting)).await.unwrap_err();
        assert_eq!(error.loss(), Some(Loss::Gone));

        let held = take(&locker, name).await;
        let waiting = tokio::spawn(other.lock(name).into_future());
        eventually("it waits", || other.stats().waiting == 1).await;
        // It may have been refused over a connection on which nobody is told.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let woken = other.stats().woken;
        held.release().await.unwrap();
        let next = soon("it is granted", waiting).await.unwrap().unwrap();
        assert!(other.stats().woken > woken, "{}", other.stats());
        next.release().await.unwrap();
    }
}

/// The lock of the turn may be at another node than all that is wanted.
#[cfg(feature = "groups")]
#[tokio::test]
async fn locks_of_one_slot_are_had_together_although_the_turn_cannot_be() {
    let cluster = Cluster::start();
    for node in cluster.nodes() {
        node.cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    cluster.unserve(cluster.slot("leasehold:turn"));
    let locker = connect(&cluster).await;
    let held = take(&locker, "{x}:b").await;
    let both = locker.lock_all(["{x}:a", "{x}:b"]).ttl(Duration::from_millis(500));
    let both = tokio::spawn(both.into_future());
    eventually("it keeps what it has got", || cluster.holding("{x}:a")).await;
    held.release().await.unwrap();
    soon("both", both).await.unwrap().unwrap().release().await.unwrap();
}

/// All or nothing, on any number of servers, with any order of names.
#[cfg(feature = "groups")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_several_slots_are_taken_together_or_not_at_all() {
    let cluster = Cluster::start();
    let locker = connect(&cluster).await;
    let names = spread(&cluster);
    let one = take(&locker, &names[1]).await;
    let error = locker.lock_all(&names).wait_at_most(Duration::from_millis(500)).await;
    let error = error.map(|_: Guard| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
    for name in [&names[0], &names[2]] {
        eventually("nothing is left behind", || !cluster.holding(name)).await;
    }
    one.release().await.unwrap();

    let all = soon("all", locker.lock_all(&names).into_future()).await.unwrap();
    assert!(names.iter().all(|name| cluster.holding(name)));
    assert_eq!(all.report().servers().len(), 3);
    all.extend().await.unwrap();
    let first = all.fence();
    all.release().await.unwrap();
    assert!(!names.iter().any(|name| cluster.holding(name)));

    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8 {
        let (locker, mut names) = (connect(&cluster).await, names.to_vec());
        if task % 2 == 0 {
            names.reverse();
        }
        tasks.spawn(async move {
            for _ in 0..5 {
                let guard = locker.lock_all(&names).await.unwrap();
                assert!(guard.fence() > first);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(done) = soon("all have had their turn", tasks.join_next()).await {
        done.unwrap();
    }
}

/// The caller is told, and nothing is sent.
#[cfg(feature = "groups")]
#[tokio::test]
async fn locks_of_more_than_64_slots_are_refused_and_with_a_hash_tag_they_are_taken() {
    let cluster = Cluster::start();
    let locker = connect(&cluster).await;
    let names: Vec<String> = (0..100).map(|number| format!("order:{number}")).collect();
    let error = locker.lock_all(&names).await.map(|_: Guard| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    assert!(error.to_string().contains("hash tag"), "{error}");
    assert!(!names.iter().any(|name| cluster.holding(name)));
    let names: Vec<String> = (0..100).map(|number| format!("{{orders}}:{number}")).collect();
    soon("all", locker.lock_all(&names).into_future()).await.unwrap().release().await.unwrap();
}

/// A slot that moves step by step: before, between and after, the lease is held, renewed, refused
/// to others, and given back where it is.
#[tokio::test]
async fn a_lease_whose_slot_moves_stays_held_renewed_and_released() {
    let cluster = Cluster::start();
    let (locker, other) = (connect(&cluster).await, connect(&cluster).await);
    let held = Guard::remaining;
    for (round, is_moved_back) in [(0, false), (1, true), (2, false)] {
        let name = format!("{{moving}}:{round}");
        let (slot, from, to) = cluster.move_of(&name);
        let guard = take(&locker, &name).await;
        let first = guard.fence();

        cluster.begin_migration(slot, from, to);
        guard.extend().await.unwrap();
        cluster.migrate_keys(slot, from, to);
        // Its keys are on the other side, which does not serve the slot yet.
        guard.extend().await.unwrap();
        let refused = other.lock(&name).wait_at_most(Duration::from_millis(200)).await;
        assert!(refused.is_err());
        if round == 2 {
            drop(guard);
            eventually("it is given back where it is", || {
                cluster[to].client().text_after_asking(&["EXISTS", &name]) == "0"
            })
            .await;
            cluster.end_migration(slot, from, to);
            continue;
        }
        cluster.end_migration(slot, from, to);
        assert!(held(&guard) > Duration::ZERO && !guard.is_lost());
        if is_moved_back {
            // Nobody has told this locker yet: its release is refused, and follows.
            drop(guard);
        } else {
            guard.extend().await.unwrap();
            let error = other.try_lock(&name).await.map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
            guard.release().await.unwrap();
        }
        eventually("it is free", || !cluster.holding(&name)).await;
        assert!(take(&other, &name).await.fence() > first);
    }
}

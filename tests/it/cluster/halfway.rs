//! A slot whose move has stopped halfway: some of its keys are on one node, the others on the other.

use std::time::Duration;

use leasehold::{ErrorKind, Guard, Locker};
use leasehold_resp::Frame;

use super::changes::Load;
use super::{connect, take};
use leasehold_testing::{Cluster, eventually, soon};

/// Far less than a migration that nobody goes on with takes.
const LIMIT: Duration = Duration::from_secs(20);

fn fence(name: &str) -> String {
    format!("{name}:fence")
}

/// Whether a key is on either of two nodes.
fn is_there(cluster: &Cluster, nodes: [usize; 2], key: &str) -> bool {
    nodes.iter().any(|node| {
        let mut client = cluster[*node].client();
        client.call(&["ASKING"]);
        // The node without the slot redirects.
        client.call(&["EXISTS", key]) == Frame::Integer(1)
    })
}

async fn refused(locker: &Locker, name: &str) {
    let error = locker.lock(name).wait_at_most(Duration::from_millis(200)).await;
    let error = error.map(|_: Guard| ()).unwrap_err();
    assert!(error.kind() == ErrorKind::Contended && error.report().holder().is_some(), "{error}");
}

/// The counter stays, goes first or comes last; the lock was held before or never; it moves while it
/// is held, or not.
#[tokio::test]
async fn a_lock_is_had_wherever_its_keys_are() {
    let cluster = Cluster::start();
    let (one, other) = (connect(&cluster).await, connect(&cluster).await);
    for (number, (is_old, moves_counter, moves_lock)) in [
        (false, false, false),
        (false, false, true),
        (false, true, false),
        (true, false, false),
        (true, false, true),
        (true, true, false),
        (true, true, true),
    ]
    .into_iter()
    .enumerate()
    {
        let name = &format!("{{half}}:{number}");
        let (slot, from, to) = cluster.move_of(name);
        let mut last = None;
        if is_old {
            let guard = take(&one, name).await;
            last = Some(guard.fence());
            guard.release().await.unwrap();
        }
        cluster.begin_migration(slot, from, to);
        if moves_counter && is_old {
            assert!(cluster.migrate_key(&fence(name), from, to));
        }
        for locker in [&one, &other, &one] {
            let guard = soon("it is granted", locker.lock(name).wait_at_most(LIMIT).into_future());
            let guard = guard.await.unwrap();
            assert!(Some(guard.fence()) > last, "{:?} {last:?}", guard.fence());
            last = Some(guard.fence());
            refused(&other, name).await;
            guard.extend().await.unwrap();
            if moves_lock && cluster.migrate_key(name, from, to) {
                guard.extend().await.unwrap();
                refused(&other, name).await;
            }
            if moves_counter {
                cluster.migrate_key(&fence(name), from, to);
            }
            guard.release().await.unwrap();
            assert!(!is_there(&cluster, [from, to], name));
        }
        cluster.migrate_keys(slot, from, to);
        cluster.end_migration(slot, from, to);
        let guard = take(&other, name).await;
        assert!(Some(guard.fence()) > last);
        guard.release().await.unwrap();
    }
}

/// It is refused by name, and not taken for a mistake in the URL.
#[tokio::test]
async fn an_unfenced_lock_names_its_holder() {
    let cluster = Cluster::start();
    let (one, other) = (connect(&cluster).await, connect(&cluster).await);
    let name = "{half}:unfenced";
    let (slot, from, to) = cluster.move_of(name);
    cluster.begin_migration(slot, from, to);
    for is_moved in [true, false] {
        if !is_moved {
            cluster.end_migration(slot, from, to);
            cluster.begin_migration(slot, to, from);
        }
        let guard = soon("it is granted", one.lock(name).unfenced().into_future()).await.unwrap();
        let error = other.try_lock(name).unfenced().await.map(|_| ()).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Contended && error.report().holder().is_some(),
            "{error}"
        );
        let error = other.lock(name).unfenced().wait_at_most(Duration::from_millis(200)).await;
        let error = error.map(|_| ()).unwrap_err();
        assert!(error.is_timeout() && error.report().holder().is_some(), "{error}");
        guard.release().await.unwrap();
    }
}

/// Waiters are granted the lock, in this process and in another one.
#[tokio::test]
async fn a_waiter_gets_its_turn() {
    let cluster = Cluster::start();
    let (one, other) = (connect(&cluster).await, connect(&cluster).await);
    let name = "{half}:waited";
    let (slot, from, to) = cluster.move_of(name);
    let guard = take(&one, name).await;
    let waiting = [&other, &one, &other, &one].map(|locker| {
        let request = locker.lock(name).into_future();
        tokio::spawn(async move { request.await.unwrap().release().await.unwrap() })
    });
    eventually("they wait", || one.stats().waiting == 2 && other.stats().waiting == 2).await;
    cluster.begin_migration(slot, from, to);
    cluster.migrate_key(&fence(name), from, to);
    guard.release().await.unwrap();
    for waiter in waiting {
        soon("its turn", waiter).await.unwrap();
    }
    assert!(!is_there(&cluster, [from, to], name));
}

/// Several locks of one slot are several keys even to a release.
#[cfg(feature = "groups")]
#[tokio::test]
async fn locks_of_one_slot_are_taken_together_or_not_at_all() {
    let cluster = Cluster::start();
    let (one, other) = (connect(&cluster).await, connect(&cluster).await);
    let names = ["{half}:a", "{half}:b", "{half}:c"];
    let (slot, from, to) = cluster.move_of(names[0]);
    let before = take(&one, names[1]).await;
    let last = before.fence();
    before.release().await.unwrap();
    cluster.begin_migration(slot, from, to);
    let is_free = || !names.iter().any(|name| is_there(&cluster, [from, to], name));

    let all = soon("all", one.lock_all(names).wait_at_most(LIMIT).into_future()).await.unwrap();
    assert!(all.fence() > last);
    for name in names {
        refused(&other, name).await;
    }
    all.extend().await.unwrap();
    assert_eq!(names.map(|name| cluster.migrate_key(name, from, to)), [false; 3]);
    all.release().await.unwrap();
    assert!(is_free());

    let last_one = soon("one", other.lock(names[2]).into_future()).await.unwrap();
    let error = one.lock_all(names).wait_at_most(Duration::from_millis(500)).await;
    let error = error.map(|_: Guard| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
    eventually("nothing is left behind", || !is_there(&cluster, [from, to], names[0])).await;
    last_one.release().await.unwrap();

    // A caller that is refused for long takes the locks one by one, and gives none back for the last.
    let last_one = soon("one", other.lock(names[2]).into_future()).await.unwrap();
    let waiting = tokio::spawn(one.lock_all(names).wait_at_most(LIMIT).into_future());
    tokio::time::sleep(Duration::from_millis(2500)).await;
    last_one.release().await.unwrap();
    let all = soon("all", waiting).await.unwrap().unwrap();
    drop(all);
    eventually("they are given back", is_free).await;
}

/// The counters of locks that were held before, by processes whose clocks were ahead, differ.
#[cfg(feature = "groups")]
#[tokio::test]
async fn locks_of_one_slot_have_one_token_above_all_their_counters() {
    let cluster = Cluster::start();
    let locker = connect(&cluster).await;
    for (one, other) in [(3_600_000_000, 1_800_000_000), (5_400_000_000, 7_200_000_000)] {
        let names = ["{half}:d", "{half}:e"];
        let (slot, from, to) = cluster.move_of(names[0]);
        let Frame::Array(time) = cluster[from].cli(&["TIME"]) else { panic!("it has a clock") };
        let seconds = String::from_utf8_lossy(time[0].as_bytes().unwrap()).parse::<u64>().unwrap();
        let (now, most) = (seconds * 1_000_000, seconds * 1_000_000 + one.max(other));
        for (name, ahead) in names.iter().zip([one, other]) {
            cluster[from].cli(&["SET", &fence(name), &(now + ahead).to_string()]);
        }
        cluster.begin_migration(slot, from, to);
        let all = soon("all", locker.lock_all(names).wait_at_most(Duration::ZERO).into_future())
            .await
            .unwrap();
        assert!(all.fence().get() > most, "{} {most}", all.fence());
        for name in names {
            assert_eq!(cluster[from].cli_text(&["GET", &fence(name)]), all.fence().to_string());
        }
        all.release().await.unwrap();
        cluster.migrate_keys(slot, from, to);
        cluster.end_migration(slot, from, to);
    }
}

/// Leases that are renewed together, of which each node has some.
#[tokio::test]
async fn leases_outlive_a_migration_that_nobody_goes_on_with() {
    const TTL: Duration = Duration::from_millis(1200);
    let cluster = Cluster::start();
    let locker = connect(&cluster).await;
    let names: Vec<String> = (0..20).map(|number| format!("{{half}}:{number}")).collect();
    let (slot, from, to) = cluster.move_of(&names[0]);
    let mut held = Vec::new();
    for name in &names {
        let guard = soon("a lock", locker.lock(name).ttl(TTL).into_future()).await.unwrap();
        held.push(guard);
    }
    cluster.begin_migration(slot, from, to);
    for name in names.iter().step_by(2) {
        assert!(cluster.migrate_key(name, from, to));
    }
    // More often than one lease is within several TTLs.
    let renewed = locker.stats().renewed;
    eventually("they are renewed", || locker.stats().renewed > renewed + 20 * 12).await;
    for guard in &held {
        assert!(!guard.is_lost(), "{:?}", guard.loss());
    }
    let ended = soon("it ends", locker.shutdown(LIMIT)).await;
    assert_eq!((ended.released.len(), ended.unreleased.len()), (20, 0), "{ended:?}");
    assert!(!names.iter().any(|name| is_there(&cluster, [from, to], name)));
}

/// Keys move one by one, in any order, while callers take and give back the locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_holds_beside_another_while_keys_move_one_by_one() {
    let cluster = Cluster::start();
    let lockers = [connect(&cluster).await, connect(&cluster).await];
    let load = Load::start(&lockers);
    load.goes_on().await;
    for round in 0..24 {
        let name = format!("load:{}", round % 12);
        let (slot, from, to) = cluster.move_of(&name);
        cluster.begin_migration(slot, from, to);
        load.goes_on().await;
        let counter = format!("{{{name}}}:fence");
        let order = if round % 2 == 0 { [&name, &counter] } else { [&counter, &name] };
        for key in order {
            cluster.migrate_key(key, from, to);
            load.goes_on().await;
        }
        cluster.migrate_keys(slot, from, to);
        cluster.end_migration(slot, from, to);
    }
    load.goes_on().await;
    assert_eq!(load.end().await, Vec::<String>::new());
}

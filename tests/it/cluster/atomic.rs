//! Slots that the servers move at once, from one master to another (`CLUSTER MIGRATION IMPORT` of Redis 8.4, `CLUSTER
//! MIGRATESLOTS` of Valkey 9): no client gets ASK, and after the move all get MOVED.

use std::time::Duration;

use leasehold::{ErrorKind, Locker};

use super::{connect, take};
use leasehold_testing::{Cluster, binary, eventually, soon};

/// So short that a lease which nobody renews would end in the test.
const SHORT: Duration = Duration::from_secs(2);
const NAME: &str = "{moved whole}:lock";

fn has_none() -> bool {
    binary::lacks(binary::has_at_least((8, 4), (9, 0)), "atomic slot migration")
}

/// Waits until a locker has renewed its leases twice more.
async fn until_renewed(locker: &Locker) {
    let before = locker.stats().renewed;
    eventually("it is renewed", || locker.stats().renewed >= before + 2).await;
}

#[tokio::test]
async fn a_lease_that_is_renewed_contended_and_waited_for_moves_with_its_slot() {
    if has_none() {
        return;
    }
    let cluster = Cluster::start();
    let (holder, waiter) = (connect(&cluster).await, connect(&cluster).await);
    let (slot, from, to) = cluster.move_of(NAME);
    let guard = soon("it is granted", holder.lock(NAME).ttl(SHORT).into_future()).await.unwrap();
    until_renewed(&holder).await;
    let waiting = tokio::spawn(waiter.lock(NAME).into_future());
    eventually("it waits", || waiter.stats().waiting == 1).await;

    // There and back: the second time, both know of the node that has it.
    for (from, to) in [(from, to), (to, from)] {
        cluster.migrate_atomically(slot, from, to).await;
        until_renewed(&holder).await;
        let newcomer = connect(&cluster).await;
        let error = newcomer.try_lock(NAME).await.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
        let others = connect(&cluster).await;
        let error = others.try_lock(NAME).unfenced().await.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
        assert!(!guard.is_lost() && !waiting.is_finished(), "{:?}", guard.loss());
        assert!(cluster.holding(NAME));
    }
    let first = guard.fence();
    guard.release().await.unwrap();
    let next = soon("the waiter is woken", waiting).await.unwrap().unwrap();
    assert!(next.fence() > first);
    next.release().await.unwrap();
    assert!(!cluster.holding(NAME));
}

#[tokio::test]
async fn locks_are_taken_handed_over_and_released_while_their_slot_moves_to_and_fro() {
    if has_none() {
        return;
    }
    let cluster = Cluster::start();
    let lockers = [connect(&cluster).await, connect(&cluster).await];
    let (slot, from, to) = cluster.move_of(NAME);
    let moving = async {
        for round in 0..6 {
            let (from, to) = if round % 2 == 0 { (from, to) } else { (to, from) };
            cluster.migrate_atomically(slot, from, to).await;
        }
    };
    let mut tokens = Vec::new();
    let using = async {
        for turn in 0.. {
            let guard = take(&lockers[turn % 2], NAME).await;
            tokens.push(guard.fence());
            // As often by the caller's wish as by the guard's end.
            if turn % 4 < 2 {
                guard.release().await.unwrap();
            }
        }
    };
    tokio::select! {
        () = moving => {}
        () = using => {}
    }
    assert!(tokens.len() > 6 && tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    take(&lockers[0], NAME).await.release().await.unwrap();
    eventually("it is free", || !cluster.holding(NAME)).await;
}

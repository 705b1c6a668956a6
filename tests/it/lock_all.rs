//! Several locks at once: all or none, in whatever order other requests name them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::{ErrorKind, Locker, Loss};
use leasehold_testing::{Fleet, RedisServer, binary, eventually, soon};
use tokio::task::JoinSet;

/// So long that no key is ever free because of it.
const LONG: Duration = Duration::from_secs(3600);

async fn locker(server: &RedisServer) -> Locker {
    Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap()
}

fn present(server: &RedisServer, keys: &[&str]) -> String {
    server.cli_text(&[&["EXISTS"], keys].concat())
}

#[tokio::test]
async fn all_are_taken_with_one_token_and_given_back_together() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let before = locker.lock("b").await.unwrap();
    let highest = before.fence();
    before.release().await.unwrap();
    let guard = locker.lock_all(["c", "a", "b", "a"]).await.unwrap();
    assert!(guard.fence() > highest);
    assert_eq!(guard.names().collect::<Vec<_>>(), [b"a", b"b", b"c"]);
    for name in ["a", "b", "c"] {
        let fence = server.cli_text(&["GET", &format!("{{{name}}}:fence")]);
        assert_eq!(fence, guard.fence().to_string());
        assert_eq!(locker.try_lock(name).await.unwrap_err().kind(), ErrorKind::Contended);
    }
    guard.extend().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(present(&server, &["a", "b", "c"]), "0");
    drop(locker.lock_all(["a", "b"]).await.unwrap());
    // The release went first, on the same connection.
    drop(locker.try_lock("a").await.unwrap());
}

/// At each read of a script, Redis before 7.2 notes all keys of that script for a client that tracks: with 1,000 locks, each
/// renewal stopped the server for 130 ms, and each attempt of a request that waited for 660.
#[tokio::test]
async fn many_locks_are_renewed_and_waited_for_without_being_tracked() {
    for (count, is_many) in [(65, true), (64, false)] {
        let server = RedisServer::start();
        let (locker, other) = (locker(&server).await, locker(&server).await);
        let names: Vec<String> = (0..count).map(|at| format!("a{at}")).collect();
        let guard = locker.lock_all(&names).await.unwrap();
        guard.extend().await.unwrap();
        let stats = server.cli_text(&["INFO", "stats"]);
        let tracked = stats.lines().find_map(|line| line.strip_prefix("tracking_total_keys:"));
        // Redis 5 tracks nothing.
        let expected = if is_many { "0" } else { "64" };
        assert!(tracked.is_none_or(|tracked| tracked == expected), "{count}: {tracked:?}");
        guard.release().await.unwrap();
        let held = other.lock(&names[7]).await.unwrap();
        let waiting = tokio::spawn(locker.lock_all(&names).into_future());
        eventually("it was refused", || locker.stats().contended > 0).await;
        held.release().await.unwrap();
        soon("all are free", waiting).await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn one_that_another_holds_keeps_all_from_being_taken() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let other = locker.lock("b").label("the other").await.unwrap();
    let limit = Duration::from_millis(500);
    let error = locker.lock_all(["a", "b", "c"]).wait_at_most(limit).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Contended && error.is_timeout(), "{error}");
    assert!(error.to_string().contains("the other"), "{error}");
    assert_eq!(present(&server, &["a", "c"]), "0");
    let waiting = tokio::spawn(locker.lock_all(["a", "b", "c"]).into_future());
    other.release().await.unwrap();
    let guard = soon("all are free", waiting).await.unwrap().unwrap();
    assert_eq!(present(&server, &["a", "b", "c"]), "3");
    drop(guard);
}

#[tokio::test]
async fn an_empty_list_and_a_bad_name_are_the_callers_fault() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let none: [&str; 0] = [];
    assert_eq!(locker.lock_all(none).await.unwrap_err().kind(), ErrorKind::Misuse);
    assert_eq!(locker.lock_all(["a", ""]).await.unwrap_err().kind(), ErrorKind::Misuse);
}

/// Dining philosophers: each wants two or three forks in an order of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_in_any_order_do_not_block_each_other() {
    const FORKS: usize = 7;
    let server = RedisServer::start();
    let lockers = [locker(&server).await, locker(&server).await];
    let held: Arc<Vec<AtomicUsize>> = Arc::new((0..FORKS).map(|_| AtomicUsize::new(0)).collect());
    let callers: Vec<_> = (0..50)
        .map(|caller: usize| {
            let (locker, held) = (lockers[caller % 2].clone(), Arc::clone(&held));
            tokio::spawn(async move {
                for round in 0..3 {
                    let first = (caller * 3 + round) % FORKS;
                    let wanted = [first, (first + 1 + caller % 3) % FORKS, (first + 5) % FORKS];
                    let names: Vec<String> = wanted.iter().map(|fork| format!("f{fork}")).collect();
                    let guard = locker.lock_all(&names).await.unwrap();
                    let mut forks = wanted.to_vec();
                    forks.sort_unstable();
                    forks.dedup();
                    for fork in &forks {
                        assert_eq!(held[*fork].fetch_add(1, Ordering::SeqCst), 0);
                    }
                    tokio::task::yield_now().await;
                    for fork in &forks {
                        held[*fork].fetch_sub(1, Ordering::SeqCst);
                    }
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        soon("it has eaten", caller).await.unwrap();
    }
}

#[tokio::test]
async fn the_loss_of_one_is_the_loss_of_all() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock_all(["a", "b"]).ttl(Duration::from_millis(300)).await.unwrap();
    eventually("they are renewed", || locker.stats().renewed > 2).await;
    server.cli(&["DEL", "b"]);
    assert_eq!(soon("the loss", guard.lost()).await, Loss::Gone);
    drop(guard);
    eventually("the other is free", || present(&server, &["a"]) == "0").await;
}

#[tokio::test]
async fn a_quorum_takes_several_too() {
    let fleet = Fleet::start(3);
    let builder = Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_quarantine(false);
    let locker = builder.connect().await.unwrap();
    let guard = locker.lock_all(["a", "b"]).await.unwrap();
    assert_eq!(locker.try_lock("b").await.unwrap_err().kind(), ErrorKind::Contended);
    eventually("all have them", || fleet.holding("a") + fleet.holding("b") == 6).await;
    guard.release().await.unwrap();
    eventually("all are free", || fleet.holding("a") + fleet.holding("b") == 0).await;
}

/// What became of one key is no reason to keep the others.
#[tokio::test]
async fn a_key_that_is_no_lock_any_more_costs_its_own_lease_and_no_other_lock() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let several = locker.lock_all(["a", "b", "c"]).await.unwrap();
    server.cli(&["DEL", "a"]);
    server.cli(&["LPUSH", "a", "no lock"]);
    assert_eq!(several.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(present(&server, &["a", "b", "c"]), "1");
    let short = Duration::from_millis(400);
    let spoilt = locker.lock("d").ttl(short).await.unwrap();
    let sound = locker.lock("e").ttl(short).await.unwrap();
    server.cli(&["DEL", "d"]);
    server.cli(&["LPUSH", "d", "no lock"]);
    assert_eq!(soon("the loss", spoilt.lost()).await, Loss::Gone);
    let before = locker.stats().renewed;
    eventually("the other is renewed", || locker.stats().renewed > before).await;
    assert!(!sound.is_lost());
}

/// Callers of single locks, in this process and in another, that never leave both free at a time.
fn crowd(lockers: &[Locker], name: &'static str, served: &Arc<AtomicUsize>) -> JoinSet<()> {
    let mut crowd = JoinSet::new();
    for locker in lockers.iter().flat_map(|locker| [locker.clone(), locker.clone()]) {
        let served = Arc::clone(served);
        crowd.spawn(async move {
            loop {
                let guard = locker.lock(name).await.unwrap();
                served.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(2)).await;
                guard.release().await.unwrap();
            }
        });
    }
    crowd
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_of_several_is_served_beside_callers_of_one() {
    if binary::lacks_a_queue() {
        return;
    }
    let server = RedisServer::start();
    let lockers = [locker(&server).await, locker(&server).await];
    let served: [Arc<AtomicUsize>; 3] = Default::default();
    let _crowds: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .zip(&served)
        .map(|(name, served)| crowd(&lockers, name, served))
        .collect();
    eventually("all are at it", || served.iter().all(|it| it.load(Ordering::Relaxed) > 20)).await;
    let guard = soon("all of them", lockers[0].lock_all(["b", "c", "a"]).into_future()).await;
    let guard = guard.unwrap();
    let before: Vec<_> = served.iter().map(|it| it.load(Ordering::SeqCst)).collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let after: Vec<_> = served.iter().map(|it| it.load(Ordering::SeqCst)).collect();
    assert_eq!(before, after, "nobody else has any of them");
    for name in ["a", "b", "c"] {
        let fence = server.cli_text(&["GET", &format!("{{{name}}}:fence")]);
        assert_eq!(fence, guard.fence().to_string());
    }
    guard.release().await.unwrap();
    let go_on = |it: &Arc<AtomicUsize>| it.load(Ordering::Relaxed) > after[0] + 20;
    eventually("they go on", || go_on(&served[0])).await;
}

/// A turn keeps what it has got only for a while: a caller that waits for the other lock in vain does not shut
/// everybody out of the first.
#[tokio::test]
async fn a_turn_that_is_too_short_gives_back_what_it_has() {
    let server = RedisServer::start();
    let lockers = [locker(&server).await, locker(&server).await];
    let held = lockers[1].lock("b").await.unwrap();
    let several = tokio::spawn(lockers[0].lock_all(["a", "b"]).into_future());
    eventually("its turn comes", || present(&server, &["a"]) == "1").await;
    assert_eq!(lockers[0].stats().held, 0, "nobody has a guard");
    eventually("and goes", || present(&server, &["a"]) == "0").await;
    lockers[1].lock("a").await.unwrap().release().await.unwrap();
    eventually("its next turn comes", || present(&server, &["a"]) == "1").await;
    held.release().await.unwrap();
    let guard = soon("both", several).await.unwrap().unwrap();
    assert_eq!(present(&server, &["a", "b"]), "2");
    guard.release().await.unwrap();
    assert_eq!(present(&server, &["a", "b"]), "0");
    // A turn in which it keeps one of them is dropped with its request.
    let held = lockers[1].lock("b").await.unwrap();
    let several = tokio::spawn(lockers[0].lock_all(["a", "b"]).into_future());
    eventually("its turn comes", || present(&server, &["a"]) == "1").await;
    several.abort();
    eventually("nothing is kept", || present(&server, &["a"]) == "0").await;
    drop(held);
    assert_eq!(lockers[0].stats().held, 0);
}

/// Else many requests that wait for one lock would keep all the others idle.
#[tokio::test]
async fn one_request_at_a_time_keeps_locks_that_it_does_not_hold_yet() {
    if binary::lacks_a_queue() {
        return;
    }
    let server = RedisServer::start();
    let lockers = [locker(&server).await, locker(&server).await];
    let held = lockers[0].lock("z").await.unwrap();
    let waiting: Vec<_> = lockers
        .iter()
        .zip([["a", "z"], ["b", "z"]])
        .map(|(locker, names)| {
            let several = locker.lock_all(names).into_future();
            tokio::spawn(async move { several.await.unwrap().release().await.unwrap() })
        })
        .collect();
    let mut kept = [false; 2];
    eventually("each had its turn", || {
        let now = ["a", "b"].map(|name| server.cli_text(&["EXISTS", name]) == "1");
        kept = [kept[0] || now[0], kept[1] || now[1]];
        assert_ne!(present(&server, &["a", "b"]), "2", "two turns at once");
        kept == [true; 2]
    })
    .await;
    held.release().await.unwrap();
    for several in waiting {
        soon("both", several).await.unwrap();
    }
    eventually("nothing is kept", || present(&server, &["a", "b", "z", "leasehold:turn"]) == "0")
        .await;
}

/// Their former guard's release goes out with others, and frees none that another process has waited for.
#[tokio::test]
async fn locks_that_were_just_given_back_among_many_are_had_together() {
    if binary::lacks_a_queue() {
        return;
    }
    let server = RedisServer::start();
    let (locker, other) = (locker(&server).await, locker(&server).await);
    for number in [31, 77] {
        let mut guards = Vec::new();
        for number in 0..100 {
            guards.push(locker.lock(format!("n{number}")).await.unwrap());
        }
        let name = format!("n{number}");
        let waiting = tokio::spawn(other.lock(&name).into_future());
        let queue = format!("{{{name}}}:queue");
        eventually("it waits", || present(&server, &[&queue]) == "1").await;
        waiting.abort();
        let has_left = || ["0", "2"].contains(&&*server.cli_text(&["HLEN", &queue]));
        eventually("its entry is gone", has_left).await;
        drop(guards);
        let several = locker.lock_all(["a", &name]).wait_at_most(Duration::ZERO);
        soon("their answer", several.into_future()).await.unwrap().release().await.unwrap();
    }
}

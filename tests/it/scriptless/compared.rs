//! Locks on a server that compares in `SET`.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{ErrorKind, FencingToken, Guard, Locker, Loss};
use leasehold_testing::binary::{has_at_least, lacks};
use leasehold_testing::{Fleet, RedisServer, eventually, soon};

use super::{refused, without_scripts};

/// So long that nothing ends because of it.
const LONG: Duration = Duration::from_secs(3600);

fn is_not_tried() -> bool {
    lacks(has_at_least((8, 4), (8, 1)), "a comparison in SET")
}

async fn locker(server: &RedisServer) -> Locker {
    let builder = Locker::builder().node(server.url()).ttl(LONG).scriptless();
    soon("connecting", builder.connect()).await.unwrap()
}

async fn scripting(server: &RedisServer) -> Locker {
    let builder = Locker::builder().node(server.url()).ttl(LONG);
    soon("connecting", builder.connect()).await.unwrap()
}

async fn take(locker: &Locker, name: &str) -> Guard {
    soon("a lock", locker.lock(name).into_future()).await.unwrap()
}

async fn waits(locker: &Locker, before: u64) {
    eventually("it is refused", || locker.stats().contended > before).await;
}

#[tokio::test]
async fn a_lock_is_taken_extended_and_given_back() {
    if is_not_tried() {
        return;
    }
    let server = without_scripts().start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    let mut last = None::<FencingToken>;
    for _ in 0..3 {
        let guard = soon("a lock", one.try_lock("a").label("billing").into_future()).await.unwrap();
        assert!(last.is_none_or(|last| last < guard.fence()));
        last = Some(guard.fence());
        let error = soon("an answer", other.try_lock("a").into_future()).await.unwrap_err();
        assert!(
            error.kind() == ErrorKind::Contended && error.to_string().contains("billing"),
            "{error}"
        );
        guard.extend().await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(server.cli_text(&["EXISTS", "a"]), "0");
        // Nothing is left of one that was refused.
        let plain = soon("a lock", other.try_lock("a").unfenced().into_future()).await.unwrap();
        refused(one.try_lock("a").unfenced().await, ErrorKind::Contended, "\"a\"");
        plain.extend().await.unwrap();
        drop(plain);
        eventually("it is given back", || server.cli_text(&["EXISTS", "a"]) == "0").await;
    }
    let left: i64 = server.cli_text(&["PTTL", "{a}:fence"]).parse().unwrap();
    assert!(left > 0, "the counter ends by itself");
}

#[tokio::test]
async fn a_lease_is_renewed_and_its_loss_is_told() {
    if is_not_tried() {
        return;
    }
    let server = without_scripts().start();
    let builder = Locker::builder().node(server.url()).scriptless();
    let locker = builder.ttl(Duration::from_millis(900)).connect().await.unwrap();
    let guard = take(&locker, "a").await;
    eventually("it is renewed", || locker.stats().renewed > 3).await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    let locker = self::locker(&server).await;
    for command in [&["DEL", "a"][..], &["SET", "a", "another's"]] {
        let guard = take(&locker, "a").await;
        let takes = async {
            let is_tracked =
                || server.cli_text(&["INFO", "stats"]).contains("tracking_total_keys:1");
            eventually("the server is to tell of it", is_tracked).await;
            server.cli(command);
        };
        let (lost, ()) = tokio::join!(soon("it is told", guard.lost()), takes);
        assert_eq!(lost, Loss::Gone);
        refused(guard.release().await, ErrorKind::Lost, "");
        server.cli(&["DEL", "a"]);
    }
}

#[tokio::test]
async fn a_waiter_is_told_by_the_server() {
    if is_not_tried() {
        return;
    }
    let server = without_scripts().start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    for round in 0..3 {
        let guard = take(&one, "a").await;
        let before = other.stats().contended;
        let waiting = tokio::spawn(other.lock("a").into_future());
        // Twice: the server is to tell of it from the second refusal on.
        waits(&other, before + u64::from(round == 0)).await;
        let first = guard.fence();
        guard.release().await.unwrap();
        let guard = soon("the lock", waiting).await.unwrap().unwrap();
        assert!(guard.fence() > first && other.stats().woken > 0);
        guard.release().await.unwrap();
    }
    // Also of a key that ends by itself.
    server.cli(&["SET", "b", "another's", "PX", "200"]);
    soon("the lock", other.lock("b").into_future()).await.unwrap().release().await.unwrap();
}

/// Each sees the others' keys, values and counters, and waits for either.
#[tokio::test]
async fn clients_with_scripts_and_without_exclude_one_another() {
    if is_not_tried() {
        return;
    }
    let server = RedisServer::start();
    let lockers = [locker(&server).await, scripting(&server).await];
    let mut last = None::<FencingToken>;
    for (holder, waiter) in [(0, 1), (1, 0), (0, 0), (1, 1), (0, 1), (1, 0)] {
        let guard = take(&lockers[holder], "a").await;
        assert!(last.is_none_or(|last| last < guard.fence()));
        let first = guard.fence();
        refused(lockers[1 - holder].try_lock("a").await, ErrorKind::Contended, "\"a\"");
        let plain = lockers[1 - holder].try_lock("a").unfenced();
        refused(plain.await, ErrorKind::Contended, "\"a\"");
        let before = lockers[waiter].stats().contended;
        let waiting = tokio::spawn(lockers[waiter].lock("a").into_future());
        let others = waiter == holder;
        if others {
            eventually("it waits", || lockers[waiter].stats().waiting == 1).await;
        } else {
            waits(&lockers[waiter], before).await;
        }
        guard.release().await.unwrap();
        let guard = soon("the lock", waiting).await.unwrap().unwrap();
        assert!(guard.fence() > first, "{holder}, then {waiter}");
        last = Some(guard.fence());
        guard.release().await.unwrap();
    }
}

/// A counter that two of a crowd would spoil.
async fn crowd(lockers: Vec<Locker>) {
    let (count, last) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let tasks = lockers.into_iter().cycle().take(24).map(|locker| {
        let (count, last) = (count.clone(), last.clone());
        tokio::spawn(async move {
            for _ in 0..10 {
                let guard = locker.lock("a").await.unwrap();
                let token = u64::from(guard.fence());
                assert!(last.swap(token, Ordering::SeqCst) < token);
                let before = count.load(Ordering::SeqCst);
                tokio::task::yield_now().await;
                count.store(before + 1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        soon("a task", task).await.unwrap();
    }
    assert_eq!(count.load(Ordering::SeqCst), 240);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_with_scripts_and_without_is_alone_one_by_one_and_tokens_rise() {
    if is_not_tried() {
        return;
    }
    let server = RedisServer::start();
    crowd(vec![locker(&server).await, scripting(&server).await, locker(&server).await]).await;
    let server = without_scripts().start();
    crowd(vec![locker(&server).await, locker(&server).await]).await;
}

/// Counters may be ahead, behind, or no numbers, and keys may be no locks.
#[tokio::test]
async fn a_counter_of_another_client_is_gone_above() {
    if is_not_tried() {
        return;
    }
    let server = without_scripts().start();
    let locker = locker(&server).await;
    for counter in ["1900000000000000", "7", "007"] {
        server.cli(&["SET", "{a}:fence", counter]);
        let guard = take(&locker, "a").await;
        assert!(u64::from(guard.fence()) > counter.parse().unwrap());
        assert_eq!(server.cli_text(&["GET", "{a}:fence"]), guard.fence().to_string());
        guard.release().await.unwrap();
    }
    for counter in ["9007199254740991", "x", "12345678901234567890"] {
        server.cli(&["SET", "{a}:fence", counter]);
        refused(locker.try_lock("a").await, ErrorKind::Misuse, "tokens end at 2^53");
        eventually("it is given back", || server.cli_text(&["EXISTS", "a"]) == "0").await;
        assert_eq!(server.cli_text(&["GET", "{a}:fence"]), counter);
    }
    server.cli(&["DEL", "{a}:fence"]);
    server.cli(&["RPUSH", "b", "x"]);
    refused(locker.try_lock("b").await, ErrorKind::Misuse, "WRONGTYPE");
    let guard = take(&locker, "a").await;
    server.cli(&["DEL", "a"]);
    server.cli(&["RPUSH", "a", "x"]);
    refused(guard.release().await, ErrorKind::Lost, "");
    assert_eq!(server.cli_text(&["TYPE", "a"]), "list");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_servers_without_scripts_are_a_quorum() {
    if is_not_tried() {
        return;
    }
    let fleet = Fleet::start_as(3, &without_scripts());
    let builder = || {
        let builder = Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_quarantine(false);
        builder.scriptless().connect()
    };
    let (one, other) = (builder().await.unwrap(), builder().await.unwrap());
    let guard = take(&one, "a").await;
    refused(other.try_lock("a").await, ErrorKind::Contended, "\"a\"");
    let before = other.stats().contended;
    let waiting = tokio::spawn(other.lock("a").into_future());
    waits(&other, before).await;
    let first = guard.fence();
    guard.extend().await.unwrap();
    guard.release().await.unwrap();
    let guard = soon("the lock", waiting).await.unwrap().unwrap();
    assert!(guard.fence() > first);
    guard.release().await.unwrap();
    // Counters that are apart: the next proposal is above the largest.
    for (server, counter) in fleet.iter().zip(["1900000000000000", "1900000000000009", "1"]) {
        server.cli(&["SET", "{a}:fence", counter]);
    }
    let guard = take(&one, "a").await;
    assert!(u64::from(guard.fence()) > 1_900_000_000_000_009);
    guard.release().await.unwrap();
    eventually("all are free", || fleet.holding("a") == 0).await;
    crowd(vec![one.clone(), other]).await;
}

#[cfg(all(
    feature = "election",
    feature = "family",
    feature = "groups",
    feature = "inspect",
    feature = "sharing",
    feature = "takeover"
))]
#[tokio::test]
async fn what_takes_scripts_says_so_and_leaves_nothing() {
    use leasehold::limits::Rate;

    if is_not_tried() {
        return;
    }
    let server = without_scripts().start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    let guard = take(&one, "held").await;
    let limit = one.limit("limit", Rate::new(9, LONG));
    let tried = [
        one.lock_all(["a", "b"]).await.map(|_| ()),
        one.try_lock("c").fair().await.map(|_| ()),
        one.try_read("d").await.map(|_| ()),
        one.semaphore("e", 2).acquire(1).await.map(|_| ()),
        one.elect("f").campaign("x").await.map(|_| ()),
        other.lock("held").steal().await.map(|_| ()),
        limit.take(1).await.map(|_| ()),
        one.inspect("held").await.map(|_| ()),
    ];
    for (at, tried) in tried.into_iter().enumerate() {
        let error = tried.map(|()| at).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&server.address().to_string()), "{at}: {text}");
        refused(Err::<(), _>(error), ErrorKind::Misuse, "the server runs no scripts");
    }
    refused(guard.into_ticket(LONG).await, ErrorKind::Misuse, "a ticket takes scripts");
    eventually("all is given back", || server.cli_text(&["EXISTS", "held"]) == "0").await;
    let names = ["a", "b", "c", "d", "e", "f"];
    let any = soon("one of them", one.lock_any(names).into_future()).await.unwrap();
    any.release().await.unwrap();
    let held = take(&other, "a").await;
    let any = one.lock_any(["a", "b"]).wait_at_most(Duration::ZERO);
    let any = soon("the other", any.into_future()).await.unwrap();
    assert_eq!(any.name(), b"b");
    any.release().await.unwrap();
    held.release().await.unwrap();
    assert_eq!(server.cli_text(&["EXISTS", "a", "b", "c", "d", "e", "f"]), "0");
}

/// The rights of the row in docs/acl.md, and each of them is needed.
#[tokio::test]
async fn a_user_with_the_rights_of_its_row_does_without_scripts() {
    use leasehold_testing::rights;

    if is_not_tried() {
        return;
    }
    let server = RedisServer::start();
    let rules = rights::row("scriptless");
    let connect = || {
        let builder = Locker::builder().node(rights::url(&server)).key_prefix("app:").ttl(LONG);
        builder.scriptless().connect()
    };
    let tried = async |rules: &[String]| {
        rights::grant(&server, rules);
        let (one, other) = (connect().await?, connect().await?);
        let guard = one.try_lock("a").await?;
        let before = other.stats().contended;
        let waiting = tokio::spawn(other.lock("a").into_future());
        waits(&other, before).await;
        guard.extend().await?;
        guard.release().await?;
        soon("the lock", waiting).await.unwrap()?.release().await
    };
    tried(&rules).await.unwrap();
    for missing in ["+set", "+get", "+time", "+echo"] {
        assert!(rules.iter().any(|rule| rule == missing), "{rules:?}");
        let fewer: Vec<_> = rules.iter().filter(|rule| *rule != missing).cloned().collect();
        let error = tried(&fewer).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Auth && error.to_string().contains(missing), "{error}");
        server.cli(&["DEL", "app:a"]);
    }
}

#[cfg(feature = "blocking")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_without_async_do_without_scripts_too() {
    if is_not_tried() {
        return;
    }
    let server = without_scripts().start();
    let builder = Locker::builder().node(server.url()).ttl(LONG).scriptless();
    let works = tokio::task::spawn_blocking(move || {
        let locker = builder.connect_blocking()?;
        let guard = locker.try_lock("a").wait()?;
        let refused = locker.try_lock("a").wait().map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Contended);
        guard.release()
    });
    soon("a lock", works).await.unwrap().unwrap();
}

/// 300 times took 53 s: the server tells no connection of what that has done itself, and a request whose question was under
/// way when the holder of the same process gave the lock back waited to be told, for up to 5 s.
#[tokio::test]
async fn tasks_of_one_process_have_the_lock_as_soon_as_it_is_given_back() {
    if is_not_tried() {
        return;
    }
    let server = without_scripts().start();
    let locker = locker(&server).await;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..3 {
        let locker = locker.clone();
        tasks.spawn(async move {
            for round in 0..100 {
                let guard = locker.lock("a").await.unwrap();
                if round % 3 == task {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                guard.release().await.unwrap();
                // So that questions and releases meet in all ways.
                let pause = (round * 7 + task * 5) % 23;
                tokio::time::sleep(Duration::from_micros(100 * pause)).await;
            }
        });
    }
    soon("all have had it", tasks.join_all()).await;
}

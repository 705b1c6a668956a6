//! Waiting for a lock: in order, without polling, and without leftovers on the server.

mod failing;
#[cfg(feature = "sharing")]
mod forged;
mod handed;
mod kinds;
mod limits;
mod passed;
mod queue;

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::{ErrorKind, FencingToken, Guard, Locker, Retry};
use leasehold_testing::binary;
use leasehold_testing::scripted::greeting;
use leasehold_testing::{Action, Fleet, RedisServer, ScriptedServer, eventually, soon};
use tokio::sync::mpsc;

/// So long that no key is ever free because of it.
const LONG: Duration = Duration::from_secs(3600);

async fn locker(server: &RedisServer) -> Locker {
    Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap()
}

async fn take(locker: &Locker, name: &str) -> Guard {
    soon("a lock", locker.lock(name).into_future()).await.unwrap()
}

async fn until_waiting(locker: &Locker, count: u64) {
    eventually("they wait", || locker.stats().waiting == count).await;
}

/// Commands that the server has run, but for those of this question.
fn scripts_run(server: &RedisServer) -> u64 {
    let statistics = server.cli_text(&["INFO", "commandstats"]);
    let calls = |line: &str| -> Option<u64> {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let count = rest.split(',').next()?.parse().ok()?;
        ["evalsha", "eval", "set"].contains(&name).then_some(count)
    };
    // What a script runs is counted too, so the scripts alone.
    let scripts = |line: &&str| line.contains("eval");
    statistics.lines().filter(scripts).filter_map(calls).sum()
}

fn free(server: &RedisServer, name: &str) -> bool {
    server.cli_text(&["EXISTS", name]) == "0"
}

#[tokio::test]
async fn the_first_to_come_is_served_first_and_a_lock_changes_hands_by_one_command() {
    for waiters in [2, 10, 1000] {
        let server = RedisServer::start();
        let locker = locker(&server).await;
        let first = take(&locker, "a").await;
        let (served, mut order) = mpsc::unbounded_channel::<(usize, FencingToken)>();
        for number in 0..waiters {
            let (request, served) = (locker.lock("a"), served.clone());
            tokio::spawn(async move {
                let guard = request.await.unwrap();
                served.send((number, guard.fence())).unwrap();
                if number % 2 == 0 {
                    guard.release().await.unwrap();
                }
            });
            until_waiting(&locker, number as u64 + 1).await;
        }
        let mut last = first.fence();
        let before = scripts_run(&server);
        drop(first);
        for number in 0..waiters {
            let (served, token) = soon("the next", order.recv()).await.unwrap();
            assert_eq!(served, number);
            assert!(token > last);
            last = token;
        }
        eventually("it is free", || free(&server, "a")).await;
        let commands = scripts_run(&server) - before;
        // One for each, one with which the first leaves the server's queue, and some where a relay ends: a
        // release and a question or two.
        let most = waiters as u64 + 2 + (waiters as u64 / 16) * 4;
        assert!(commands <= most, "{commands} commands for {waiters} waiters");
        assert_eq!(locker.stats().waiting, 0);
    }
}

/// Polls a request so often, drops it, and looks whether anything is left of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_may_be_dropped_at_any_point_also_as_the_one_that_is_handed_the_lock() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let other = Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap();
    let mut was_handed = 0;
    for polls in 0..40 {
        let holder = take(&locker, "a").await;
        let mut waiting = Box::pin(locker.lock("a").into_future());
        let mut holder = Some(holder);
        for poll in 0..polls {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(guard) = waiting.as_mut().poll(&mut context) {
                drop(guard.unwrap());
                waiting = Box::pin(locker.lock("a").into_future());
            }
            if poll == polls / 2 {
                let before = locker.stats().handed_over;
                drop(holder.take());
                was_handed += locker.stats().handed_over - before;
            }
            tokio::time::sleep(Duration::from_micros(300)).await;
        }
        drop(waiting);
        drop(holder);
        let next = take(&other, "a").await;
        next.release().await.unwrap();
        assert_eq!(locker.stats().waiting, 0);
    }
    assert!(was_handed > 10, "{was_handed}");
}

#[tokio::test]
async fn the_next_is_served_when_the_one_before_goes_away() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    for is_handed in [false, true] {
        let holder = take(&locker, "a").await;
        let mut leaver = Box::pin(locker.lock("a").into_future());
        // It asks, is refused, and joins the line.
        let polled = async {
            loop {
                let mut context = Context::from_waker(Waker::noop());
                assert!(leaver.as_mut().poll(&mut context).is_pending());
                if locker.stats().waiting == 1 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        soon("it waits", polled).await;
        let next = tokio::spawn(locker.lock("a").into_future());
        until_waiting(&locker, 2).await;
        if is_handed {
            holder.release().await.unwrap();
            drop(leaver);
        } else {
            drop(leaver);
            holder.release().await.unwrap();
        }
        let next = soon("the next", next).await.unwrap().unwrap();
        next.release().await.unwrap();
        assert!(free(&server, "a"));
    }
}

/// A release does not wait for the one that the lock goes to.
#[tokio::test]
async fn a_release_returns_though_the_next_one_is_not_polled() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let holder = take(&locker, "a").await;
    let mut waiting = Box::pin(locker.lock("a").into_future());
    let joined = async {
        while locker.stats().waiting == 0 {
            let _ = tokio::time::timeout(Duration::from_millis(1), waiting.as_mut()).await;
        }
    };
    soon("it waits", joined).await;
    soon("the release", holder.release()).await.unwrap();
    let guard = soon("the lock", waiting).await.unwrap();
    guard.release().await.unwrap();
}

#[test]
fn a_guard_that_is_dropped_outside_a_runtime_lets_a_waiter_have_the_lock() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (locker, guard) = runtime.block_on(async {
        let locker = locker(&server).await;
        let guard = take(&locker, "a").await;
        (locker, guard)
    });
    let waiting = runtime.spawn(locker.lock("a").into_future());
    runtime.block_on(until_waiting(&locker, 1));
    drop(guard);
    let guard = runtime.block_on(soon("the lock", waiting)).unwrap().unwrap();
    drop(guard);
}

/// redisson #1763: a release between the look and the subscription was missed.
#[tokio::test]
async fn a_waiter_in_another_process_is_woken_and_does_not_poll() {
    let server = RedisServer::start();
    let (holder, waiter) = (locker(&server).await, locker(&server).await);
    let free_it: [fn(&RedisServer); 3] = [
        |server| drop(server.cli(&["DEL", "a"])),
        |server| drop(server.cli(&["FLUSHALL"])),
        |server| drop(server.cli(&["PEXPIRE", "a", "30"])),
    ];
    for round in 0..4 {
        let guard = take(&holder, "a").await;
        let waiting = tokio::spawn(waiter.lock("a").into_future());
        until_waiting(&waiter, 1).await;
        let tracked = || !server.cli_text(&["INFO", "stats"]).contains("tracking_total_keys:0");
        eventually("it is to be told", tracked).await;
        let before = scripts_run(&server);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(scripts_run(&server), before, "it sleeps");
        let woken = waiter.stats().woken;
        let guard = match free_it.get(round) {
            Some(free) => {
                free(&server);
                Some(guard)
            }
            None => guard.release().await.map(|()| None).unwrap(),
        };
        soon("it is woken", waiting).await.unwrap().unwrap().release().await.unwrap();
        // The new end of a key is a change to it, and the end itself another.
        let most = if round == 2 { 2 } else { 1 };
        let woken = waiter.stats().woken - woken;
        assert!((1..=most).contains(&woken), "round {round}: {woken}");
        drop(guard);
    }
}

#[tokio::test]
async fn without_tracking_a_waiter_asks_now_and_then() {
    if binary::lacks(binary::is_seven(), "rights to do all of a command but one thing") {
        return;
    }
    let server = RedisServer::start();
    server.cli(&["ACL", "SETUSER", "default", "-client|tracking"]);
    let (holder, waiter) = (locker(&server).await, locker(&server).await);
    let guard = take(&holder, "a").await;
    let waiting = tokio::spawn(waiter.lock("a").into_future());
    eventually("it asks again", || waiter.stats().contended > 3).await;
    guard.release().await.unwrap();
    soon("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(waiter.stats().woken, 0);
}

/// Two processes, of which one has waiters without end: neither shuts the other out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hand_over_within_a_process_is_bounded() {
    let server = RedisServer::start();
    let (many, one) = (locker(&server).await, locker(&server).await);
    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let crowd: Vec<_> = (0..8)
        .map(|_| {
            let (many, stop, served) = (many.clone(), Arc::clone(&stop), Arc::clone(&served));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let guard = many.lock("a").await.unwrap();
                    served.fetch_add(1, Ordering::Relaxed);
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    eventually("they are at it", || served.load(Ordering::Relaxed) > 100).await;
    for _ in 0..20 {
        let before = served.load(Ordering::Relaxed);
        take(&one, "a").await.release().await.unwrap();
        let meanwhile = served.load(Ordering::Relaxed) - before;
        assert!(meanwhile < 2000, "{meanwhile} hands before it was its turn");
    }
    stop.store(true, Ordering::Relaxed);
    for task in crowd {
        soon("they end", task).await.unwrap();
    }
    assert!(many.stats().handed_over > 50);
}

/// With bare wake-ups, a caller that tries again at once gets the lock a thousand times before another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_releases_and_asks_at_once_does_not_overtake_a_waiter() {
    let server = RedisServer::start();
    let (greedy, patient) = (locker(&server).await, locker(&server).await);
    let guard = take(&greedy, "a").await;
    let patient = patient.lock("a").into_future();
    let waiting = tokio::spawn(async move { patient.await.unwrap().release().await });
    let counted = || server.cli_text(&["EXISTS", "{a}:queue"]) == "1";
    eventually("the server counts it", counted).await;
    drop(guard);
    let mut taken = 0;
    while !waiting.is_finished() {
        let guard = take(&greedy, "a").await;
        taken += 1;
        assert!(taken < 200, "it overtakes for ever");
        drop(guard);
    }
    soon("it is served", waiting).await.unwrap().unwrap();
}

#[tokio::test]
async fn waiters_of_a_quorum_are_woken_and_hand_over() {
    let fleet = Fleet::start(5);
    let connect = || async {
        let builder = Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_quarantine(false);
        builder.connect().await.unwrap()
    };
    let (holder, waiter) = (connect().await, connect().await);
    for is_frozen in [false, true] {
        if is_frozen {
            fleet[4].stop();
        }
        let guard = take(&holder, "a").await;
        let (near, far) = (
            tokio::spawn(holder.lock("a").into_future()),
            tokio::spawn(waiter.lock("a").into_future()),
        );
        until_waiting(&holder, 1).await;
        until_waiting(&waiter, 1).await;
        let before = holder.stats().handed_over;
        guard.release().await.unwrap();
        assert_eq!(holder.stats().handed_over, before + 1);
        soon("the near one", near).await.unwrap().unwrap().release().await.unwrap();
        soon("the far one", far).await.unwrap().unwrap().release().await.unwrap();
    }
    fleet[4].cont();
}

#[tokio::test]
async fn a_wait_that_runs_out_names_the_holder_and_leaves_the_others_in_line() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("a").label("the holder").await.unwrap();
    let first = tokio::spawn(locker.lock("a").into_future());
    until_waiting(&locker, 1).await;
    // Long enough for the first to hear of the holder on a busy machine.
    let limit = Duration::from_millis(400);
    let second = tokio::spawn(locker.lock("a").wait_at_most(limit).into_future());
    until_waiting(&locker, 2).await;
    let third = tokio::spawn(locker.lock("a").into_future());
    let error = soon("its end", second).await.unwrap().unwrap_err();
    assert!(error.is_timeout() && error.kind() == ErrorKind::Contended, "{error}");
    assert!(error.to_string().contains("the holder"), "{error}");
    assert_eq!(locker.stats().timed_out, 1);
    guard.release().await.unwrap();
    for waiting in [first, third] {
        soon("its turn", waiting).await.unwrap().unwrap().release().await.unwrap();
    }
}

/// In number and in time: also where the server would push the end of the lock, which a caller with one try after the
/// other may not see.
#[tokio::test]
async fn attempts_are_bounded_by_the_retry_policy() {
    let server = RedisServer::start();
    server.cli(&["SET", "a", "other"]);
    for is_tracking in [true, false] {
        if !is_tracking {
            server.cli(&["ACL", "SETUSER", "default", "-client|tracking"]);
        }
        let locker = locker(&server).await;
        let retry = Retry::fixed(Duration::from_millis(2)).attempts(20);
        let asked = locker.lock("a").retry(retry).into_future();
        let error = soon("its end", asked).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
        assert!((19..=21).contains(&locker.stats().attempts), "{}", locker.stats());
    }
    let never = Retry::fixed(Duration::ZERO);
    let locker = locker(&server).await;
    assert_eq!(locker.lock("a").retry(never).await.unwrap_err().kind(), ErrorKind::Misuse);
}

/// Servers that fail are put up with for one TTL, by all in the line together.
#[tokio::test]
async fn all_in_a_line_are_told_when_the_server_is_gone_for_good() {
    let server = ScriptedServer::start(|command| {
        greeting(command).unwrap_or_else(|| match command.is(&["EVALSHA"]) {
            true if command.word(8) == "turn" || command.word(10) == "turn" => {
                Action::held(command, "x", 50)
            }
            _ => Action::error("LOADING Redis is loading the dataset in memory"),
        })
    });
    let builder = Locker::builder().node(server.url()).ttl(Duration::from_millis(200));
    let locker = builder.connect().await.unwrap();
    let waiting: Vec<_> = (0..50).map(|_| tokio::spawn(locker.lock("a").into_future())).collect();
    for waiter in waiting {
        let error = soon("its end", waiter).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert_eq!(locker.stats().waiting, 0);
}

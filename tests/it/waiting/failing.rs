//! Servers that fail waiters in a line, whose limits differ.

use std::collections::HashSet;
use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::{ErrorKind, LockRequest, Locker, Retry};

use super::{LONG, until_waiting};
use leasehold_testing::scripted::greeting;
use leasehold_testing::{Action, Command, ScriptedServer, soon};

/// The lock is another's until the server begins to fail, and free once it has recovered.
fn server(fails: &Arc<AtomicBool>, is_free: &Arc<AtomicBool>) -> ScriptedServer {
    let (fails, is_free) = (Arc::clone(fails), Arc::clone(is_free));
    ScriptedServer::start(move |command| {
        greeting(command).unwrap_or_else(|| {
            if is_free.load(Ordering::Relaxed) {
                return Action::granted(command);
            }
            if fails.load(Ordering::Relaxed) {
                return Action::error("LOADING Redis is loading the dataset in memory");
            }
            Action::held(command, "x", 5)
        })
    })
}

#[tokio::test]
async fn an_impatient_waiter_does_not_end_the_wait_of_the_patient() {
    let hasty: [fn(LockRequest) -> LockRequest; 2] = [
        |request| request.ttl(Duration::from_millis(50)),
        |request| request.retry(Retry::fixed(Duration::from_millis(20)).attempts(40)),
    ];
    for hasty in hasty {
        let (fails, is_free) = (Arc::default(), Arc::default());
        let server = server(&fails, &is_free);
        let builder = Locker::builder().node(server.url()).ttl(LONG);
        let locker = builder.connect().await.unwrap();
        let first = tokio::spawn(hasty(locker.lock("a")).into_future());
        until_waiting(&locker, 1).await;
        let patient = tokio::spawn(locker.lock("a").into_future());
        until_waiting(&locker, 2).await;
        fails.store(true, Ordering::Relaxed);
        let error = soon("its end", first).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        is_free.store(true, Ordering::Relaxed);
        let guard = soon("the lock", patient).await.unwrap().unwrap();
        guard.release().await.ok();
    }
}

const NOREPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

/// Whether it is in the queue, as an owner that enters or that still waits.
fn is_in_queue(command: &Command) -> bool {
    command.has_one_of(&["enter", "beat"])
}

/// The owners that these requests were for.
fn owners<'a>(asked: impl IntoIterator<Item = &'a Command>) -> HashSet<String> {
    asked.into_iter().map(|command| command.word(6)).collect()
}

/// A waiter had left its place for another. When the server served again, it handed the lock to the first one, of which
/// nobody heard: all waited, up to a second, until the release of that one was repeated.
#[tokio::test]
async fn a_waiter_that_a_server_refuses_for_a_while_keeps_its_place() {
    let mut asked = 0;
    let server = ScriptedServer::start(move |command| {
        if let Some(answer) = greeting(command) {
            return answer;
        }
        asked += i32::from(is_in_queue(command));
        match asked {
            2 => Action::error("MISCONF Redis is configured to save RDB snapshots"),
            3 => Action::error(NOREPLICAS),
            4 => Action::error("LOADING Redis is loading the dataset in memory"),
            5 => Action::error("BUSY Redis is busy running a script."),
            7.. => Action::granted(command),
            _ => Action::held(command, "x", 60_000),
        }
    });
    let builder = Locker::builder().node(server.url()).ttl(Duration::from_secs(6));
    let locker = builder.connect().await.unwrap();
    let guard = soon("the lock", locker.lock("a").into_future()).await.unwrap();
    let asked = server.commands();
    let asked: Vec<_> = asked.iter().filter(|command| is_in_queue(command)).collect();
    assert_eq!((asked.len(), owners(asked).len()), (7, 1));
    guard.release().await.ok();
}

/// The other servers are enough for a grant, so all are asked meanwhile, by owners of their own.
#[tokio::test]
async fn a_place_at_one_of_several_servers_is_kept_while_it_refuses_and_the_others_are_asked() {
    for is_freed in [false, true] {
        let refused = Arc::new(AtomicUsize::new(0));
        let servers = [(); 3].map(|()| {
            let refused = Arc::clone(&refused);
            ScriptedServer::start(move |command| {
                if let Some(answer) = greeting(command) {
                    return answer;
                }
                let count = refused.load(Ordering::Relaxed);
                if command.has_one_of(&["beat"]) && (count < 4 || is_freed) {
                    refused.fetch_add(1, Ordering::Relaxed);
                    Action::error(NOREPLICAS)
                } else if count < 4 || !command.is_acquire() {
                    Action::held(command, "x", 60_000)
                } else {
                    Action::granted(command)
                }
            })
        });
        let builder = Locker::builder().nodes(servers.iter().map(ScriptedServer::url));
        let builder = builder.restart_quarantine(false).ttl(Duration::from_secs(9));
        let locker = builder.connect().await.unwrap();
        let guard = soon("the lock", locker.lock("a").into_future()).await.unwrap();
        let asked: Vec<_> = servers.iter().flat_map(ScriptedServer::commands).collect();
        let in_queue = asked.iter().filter(|command| is_in_queue(command));
        assert_eq!(owners(in_queue).len(), 1, "{is_freed}");
        let others = asked.iter().filter(|it| it.is_acquire() && !is_in_queue(it));
        assert!(owners(others).len() >= 4, "{is_freed}");
        guard.release().await.ok();
    }
}

/// The lock is another's, and the server refuses a waiter in its queue twice.
fn twice_refusing(is_granted: bool) -> ScriptedServer {
    let mut asked = 0;
    ScriptedServer::start(move |command| {
        if let Some(answer) = greeting(command) {
            return answer;
        }
        asked += i32::from(is_in_queue(command));
        match asked {
            2 | 10 => Action::error(NOREPLICAS),
            11.. if is_granted => Action::granted(command),
            _ => Action::held(command, "x", 60_000),
        }
    })
}

/// It had counted from the first time, although the server had served for longer than a TTL since.
#[tokio::test]
async fn a_server_that_refuses_twice_has_not_failed_all_the_time() {
    let server = twice_refusing(true);
    let builder = Locker::builder().node(server.url()).ttl(Duration::from_millis(300));
    let locker = builder.connect().await.unwrap();
    let guard = soon("the lock", locker.lock("a").into_future()).await.unwrap();
    guard.release().await.ok();
}

/// It was said to be unavailable, because of a refusal long ago.
#[tokio::test]
async fn a_wait_that_ends_after_an_outage_is_told_of_the_holder() {
    let server = twice_refusing(false);
    let builder = Locker::builder().node(server.url()).ttl(Duration::from_millis(300));
    let locker = builder.connect().await.unwrap();
    let request = locker.lock("a").wait_at_most(Duration::from_secs(3));
    let error = soon("its end", request.into_future()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
    assert!(server.commands().iter().filter(|it| is_in_queue(it)).count() > 10);
}

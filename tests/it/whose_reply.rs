//! Replies that are lost, repeated or added on the way: no request is granted that the server refuses.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold::{Error, ErrorKind, Locker};
use leasehold_resp::Frame;
use leasehold_testing::scripted::greeting;
use leasehold_testing::{Action, FaultProxy, Harm, RedisServer, ScriptedServer, soon};
use tokio::task::JoinSet;

const CALLERS: usize = 64;
const ATTEMPTS_EACH: usize = 40;
/// Among the commands, those of which one has a reply that goes wrong: of an acquire and of a release.
const WRONG: std::ops::Range<usize> = 500..505;
/// The replies of a handshake, and some of those behind it.
const GREETING: std::ops::Range<usize> = 0..22;

/// Half of the callers want a lock that another holds, and half take and release their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_reply_out_of_place_grants_nothing_and_costs_one_connection() {
    let harms = ["lost", "twice", "array", "error"];
    for (harm, wrong) in harms.into_iter().flat_map(|harm| WRONG.map(move |wrong| (harm, wrong))) {
        let mut calls = 0;
        let server = ScriptedServer::start(move |command| {
            if let Some(answer) = greeting(command) {
                return answer;
            }
            calls += 1;
            let answer = match &*command.word(3) {
                "held" if command.is_acquire() => Action::held(command, "another", 60_000),
                "held" => Action::stamped(command, [Frame::Integer(0)]),
                _ => Action::Reply(command.stamp()),
            };
            match harm {
                _ if calls != wrong => answer,
                "lost" => Action::Silence,
                "twice" => Action::Sequence(vec![answer.clone(), answer]),
                "array" => Action::Sequence(vec![Action::Reply(Frame::Array([].into())), answer]),
                _ => Action::Sequence(vec![Action::error("ERR stray"), answer]),
            }
        });
        let locker = Locker::connect(&server.url()).await.unwrap();
        let connected = server.accepted();
        let false_grants = Arc::new(AtomicUsize::new(0));
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (locker, false_grants) = (locker.clone(), Arc::clone(&false_grants));
            callers.spawn(async move {
                for _ in 0..ATTEMPTS_EACH {
                    if caller % 2 == 0 {
                        let taken = locker.try_lock("held").await.is_ok();
                        false_grants.fetch_add(taken.into(), Ordering::Relaxed);
                    } else if let Ok(guard) = locker.try_lock(format!("own{caller}")).await {
                        let _ = guard.release().await;
                    }
                }
            });
        }
        while let Some(ended) = soon("all callers end", callers.join_next()).await {
            ended.unwrap();
        }
        assert_eq!(false_grants.load(Ordering::Relaxed), 0, "{harm}, {wrong}");
        let replaced = server.accepted() - connected;
        assert_eq!(replaced, 1, "{harm}, {wrong}: one connection is replaced");
    }
}

async fn connect(url: String) -> Result<Locker, Error> {
    Locker::connect(&format!("{url}/1")).await
}

#[track_caller]
fn is_of_the_moment(error: &Error, what: &str) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{what}: {error}");
}

/// At a first connection, at the next one, and at the one that hears of changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_reply_of_a_handshake_out_of_place_misleads_nobody() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let replies = proxy.to_client();
    let warnings = connect(proxy.url()).await.unwrap().warnings();
    replies.know_replies();
    let well = connect(server.url()).await.unwrap();
    let harms = [Harm::Lost, Harm::Twice].into_iter();
    for (harm, number) in harms.flat_map(|harm| GREETING.map(move |number| (harm, number))) {
        let what = format!("{harm:?} {number}");
        replies.harm_reply(number, harm);
        let locker = loop {
            match connect(proxy.url()).await {
                Ok(locker) => break locker,
                Err(error) => is_of_the_moment(&error, &what),
            }
        };
        proxy.cut();
        if !replies.has_harm() {
            replies.harm_reply(number, harm);
        }
        for attempt in 0.. {
            match locker.try_lock(format!("{what} {attempt}")).await {
                Ok(_) if replies.has_harm() => {}
                Ok(_) => break,
                Err(error) => is_of_the_moment(&error, &what),
            }
        }
        let held = soon("the lock is free", well.lock(&*what).into_future()).await.unwrap();
        replies.harm_reply(number, harm);
        // It hears of changes on the connection that it has.
        proxy.cut();
        let (waiting, name) = (locker.clone(), what.clone());
        let waiter = tokio::spawn(async move { waiting.lock(name).await });
        soon("harm is done", async {
            while replies.has_harm() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        soon("it is released", held.release()).await.unwrap();
        let guard = soon("it is handed over", waiter).await.unwrap().unwrap();
        if let Err(error) = soon("it is released", guard.release()).await {
            is_of_the_moment(&error, &what);
        }
        assert_eq!(locker.warnings(), warnings, "{what}");
    }
}

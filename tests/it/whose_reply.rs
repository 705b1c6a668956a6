//! Replies that are lost, repeated or added on the way: nobody is granted what the server refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold::Locker;
use leasehold_resp::Frame;
use leasehold_testing::scripted::greeting;
use leasehold_testing::{Action, ScriptedServer, soon};
use tokio::task::JoinSet;

const CALLERS: usize = 64;
const ATTEMPTS_EACH: usize = 40;
/// Among the calls of scripts, the one whose reply goes wrong.
const WRONG: usize = 500;

/// Half of the callers want a lock that another holds, and half take and release their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_reply_out_of_place_grants_nothing_and_costs_one_connection() {
    for harm in ["lost", "twice", "array", "error"] {
        let mut calls = 0;
        let server = ScriptedServer::start(move |command| {
            if let Some(answer) = greeting(command) {
                return answer;
            }
            calls += 1;
            let answer = match command.word(3).as_str() {
                "held" => Action::held(command, "another", 60_000),
                _ => Action::Reply(command.stamp()),
            };
            match harm {
                _ if calls != WRONG => answer,
                "lost" => Action::Silence,
                "twice" => Action::Sequence(vec![answer.clone(), answer]),
                "array" => Action::Sequence(vec![Action::Reply(Frame::Array(vec![])), answer]),
                _ => Action::Sequence(vec![Action::error("ERR stray"), answer]),
            }
        });
        let locker = Locker::connect(&server.url()).await.unwrap();
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
        assert_eq!(false_grants.load(Ordering::Relaxed), 0, "{harm}");
        assert_eq!(server.accepted(), 2, "{harm}: one connection is replaced");
    }
}

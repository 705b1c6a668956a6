//! Servers that fail waiters in a line, whose limits differ.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{ErrorKind, LockRequest, Locker, Retry};

use super::{LONG, until_waiting};
use leasehold_testing::scripted::greeting;
use leasehold_testing::{Action, ScriptedServer, soon};

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

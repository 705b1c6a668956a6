//! Requests under idempotency keys, on real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use leasehold::once::{IdempotentRequest, RequestOutcome};
use leasehold::{ErrorKind, Locker};
use leasehold_resp::Frame;
use leasehold_testing::{RedisServer, binary, eventually, soon};

const DAY: Duration = Duration::from_secs(86_400);
const SHORT: Duration = Duration::from_millis(300);

async fn connect(server: &RedisServer) -> Locker {
    soon("it connects", Locker::connect(&server.url())).await.unwrap()
}

fn payment(locker: &Locker) -> IdempotentRequest {
    locker.idempotent("payment:7", "digest", DAY)
}

async fn pay(request: &IdempotentRequest) -> RequestOutcome<()> {
    soon("an answer", request.run(async |_| Ok::<_, ()>("receipt"))).await.unwrap()
}

#[tokio::test]
async fn a_request_is_carried_out_once_and_answered_with_its_result_from_then_on() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    assert_eq!(pay(&payment(&one)).await, RequestOutcome::Ran("receipt".into()));
    for locker in [&one, &other] {
        let request = payment(locker);
        let again = request.run(async |_| -> Result<Vec<u8>, ()> { panic!("carried out twice") });
        assert_eq!(again.await.unwrap(), RequestOutcome::Done("receipt".into()));
    }
    let another = one.idempotent("payment:7", "another digest", DAY);
    assert_eq!(pay(&another).await, RequestOutcome::KeyReused);
    let Frame::Integer(left) = server.cli(&["PTTL", "{payment:7}:idempotent"]) else { panic!() };
    assert!(left > 0 && Duration::from_millis(left.unsigned_abs()) <= DAY);
    assert_eq!(server.cli(&["DBSIZE"]), Frame::Integer(1));
}

#[tokio::test]
async fn a_failure_lets_the_next_one_try_under_a_higher_token() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    let request = payment(&locker);
    let mut fence = None;
    for number in 1..4 {
        let attempt = async |attempt: &leasehold::once::Attempt| {
            assert_eq!(attempt.number, number);
            assert!(Some(attempt.fence()) > fence.replace(attempt.fence()));
            Err::<Vec<u8>, _>("declined")
        };
        assert_eq!(request.run(attempt).await.unwrap(), RequestOutcome::Failed("declined"));
    }
    assert_eq!(pay(&request).await, RequestOutcome::Ran("receipt".into()));
}

#[tokio::test]
async fn callers_at_the_same_time_wait_for_the_one_that_does_it_and_are_told() {
    let server = RedisServer::start();
    let (done, waited) = (Arc::new(AtomicU32::new(0)), DAY);
    let mut callers = Vec::new();
    for _ in 0..8 {
        let (locker, done) = (connect(&server).await, Arc::clone(&done));
        callers.push(tokio::spawn(async move {
            let request = payment(&locker).wait_at_most(waited);
            let work = async |_: &leasehold::once::Attempt| {
                done.fetch_add(1, Relaxed);
                tokio::time::sleep(SHORT).await;
                Ok::<_, ()>("receipt")
            };
            request.run(work).await.unwrap()
        }));
    }
    for caller in callers {
        let outcome = soon("its answer", caller).await.unwrap();
        let (RequestOutcome::Ran(result) | RequestOutcome::Done(result)) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(result, "receipt");
    }
    assert_eq!(done.load(Relaxed), 1);
    // Each begins, reads again when it is told, and nobody polls.
    let stats = server.cli_text(&["INFO", "commandstats"]);
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
    let calls: u32 = calls.split(',').next().unwrap().parse().unwrap();
    let is_told = binary::has_at_least((6, 0), (0, 0));
    assert!(calls <= 40 || !is_told, "{calls}");
}

#[tokio::test]
async fn an_attempt_that_is_cut_off_can_be_repeated_after_its_ttl_and_its_late_result_is_refused() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let request = payment(&one).ttl(SHORT);
    let outcome = request
        .run(async |_| {
            // As if this process had been paused until its lease was over.
            let key = "{payment:7}:idempotent";
            let value = server.cli_text(&["GET", key]);
            let mut words: Vec<&str> = value.split(' ').collect();
            words[1] = "1";
            server.cli(&["SET", key, &words.join(" ")]);
            assert_eq!(pay(&payment(&other)).await, RequestOutcome::Ran("receipt".into()));
            Ok::<_, ()>("late")
        })
        .await;
    let Ok(RequestOutcome::Unkept { result, error }) = outcome else { panic!("{outcome:?}") };
    assert!(result == "late" && error.kind() == ErrorKind::Lost, "{result:?}: {error}");
    assert!(error.to_string().starts_with("idempotency key \"payment:7\": the lease is lost"));
    assert_eq!(pay(&request).await, RequestOutcome::Done("receipt".into()));
}

/// The caller learns that the work was done and what came of it, at the end of its limit and not of its TTL.
#[tokio::test]
async fn a_result_that_the_server_does_not_keep_is_given_back_within_the_callers_limit() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    let hour = Duration::from_secs(3600);
    let request = payment(&locker).ttl(hour).wait_at_most(SHORT);
    let run = request.run(async |_| {
        server.stop();
        Ok::<_, ()>("receipt")
    });
    let outcome = soon("it ends", run).await;
    let Ok(RequestOutcome::Unkept { result, error }) = outcome else { panic!("{outcome:?}") };
    assert!(result == "receipt" && error.is_unknown(), "{result:?}: {error}");
}

#[tokio::test]
async fn a_waiter_goes_on_when_the_other_has_died() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let request = payment(&one).ttl(SHORT);
    let mut cut_off =
        Box::pin(request.run(async |_| std::future::pending::<Result<Vec<u8>, ()>>().await));
    let began = eventually("it began", || {
        server.cli(&["EXISTS", "{payment:7}:idempotent"]) == Frame::Integer(1)
    });
    tokio::select! {
        outcome = &mut cut_off => panic!("{outcome:?}"),
        () = began => {}
    }
    let refused = payment(&other).wait_at_most(Duration::from_millis(20));
    assert!(matches!(pay(&refused).await, RequestOutcome::Running { left } if left <= SHORT));
    drop(cut_off);
    assert_eq!(
        pay(&payment(&other).wait_at_most(DAY)).await,
        RequestOutcome::Ran("receipt".into())
    );
}

#[tokio::test]
async fn a_shutdown_ends_a_wait() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let (request, waiting) = (payment(&one), payment(&other).wait_at_most(DAY));
    let outcome = request
        .run(async |_| {
            let waits = waiting.run(async |_| Ok::<_, ()>("no"));
            let ends = async {
                tokio::task::yield_now().await;
                other.shutdown(SHORT).await;
            };
            let (waited, ()) = soon("its end", async { tokio::join!(waits, ends) }).await;
            assert_eq!(waited.unwrap_err().kind(), ErrorKind::ShutDown);
            Ok::<_, ()>("receipt")
        })
        .await;
    assert_eq!(outcome.unwrap(), RequestOutcome::Ran("receipt".into()));
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    let refused = [
        locker.idempotent("", "", DAY),
        locker.idempotent("a", [0; 257], DAY),
        locker.idempotent("a", "", Duration::from_millis(999)),
        locker.idempotent("a", "", DAY * 367),
        payment(&locker).ttl(DAY * 2),
    ];
    for request in refused {
        let outcome = request.run(async |_| panic!("it is refused") as Result<&str, ()>).await;
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Misuse);
    }
    let long = payment(&locker).run(async |_| Ok::<_, ()>(vec![b'x'; 32 * 1024 + 1])).await;
    let Ok(RequestOutcome::Unkept { result, error }) = long else { panic!("{long:?}") };
    assert!(result.len() == 32 * 1024 + 1 && error.kind() == ErrorKind::Misuse);
    let error = error.to_string();
    assert!(error.contains("the result must be at most 32768 bytes, not 32769"), "{error}");
    let longest = locker.idempotent("b", [255; 256], DAY);
    let result = vec![b'x'; 32 * 1024];
    let outcome = longest.run(async |_| Ok::<_, ()>(result.clone())).await.unwrap();
    assert_eq!(outcome, RequestOutcome::Ran(result.clone().into()));
    assert_eq!(
        longest.run(async |_| Ok::<_, ()>("")).await.unwrap(),
        RequestOutcome::Done(result.into())
    );
}

//! Jobs that run once in a slot, on real servers.

#![allow(clippy::disallowed_methods, reason = "slots are by the wall clock")]

use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use leasehold::once::{JobOutcome, Run, Slot};
use leasehold::{Error, ErrorKind, Locker};
use leasehold_resp::Frame;
use leasehold_testing::{Fleet, RedisServer, eventually, soon};

const WEEK: Duration = Duration::from_secs(7 * 86_400);
/// So long that no lease ends while a test runs.
const HOUR: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(300);

async fn connect(server: &RedisServer) -> Locker {
    soon("it connects", Locker::connect(&server.url())).await.unwrap()
}

async fn works(run: &Run) -> Result<Run, Infallible> {
    Ok(*run)
}

/// One that was due a moment ago.
fn due() -> Slot {
    Slot::at(SystemTime::now() - Duration::from_secs(5))
}

fn ran<T: Copy>(turn: &JobOutcome<Result<T, Infallible>>) -> Option<T> {
    match turn {
        JobOutcome::Ran { output: Ok(output), .. } => Some(*output),
        _ => None,
    }
}

#[tokio::test]
async fn of_many_callers_one_runs_the_job_and_it_holds_nothing() {
    let server = RedisServer::start();
    let mut ran_in = 0;
    let slot = due();
    for _ in 0..5 {
        let locker = connect(&server).await;
        let turn = locker.once("report", slot).run(works).await.unwrap();
        ran_in += u32::from(ran(&turn).is_some());
        locker.shutdown(SHORT).await;
    }
    assert_eq!(ran_in, 1);
    let Frame::Integer(left) = server.cli(&["PTTL", "{report}:once"]) else { panic!() };
    assert!(Duration::from_millis(left.unsigned_abs()) <= WEEK && left > 0);
    assert_eq!(server.cli(&["DBSIZE"]), Frame::Integer(1), "one key a job");
}

#[tokio::test]
async fn the_servers_clock_says_which_slot_is_due() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    let weekly = locker.once("weekly", Slot::every(WEEK));
    let turn = weekly.run(works).await.unwrap();
    let (JobOutcome::Ran { next_in: Some(next_in), .. }, Some(run)) = (&turn, ran(&turn)) else {
        panic!("{turn:?}")
    };
    assert!(*next_in <= WEEK && run.attempt == 1 && run.unfinished.is_none());
    assert!(matches!(weekly.run(works).await.unwrap(), JobOutcome::Taken { last: Some(_), .. }));
    let later = locker.once("later", Slot::at(SystemTime::now() + HOUR));
    let turn = later.run(works).await.unwrap();
    assert!(matches!(turn, JobOutcome::Early { due_in } if due_in <= HOUR), "{turn:?}");
    let old = locker.once("old", Slot::at(SystemTime::now() - WEEK));
    assert!(matches!(old.run(works).await.unwrap(), JobOutcome::Taken { last: None, .. }));
    assert_eq!(server.cli(&["EXISTS", "{old}:once", "{later}:once"]), Frame::Integer(0));
}

#[tokio::test]
async fn at_least_once_a_run_that_fails_or_is_cut_off_is_repeated_and_none_overlaps()
-> Result<(), Error> {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let slot = due();
    let one = one.once("import", slot).at_least_once(HOUR);
    let other = other.once("import", slot).at_least_once(HOUR);
    let failed = one.run(async |_| Err::<(), _>("no")).await?;
    assert!(matches!(failed, JobOutcome::Ran { output: Err("no"), .. }));
    let turn = one
        .run(async |run| {
            let beside = other.run(works).await.unwrap();
            assert!(
                matches!(beside, JobOutcome::Running { left, .. } if left <= HOUR),
                "{beside:?}"
            );
            Ok::<_, Infallible>(run.attempt)
        })
        .await?;
    assert_eq!(ran(&turn), Some(2));
    assert!(matches!(other.run(works).await?, JobOutcome::Taken { .. }));
    Ok(())
}

#[tokio::test]
async fn a_run_is_renewed_beyond_its_ttl_and_one_that_is_dropped_can_be_repeated_after_it() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    let job = || locker.once("import", due()).at_least_once(SHORT);
    let lease = || {
        let value = server.cli_text(&["GET", "{import}:once"]);
        value.split(' ').nth(1).map(str::to_owned)
    };
    let first = job();
    {
        let mut run = Box::pin(first.run(async |_| std::future::pending::<Result<(), ()>>().await));
        let mut seen = std::collections::BTreeSet::new();
        let renewed = eventually("it is renewed", || {
            seen.extend(lease());
            seen.len() > 4
        });
        tokio::select! {
            turn = &mut run => panic!("{turn:?}"),
            () = renewed => {}
        }
    }
    let last = loop {
        match soon("an answer", first.run(works)).await.unwrap() {
            JobOutcome::Running { left, .. } => tokio::time::sleep(left).await,
            turn => break turn,
        }
    };
    assert_eq!(ran(&last).unwrap().attempt, 2);
    // Another slot behind one that was not finished is told of it.
    server.cli(&["SET", "{import}:once", "0123456789abcdef 1 1000 1"]);
    let unfinished = ran(&job().run(works).await.unwrap()).unwrap().unfinished;
    assert_eq!(unfinished, Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1)));
}

#[tokio::test]
async fn a_run_whose_lease_is_another_s_is_dropped() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    let job = locker.once("import", due()).at_least_once(SHORT);
    let error = job
        .run(async |_| {
            server.cli(&["DEL", "{import}:once"]);
            std::future::pending::<Result<(), ()>>().await
        })
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(error.to_string().starts_with("once \"import\": the lease is lost"), "{error}");
    let turn = job
        .run(async |_| {
            server.cli(&["DEL", "{import}:once"]);
            Ok::<_, ()>(7)
        })
        .await;
    let Ok(JobOutcome::Unkept { output: Ok(7), error }) = turn else { panic!("{turn:?}") };
    assert_eq!(error.kind(), ErrorKind::Lost, "another could have run it beside: {error}");
}

#[tokio::test]
async fn the_output_of_a_run_whose_server_is_away_at_its_end_is_given_back() {
    let mut server = RedisServer::start();
    let locker = connect(&server).await;
    let job = locker.once("import", due()).at_least_once(SHORT);
    let run = job.run(async |_| {
        server.kill();
        Ok::<_, ()>(7)
    });
    let turn = soon("it ends", run).await;
    let Ok(JobOutcome::Unkept { output: Ok(7), error }) = turn else { panic!("{turn:?}") };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let fleet = Fleet::start(3);
    let builder = Locker::builder().nodes(fleet.urls()).restart_quarantine(false);
    let several = soon("it connects", builder.connect()).await.unwrap();
    let error = several.once("a", due()).at_least_once(HOUR).run(works).await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Misuse && error.to_string().contains("among 3 servers"),
        "{error}"
    );
    let server = RedisServer::start();
    let locker = connect(&server).await;
    let refused = [
        locker.once("", due()),
        locker.once("a", Slot::every(WEEK * 2)),
        locker.once("a", due()).at_least_once(Duration::ZERO),
    ];
    for job in refused {
        assert_eq!(job.run(works).await.unwrap_err().kind(), ErrorKind::Misuse);
    }
    let job = locker.once("a", due());
    server.cli(&["SET", "{a}:once", "a lock's"]);
    let error = job.run(works).await.unwrap_err();
    assert!(error.to_string().contains("holds a value that is no job"), "{error}");
    locker.shutdown(SHORT).await;
    assert_eq!(job.run(works).await.unwrap_err().kind(), ErrorKind::ShutDown);
}

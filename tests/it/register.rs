//! Agreement of several independent servers on results of requests and slots of jobs, while servers are frozen,
//! restarted without data, or cut off.

#![allow(clippy::disallowed_methods, reason = "slots are by the wall clock")]

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use leasehold::once::{Attempt, IdempotentRequest, JobOutcome, RequestOutcome, Run, Slot};
use leasehold::{ErrorKind, Locker};
use leasehold_resp::Frame;
use leasehold_testing::{Fleet, RedisServer, binary, eventually, soon};

const DAY: Duration = Duration::from_secs(86_400);
/// So long that no lease ends while a test runs.
const HOUR: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(300);
const KEY: &str = "{payment:7}:idempotent";

async fn connect(fleet: &Fleet, quorum: usize) -> Locker {
    let builder = Locker::builder().nodes(fleet.urls()).quorum(quorum).restart_quarantine(false);
    soon("it connects", builder.connect()).await.unwrap()
}

fn payment(locker: &Locker) -> IdempotentRequest {
    locker.idempotent("payment:7", "digest", DAY)
}

async fn pay(request: &IdempotentRequest, with: &'static str) -> RequestOutcome<()> {
    soon("an answer", request.run(async |_| Ok::<_, ()>(with))).await.unwrap()
}

/// On how many servers the receipt is kept.
fn kept(fleet: &Fleet) -> usize {
    fleet.iter().filter(|server| value(server).is_some_and(|it| it.ends_with("receipt"))).count()
}

fn value(server: &RedisServer) -> Option<String> {
    match server.cli(&["GET", KEY]) {
        Frame::Bulk(text) => Some(String::from_utf8(text.to_vec()).unwrap()),
        _ => None,
    }
}

#[tokio::test]
async fn a_request_is_carried_out_once_and_every_quorum_knows_its_result() {
    for (servers, quorum) in [(3, 2), (5, 3), (5, 4)] {
        let fleet = Fleet::start(servers);
        let (one, other) = (connect(&fleet, quorum).await, connect(&fleet, quorum).await);
        assert_eq!(pay(&payment(&one), "receipt").await, RequestOutcome::Ran("receipt".into()));
        for locker in [&one, &other] {
            assert_eq!(
                pay(&payment(locker), "twice").await,
                RequestOutcome::Done("receipt".into())
            );
        }
        let another = one.idempotent("payment:7", "another digest", DAY);
        assert_eq!(pay(&another, "no").await, RequestOutcome::KeyReused);
        assert!(kept(&fleet) >= quorum);
        for server in fleet.iter() {
            let Frame::Integer(left) = server.cli(&["PTTL", KEY]) else { panic!() };
            assert!(left > 0 && Duration::from_millis(left.unsigned_abs()) <= DAY);
            assert_eq!(server.cli(&["DBSIZE"]), Frame::Integer(1));
        }
    }
}

#[tokio::test]
async fn a_failure_lets_the_next_one_try_under_a_higher_token() {
    let fleet = Fleet::start(3);
    let request = payment(&connect(&fleet, 2).await);
    let (mut fence, mut number) = (None, 0);
    for _ in 0..3 {
        let attempt = async |attempt: &Attempt| {
            assert!(attempt.number > number);
            number = attempt.number;
            assert!(Some(attempt.fence()) > fence.replace(attempt.fence()));
            Err::<Vec<u8>, _>("declined")
        };
        assert_eq!(request.run(attempt).await.unwrap(), RequestOutcome::Failed("declined"));
    }
    assert_eq!(pay(&request, "receipt").await, RequestOutcome::Ran("receipt".into()));
}

/// A server may hear of an attempt once it has ended: then the request is running there for up to a TTL.
async fn result_of(request: &IdempotentRequest) -> Bytes {
    loop {
        match request.run(async |_| Ok::<_, ()>("twice")).await {
            Ok(RequestOutcome::Done(result)) => return result,
            Ok(RequestOutcome::Running { .. }) => {}
            Ok(outcome) => panic!("{outcome:?}"),
            Err(error) => assert!(error.kind() == ErrorKind::Unavailable, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_attempt_is_running_where_its_end_is_not_heard_of() {
    let mut fleet = Fleet::start(3);
    let ttl = Duration::from_secs(2);
    let (one, other) = (connect(&fleet, 2).await, connect(&fleet, 2).await);
    let [one, other] = [one, other].map(|locker| payment(&locker).ttl(ttl));
    fleet[0].stop();
    let work = async |_: &Attempt| {
        // The server's connection ends: that it has ended, it will not hear.
        tokio::time::sleep(ttl / 2).await;
        Ok::<_, ()>("receipt")
    };
    assert_eq!(one.run(work).await.unwrap(), RequestOutcome::Ran("receipt".into()));
    fleet[0].cont();
    eventually("it has begun", || value(&fleet[0]).is_some()).await;
    fleet[1].kill();
    match pay(&other, "twice").await {
        RequestOutcome::Running { left } => assert!(left <= ttl),
        outcome => panic!("{outcome:?}"),
    }
    assert_eq!(soon("the result", result_of(&other)).await, "receipt");
    assert_eq!(kept_on(&fleet, &[0, 2]), 2);
}

#[tokio::test]
async fn a_frozen_server_is_not_waited_for_and_one_that_is_empty_learns_the_result_again() {
    let mut fleet = Fleet::start(3);
    let (one, other) = (connect(&fleet, 2).await, connect(&fleet, 2).await);
    fleet[0].stop();
    assert_eq!(pay(&payment(&one), "receipt").await, RequestOutcome::Ran("receipt".into()));
    assert_eq!(pay(&payment(&other), "twice").await, RequestOutcome::Done("receipt".into()));
    fleet[0].cont();
    // Two of three know it. A reader without one of them finishes it on the third.
    fleet[1].kill();
    eventually("it answers again", || fleet[0].cli_text(&["PING"]) == "PONG").await;
    let fresh = payment(&connect(&fleet, 2).await);
    assert_eq!(soon("the result", result_of(&fresh)).await, "receipt");
    assert_eq!(kept_on(&fleet, &[0, 2]), 2);
    // The one that restarts has forgotten it; the two others have it.
    fleet[1].restart();
    fleet[2].stop();
    assert_eq!(soon("the result", result_of(&fresh)).await, "receipt");
    assert_eq!(kept_on(&fleet, &[0, 1]), 2);
    fleet[2].cont();
}

#[tokio::test]
async fn servers_that_were_away_when_an_attempt_began_take_its_result() {
    let mut fleet = Fleet::start(5);
    let (one, other) = (connect(&fleet, 3).await, connect(&fleet, 3).await);
    (3..5).for_each(|server| fleet[server].stop());
    let request = payment(&one);
    let outcome = request.run(async |_| {
        (3..5).for_each(|server| fleet[server].cont());
        (3..5).for_each(|server| assert_eq!(fleet[server].cli_text(&["PING"]), "PONG"));
        (3..5).for_each(|server| drop(fleet[server].cli(&["DEL", KEY])));
        fleet[0].kill();
        // They are back for this locker too.
        let probe = async {
            for round in 0.. {
                let limit = one.once(format!("probe:{round}"), Slot::every(HOUR));
                let _ = limit.run(works).await;
                let known = |server| fleet[server].cli(&["DBSIZE"]) != Frame::Integer(0);
                if known(3) && known(4) {
                    break;
                }
            }
        };
        soon("they take part", probe).await;
        Ok::<_, ()>("receipt")
    });
    assert_eq!(soon("its result", outcome).await.unwrap(), RequestOutcome::Ran("receipt".into()));
    assert!(kept_on(&fleet, &[1, 2, 3, 4]) >= 3);
    assert_eq!(pay(&payment(&other), "twice").await, RequestOutcome::Done("receipt".into()));
}

fn kept_on(fleet: &Fleet, servers: &[usize]) -> usize {
    let has = |server: &&usize| value(&fleet[**server]).is_some_and(|it| it.ends_with("receipt"));
    servers.iter().filter(has).count()
}

/// With four of five, two may forget: k = 2.
#[tokio::test]
async fn as_many_servers_may_forget_as_the_quorum_tolerates() {
    let fleet = Fleet::start(5);
    let (one, other) = (connect(&fleet, 4).await, connect(&fleet, 4).await);
    assert_eq!(pay(&payment(&one), "receipt").await, RequestOutcome::Ran("receipt".into()));
    for forgetful in [[0, 1], [2, 3], [4, 0]] {
        for server in forgetful {
            fleet[server].cli(&["FLUSHALL"]);
        }
        assert_eq!(pay(&payment(&other), "twice").await, RequestOutcome::Done("receipt".into()));
        assert!(kept(&fleet) >= 4, "whoever reads it has it kept by a quorum again");
    }
}

#[tokio::test]
async fn callers_at_the_same_time_wait_for_the_one_that_does_it() {
    let fleet = Fleet::start(3);
    let done = Arc::new(AtomicU32::new(0));
    let mut callers = Vec::new();
    for _ in 0..6 {
        let (locker, done) = (connect(&fleet, 2).await, Arc::clone(&done));
        callers.push(tokio::spawn(async move {
            let request = payment(&locker).wait_at_most(DAY);
            let work = async |_: &Attempt| {
                done.fetch_add(1, Relaxed);
                tokio::time::sleep(SHORT).await;
                Ok::<_, ()>("receipt")
            };
            request.run(work).await.unwrap()
        }));
    }
    let has = |server: &RedisServer| value(server).is_some();
    eventually("it began", || fleet.iter().all(has)).await;
    // From here on the one that does it has its lease on two servers, and the third is free.
    fleet[2].cli(&["DEL", KEY]);
    for caller in callers {
        let outcome = soon("its answer", caller).await.unwrap();
        let (RequestOutcome::Ran(result) | RequestOutcome::Done(result)) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(result, "receipt");
    }
    assert_eq!(done.load(Relaxed), 1);
    // A waiter looks when it is told, and what it does tells nobody else.
    let is_told = binary::has_at_least((6, 0), (0, 0));
    for server in fleet.iter() {
        let calls = calls(server);
        assert!(calls <= 60 || !is_told, "{calls}");
    }
}

fn calls(server: &RedisServer) -> u32 {
    let stats = server.cli_text(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
    line.split(',').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn what_a_minority_has_accepted_is_finished_before_it_is_told() {
    let fleet = Fleet::start(3);
    let (one, other) = (connect(&fleet, 2).await, connect(&fleet, 2).await);
    assert_eq!(pay(&payment(&one), "receipt").await, RequestOutcome::Ran("receipt".into()));
    // As if it had reached one server, and then its process had ended.
    for server in fleet.iter().skip(1) {
        server.cli(&["DEL", KEY]);
    }
    fleet[2].stop();
    // And as if somebody had taken the key's expiry away by hand: the script gives it one again.
    fleet[0].cli(&["PERSIST", KEY]);
    assert_eq!(pay(&payment(&other), "twice").await, RequestOutcome::Done("receipt".into()));
    assert_eq!(kept_on(&fleet, &[0, 1]), 2);
    assert!(matches!(fleet[0].cli(&["PTTL", KEY]), Frame::Integer(1..)));
    fleet[2].cont();
}

#[tokio::test]
async fn an_attempt_that_is_cut_off_is_repeated_after_its_ttl_and_its_late_result_is_refused() {
    let fleet = Fleet::start(3);
    let (one, other) = (connect(&fleet, 2).await, connect(&fleet, 2).await);
    let request = payment(&one).ttl(HOUR);
    let outcome = request
        .run(async |_| {
            let running = pay(&payment(&other), "too early").await;
            assert!(
                matches!(running, RequestOutcome::Running { left } if left <= HOUR),
                "{running:?}"
            );
            let unlike = other.idempotent("payment:7", "another digest", DAY);
            assert_eq!(pay(&unlike, "no").await, RequestOutcome::KeyReused);
            // As if this process had been paused until its lease was over.
            for server in fleet.iter() {
                let value = value(server).unwrap();
                let mut words: Vec<&str> = value.split(' ').collect();
                words[2] = "1";
                server.cli(&["SET", KEY, &words.join(" "), "PX", "3600000"]);
            }
            assert_eq!(
                pay(&payment(&other), "receipt").await,
                RequestOutcome::Ran("receipt".into())
            );
            Ok::<_, ()>("late")
        })
        .await;
    let Ok(RequestOutcome::Unkept { result, error }) = outcome else { panic!("{outcome:?}") };
    assert!(result == "late" && error.kind() == ErrorKind::Lost, "{result:?}: {error}");
    assert_eq!(pay(&request, "twice").await, RequestOutcome::Done("receipt".into()));
}

#[tokio::test]
async fn without_a_quorum_nothing_is_begun_and_the_error_names_the_servers() {
    let mut fleet = Fleet::start(3);
    let locker = connect(&fleet, 2).await;
    (0..2).for_each(|server| fleet[server].kill());
    let request = payment(&locker);
    let run = request.run(async |_| -> Result<Vec<u8>, ()> { panic!("it is begun") });
    let error = soon("it is told", run).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable, "{error}");
    assert_eq!(error.report().servers().len(), 2);
}

#[tokio::test]
async fn a_result_that_no_quorum_keeps_is_given_back_within_the_callers_limit() {
    let mut fleet = Fleet::start(3);
    let locker = connect(&fleet, 2).await;
    let request = payment(&locker).ttl(HOUR).wait_at_most(Duration::from_millis(300));
    let run = request.run(async |_| {
        (0..2).for_each(|server| fleet[server].kill());
        Ok::<_, ()>("receipt")
    });
    let outcome = soon("it ends", run).await;
    let Ok(RequestOutcome::Unkept { result, error }) = outcome else { panic!("{outcome:?}") };
    assert!(result == "receipt" && error.kind() == ErrorKind::Unavailable, "{result:?}: {error}");
}

#[tokio::test]
async fn a_value_that_one_server_kept_alone_is_an_error() {
    let fleet = Fleet::start(3);
    let alone = soon("it connects", Locker::connect(&fleet[0].url())).await.unwrap();
    assert_eq!(pay(&payment(&alone), "receipt").await, RequestOutcome::Ran("receipt".into()));
    fleet[1].cli(&["SET", KEY, "a lock's"]);
    let locker = connect(&fleet, 2).await;
    let run = payment(&locker).run(async |_| Ok::<_, ()>("twice")).await;
    let error = run.unwrap_err().to_string();
    assert!(error.contains("that several servers have not agreed on"), "{error}");
}

async fn works(run: &Run) -> Result<Run, Infallible> {
    Ok(*run)
}

#[tokio::test]
async fn of_many_callers_at_the_same_time_one_runs_each_slot() {
    for (servers, quorum) in [(3, 2), (5, 4)] {
        let fleet = Fleet::start(servers);
        let ran = Arc::new(Mutex::new(HashMap::new()));
        let mut callers = Vec::new();
        let first = SystemTime::now() - Duration::from_secs(60);
        for _ in 0..6 {
            let (locker, ran) = (connect(&fleet, quorum).await, Arc::clone(&ran));
            callers.push(tokio::spawn(async move {
                for slot in 0..4 {
                    let slot = first + Duration::from_secs(slot);
                    let job = locker.once("report", Slot::at(slot));
                    match job.run(works).await {
                        Ok(JobOutcome::Ran { output: Ok(run), .. }) => {
                            *ran.lock().unwrap().entry(run.slot).or_insert(0) += 1;
                        }
                        Ok(JobOutcome::Taken { last: Some(_), .. }) => {}
                        Ok(turn) => panic!("{turn:?}"),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Contended, "{error}"),
                    }
                }
            }));
        }
        for caller in callers {
            soon("its end", caller).await.unwrap();
        }
        let ran = ran.lock().unwrap();
        assert!(!ran.is_empty() && ran.values().all(|times| *times == 1), "{ran:?}");
        for server in fleet.iter() {
            assert_eq!(server.cli(&["DBSIZE"]), Frame::Integer(1), "one key a job");
        }
    }
}

#[tokio::test]
async fn a_slot_stays_claimed_with_one_server_frozen_and_another_restarted_empty() {
    let mut fleet = Fleet::start(5);
    let locker = connect(&fleet, 4).await;
    let slot = Slot::at(SystemTime::now() - Duration::from_secs(60));
    let job = locker.once("report", slot);
    fleet[0].stop();
    let turn = soon("a turn", job.run(works)).await.unwrap();
    assert!(matches!(turn, JobOutcome::Ran { .. }), "{turn:?}");
    fleet[0].cont();
    fleet[1].kill();
    fleet[1].restart();
    let taken = async {
        loop {
            match connect(&fleet, 4).await.once("report", slot).run(works).await {
                Ok(JobOutcome::Taken { last: Some(_), .. }) => return,
                Ok(turn) => panic!("{turn:?}"),
                Err(error) => assert!(error.kind() == ErrorKind::Unavailable, "{error}"),
            }
        }
    };
    soon("it is taken", taken).await;
}

#[tokio::test]
async fn the_clocks_of_a_quorum_say_which_slot_is_due() {
    let fleet = Fleet::start(3);
    let locker = connect(&fleet, 2).await;
    let weekly = locker.once("weekly", Slot::every(7 * DAY));
    let turn = weekly.run(works).await.unwrap();
    assert!(matches!(turn, JobOutcome::Ran { next_in: Some(next_in), .. } if next_in <= 7 * DAY));
    let turn = weekly.run(works).await.unwrap();
    assert!(matches!(turn, JobOutcome::Taken { last: Some(_), next_in: Some(_) }), "{turn:?}");
    let later = locker.once("later", Slot::at(SystemTime::now() + HOUR));
    let turn = later.run(works).await.unwrap();
    assert!(matches!(turn, JobOutcome::Early { due_in } if due_in <= HOUR), "{turn:?}");
    let old = locker.once("old", Slot::at(SystemTime::now() - 8 * DAY));
    let turn = old.run(works).await.unwrap();
    assert!(matches!(turn, JobOutcome::Taken { last: None, .. }), "{turn:?}");
}

/// Callers end at any moment, one server after the other is frozen and gets what was sent to it later, and
/// another forgets: within what four of five tolerate.
#[tokio::test]
async fn all_are_told_the_same_result_whatever_ends_in_between() {
    let fleet = Fleet::start(5);
    let mut lockers = Vec::new();
    for _ in 0..4 {
        lockers.push(connect(&fleet, 4).await);
    }
    let mut random = 88_172_645_463_325_252_u64;
    let mut draw = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let (mut cut_off, mut ran, mut done) = (0, 0, 0);
    for round in 0..20 {
        let name = format!("payment:{round}");
        let (frozen, forgetful) = (&fleet[round % 5], &fleet[(round + 1) % 5]);
        let told = Arc::new(Mutex::new(Vec::new()));
        for part in 0..2 {
            let callers = lockers.iter().enumerate().map(|(caller, locker)| {
                let (ends_in, works_for) = (draw(40), draw(10));
                let request = locker.idempotent(&name, "", DAY);
                let request = request.ttl(Duration::from_millis(60));
                let request = request.wait_at_most(Duration::from_millis(30));
                let told = Arc::clone(&told);
                tokio::spawn(async move {
                    let work = async |_: &Attempt| {
                        tokio::time::sleep(Duration::from_millis(works_for)).await;
                        Ok::<_, ()>(format!("{part} {caller}"))
                    };
                    let ends_in = Duration::from_millis(ends_in);
                    let outcome = tokio::time::timeout(ends_in, request.run(work)).await;
                    let is_cut_off = outcome.is_err();
                    if let Ok(Ok(outcome @ (RequestOutcome::Ran(_) | RequestOutcome::Done(_)))) =
                        outcome
                    {
                        told.lock().unwrap().push(outcome);
                    }
                    is_cut_off
                })
            });
            for caller in callers.collect::<Vec<_>>() {
                cut_off += u32::from(soon("its end", caller).await.unwrap());
            }
            if part == 0 {
                frozen.stop();
                forgetful.cli(&["DEL", &format!("{{{name}}}:idempotent")]);
            }
        }
        frozen.cont();
        // Now it is carried out at the latest, and everybody is told of it.
        for locker in &lockers {
            let request = locker.idempotent(&name, "", DAY).wait_at_most(DAY);
            let settled = async {
                loop {
                    match request.run(async |_| Ok::<_, ()>("at last")).await {
                        Ok(RequestOutcome::Unkept { .. }) => {}
                        Ok(outcome) => return outcome,
                        Err(error) => assert_ne!(error.kind(), ErrorKind::Misuse, "{error}"),
                    }
                }
            };
            let outcome = soon("the result", settled).await;
            told.lock().unwrap().push(outcome);
        }
        let told = told.lock().unwrap();
        let result = |outcome: &RequestOutcome<()>| match outcome {
            RequestOutcome::Ran(result) | RequestOutcome::Done(result) => result.clone(),
            outcome => panic!("{outcome:?}"),
        };
        let results: HashSet<_> = told.iter().map(result).collect();
        assert_eq!(results.len(), 1, "{told:?}");
        ran += told.iter().filter(|outcome| matches!(outcome, RequestOutcome::Ran(_))).count();
        done += told.iter().filter(|outcome| matches!(outcome, RequestOutcome::Done(_))).count();
    }
    assert!(cut_off > 0 && ran > 0 && done > 0, "{cut_off} {ran} {done}");
}

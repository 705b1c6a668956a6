//! Latches on real servers.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::barriers::{Latch, LatchState};
use leasehold::{ErrorKind, Locker};
use leasehold_resp::Frame;
use leasehold_testing::{Fleet, RedisServer, binary, soon};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const DAY: Duration = Duration::from_secs(86_400);
/// Enough for an answer on a busy machine.
const SOON: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(20);

async fn connect(server: &RedisServer) -> Locker {
    soon("it connects", Locker::connect(&server.url())).await.unwrap()
}

fn pttl(server: &RedisServer, key: &str) -> i64 {
    let Frame::Integer(pttl) = server.cli(&["PTTL", key]) else { panic!() };
    pttl
}

fn calls(server: &RedisServer) -> u32 {
    let stats = server.cli_text(&["INFO", "commandstats"]);
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
    calls.split(',').next().unwrap().parse().unwrap()
}

/// Redisson's latch is a number that each call takes one from: a call that is repeated, since its reply was
/// lost, counts twice, and the latch opens before all parties are there.
#[tokio::test]
async fn a_party_counts_once_and_the_last_one_opens_the_latch_for_good() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let (one, other) = (one.latch("ready", 3), other.latch("ready", 3));
    assert_eq!(one.state().await.unwrap(), LatchState::Closed { left: 3 });
    for _ in 0..5 {
        assert_eq!(one.count_down("a").await.unwrap(), LatchState::Closed { left: 2 });
    }
    assert_eq!(other.count_down("b").await.unwrap(), LatchState::Closed { left: 1 });
    assert_eq!(other.state().await.unwrap(), LatchState::Closed { left: 1 });
    assert!(pttl(&server, "{ready}:latch") > 0, "what is kept ends");
    assert_eq!(one.count_down("c").await.unwrap(), LatchState::Open);
    for party in ["a", "d"] {
        assert_eq!(other.count_down(party).await.unwrap(), LatchState::Open, "it stays open");
    }
    assert_eq!(other.wait(Duration::ZERO).await.unwrap(), LatchState::Open);
    assert_eq!(server.cli(&["DBSIZE"]), Frame::Integer(1), "the parties are forgotten");
    assert!(pttl(&server, "{ready}:open") > 0);
}

#[tokio::test]
async fn waiters_are_told_of_the_opening_alone() {
    const PARTIES: u32 = 40;
    let server = RedisServer::start();
    let latch = connect(&server).await.latch("ready", PARTIES);
    let mut waiters = Vec::new();
    for _ in 0..5 {
        let locker = connect(&server).await;
        let waiting = locker.latch("ready", PARTIES);
        waiters.push(tokio::spawn(async move { (waiting.wait(DAY).await.unwrap(), locker) }));
    }
    leasehold_testing::eventually("all wait", || calls(&server) >= 5).await;
    for party in 0..PARTIES {
        latch.count_down(party.to_string()).await.unwrap();
    }
    for waiter in waiters {
        assert_eq!(soon("the opening", waiter).await.unwrap().0, LatchState::Open);
    }
    // Each waiter asks when it comes and when it is told; some of its first calls may be repeated.
    let is_told = binary::has_at_least((6, 0), (0, 0));
    assert!(calls(&server) <= PARTIES + 5 * 4 || !is_told, "{}", calls(&server));
}

#[tokio::test]
async fn a_wait_ends_at_its_limit_and_at_a_shutdown() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    let latch = locker.latch("ready", 2);
    latch.count_down("a").await.unwrap();
    let progress = soon("its limit", latch.wait(SOON)).await.unwrap();
    assert_eq!(progress, LatchState::Closed { left: 1 });
    let (waited, _) = soon("its end", async {
        tokio::join!(latch.wait(DAY), async {
            tokio::time::sleep(MOMENT).await;
            locker.shutdown(MOMENT).await
        })
    })
    .await;
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::ShutDown);
    assert_eq!(latch.count_down("b").await.unwrap_err().kind(), ErrorKind::ShutDown);
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let fleet = Fleet::start(3);
    let builder = Locker::builder().nodes(fleet.urls()).restart_quarantine(false);
    let several = soon("it connects", builder.connect()).await.unwrap();
    let error = several.latch("a", 2).state().await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Misuse && error.to_string().contains("among 3 servers"),
        "{error}"
    );
    let server = RedisServer::start();
    let locker = connect(&server).await;
    for parties in [0, 10_001] {
        let error = locker.latch("a", parties).state().await.unwrap_err().to_string();
        let words = format!("latch \"a\": a latch has between 1 and 10000 parties, not {parties}");
        assert_eq!(error, words);
    }
    let latch = locker.latch("a", 2);
    let kept = latch.clone().kept_for(DAY * 367);
    assert_eq!(kept.wait(DAY).await.unwrap_err().kind(), ErrorKind::Misuse);
    assert_eq!(latch.count_down("").await.unwrap_err().kind(), ErrorKind::Misuse);
    assert_eq!(latch.count_down([0; 257]).await.unwrap_err().kind(), ErrorKind::Misuse);
    latch.count_down([255; 256]).await.unwrap();
    let error = locker.latch("a", 3).count_down("b").await.unwrap_err();
    assert!(error.to_string().contains("of 2 parties and not 3"), "{error}");
    latch.count_down("b").await.unwrap();
    let error = locker.latch("a", 3).wait(DAY).await.unwrap_err();
    assert!(error.to_string().contains("of 2 parties and not 3"), "{error}");
}

/// Its fields stand for no parties.
#[tokio::test]
async fn what_is_no_latch_is_not_counted() {
    let server = RedisServer::start();
    let latch = connect(&server).await.latch("a", 2);
    for foreign in [&["HSET", "{a}:latch", "x", "1", "y", "2"][..], &["SET", "{a}:open", "x"]] {
        server.cli(&["FLUSHALL"]);
        server.cli(foreign);
        let error = latch.count_down("a").await.unwrap_err().to_string();
        assert!(error.contains("holds a value that is no latch"), "{error}");
        assert!(latch.state().await.is_err() && server.cli(&["DBSIZE"]) == Frame::Integer(1));
    }
}

/// Held against a set of names.
#[test]
fn a_latch_is_open_as_soon_as_all_have_counted_down_and_not_before() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let locker = runtime.block_on(connect(&server));
    let runs = (1_u32..6, prop::collection::vec(0_u32..8, 0..16), any::<u64>());
    let mut runner =
        TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&runs, |(parties, arrivals, name)| {
        let latch: Latch = locker.latch(format!("{name}"), parties);
        let mut arrived = BTreeSet::new();
        for party in arrivals {
            // A late caller changes nothing.
            if arrived.len() < parties as usize {
                arrived.insert(party);
            }
            let left = parties - u32::try_from(arrived.len()).unwrap();
            let expected = if left == 0 { LatchState::Open } else { LatchState::Closed { left } };
            let said = runtime.block_on(latch.count_down(party.to_string())).unwrap();
            prop_assert_eq!(said, expected);
            prop_assert_eq!(runtime.block_on(latch.state()).unwrap(), expected);
        }
        Ok(())
    });
    outcome.unwrap();
}

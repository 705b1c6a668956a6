//! Barriers on real servers.

use std::time::Duration;

use leasehold::barriers::Generation;
use leasehold::{ErrorKind, Locker};
use leasehold_resp::Frame;
use leasehold_testing::{Fleet, RedisServer, eventually, soon};

const DAY: Duration = Duration::from_secs(86_400);
/// Enough for an answer on a busy machine.
const SOON: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(20);

/// The generation, and how many are left.
fn told(Generation { generation, left, .. }: Generation) -> (u64, u32) {
    (generation, left)
}

async fn connect(server: &RedisServer) -> Locker {
    soon("it connects", Locker::connect(&server.url())).await.unwrap()
}

fn pttl(server: &RedisServer, key: &str) -> i64 {
    let Frame::Integer(pttl) = server.cli(&["PTTL", key]) else { panic!() };
    pttl
}

#[tokio::test]
async fn all_are_let_go_together_from_generation_to_generation() {
    const ROUNDS: u64 = 5;
    let server = RedisServer::start();
    let mut parties = Vec::new();
    for name in ["a", "b", "c"] {
        let locker = connect(&server).await;
        let mut party = locker.barrier("rounds", 4).party(name);
        parties.push(tokio::spawn(async move {
            for generation in 1..=ROUNDS {
                let let_go = party.wait(DAY).await.unwrap();
                assert_eq!(told(let_go), (generation, 0));
            }
            drop(locker);
        }));
    }
    let locker = connect(&server).await;
    let barrier = locker.barrier("rounds", 4);
    let mut last = barrier.party("last");
    for generation in 1..=ROUNDS {
        soon("the others arrive", async {
            while barrier.generation().await.unwrap().left > 1 {
                tokio::time::sleep(MOMENT).await;
            }
        })
        .await;
        assert_eq!(barrier.generation().await.unwrap().generation, generation, "nobody is let go");
        assert!(pttl(&server, "{rounds}:barrier") > 0, "what is kept ends");
        assert!(last.arrive().await.unwrap().is_open());
    }
    for party in parties {
        soon("it is let go", party).await.unwrap();
    }
    assert_eq!(server.cli(&["DBSIZE"]), Frame::Integer(1), "the parties are forgotten");
    assert!(pttl(&server, "{rounds}:passed") > 0);
}

#[tokio::test]
async fn a_wait_that_ends_early_goes_on_in_the_same_generation() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    let barrier = locker.barrier("b", 2);
    let (mut one, mut other) = (barrier.party("one"), barrier.party("other"));
    let waited = soon("its limit", one.wait(SOON)).await.unwrap();
    assert_eq!(told(waited), (1, 1));
    assert!(other.arrive().await.unwrap().is_open());
    assert_eq!(told(other.arrive().await.unwrap()), (2, 1));
    let let_go = one.wait(DAY).await.unwrap();
    assert_eq!(told(let_go), (1, 0), "it does not count in the next one");
    assert_eq!(told(barrier.generation().await.unwrap()), (2, 1));
    // One that begins again is the same party.
    let mut again = barrier.party("other");
    assert_eq!(told(again.arrive().await.unwrap()), (2, 1));
    let waiting = tokio::spawn(async move { one.wait(DAY).await });
    soon("both are let go", again.wait(DAY)).await.unwrap();
    assert_eq!(soon("both are let go", waiting).await.unwrap().unwrap().generation, 2);
}

#[tokio::test]
async fn a_shutdown_ends_a_wait() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    let mut party = locker.barrier("b", 2).party("a");
    let waiting = tokio::spawn(async move { party.wait(DAY).await });
    let arrived = || server.cli_text(&["EXISTS", "{b}:barrier"]) == "1";
    eventually("it arrives", arrived).await;
    locker.shutdown(MOMENT).await;
    assert_eq!(soon("its end", waiting).await.unwrap().unwrap_err().kind(), ErrorKind::ShutDown);
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let fleet = Fleet::start(3);
    let builder = Locker::builder().nodes(fleet.urls()).restart_quarantine(false);
    let several = soon("it connects", builder.connect()).await.unwrap();
    let error = several.barrier("a", 2).generation().await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Misuse && error.to_string().contains("among 3 servers"),
        "{error}"
    );
    let server = RedisServer::start();
    let locker = connect(&server).await;
    for parties in [0, 10_001] {
        let error = locker.barrier("a", parties).generation().await.unwrap_err().to_string();
        let words =
            format!("barrier \"a\": a barrier has between 1 and 10000 parties, not {parties}");
        assert_eq!(error, words);
    }
    let barrier = locker.barrier("a", 2);
    let kept = barrier.clone().kept_for(DAY * 367);
    for mut party in [kept.party("b"), barrier.party(""), barrier.party([0; 257])] {
        assert_eq!(party.arrive().await.unwrap_err().kind(), ErrorKind::Misuse);
        assert_eq!(party.wait(DAY).await.unwrap_err().kind(), ErrorKind::Misuse);
    }
    barrier.party([255; 256]).arrive().await.unwrap();
    let mut wrong = locker.barrier("a", 3).party("b");
    let error = wrong.arrive().await.unwrap_err();
    assert!(error.to_string().contains("of 2 parties and not 3"), "{error}");
    barrier.party("b").arrive().await.unwrap();
    let error = wrong.wait(DAY).await.unwrap_err();
    assert!(error.to_string().contains("of 2 parties and not 3"), "{error}");
}

/// Its fields stand for no parties.
#[tokio::test]
async fn what_is_no_barrier_is_not_counted() {
    let server = RedisServer::start();
    let barrier = connect(&server).await.barrier("a", 2);
    for foreign in [&["HSET", "{a}:barrier", "x", "1", "y", "2"][..], &["SET", "{a}:passed", "x"]] {
        server.cli(&["FLUSHALL"]);
        server.cli(foreign);
        let error = barrier.party("a").arrive().await.unwrap_err().to_string();
        assert!(error.contains("holds a value that is no barrier"), "{error}");
        assert!(
            barrier.generation().await.is_err() && server.cli(&["DBSIZE"]) == Frame::Integer(1)
        );
    }
}

/// It is let go from what the others have left behind them, and gathers with them in the next generation.
#[tokio::test]
async fn who_begins_again_at_a_server_that_forgot_catches_up() {
    let server = RedisServer::start();
    let barrier = connect(&server).await.barrier("b", 2);
    let (mut one, mut other) = (barrier.party("one"), barrier.party("other"));
    one.arrive().await.unwrap();
    assert!(other.arrive().await.unwrap().is_open());
    assert!(one.arrive().await.unwrap().is_open());
    server.cli(&["FLUSHALL"]);
    let mut again = barrier.party("other");
    assert_eq!(told(again.arrive().await.unwrap()), (1, 1));
    assert_eq!(told(one.arrive().await.unwrap()), (2, 1));
    assert_eq!(told(again.wait(DAY).await.unwrap()), (1, 0));
    assert_eq!(told(again.wait(DAY).await.unwrap()), (2, 0));
    assert_eq!(told(one.wait(DAY).await.unwrap()), (2, 0));
}

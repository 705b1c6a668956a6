//! Rate limits on real servers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::limits::{Allowance, Rate, RateLimit, Reservation};
use leasehold::{ErrorKind, Event, Locker, Primitive};
use leasehold_resp::Frame;
#[cfg(feature = "cluster")]
use leasehold_testing::Cluster;
use leasehold_testing::{Fleet, RedisServer, soon};

/// So long that nothing comes back while a test runs.
const HOUR: Duration = Duration::from_secs(3600);

async fn connect(server: &RedisServer) -> Locker {
    soon("it connects", Locker::connect(&server.url())).await.unwrap()
}

/// How many single tokens are let through before the first refusal.
async fn drain(limit: &RateLimit) -> (u32, Duration) {
    let mut taken = 0;
    loop {
        match soon("an answer", limit.take(1)).await.unwrap() {
            Allowance::Refused { retry_after } => return (taken, retry_after),
            _ => taken += 1,
        }
    }
}

fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats = server.cli_text(&["INFO", "commandstats"]);
    let line =
        stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn all_processes_share_one_limit_and_a_refusal_says_when() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let rate = Rate::new(60, HOUR).burst(5);
    let (one, other) = (one.limit("mails", rate), other.limit("mails", rate));
    assert_eq!(one.take(2).await.unwrap(), Allowance::Allowed { left: 3 });
    let (taken, retry_after) = drain(&other).await;
    assert_eq!(taken, 3);
    let minute = Duration::from_secs(60);
    assert!(retry_after <= minute && retry_after > minute / 2, "{retry_after:?}");
    let Allowance::Refused { retry_after } = one.take(5).await.unwrap() else { panic!() };
    assert!(retry_after <= minute * 5 && retry_after > minute * 4, "{retry_after:?}");
}

#[tokio::test]
async fn a_limit_costs_one_short_command_and_leaves_nothing_behind() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    let limit = locker.limit("{a}:mails", Rate::new(5, Duration::from_millis(20)));
    for _ in 0..10 {
        limit.take(1).await.unwrap();
    }
    assert_eq!((calls(&server, "eval"), calls(&server, "evalsha")), (1, 10), "loaded once");
    server.cli(&["SCRIPT", "FLUSH"]);
    limit.take(1).await.unwrap();
    leasehold_testing::eventually("the key ends", || {
        server.cli(&["EXISTS", "{a}:mails:limit"]) == Frame::Integer(0)
    })
    .await;
    assert_eq!(server.cli(&["DBSIZE"]), Frame::Integer(0));
}

#[tokio::test]
async fn another_rate_under_the_same_name_is_an_error_that_names_both() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    locker.limit("x", Rate::new(5, HOUR)).take(1).await.unwrap();
    let error = locker.limit("x", Rate::new(9, HOUR)).take(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    assert_eq!(
        error.to_string(),
        "limit \"x\": another limit is kept under this name, 5 per 1 h with bursts of 5, and not 9 per \
         1 h with bursts of 9: give one rate everywhere, or another name"
    );
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_a_server_is_asked() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    for wrong in [locker.limit("", Rate::new(1, HOUR)), locker.limit("x", Rate::new(0, HOUR))] {
        assert_eq!(wrong.take(1).await.unwrap_err().kind(), ErrorKind::Misuse);
    }
    let limit = locker.limit("x", Rate::new(5, HOUR).burst(3));
    for tokens in [0, 4] {
        let error = limit.take(tokens).await.unwrap_err();
        let words = format!("limit \"x\": between 1 and 3 tokens can be taken, not {tokens}");
        assert_eq!(error.to_string(), words);
        assert_eq!(limit.reserve(tokens, HOUR).await.unwrap_err().kind(), ErrorKind::Misuse);
        assert_eq!(
            limit.clone().prefetch(tokens).take(1).await.unwrap_err().kind(),
            ErrorKind::Misuse
        );
    }
    assert_eq!(limit.reserve(1, HOUR * 25).await.unwrap_err().kind(), ErrorKind::Misuse);
    server.cli(&["RPUSH", "{x}:limit", "a"]);
    let error = limit.take(1).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Misuse && !error.to_string().contains("no lock"), "{error}");
    server.cli(&["SET", "{x}:limit", "a lock's"]);
    let error = limit.take(1).await.unwrap_err();
    assert!(error.to_string().contains("holds a value that is no limit"), "{error}");
    locker.shutdown(Duration::ZERO).await;
    assert_eq!(limit.take(1).await.unwrap_err().kind(), ErrorKind::ShutDown);
    assert_eq!(calls(&server, "eval") + calls(&server, "evalsha"), 3, "three were asked");
}

#[tokio::test]
async fn reserved_tokens_are_one_behind_the_other_and_only_as_far_ahead_as_wanted() {
    let server = RedisServer::start();
    let limit = connect(&server).await.limit("x", Rate::new(60, HOUR).burst(1));
    let mut last = Duration::ZERO;
    for n in 0..5 {
        let Reservation::Booked { starts_in } = limit.reserve(1, HOUR).await.unwrap() else {
            panic!()
        };
        assert!(starts_in > last || n == 0, "{starts_in:?}");
        last = starts_in;
    }
    assert!(last > Duration::from_secs(3 * 60) && last <= Duration::from_secs(4 * 60), "{last:?}");
    let booking = limit.reserve(1, Duration::from_secs(60)).await.unwrap();
    assert!(matches!(booking, Reservation::Refused { .. }), "{booking:?}");
    let quick = connect(&server).await.limit("y", Rate::new(1000, Duration::from_secs(1)).burst(1));
    for _ in 0..5 {
        assert!(soon("a token", quick.wait(1, HOUR)).await.unwrap().is_allowed());
    }
}

#[tokio::test]
async fn tokens_taken_ahead_cost_one_command_for_many_calls_and_so_does_a_refusal() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    let limit = locker.limit("hot", Rate::new(100, HOUR)).prefetch(40);
    // As many as there are, though the last portion is smaller; and clones share them.
    let (taken, _) = drain(&limit.clone()).await;
    assert_eq!(taken, 100);
    for _ in 0..50 {
        assert!(!limit.take(1).await.unwrap().is_allowed());
    }
    assert_eq!(calls(&server, "evalsha"), 4, "three portions and a refusal");
}

/// One after the other, each would wait for the server itself, and the last for all those before.
#[tokio::test]
async fn callers_that_wait_for_the_same_tokens_have_the_same_answer() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    let limit = locker.limit("hot", Rate::new(100, HOUR)).prefetch(40);
    server.stop();
    let each = || async {
        let error = limit.take(1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    };
    tokio::join!(each(), each(), each(), each());
    server.cont();
    assert!(limit.take(1).await.unwrap().is_allowed(), "a later call asks again");
    assert_eq!(calls(&server, "evalsha"), 2, "of four callers, one has asked");
}

#[tokio::test]
async fn what_is_left_of_tokens_taken_ahead_is_used() {
    let server = RedisServer::start();
    let locker = connect(&server).await;
    let limit = locker.limit("hot", Rate::new(8, HOUR)).prefetch(4);
    for tokens in [3, 3, 1, 1] {
        assert!(soon("an answer", limit.take(tokens)).await.unwrap().is_allowed(), "{tokens}");
    }
    assert!(!soon("an answer", limit.take(1)).await.unwrap().is_allowed());
}

#[tokio::test]
async fn several_servers_give_the_whole_together_and_the_rest_without_one() {
    let fleet = Fleet::start(3);
    let builder = Locker::builder().nodes(fleet.urls()).restart_quarantine(false);
    let locker = soon("it connects", builder.connect()).await.unwrap();
    let error = locker.limit("x", Rate::new(9, HOUR).burst(2)).take(1).await.unwrap_err();
    assert!(error.to_string().contains("cannot be shared by 3 servers"), "{error}");
    let limit = locker.limit("x", Rate::new(9, HOUR));
    assert_eq!(drain(&limit).await.0, 9);
    let builder = Locker::builder().nodes(fleet.urls()).restart_quarantine(false);
    let locker = soon("it connects", builder.connect()).await.unwrap();
    let frozen = fleet.iter().next().unwrap();
    frozen.stop();
    let limit = locker.limit("y", Rate::new(9, HOUR));
    assert_eq!(drain(&limit).await.0, 6);
    frozen.cont();
}

#[tokio::test]
async fn a_server_that_is_gone_is_an_error_that_says_so() {
    let mut server = RedisServer::start();
    let limit = connect(&server).await.limit("x", Rate::new(9, HOUR));
    server.kill();
    let error = limit.take(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().starts_with("limit \"x\": 127.0.0.1:"), "{error}");
}

#[cfg(feature = "cluster")]
#[tokio::test]
async fn a_limit_in_a_cluster_is_where_its_key_is() {
    let cluster = Cluster::start();
    let locker = soon("it connects", Locker::connect(&cluster.url())).await.unwrap();
    for name in ["a", "b", "c", "{d}:e"] {
        let limit = locker.limit(name, Rate::new(3, HOUR));
        assert_eq!(drain(&limit).await.0, 3, "{name}");
    }
}

#[tokio::test]
async fn an_observer_hears_of_each_answer() {
    let server = RedisServer::start();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let builder = Locker::builder().node(server.url()).observer(move |event: &Event<'_>| {
        if let Event::Answered { primitive: Primitive::Limit, name, outcome, .. } = event {
            hears.lock().unwrap().push(format!("{} {outcome}", String::from_utf8_lossy(name)));
        }
    });
    let limit = builder.connect().await.unwrap().limit("x", Rate::new(1, HOUR));
    drain(&limit).await;
    assert_eq!(*heard.lock().unwrap(), ["x allowed", "x refused"]);
}

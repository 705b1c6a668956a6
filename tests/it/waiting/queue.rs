//! Processes that wait for one another: each locker here stands for a process.

use std::future::IntoFuture;
use std::time::Duration;

use leasehold::Locker;
use leasehold_testing::{Fleet, RedisServer, eventually, soon};
use tokio::sync::mpsc;

use super::{LONG, free, locker, scripts_run, take};

fn queued(server: &RedisServer) -> usize {
    let fields: usize = server.cli_text(&["HLEN", "{a}:queue"]).parse().unwrap();
    (fields / 2).saturating_sub(1)
}

async fn lockers(server: &RedisServer, count: usize) -> Vec<Locker> {
    let mut lockers = Vec::new();
    for _ in 0..count {
        lockers.push(locker(server).await);
    }
    lockers
}

/// All are told of each release elsewhere, and ask: with 64 of them that was 37 scripts a hand-over.
#[tokio::test]
async fn processes_are_served_in_order_at_the_same_price_however_many_they_are() {
    for processes in [2, 8, 64] {
        let server = RedisServer::start();
        let holder = locker(&server).await;
        let first = take(&holder, "a").await;
        let (served, mut order) = mpsc::unbounded_channel();
        for (number, locker) in lockers(&server, processes).await.into_iter().enumerate() {
            let served = served.clone();
            tokio::spawn(async move {
                let guard = locker.lock("a").await.unwrap();
                served.send((number, guard.fence())).unwrap();
                guard.release().await.unwrap();
                locker
            });
            eventually("it is in the queue", || queued(&server) == number + 1).await;
        }
        let mut last = first.fence();
        let before = scripts_run(&server);
        first.release().await.unwrap();
        for number in 0..processes {
            let (served, token) = soon("the next", order.recv()).await.unwrap();
            assert_eq!(served, number);
            assert!(token > last);
            last = token;
        }
        eventually("it is free", || free(&server, "a")).await;
        let commands = scripts_run(&server) - before;
        // One release each, and the first's; a beat may be due meanwhile.
        assert!(commands <= 2 * (processes as u64 + 1), "{commands} among {processes}");
        assert_eq!(server.cli_text(&["EXISTS", "{a}:queue"]), "0", "nothing is left");
    }
}

/// The two names had one queue: the first in it was given the lock that it had not asked for, and took it for its own.
#[tokio::test]
async fn who_waits_for_a_lock_is_not_given_that_of_the_same_name_in_braces() {
    let server = RedisServer::start();
    let [plain, braced, first, second] =
        lockers(&server, 4).await.try_into().unwrap_or_else(|_| panic!("as many as asked for"));
    let a = take(&plain, "a").await;
    let in_braces = take(&braced, "{a}").await;
    let mut for_a = tokio::spawn(async move { first.lock("a").await });
    eventually("it is in the queue", || queued(&server) == 1).await;
    let for_braced = tokio::spawn(async move { second.lock("{a}").await });
    eventually("somebody waits", || server.cli_text(&["GET", "{a}"]).ends_with('\0')).await;
    in_braces.release().await.unwrap();
    let told = soon("who waits for it", for_braced).await.unwrap().unwrap();
    assert_eq!(told.name(), b"{a}");
    assert!(!for_a.is_finished() && !a.is_lost());
    a.release().await.unwrap();
    assert_eq!(soon("who waits for that", &mut for_a).await.unwrap().unwrap().name(), b"a");
}

/// One that gave the lock back and comes again at once could win the other servers each time, while the one whose
/// turn it is had the leader's alone: of 600 leases, 580 followed another of the same process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_that_come_again_take_turns_over_three_servers_too() {
    const LEASES: usize = 60;
    let fleet = Fleet::start(3);
    let (took, mut order) = mpsc::unbounded_channel();
    for process in 0..2 {
        let builder = Locker::builder().nodes(fleet.urls()).restart_guard(false);
        let (took, locker) = (took.clone(), builder.connect().await.unwrap());
        tokio::spawn(async move {
            loop {
                let guard = locker.lock("a").await.unwrap();
                if took.send(process).is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
                guard.release().await.unwrap();
            }
        });
    }
    let mut holders = Vec::new();
    while holders.len() < LEASES {
        holders.push(soon("the next", order.recv()).await.unwrap());
    }
    let again = holders.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(
        again < LEASES / 3,
        "{again} of {LEASES} followed one of the same process: {holders:?}"
    );
}

/// Each comes again at once: what a hand-over costs in the long run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_costs_four_commands_at_most_where_all_come_again() {
    for processes in [2, 8, 64_usize] {
        let rounds = 400 / processes;
        let server = RedisServer::start();
        let lockers = lockers(&server, processes).await;
        let before = scripts_run(&server);
        let tasks: Vec<_> = lockers
            .into_iter()
            .map(|locker| {
                tokio::spawn(async move {
                    for _ in 0..rounds {
                        let guard = locker.lock("a").await.unwrap();
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        guard.release().await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            soon("its end", task).await.unwrap();
        }
        let (commands, hands) = (scripts_run(&server) - before, (rounds * processes) as u64);
        assert!(commands <= 4 * hands, "{commands} for {hands} hand-overs among {processes}");
    }
}

/// A first question outside the queue would be refused, and the holder might give back before the second one.
#[tokio::test]
async fn a_caller_that_met_others_enters_the_queue_with_its_first_question() {
    let server = RedisServer::start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    let (mut held, mut asked) = (take(&one, "a").await, Vec::new());
    for next in [&other, &one, &other] {
        let before = scripts_run(&server);
        let waiting = tokio::spawn(next.lock("a").into_future());
        eventually("it is in the queue", || queued(&server) == 1).await;
        asked.push(scripts_run(&server) - before);
        held.release().await.unwrap();
        held = soon("it is served", waiting).await.unwrap().unwrap();
    }
    assert_eq!(asked, [2, 1, 1]);
    // Where the queue's question takes the lock at once, there is no reason to ask so the next time.
    let mut asked = Vec::new();
    for _ in 0..3 {
        held.release().await.unwrap();
        let before = scripts_run(&server);
        held = take(&other, "a").await;
        asked.push(scripts_run(&server) - before);
    }
    assert_eq!(asked, [1, 1, 0]);
}

/// `SET NX` would find the leader's lock taken: by the waiter's own turn.
#[tokio::test]
async fn of_several_servers_an_unfenced_waiter_has_the_vote_of_the_one_that_keeps_its_turn() {
    let fleet = Fleet::start(3);
    let connect = || async {
        let builder = Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_guard(false);
        builder.connect().await.unwrap()
    };
    let (holder, waiter) = (connect().await, connect().await);
    let has_queue = |server: &usize| queued(&fleet[*server]) == 1;
    let held = holder.lock("a").unfenced().await.unwrap();
    let waiting = tokio::spawn(waiter.lock("a").unfenced().into_future());
    eventually("it is in the queue", || (0..3).any(|server| has_queue(&server))).await;
    let leader = (0..3).find(has_queue).unwrap();
    // Of three votes two are needed, and one server is silent.
    let silent = &fleet[(leader + 1) % 3];
    silent.stop();
    held.release().await.unwrap();
    soon("it is served", waiting).await.unwrap().unwrap().release().await.unwrap();
    silent.cont();
}

/// The token of a turn is by its server's clock, which may be ahead of the waiter's.
#[tokio::test]
async fn of_several_servers_the_one_that_keeps_the_turn_lets_its_waiter_in_at_once_whatever_its_clock_says()
 {
    let fleet = Fleet::start_as(3, &RedisServer::builder().wall_clock());
    let connect = || async {
        let builder = Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_guard(false);
        builder.connect().await.unwrap()
    };
    let (holder, waiter) = (connect().await, connect().await);
    let held = take(&holder, "a").await;
    let has_queue = |server: &usize| queued(&fleet[*server]) == 1;
    let waiting = tokio::spawn(waiter.lock("a").into_future());
    eventually("it is in the queue", || (0..3).any(|server| has_queue(&server))).await;
    let leader = (0..3).find(has_queue).unwrap();
    waiting.abort();
    eventually("it has left the queue", || !has_queue(&leader)).await;
    fleet[leader].set_wall_clock(60);
    let waiting = tokio::spawn(waiter.lock("a").into_future());
    eventually("it is in the queue again", || has_queue(&leader)).await;
    // So the server remembers each call.
    fleet[leader].cli(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    let before = held.fence().get();
    held.release().await.unwrap();
    let guard = soon("it is served", waiting).await.unwrap().unwrap();
    assert!(guard.fence().get() > before + 50_000_000, "it is by the clock of that server");
    eventually("all let it in", || fleet.holding("a") == 3).await;
    assert_eq!(waiter.stats().repaired, 0);
    let calls = format!("{:?}", fleet[leader].cli(&["SLOWLOG", "GET", "100"]));
    let votes = calls.matches(r#"(b"take")"#).count();
    assert_eq!(votes, 1, "it accepts the first proposal: {calls}");
    guard.release().await.unwrap();
}

/// A process that has died is passed over at once, and one that stands still after it was silent.
#[tokio::test]
async fn a_waiter_that_has_gone_is_passed_over() {
    let server = RedisServer::start();
    let holder = locker(&server).await;
    let guard = take(&holder, "a").await;
    let gone = locker(&server).await;
    let request = gone.lock("a").into_future();
    let waiting = tokio::spawn(request);
    eventually("it is in the queue", || queued(&server) == 1).await;
    let patient = locker(&server).await;
    let patient = tokio::spawn(patient.lock("a").into_future());
    eventually("so is the other", || queued(&server) == 2).await;
    // Its connections end, and it does not come back before the release.
    waiting.abort();
    drop(gone);
    guard.release().await.unwrap();
    soon("the other is served", patient).await.unwrap().unwrap().release().await.unwrap();
}

/// redis-py compares the whole value: it must be able to give back what others wait for.
#[tokio::test]
async fn another_librarys_lock_is_left_as_it_is_and_its_end_is_noticed() {
    let server = RedisServer::start();
    let token = "0123456789abcdef0123456789abcdef";
    server.cli(&["SET", "a", token, "PX", "60000"]);
    let waiter = locker(&server).await;
    let waiting = tokio::spawn(waiter.lock("a").into_future());
    eventually("it is in the queue", || queued(&server) == 1).await;
    assert_eq!(server.cli_text(&["GET", "a"]), token);
    server.cli(&["DEL", "a"]);
    soon("it is served", waiting).await.unwrap().unwrap().release().await.unwrap();
}

/// A server writes last to the connection that had something to be told first: without it the releaser is woken
/// first, and the next holder has to wait until that one lets the processor go.
#[tokio::test]
async fn an_echo_has_the_next_holder_told_before_the_one_that_gives_back() {
    let server = RedisServer::start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    let echoes = || {
        let statistics = server.cli_text(&["INFO", "commandstats"]);
        let line = statistics.lines().find_map(|line| line.strip_prefix("cmdstat_echo:calls="));
        line.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
    };
    let first = take(&one, "a").await;
    let waiting = tokio::spawn(other.lock("a").into_future());
    eventually("it is in the queue", || queued(&server) == 1).await;
    // It knows of no waiter.
    first.release().await.unwrap();
    let mut held = soon("its lock", waiting).await.unwrap().unwrap();
    for (next, is_dropped) in [(&one, false), (&other, true)] {
        let waiting = tokio::spawn(next.lock("a").into_future());
        eventually("it is in the queue", || queued(&server) == 1).await;
        let before: u64 = echoes();
        if is_dropped {
            drop(held);
        } else {
            held.release().await.unwrap();
        }
        held = soon("its lock", waiting).await.unwrap().unwrap();
        assert_eq!(echoes(), before + 1, "dropped: {is_dropped}");
    }
}

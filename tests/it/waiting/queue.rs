//! Processes that wait for one another; each locker here is one process.

use std::future::IntoFuture;
use std::time::Duration;

use leasehold::{Locker, Retry};
use leasehold_testing::{Fleet, RedisServer, eventually, soon, unique_name};
use tokio::sync::mpsc;

use super::{LONG, free, locker, scripts_run, take, until_waiting};

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
    let connect = || Locker::builder().nodes(fleet.urls()).restart_quarantine(false).connect();
    let lockers = [connect().await.unwrap(), connect().await.unwrap()];
    for (process, locker) in lockers.into_iter().enumerate() {
        let took = took.clone();
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
    // The answer to a release does not say that somebody waited. A waiter that is refused first asks the queue once the server has
    // confirmed that it tells of hand-overs, and asks for the lock until then.
    assert!(asked[0] >= 2 && asked[1] >= 2 && asked[2] == 1, "{asked:?}");
    // Where the queue's question takes the lock at once, there is no reason to ask so the next time.
    let mut asked = Vec::new();
    for _ in 0..3 {
        held.release().await.unwrap();
        let before = scripts_run(&server);
        held = take(&other, "a").await;
        asked.push(scripts_run(&server) - before);
    }
    assert_eq!(asked, [1, 1, 1]);
}

/// `SET NX` would find the leader's lock taken: by the waiter's own turn.
#[tokio::test]
async fn of_several_servers_an_unfenced_waiter_has_the_vote_of_the_one_that_keeps_its_turn() {
    let fleet = Fleet::start(3);
    let connect = || async {
        let builder = Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_quarantine(false);
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
        let builder = Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_quarantine(false);
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

/// Waiters that have died stand in a queue as long as their entries last: before all others, each on a channel that
/// nobody hears.
fn put_dead(server: &RedisServer, dead: i64, want: &str) {
    let now: i64 = server.cli_text(&["EVAL", "return redis.call('TIME')[1]", "0"]).parse().unwrap();
    let mut client = server.client();
    let queue = "{a}:queue";
    client.call(&["HSETNX", queue, "first", "1"]);
    client.call(&["HSETNX", queue, "last", "0"]);
    let first: i64 = client.text(&["HGET", queue, "first"]).parse().unwrap();
    for ticket in first - dead..first {
        let (ticket, owner) = (ticket.to_string(), format!("{}:", unique_name("dead")));
        let entry = format!("{} 3600000{want} leasehold:nobody {owner}", (now + 30) * 1000);
        client.call(&["HSET", queue, &ticket, &entry, &owner, &ticket]);
    }
    client.call(&["HSET", queue, "first", &(first - dead).to_string()]);
    client.call(&["PEXPIRE", queue, "3600000"]);
}

/// Safety rule 19. After 128 gaps or 16 dead waiters the lock lay free until waiters had asked often enough: by default
/// each 10 s.
#[tokio::test]
async fn waits_that_ran_out_and_waiters_that_died_keep_nobody_from_a_free_lock() {
    let server = RedisServer::start();
    let [holder, impatient, patient, other] =
        lockers(&server, 4).await.try_into().unwrap_or_else(|_| panic!("as many as asked for"));
    let guard = take(&holder, "a").await;
    // The first keeps the queue: its place is behind the dead, and before the gaps.
    let first = tokio::spawn(patient.lock("a").into_future());
    eventually("it is in the queue", || queued(&server) == 1).await;
    for _ in 0..400 {
        let wait = impatient.lock("a").wait_at_most(Duration::from_millis(4));
        assert!(wait.await.unwrap_err().is_timeout());
    }
    let last: i64 = server.cli_text(&["HGET", "{a}:queue", "last"]).parse().unwrap();
    assert!(last > 300, "they were in the queue: {last}");
    let next = tokio::spawn(other.lock("a").into_future());
    eventually("it is in the queue, too", || queued(&server) == 2).await;
    put_dead(&server, 1200, "");
    guard.release().await.unwrap();
    let first = soon("the first that lives", first).await.unwrap().unwrap();
    first.release().await.unwrap();
    soon("the one behind the gaps", next).await.unwrap().unwrap().release().await.unwrap();
    assert!(free(&server, "a"));
    assert_eq!(server.cli_text(&["EXISTS", "{a}:queue"]), "0");
}

/// Where requests have short limits, each of a process would begin again behind all others.
#[tokio::test]
async fn the_place_of_a_process_in_the_queue_goes_from_one_that_waits_no_more_to_the_next() {
    let server = RedisServer::start();
    let [holder, process, other] =
        lockers(&server, 3).await.try_into().unwrap_or_else(|_| panic!("as many as asked for"));
    for is_dropped in [true, false] {
        let guard = take(&holder, "a").await;
        let limit = if is_dropped { LONG } else { Duration::from_secs(1) };
        let first = tokio::spawn(process.lock("a").wait_at_most(limit).into_future());
        eventually("it is in the queue", || queued(&server) == 1).await;
        let next = tokio::spawn(process.lock("a").into_future());
        until_waiting(&process, 2).await;
        let last = tokio::spawn(other.lock("a").into_future());
        eventually("it is in the queue, too", || queued(&server) == 2).await;
        if is_dropped {
            first.abort();
        } else {
            assert!(first.await.unwrap().unwrap_err().is_timeout());
        }
        until_waiting(&process, 1).await;
        guard.release().await.unwrap();
        let next = soon("the next of the process", next).await.unwrap().unwrap();
        assert!(!last.is_finished(), "it came later");
        next.release().await.unwrap();
        soon("the last", last).await.unwrap().unwrap().release().await.unwrap();
        assert_eq!(server.cli_text(&["EXISTS", "{a}:queue"]), "0", "nothing is left");
    }
    // One of counted attempts waits in no queue.
    let guard = take(&holder, "a").await;
    let first = tokio::spawn(process.lock("a").into_future());
    eventually("it is in the queue", || queued(&server) == 1).await;
    let retry = Retry::fixed(Duration::from_millis(20)).attempts(2);
    let next = tokio::spawn(process.lock("a").retry(retry).into_future());
    until_waiting(&process, 2).await;
    first.abort();
    soon("its attempts are over", next).await.unwrap().unwrap_err();
    guard.release().await.unwrap();
}

/// A dropped guard gives back and nobody waits for the reply.
#[tokio::test]
async fn a_guard_that_is_dropped_hands_on_past_any_number_of_dead_waiters() {
    let server = RedisServer::start();
    let (holder, patient) = (locker(&server).await, locker(&server).await);
    let guard = take(&holder, "a").await;
    let waiting = tokio::spawn(patient.lock("a").into_future());
    eventually("it is in the queue", || queued(&server) == 1).await;
    put_dead(&server, 1200, "");
    drop(guard);
    soon("the one that lives", waiting).await.unwrap().unwrap().release().await.unwrap();
}

/// A release told the first reader that it is time to ask, without a look whether it lives.
#[tokio::test]
async fn a_dead_reader_keeps_nobody_from_a_free_lock() {
    let server = RedisServer::start();
    let (holder, patient) = (locker(&server).await, locker(&server).await);
    for dead in [1, 40] {
        let guard = take(&holder, "a").await;
        let waiting = tokio::spawn(patient.lock("a").into_future());
        eventually("it is in the queue", || queued(&server) == 1).await;
        put_dead(&server, dead, "/0/1");
        guard.release().await.unwrap();
        soon("the one that lives", waiting).await.unwrap().unwrap().release().await.unwrap();
    }
}

/// 147 of 147 fair tries were refused for 30 s.
#[tokio::test]
async fn a_fair_try_and_a_newcomer_mind_only_waiters_that_live() {
    let server = RedisServer::start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    for dead in [1, 30, 1200] {
        // Also where the name is known, and the lock could be taken without a script.
        for _ in 0..2 {
            put_dead(&server, dead, "");
            one.try_lock("a").fair().await.unwrap().release().await.unwrap();
            put_dead(&server, dead, "");
            soon("a free lock", one.lock("a").into_future())
                .await
                .unwrap()
                .release()
                .await
                .unwrap();
        }
    }
    let guard = take(&one, "a").await;
    let waiting = tokio::spawn(other.lock("a").into_future());
    eventually("it is in the queue", || queued(&server) == 1).await;
    put_dead(&server, 30, "");
    let guard = guard.release().await.map(|()| waiting).unwrap();
    soon("it is served", guard).await.unwrap().unwrap().release().await.unwrap();
}

/// "attempt to compare number with nil" ended each wait; a number that is none kept a free lock from everybody.
#[tokio::test]
async fn what_anybody_wrote_into_a_queue_ends_no_wait_and_keeps_no_lock() {
    let server = RedisServer::start();
    let (holder, patient) = (locker(&server).await, locker(&server).await);
    let garbage: [&[&str]; 6] = [
        &["HSET", "{a}:queue", "first", "0", "0", "no entry", "last", "1"],
        &["HSET", "{a}:queue", "last", "9007199254740992"],
        &["HSET", "{a}:queue", "first", "x"],
        &["HSET", "{a}:queue", "first", "0", "0", "99999999999999999 1000 nobody's x", "last", "1"],
        &["SET", "{a}:queue", "no queue"],
        &["RPUSH", "{a}:queue", "no queue"],
    ];
    for garbage in garbage {
        // It is there before anybody waits.
        let guard = take(&holder, "a").await;
        server.cli(garbage);
        let waiting = tokio::spawn(patient.lock("a").into_future());
        until_marked(&server).await;
        guard.release().await.unwrap();
        soon("its turn", waiting).await.unwrap().unwrap().release().await.unwrap();
        // It comes while somebody waits.
        let guard = take(&holder, "a").await;
        let waiting = tokio::spawn(patient.lock("a").into_future());
        until_marked(&server).await;
        if garbage[0] != "HSET" {
            server.cli(&["DEL", "{a}:queue"]);
        }
        server.cli(garbage);
        guard.release().await.unwrap();
        soon("its turn", waiting).await.unwrap().unwrap().release().await.unwrap();
        server.cli(garbage);
        soon("a free lock", patient.lock("a").into_future())
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        server.cli(&["DEL", "{a}:queue"]);
    }
}

async fn until_marked(server: &RedisServer) {
    eventually("somebody waits", || server.cli_text(&["GET", "a"]).ends_with('\0')).await;
}

/// A lock that went on within its process for up to a second kept others from it, and requests for several locks
/// kept the rest idle meanwhile.
#[tokio::test]
async fn a_long_hold_goes_to_the_process_that_waits_and_not_on_within_its_own() {
    let server = RedisServer::start();
    let [holder, other] =
        lockers(&server, 2).await.try_into().unwrap_or_else(|_| panic!("as many as asked for"));
    let (took, mut order) = mpsc::unbounded_channel();
    // Again where the machine stood still: what is known of others is soon forgotten.
    for _ in 0..20 {
        let held = take(&holder, "a").await;
        let mut waiting = Vec::new();
        for (count, (who, locker)) in [("other", &other), ("own", &holder)].into_iter().enumerate()
        {
            let (locker, took) = (locker.clone(), took.clone());
            waiting.push(tokio::spawn(async move {
                let guard = locker.lock("a").await.unwrap();
                took.send(who).unwrap();
                guard.release().await.unwrap();
            }));
            eventually("it is in the queue", || queued(&server) == count + 1).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        held.release().await.unwrap();
        let first = soon("the next", order.recv()).await.unwrap();
        soon("the last", order.recv()).await.unwrap();
        for task in waiting {
            soon("its end", task).await.unwrap();
        }
        if first == "other" {
            return;
        }
    }
    panic!("its own process always came first");
}

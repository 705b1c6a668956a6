//! Readers, writers and permits over several servers.

use std::time::Duration;

use leasehold::inspect::LockState;
use leasehold::{Builder, Error, ErrorKind, Guard, LockRequest, Locker, Retry};
use leasehold_resp::Frame;
use leasehold_testing::{FaultProxy, Fleet, RedisServer, STUCK, binary, eventually, soon};

use super::{LONG, joined, refused, spawn, take};

/// Beyond the clock for a thousand years, and below 2^53 with room above.
const FAR: u64 = 8_000_000_000_000_000;

/// The servers have just started, so the restart quarantine would keep them from voting for a TTL.
fn builder(urls: impl IntoIterator<Item = String>) -> Builder {
    Locker::builder().nodes(urls).ttl(LONG).restart_quarantine(false).command_timeout(3 * STUCK)
}

async fn locker(fleet: &Fleet) -> Locker {
    builder(fleet.urls()).connect().await.unwrap()
}

/// How many servers have a share of the lock.
fn sharing(fleet: &Fleet) -> usize {
    fleet.cli_all(&["ZCARD", "{a}:shares"]).iter().filter(|count| **count != "0").count()
}

/// On one server, the leader, this many processes stand in the queue.
async fn until_waiting(fleet: &Fleet, count: usize) {
    if !binary::has_queue() {
        return;
    }
    let fields = (2 * count + 2).to_string();
    eventually("they wait", || fleet.cli_all(&["HLEN", "{a}:queue"]).contains(&fields)).await;
}

/// What the servers say, once enough of them have: on a busy machine an answer may be late.
async fn answer(request: impl Fn() -> LockRequest) -> Result<Guard, Error> {
    let answered = async {
        loop {
            let answer = request().into_future().await;
            if !matches!(&answer, Err(error) if error.kind() == ErrorKind::Unavailable) {
                return answer;
            }
        }
    };
    soon("a quorum answers", answered).await
}

async fn until_nothing_is_left(fleet: &Fleet) {
    let left = ["EXISTS", "a", "{a}:queue", "{a}:shares"];
    eventually("only counters stay", || fleet.cli_all(&left).iter().all(|left| left == "0")).await;
}

#[tokio::test]
async fn readers_share_a_lock_and_a_writer_is_alone_each_in_turn() {
    if binary::lacks_a_queue() {
        return;
    }
    let fleet = Fleet::start(5);
    let (one, other) = (locker(&fleet).await, locker(&fleet).await);
    let readers = [take(one.read("a")).await, take(other.try_read("a")).await];
    assert_eq!(refused(one.try_write("a")).await.kind(), ErrorKind::Contended);
    assert_eq!(refused(other.try_lock("a")).await.kind(), ErrorKind::Contended);
    let writer = spawn(one.write("a"));
    until_waiting(&fleet, 1).await;
    assert_eq!(refused(other.try_read("a")).await.kind(), ErrorKind::Contended, "a writer waits");
    let late = spawn(other.read("a"));
    until_waiting(&fleet, 2).await;
    let [first, second] = readers;
    let read = first.fence().max(second.fence());
    first.release().await.unwrap();
    assert!(!writer.is_finished() && !late.is_finished());
    second.release().await.unwrap();
    let writer = joined(writer).await;
    assert!(writer.fence() > read);
    let written = writer.fence();
    writer.release().await.unwrap();
    let late = joined(late).await;
    assert!(late.fence() >= written);
    late.release().await.unwrap();
    until_nothing_is_left(&fleet).await;
}

/// A minority may have accepted a token that nobody was given. Were a reader to carry that, a later writer
/// that does not ask this minority would have a smaller one.
#[tokio::test]
async fn all_servers_that_let_a_reader_in_have_its_token() {
    let fleet = Fleet::start(3);
    let locker = locker(&fleet).await;
    take(locker.write("a")).await.release().await.unwrap();
    let far = FAR.to_string();
    for server in fleet.iter() {
        server.cli(&["SET", "{a}:fence", &far]);
        let reader = take(locker.read("a")).await;
        let counters = fleet.cli_all(&["GET", "{a}:fence"]);
        let read = reader.fence().get().to_string();
        let agree = counters.iter().filter(|counter| **counter >= read).count();
        assert!(agree >= 2, "{read} of {counters:?}");
        reader.release().await.unwrap();
        let writer = take(locker.write("a")).await;
        assert!(writer.fence().get().to_string() > read);
        writer.release().await.unwrap();
        fleet.cli_all(&["DEL", "{a}:fence"]);
    }
}

#[tokio::test]
async fn readers_do_without_a_minority_and_not_without_a_quorum() {
    let mut servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let locker = builder(servers.iter().map(RedisServer::url)).connect().await.unwrap();
    drop(servers.pop());
    let reader = take(locker.read("a")).await;
    assert_eq!(answer(|| locker.try_write("a")).await.unwrap_err().kind(), ErrorKind::Contended);
    reader.release().await.unwrap();
    take(locker.write("a")).await.release().await.unwrap();
    drop(servers.pop());
    assert!(refused(locker.try_read("a")).await.kind() == ErrorKind::Unavailable);
}

/// It answers when the others have decided. Were it asked by the digest of a script that it lacks, nobody would send
/// the script any more.
#[tokio::test]
async fn the_server_that_answers_last_has_a_share_too() {
    for slow in 0..3 {
        for is_writer in [false, true] {
            let fleet = Fleet::start(3);
            // The server that is asked first is waited for for a quarter of this.
            let builder = builder(fleet.urls()).command_timeout(STUCK / 5);
            let locker = builder.connect().await.unwrap();
            let guard = if is_writer {
                let mut guard = take(locker.write("a")).await;
                eventually("all servers have the lease", || fleet.holding("a") == 3).await;
                fleet[slow].stop();
                soon("it reads", guard.downgrade()).await.unwrap();
                guard
            } else {
                fleet[slow].stop();
                take(locker.read("a")).await
            };
            fleet[slow].cont();
            eventually("all have a share", || sharing(&fleet) == 3).await;
            guard.release().await.unwrap();
            until_nothing_is_left(&fleet).await;
        }
    }
}

#[tokio::test]
async fn a_share_is_given_back_to_a_server_that_has_lost_it() {
    let fleet = Fleet::start(3);
    let locker = locker(&fleet).await;
    let reader = take(locker.read("a").ttl(Duration::from_secs(6))).await;
    eventually("all have it", || sharing(&fleet) == 3).await;
    let lost = fleet.iter().next().unwrap();
    assert_eq!(lost.cli(&["DEL", "a", "{a}:shares"]), Frame::Integer(2));
    eventually("all have it again", || sharing(&fleet) == 3).await;
    assert!(!reader.is_lost());
    // What a server answers behind the release is not counted.
    eventually("it is counted", || locker.stats().repaired >= 1).await;
    reader.release().await.unwrap();
    until_nothing_is_left(&fleet).await;
}

#[tokio::test]
async fn a_writer_reads_on_and_a_reader_is_not_upgraded() {
    let fleet = Fleet::start(3);
    let locker = locker(&fleet).await;
    let mut guard = take(locker.write("a")).await;
    let written = guard.fence();
    let late = spawn(locker.read("a"));
    until_waiting(&fleet, 1).await;
    soon("it reads", guard.downgrade()).await.unwrap();
    assert_eq!(guard.fence(), written);
    let late = joined(late).await;
    assert_eq!(late.fence(), written);
    let error = soon("it is refused", guard.upgrade()).await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Misuse && error.to_string().contains("several servers"),
        "{error}"
    );
    guard.extend().await.unwrap();
    assert_eq!(refused(locker.try_write("a")).await.kind(), ErrorKind::Contended);
    late.release().await.unwrap();
    guard.release().await.unwrap();
    until_nothing_is_left(&fleet).await;
}

/// A server that has gone ahead made the guard of a writer that reads on be lost.
#[tokio::test]
async fn a_writer_reads_on_where_counters_differ() {
    let fleet = Fleet::start(3);
    let locker = locker(&fleet).await;
    for server in fleet.iter().chain(fleet.iter()) {
        let mut guard = take(locker.write("a")).await;
        let written = guard.fence();
        server.cli(&["SET", "{a}:fence", &FAR.to_string()]);
        soon("it reads", guard.downgrade()).await.unwrap();
        assert!(guard.fence() >= written && !guard.is_lost());
        guard.release().await.unwrap();
        fleet.cli_all(&["DEL", "{a}:fence"]);
    }
}

/// All servers have made the writer a reader when they refuse to be asked again with the largest token: by then
/// nobody has the whole lock any more.
#[tokio::test]
async fn a_writer_that_cannot_read_on_after_all_has_nothing() {
    let fleet = Fleet::start(3);
    let locker = builder(fleet.urls()).quorum(3).connect().await.unwrap();
    let mut guard = take(locker.write("a")).await;
    fleet[0].cli(&["SET", "{a}:fence", &FAR.to_string()]);
    fleet.cli_all(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = soon("it is told", guard.downgrade()).await.unwrap_err();
    assert!(error.to_string().contains("OOM"), "{error}");
    assert!(guard.is_lost(), "others may read now");
    drop(guard);
    until_nothing_is_left(&fleet).await;
}

/// The server with the queue keeps a lease that three others have lost, and one stands still. So the first in the
/// queue asks all of them, for every kind of lease.
#[tokio::test]
async fn a_lease_that_most_servers_have_lost_keeps_no_waiter_while_another_is_frozen() {
    if binary::lacks_a_queue() {
        return;
    }
    type Wish = fn(&Locker) -> LockRequest;
    let (lock, read, write): (Wish, Wish, Wish) =
        (|it| it.lock("a"), |it| it.read("a"), |it| it.write("a"));
    for (held, awaited) in [(lock, lock), (read, write), (write, read)] {
        let fleet = Fleet::start(5);
        let mut proxies: Vec<_> =
            fleet.iter().map(|server| FaultProxy::start(server.address())).collect();
        let holder = builder(proxies.iter().map(FaultProxy::url)).connect().await.unwrap();
        let _held = take(held(&holder)).await;
        eventually("all servers have the lease", || fleet.holding("a") == 5).await;
        // As if its process had ended: it renews nothing, and gives nothing back.
        for proxy in &mut proxies {
            proxy.refuse().await;
            proxy.cut();
        }
        let waiter = spawn(awaited(&locker(&fleet).await));
        until_waiting(&fleet, 1).await;
        let leader = fleet.iter().position(|it| it.cli_text(&["EXISTS", "{a}:queue"]) == "1");
        let server = |after: usize| &fleet[(leader.unwrap() + after) % 5];
        server(1).stop();
        for after in 2..5 {
            server(after).cli(&["DEL", "a", "{a}:shares"]);
        }
        joined(waiter).await.release().await.unwrap();
        server(1).cont();
    }
}

/// For a lock all servers are asked at once, and for a share the leader is first. A request that does not enter the queue has
/// no scout.
#[tokio::test]
async fn a_key_that_only_the_server_with_the_queue_has_keeps_no_reader() {
    let fleet = Fleet::start(3);
    let locker = locker(&fleet).await;
    for (at, server) in fleet.iter().enumerate() {
        let name = |kind| format!("{kind}{at}");
        for kind in ["lock", "tried", "polled"] {
            server.cli(&["SET", &name(kind), "of a dead owner"]);
        }
        let once = Duration::ZERO;
        let counted = Retry::default().attempts(1_000_000);
        drop(take(locker.lock(name("lock")).wait_at_most(once)).await);
        drop(take(locker.read(name("tried")).wait_at_most(once)).await);
        drop(take(locker.read(name("polled")).retry(counted)).await);
    }
}

/// redis-semaphore 5.8.0, whose servers count each for itself: here it lets in three.
#[tokio::test]
async fn no_more_permits_are_held_than_there_are_where_each_client_is_cut_off_from_one_server() {
    let fleet = Fleet::start(3);
    let gone = "redis://127.0.0.1:1".to_owned();
    let mut guards: Vec<Guard> = Vec::new();
    for missing in 0..3 {
        let mut urls = fleet.urls();
        urls[missing].clone_from(&gone);
        let locker = builder(urls).connect().await.unwrap();
        match answer(|| locker.semaphore("a", 2).try_acquire(1)).await {
            Ok(guard) => guards.push(guard),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Contended, "{error}"),
        }
    }
    assert_eq!(guards.len(), 2);
}

#[tokio::test]
async fn of_several_servers_each_permit_is_a_lock() {
    let fleet = Fleet::start(3);
    let (one, other) = (locker(&fleet).await, locker(&fleet).await);
    let [here, there] = [&one, &other].map(|locker| locker.semaphore("a", 2));
    let permits = [take(here.acquire(1)).await, take(there.try_acquire(1)).await];
    assert!(permits.iter().all(|permit| permit.name().starts_with(b"{a}:")));
    // Which is found, shown, and no more a ticket's than other shares are.
    let shown = one.inspect(permits[0].name()).await.unwrap();
    assert_eq!((&shown.name[..], shown.state), (permits[0].name(), LockState::Held));
    let mut list = one.list("*");
    let mut found = Vec::new();
    while let Some(view) = list.next().await.unwrap() {
        found.push(view.name);
    }
    found.sort_unstable();
    assert_eq!(found, [&b"{a}:0:permit"[..], b"{a}:1:permit"]);
    assert_eq!(refused(here.try_acquire(1)).await.kind(), ErrorKind::Contended);
    let waiter = spawn(there.acquire(1));
    let [first, second] = permits;
    first.release().await.unwrap();
    let third = joined(waiter).await;
    let seen = one.inspect(third.name()).await.unwrap();
    assert!(one.break_lease(&seen).await.unwrap().is_complete());
    assert!(one.watch(third.name()).until_free().await.is_ok());
    let error = second.into_ticket(LONG).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    let error = refused(here.acquire(2)).await;
    assert!(
        error.kind() == ErrorKind::Misuse && error.to_string().contains("weight of 1"),
        "{error}"
    );
    let error = refused(one.semaphore("a", 65).acquire(1)).await;
    assert!(
        error.kind() == ErrorKind::Misuse && error.to_string().contains("at most 64"),
        "{error}"
    );
}

//! What the feature `testing` promises to tests of users' code.
//!
//! A program of its own: servers in memory have all lockers of a program go by tokio's clock.

#![allow(clippy::disallowed_methods, reason = "tests look at the clock that they have paused")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::testing::{Process, Server};
use leasehold::{Error, ErrorKind, FailureKind, Guard, Locker, Loss};
use leasehold_testing::{eventually, soon};
use tokio::time::{Instant, advance, sleep, timeout};

#[cfg(feature = "family")]
#[path = "in_memory/family.rs"]
mod family;
#[cfg(feature = "family")]
#[path = "in_memory/register.rs"]
mod register;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Of a quorum, on the paused clock.
async fn quorum<const N: usize>() -> ([Server; N], Locker) {
    let servers = Server::several::<N>();
    let locker = Process::new().locker(&servers).await.unwrap();
    (servers, locker)
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_with_one_process_at_a_time_and_goes_on_at_its_release() {
    let server = Server::new();
    let one = Process::new().builder(&server).label("one").connect().await.unwrap();
    let other = Process::new().locker(&server).await.unwrap();
    let guard = one.lock("name").await.unwrap();
    let refused = other.try_lock("name").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Contended, "{refused}");
    assert!(refused.to_string().contains("one"), "{refused}");

    let first = guard.fence();
    let waiting = tokio::spawn(async move { other.lock("name").await });
    sleep(SECOND).await;
    assert!(!waiting.is_finished());
    let before = Instant::now();
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.fence() > first);
    // The server told the waiter: no timer had to go off for it.
    assert_eq!(Instant::now(), before);
}

/// The server told it of the change before, as one that others were before, and tells it of no other.
#[tokio::test(start_paused = true)]
async fn one_that_became_the_first_in_the_queue_finds_a_free_lock_long_before_it_would_ask_anyhow()
{
    for is_handed_over in [false, true] {
        let server = Server::new();
        let locker =
            async || Process::new().builder(&server).ttl(60 * SECOND).connect().await.unwrap();
        let (holding, first, next) = (locker().await, locker().await, locker().await);
        let guard = holding.lock("name").await.unwrap();
        let waiting = tokio::spawn(async move { first.lock("name").await });
        sleep(SECOND / 10).await;
        let behind = tokio::spawn(async move { next.lock("name").await });
        sleep(SECOND / 10).await;
        if is_handed_over {
            guard.release().await.unwrap();
        } else {
            waiting.abort();
        }
        sleep(SECOND / 2).await;
        let before = Instant::now();
        server.lose("name");
        drop(behind.await.unwrap().unwrap());
        assert!(Instant::now() < before + SECOND, "{is_handed_over}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_time_passes_and_lost_where_all_stand_still() {
    let server = Server::new();
    let locker = server.locker().await.unwrap();
    let guard = locker.lock("name").await.unwrap();
    sleep(HOUR).await;
    assert!(!guard.is_lost());
    assert!(server.has("name"));

    advance(HOUR).await;
    assert!(guard.is_lost());
    assert!(!server.has("name"));
    assert_eq!(guard.lost().await, Loss::Suspended);
}

/// More leases than are looked after at once: all of them stood still.
#[tokio::test(start_paused = true)]
async fn all_leases_that_a_standstill_ended_are_told_so() {
    let server = Server::new();
    let locker = server.locker().await.unwrap();
    let mut guards = Vec::new();
    for number in 0..3000 {
        guards.push(locker.lock(number.to_string()).await.unwrap());
    }
    advance(HOUR).await;
    sleep(SECOND).await;
    assert_eq!(locker.stats().lost(), 3000);
    let other = guards.iter().filter_map(Guard::loss).find(|loss| *loss != Loss::Suspended);
    assert_eq!(other, None);
}

#[tokio::test(start_paused = true)]
async fn without_renewal_a_lease_ends_with_its_ttl() {
    let server = Server::new();
    let locker = server.locker().await.unwrap();
    let guard = locker.lock("name").ttl(HOUR).no_renewal().await.unwrap();
    sleep(HOUR - HOUR / 50).await;
    assert!(!guard.is_lost());
    sleep(HOUR / 50).await;
    assert!(guard.is_lost());
    sleep(SECOND).await;
    assert!(!server.has("name"));
}

#[tokio::test(start_paused = true)]
async fn what_crashed_gives_nothing_back_and_its_ttl_lets_others_in() {
    let server = Server::new();
    let (crashing, living) = (Process::new(), Process::new());
    let locker = crashing.locker(&server).await.unwrap();
    let guard = locker.lock("name").ttl(SECOND * 30).await.unwrap();
    let granted = Instant::now();
    crashing.crash();
    drop((guard, locker));
    sleep(SECOND * 29).await;
    assert!(server.has("name"));
    let other = living.locker(&server).await.unwrap();
    let _guard = other.lock("name").await.unwrap();
    assert!(Instant::now() >= granted + SECOND * 30);
    let refused = crashing.locker(&server).await.unwrap_err();
    assert!(refused.to_string().contains("this process has crashed"), "{refused}");
    // Nor does it get to a server that it did not know before.
    assert!(crashing.locker(&Server::new()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_cut_off_knows_of_its_loss_before_another_is_granted_the_lock() {
    let server = Server::new();
    let (ours, theirs) = (Process::new(), Process::new());
    let locker = ours.locker(&server).await.unwrap();
    let other = theirs.locker(&server).await.unwrap();
    let guard = locker.lock("name").await.unwrap();
    ours.cut_off(&server);
    let next = other.lock("name").await.unwrap();
    assert!(guard.is_lost());
    let refused = locker.try_lock("elsewhere").await.unwrap_err();
    assert_ne!(refused.kind(), ErrorKind::Contended, "{refused}");

    ours.rejoin(&server);
    drop(guard);
    next.release().await.unwrap();
    locker.lock("name").wait_at_most(SECOND * 60).await.unwrap().release().await.unwrap();
    // What was asked while nothing got through is given back.
    sleep(SECOND * 60).await;
    assert!(!server.has("elsewhere"));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_deleted_is_a_loss_at_once() {
    let server = Server::new();
    let locker = server.locker().await.unwrap();
    let guard = locker.lock("name").ttl(HOUR).await.unwrap();
    // The lease is watched from some milliseconds on.
    let watched = timeout(SECOND, guard.lost()).await;
    assert!(watched.is_err());
    server.lose("name");
    let lost_at = Instant::now();
    let _why = guard.lost().await;
    assert!(Instant::now() < lost_at + SECOND);

    let guard = locker.lock("name").await.unwrap();
    server.lose("name");
    let outcome = guard.run(sleep(HOUR)).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_leaves_an_outcome_unknown_and_gives_it_back_later() {
    let server = Server::new();
    let locker = server.locker().await.unwrap();
    server.hang();
    let error = locker.try_lock("name").await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    server.resume();
    sleep(SECOND * 5).await;
    assert!(!server.has("name"));
    locker.try_lock("name").await.unwrap().release().await.unwrap();
}

/// A waiter that was told of a holder, and then has no server any more, is told of that and not of the holder.
#[tokio::test(start_paused = true)]
async fn an_outage_is_told_as_it_is_also_where_a_holder_was_known_before() {
    let ends: [fn(&Process, &Server); 3] = [
        |_, server| server.stop(),
        |_, server| server.hang(),
        |process, server| process.cut_off(server),
    ];
    for end in ends {
        let (server, process) = (Server::new(), Process::new());
        let one = Process::new().builder(&server).label("one").connect().await.unwrap();
        let _guard = one.lock("name").await.unwrap();
        let other = process.locker(&server).await.unwrap();
        let waiting = tokio::spawn(other.lock("name").wait_at_most(30 * SECOND).into_future());
        eventually("it waits", || other.stats().waiting == 1).await;
        sleep(SECOND / 2).await;
        end(&process, &server);
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(
            error.report().holder().is_none() && !error.to_string().contains("held by"),
            "{error}"
        );
        let is_told = [FailureKind::Unavailable, FailureKind::Unknown]
            .map(|it| error.report().has_failure(it));
        assert!(is_told.contains(&true), "{error}");
    }
}

/// A server that stands still is told as that at the limit, to all that wait, however long its holder's lease is.
#[tokio::test(start_paused = true)]
async fn a_server_that_stands_still_is_told_at_the_limit_also_to_those_behind_another() {
    let (server, process) = (Server::new(), Process::new());
    let one = Process::new().builder(&server).label("one").connect().await.unwrap();
    let _guard = one.lock("name").ttl(120 * SECOND).await.unwrap();
    let other = process.locker(&server).await.unwrap();
    let wait = |limit: u32| {
        let request = other.lock("name").ttl(120 * SECOND).wait_at_most(limit * SECOND);
        tokio::spawn(request.into_future())
    };
    let longest = wait(40);
    eventually("the first waits", || other.stats().waiting == 1).await;
    let behind = [5, 6, 6, 7].map(wait);
    eventually("all wait", || other.stats().waiting == 5).await;
    sleep(SECOND / 2).await;
    // What it says to a wait that is over while it serves.
    let held = wait(2).await.unwrap().unwrap_err();
    assert_eq!(held.kind(), ErrorKind::Contended, "{held}");
    assert_eq!(held.report().holder().and_then(|it| it.label.as_deref()), Some("one"), "{held}");
    server.hang();
    for waiting in behind.into_iter().chain([longest]) {
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(!error.to_string().contains("held by"), "{error}");
    }
}

/// Of five servers, two that stand still change nothing in what a waiter is told, and three do.
#[tokio::test(start_paused = true)]
async fn a_quorum_that_stands_still_is_told_at_the_limit() {
    for (hanging, kind) in [(2, ErrorKind::Contended), (3, ErrorKind::Unavailable)] {
        let servers = Server::several::<5>();
        let one = Process::new().builder(&servers).max_ttl(120 * SECOND).connect().await.unwrap();
        let _guard = one.lock("name").ttl(120 * SECOND).await.unwrap();
        let other = Process::new().builder(&servers).max_ttl(120 * SECOND).connect().await.unwrap();
        let request = other.lock("name").ttl(120 * SECOND).wait_at_most(8 * SECOND);
        let waiting = tokio::spawn(request.into_future());
        eventually("it waits", || other.stats().waiting == 1).await;
        sleep(SECOND / 2).await;
        servers[..hanging].iter().for_each(Server::hang);
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_restarts_keeps_its_keys_or_loses_them() {
    let server = Server::new();
    let locker = server.locker().await.unwrap();
    let guard = locker.lock("name").await.unwrap();
    server.stop();
    sleep(SECOND).await;
    assert_eq!(locker.try_lock("other").await.unwrap_err().kind(), ErrorKind::Unavailable);
    sleep(SECOND * 2).await;
    server.start();
    sleep(HOUR).await;
    assert!(!guard.is_lost(), "it is renewed over a new connection");
    server.restart();
    assert!(server.has("name"));
    server.restart_empty();
    assert!(!server.has("name"));
    guard.lost().await;
}

#[tokio::test(start_paused = true)]
async fn a_quorum_does_without_one_of_three() {
    let (servers, locker) = quorum::<3>().await;
    servers[0].stop();
    let guard = locker.lock("name").await.unwrap();
    assert!(!servers[0].has("name") && servers[1].has("name") && servers[2].has("name"));
    servers[1].stop();
    let error = locker.try_lock("other").await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable, "{error}");
    guard.lost().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_forgot_all_may_not_vote_for_a_ttl() {
    let (servers, locker) = quorum::<3>().await;
    let other = Process::new().locker(&servers).await.unwrap();
    let guard = locker.lock("name").no_renewal().await.unwrap();
    for server in &servers[..2] {
        server.restart_empty();
    }
    // Two of three have forgotten the lease, and would grant it once more.
    sleep(SECOND).await;
    let error = other.try_lock("name").await.unwrap_err();
    assert!(error.report().has_failure(FailureKind::RestartQuarantine), "{error}");
    assert!(!guard.is_lost());
    let _next = other.lock("name").await.unwrap();
    assert!(guard.is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_process_may_be_cut_off_from_some_servers_alone() {
    let servers = Server::several::<3>();
    let (ours, theirs) = (Process::new(), Process::new());
    let locker = ours.locker(&servers).await.unwrap();
    let other = theirs.locker(&servers).await.unwrap();
    ours.cut_off(&servers[..2]);
    assert_ne!(locker.try_lock("name").await.unwrap_err().kind(), ErrorKind::Contended);
    other.lock("name").await.unwrap().release().await.unwrap();
    ours.rejoin(&servers[..2]);
    locker.lock("name").await.unwrap().release().await.unwrap();
}

#[cfg(feature = "groups")]
#[tokio::test(start_paused = true)]
async fn several_locks_work_as_on_a_real_server() {
    let server = Server::new();
    let locker = server.locker().await.unwrap();
    let all = locker.lock_all(["a", "b"]).await.unwrap();
    let any = locker.lock_any(["a", "b", "c"]).await.unwrap();
    assert_eq!(any.name(), b"c");
    assert!(["a", "b", "c"].iter().all(|key| server.has(key)));
    all.release().await.unwrap();
    locker.shutdown(SECOND).await;
    assert!(any.is_lost());
    assert!(!["a", "b", "c"].iter().any(|key| server.has(key)));
}

#[tokio::test(start_paused = true)]
async fn a_url_leads_to_its_server_as_long_as_that_lives() {
    let server = Server::new();
    let url = server.url();
    let locker = Locker::builder().node(url.as_str()).key_prefix("app:").connect().await.unwrap();
    let _guard = locker.lock("name").await.unwrap();
    assert!(server.has("app:name"));
    let elsewhere = Server::new().url();
    assert_ne!(elsewhere, url);
    let error = Locker::connect(&elsewhere).await.unwrap_err();
    assert!(error.to_string().contains("keep its Server as long as it is used"), "{error}");
    // A connection keeps it.
    drop(server);
    Locker::connect(&url).await.unwrap();
}

#[test]
fn a_guard_may_outlive_its_runtime() {
    let server = Server::new();
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap()
    };
    let (locker, guard) = runtime().block_on(async {
        let locker = server.locker().await.unwrap();
        let guard = locker.lock("name").await.unwrap();
        sleep(HOUR).await;
        (locker, guard)
    });
    drop((guard, locker));
    // The next runtime begins where time is, not where the other one's had got to.
    runtime().block_on(async {
        let locker = server.locker().await.unwrap();
        locker.lock("other").await.unwrap().release().await.unwrap();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_clock_that_is_not_paused_everything_works_in_real_time() {
    let server = Server::new();
    let (inside, turns) = (Arc::new(AtomicUsize::new(0)), 50);
    let tasks = (0..4).map(|_| {
        let (server, inside) = (server.clone(), Arc::clone(&inside));
        tokio::spawn(async move {
            let locker = Process::new().locker(&server).await?;
            for _ in 0..turns {
                let guard = locker.lock("name").await?;
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                guard.release().await?;
            }
            Ok::<(), Error>(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        soon("all turns", task).await.unwrap().unwrap();
    }
    let ttl = Duration::from_millis(200);
    let locker = server.locker().await.unwrap();
    let guard = locker.lock("name").ttl(ttl).no_renewal().await.unwrap();
    soon("the end of the lease", guard.lost()).await;
    eventually("the key expires", || !server.has("name")).await;
}

#[cfg(feature = "inspect")]
#[tokio::test(start_paused = true)]
async fn a_watch_is_told_without_a_timer() {
    use leasehold::inspect::LockState;

    let server = Server::new();
    let (ours, theirs) = (Process::new(), Process::new());
    let locker = ours.locker(&server).await.unwrap();
    let other = theirs.locker(&server).await.unwrap();
    let mut watch = locker.watch("name");
    assert_eq!(watch.seen_for(), None);
    assert_eq!(watch.changed().await.unwrap().state, LockState::Free);
    sleep(SECOND).await;
    let before = Instant::now();
    let guard = other.lock("name").await.unwrap();
    assert_eq!(watch.changed().await.unwrap().state, LockState::Held);
    assert_eq!(Instant::now(), before);
    sleep(HOUR).await;
    assert_eq!(watch.seen_for(), Some(HOUR), "since it changed, however often it was renewed");
    theirs.crash();
    drop(guard);
    watch.until_free().await.unwrap();
    assert!(!server.has("name"));
}

#[cfg(feature = "takeover")]
#[tokio::test(start_paused = true)]
async fn locks_are_stolen_and_adopted_as_on_a_real_server() {
    let server = Server::new();
    let (ours, theirs) = (Process::new(), Process::new());
    let locker = ours.locker(&server).await.unwrap();
    let other = theirs.locker(&server).await.unwrap();
    let guard = locker.lock("name").await.unwrap();
    let stolen = other.lock("name").steal().await.unwrap();
    assert!(stolen.fence() > guard.fence());
    guard.lost().await;
    let ticket = stolen.into_ticket(HOUR).await.unwrap();
    sleep(HOUR / 2).await;
    let adopted = locker.adopt(&ticket).await.unwrap();
    assert!(locker.adopt(&ticket).await.unwrap_err().kind() == ErrorKind::Lost);
    adopted.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lock_with_a_delay_is_kept_from_others_behind_a_crash() {
    let server = Server::new();
    let (ours, theirs) = (Process::new(), Process::new());
    let locker = ours.locker(&server).await.unwrap();
    let other = theirs.locker(&server).await.unwrap();
    let delayed = other.lock("delayed").lock_delay(HOUR).await.unwrap();
    theirs.crash();
    drop(delayed);
    let crashed_at = Instant::now();
    let _guard = locker.lock("delayed").await.unwrap();
    assert!(Instant::now() >= crashed_at + HOUR);
}

#[tokio::test(start_paused = true)]
async fn keys_of_every_kind_are_seen_to_be_there() {
    let server = Server::new();
    let (ours, theirs) = (Process::new(), Process::new());
    let locker = ours.locker(&server).await.unwrap();
    let other = theirs.locker(&server).await.unwrap();
    let guard = locker.lock("name").await.unwrap();
    let waiting = tokio::spawn(async move { other.lock("name").await });
    sleep(SECOND).await;
    assert!(server.has("{name}:queue"), "a hash");
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(!server.has("{name}:queue"));
    #[cfg(feature = "sharing")]
    {
        let reader = locker.read("shared").await.unwrap();
        assert!(server.has("{shared}:shares"), "a sorted set");
        drop(reader);
        sleep(SECOND).await;
        assert!(!server.has("{shared}:shares"));
    }
}

/// They have one, as servers with `databases 1`.
#[tokio::test(start_paused = true)]
async fn a_database_that_the_server_does_not_have_is_refused() {
    let server = Server::new();
    Locker::connect(&format!("{}/0", server.url())).await.unwrap();
    let refused = Locker::connect(&format!("{}/1", server.url())).await.unwrap_err();
    assert!(refused.to_string().contains("DB index is out of range"), "{refused}");
}

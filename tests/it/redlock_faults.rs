//! A quorum of servers of which some fail: killed, frozen, restarted without data, slow, or down from the start. The
//! others go on, no caller waits for a silent server, and a server that returns takes part again.

use std::time::Duration;

use leasehold::{Builder, ErrorKind, FailureKind, Guard, Locker, ServerReport, Vote};
use leasehold_testing::{Fault, FaultProxy, Fleet, RedisServer, binary, eventually, ports, soon};

/// So long that no key is ever free because of it.
const TTL: Duration = Duration::from_secs(3600);
/// What is still waited for when [`soon`] has given up: with it, a test that ends has not waited.
const NEVER: Duration = Duration::from_secs(600);
/// Of leases whose end, or whose restart quarantine, a test waits for.
const SHORT: Duration = Duration::from_secs(4);

/// The servers have just started, so the restart quarantine would keep them from voting for a TTL.
fn builder(urls: impl IntoIterator<Item = String>) -> Builder {
    Locker::builder().nodes(urls).ttl(TTL).restart_quarantine(false)
}

async fn take(locker: &Locker, name: &str) -> Guard {
    soon("a lock", locker.lock(name).into_future()).await.unwrap()
}

/// Returns what the first of the servers voted on it.
async fn take_and_release(locker: &Locker, name: &str) -> ServerReport {
    let guard = take(locker, name).await;
    let first = guard.report().servers()[0].clone();
    soon("a release", guard.release()).await.unwrap();
    first
}

/// Takes locks until the first of the servers votes as `is_wanted` says.
async fn until_first_votes(locker: &Locker, what: &str, is_wanted: impl Fn(&Vote) -> bool) {
    let votes = async {
        while !is_wanted(&take_and_release(locker, "probe").await.vote) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(what, votes).await;
}

/// As above, of a server whose vote comes behind a quorum of others, so that no report has it.
async fn until_first_is_asked(fleet: &Fleet, locker: &Locker) {
    let asked = async {
        loop {
            let guard = take(locker, "probe").await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            let is_asked = fleet[0].cli_text(&["EXISTS", "probe"]) == "1";
            soon("a release", guard.release()).await.unwrap();
            if is_asked {
                return;
            }
        }
    };
    soon("it is asked again", asked).await;
}

/// One server decides at once where all have to grant, and the request waits for it alone.
#[tokio::test]
async fn of_servers_that_all_have_to_grant_only_the_dead_one_is_to_blame() {
    let mut fleet = Fleet::start(3);
    let locker = builder(fleet.urls()).quorum(3).connect().await.unwrap();
    take_and_release(&locker, "warm").await;
    fleet[1].kill();
    for limit in [0, 1, 20, 100] {
        let request = locker.lock("a").wait_at_most(Duration::from_millis(limit));
        let error = soon("it fails", request.into_future()).await.map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("only 2 of 3 servers"), "{error}");
        for live in [0, 2] {
            let vote = &error.report().servers()[live].vote;
            assert!(matches!(vote, Vote::Granted | Vote::Pending), "{error}");
        }
    }
}

fn is_kept_by_restart_quarantine(vote: &Vote) -> bool {
    matches!(vote, Vote::Failed { kind: FailureKind::RestartQuarantine, .. })
}

async fn until_free(fleet: &Fleet, key: &str) {
    eventually("no server holds it", || fleet.holding(key) == 0).await;
}

#[tokio::test]
async fn two_of_five_may_be_killed_and_come_back() {
    let mut fleet = Fleet::start(5);
    let locker = builder(fleet.urls()).connect().await.unwrap();
    for killed in 0..2 {
        let held_over = take(&locker, "held").await;
        fleet[killed].kill();
        for _ in 0..20 {
            take_and_release(&locker, "a").await;
        }
        soon("an extension", held_over.extend()).await.unwrap();
        soon("a release", held_over.release()).await.unwrap();
    }
    (0..2).for_each(|killed| fleet[killed].restart());
    until_first_votes(&locker, "it votes again", |vote| *vote == Vote::Granted).await;
    // Now without two of those that stood in for them.
    (3..5).for_each(|killed| fleet[killed].kill());
    take_and_release(&locker, "a").await;
}

#[tokio::test]
async fn a_replica_that_is_promoted_votes() {
    let fleet = Fleet::start(4);
    fleet[0].cli(&["REPLICAOF", "127.0.0.1", &fleet[3].port().to_string()]);
    let locker = builder(fleet.urls().into_iter().take(3)).connect().await.unwrap();
    let is_replica = |vote: &Vote| matches!(vote, Vote::Failed { kind: FailureKind::Unavailable, reason, .. } if reason.contains("replica"));
    until_first_votes(&locker, "it is a replica", is_replica).await;
    fleet[0].cli(&["REPLICAOF", "NO", "ONE"]);
    until_first_votes(&locker, "it votes", |vote| *vote == Vote::Granted).await;
}

/// Two names lead to one server for a while: with two votes of that, a reader and a writer had one lock.
#[tokio::test]
async fn a_server_that_two_names_lead_to_has_one_vote() {
    let fleet = Fleet::start(3);
    let first = FaultProxy::start(fleet[0].address());
    let urls = [first.url(), fleet[1].url(), fleet[2].url()];
    let locker = builder(urls).connect().await.unwrap();
    first.lead_to(fleet[1].address());
    first.cut();
    let is_same =
        |vote: &Vote| matches!(vote, Vote::Failed { reason, .. } if reason.contains("same server"));
    until_first_votes(&locker, "it is found out", is_same).await;
    let guard = take(&locker, "a").await;
    let report = guard.report();
    let votes = report.servers().iter().map(|server| &server.vote).collect::<Vec<_>>();
    assert_eq!(votes[1..], [&Vote::Granted; 2]);
    guard.release().await.unwrap();
    first.lead_to(fleet[0].address());
    first.cut();
    until_first_votes(&locker, "it has its own again", |vote| *vote == Vote::Granted).await;
}

#[tokio::test]
async fn with_three_of_five_killed_the_error_names_them_and_nothing_is_left_on_the_others() {
    let mut fleet = Fleet::start(5);
    let locker = builder(fleet.urls()).connect().await.unwrap();
    let held_over = take(&locker, "held").await;
    (0..3).for_each(|killed| fleet[killed].kill());
    for name in ["a", "b", "c"] {
        let error = soon("it is told", locker.try_lock(name).into_future()).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Unavailable, "{error}");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let servers = error.report().servers();
        for (server, address) in servers.iter().zip(fleet.addresses()).take(3) {
            assert!(matches!(server.vote, Vote::Failed { .. }), "{error}");
            assert!(error.to_string().contains(&format!("{address}: ")), "{error}");
        }
        let others = &servers[3..];
        let is_well = |vote: &Vote| matches!(vote, Vote::Granted | Vote::Pending);
        assert!(others.iter().all(|server| is_well(&server.vote)), "{error}");
    }
    assert!(
        soon("it is told", held_over.extend()).await.unwrap_err().kind() == ErrorKind::Unavailable
    );
    assert!(!held_over.is_lost(), "that nobody answers proves no loss");
    drop(held_over);
    for name in ["held", "a", "b", "c"] {
        let asked = || (3..5).all(|up| exists(&fleet[up], &format!("{{{name}}}:fence")));
        eventually("the others were asked", asked).await;
        let is_free = || (3..5).all(|up| !exists(&fleet[up], name));
        eventually("nothing is left", is_free).await;
    }
    (0..3).for_each(|killed| fleet[killed].restart());
    take_and_release(&locker, "a").await;
}

fn exists(server: &RedisServer, key: &str) -> bool {
    server.cli_text(&["EXISTS", key]) == "1"
}

#[tokio::test]
async fn nobody_waits_for_a_frozen_server_and_it_takes_part_when_it_is_back() {
    let fleet = Fleet::start(5);
    let locker = builder(fleet.urls()).command_timeout(NEVER).connect().await.unwrap();
    let dropped = take(&locker, "dropped").await;
    fleet[0].stop();
    drop(dropped);
    // More than are let wait on one connection.
    for _ in 0..1500 {
        let guard = take(&locker, "a").await;
        let vote = guard.report().servers()[0].vote.clone();
        assert!(matches!(vote, Vote::Pending | Vote::Failed { .. }), "{vote:?}");
        soon("an extension", guard.extend()).await.unwrap();
        soon("a release", guard.release()).await.unwrap();
    }
    fleet[0].cont();
    until_first_votes(&locker, "it votes again", |vote| *vote == Vote::Granted).await;
    for name in ["dropped", "a", "probe"] {
        until_free(&fleet, name).await;
    }
}

/// The next attempt after a lost round asks a leader first: which must not be waited for either.
#[tokio::test]
async fn nobody_waits_for_a_frozen_server_while_the_lock_is_contended() {
    let fleet = Fleet::start(5);
    let holding = builder(fleet.urls()).command_timeout(NEVER).connect().await.unwrap();
    let waiting = builder(fleet.urls()).command_timeout(NEVER).connect().await.unwrap();
    fleet[0].stop();
    let mut waits = tokio::task::JoinSet::new();
    let mut guards = Vec::new();
    // Enough that each server is the leader of some.
    for number in 0..32 {
        let name = format!("n{number}");
        guards.push(take(&holding, &name).await);
        let error = waiting.try_lock(&name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
        let waiting = waiting.clone();
        waits.spawn(async move { waiting.lock(&name).await });
    }
    // A second try has begun for each by then, or begins when they are free: both must end.
    tokio::time::sleep(Duration::from_millis(20)).await;
    for guard in guards {
        soon("a release", guard.release()).await.unwrap();
    }
    while let Some(granted) = soon("each is granted", waits.join_next()).await {
        soon("a release", granted.unwrap().unwrap().release()).await.unwrap();
    }
}

/// Nobody is told of a server that stands still: a waiter in its queue has to ask.
#[tokio::test]
async fn a_server_that_freezes_while_it_has_the_queue_keeps_no_waiter() {
    if binary::lacks_a_queue() {
        return;
    }
    let fleet = Fleet::start(3);
    // One of them has the queue.
    for frozen in 0..3 {
        let holding = builder(fleet.urls()).connect().await.unwrap();
        let waiting = builder(fleet.urls()).connect().await.unwrap();
        let guard = take(&holding, "a").await;
        eventually("every server has the lease", || fleet.holding("a") == 3).await;
        // Less than a third of the life of its entry.
        let request = waiting.lock("a").wait_at_most(Duration::from_secs(7)).into_future();
        let waits = tokio::spawn(request);
        eventually("it is in the queue", || fleet.holding("{a}:queue") == 1).await;
        fleet[frozen].stop();
        soon("a release", guard.release()).await.unwrap();
        let granted = soon("it is granted", waits).await.unwrap().unwrap();
        soon("a release", granted.release()).await.unwrap();
        fleet[frozen].cont();
        until_free(&fleet, "a").await;
        fleet.cli_all(&["DEL", "{a}:queue"]);
    }
}

/// One hangs, and another misses the first try: with that one back there is a quorum without the one that hangs.
#[tokio::test]
async fn a_renewal_is_tried_again_while_a_frozen_server_keeps_it_open() {
    let fleet = Fleet::start(3);
    let mut proxy = FaultProxy::start(fleet[1].address());
    let urls = [fleet[0].url(), proxy.url(), fleet[2].url()];
    let locker = builder(urls).ttl(SHORT).command_timeout(NEVER).connect().await.unwrap();
    let guard = take(&locker, "a").await;
    eventually("every server has the lease", || fleet.holding("a") == 3).await;
    fleet[0].stop();
    proxy.refuse().await;
    proxy.cut();
    let mut before = u64::MAX;
    let is_asked = || {
        let left = fleet[2].cli_text(&["PTTL", "a"]).parse().unwrap();
        std::mem::replace(&mut before, left) < left
    };
    eventually("it is asked for", is_asked).await;
    proxy.accept().await;
    eventually("it is renewed", || locker.stats().renewed > 0).await;
    assert_eq!(guard.loss(), None);
}

/// Two grant, two refuse, and the frozen one keeps it open: until the two that refused have it free.
#[tokio::test]
async fn an_attempt_that_a_frozen_server_keeps_open_is_begun_anew_once_others_have_the_lock_free() {
    let fleet = Fleet::start(5);
    let holding = builder(fleet.urls()).connect().await.unwrap();
    let waiting = builder(fleet.urls()).command_timeout(NEVER).connect().await.unwrap();
    // Each server is the leader of some.
    for number in 0..12 {
        let name = format!("n{number}");
        let held = take(&holding, &name).await;
        eventually("every server has the lease", || fleet.holding(&name) == 5).await;
        fleet[0].stop();
        let before = waiting.stats().contended;
        let (waiter, asked) = (waiting.clone(), name.clone());
        let waits = tokio::spawn(async move { waiter.lock(&asked).await });
        eventually("it is refused and asks again", || waiting.stats().contended >= before + 2)
            .await;
        (3..5).for_each(|up| _ = fleet[up].cli(&["DEL", &name]));
        tokio::time::sleep(Duration::from_millis(20)).await;
        (1..3).for_each(|up| _ = fleet[up].cli(&["DEL", &name]));
        let granted = soon("it is granted", waits).await.unwrap().unwrap();
        fleet[0].cont();
        soon("a release", granted.release()).await.unwrap();
        drop(held);
        until_free(&fleet, &name).await;
    }
}

/// Two refuse and two fail at once: the lock cannot be acquired, whatever the frozen one would say.
#[tokio::test]
async fn nobody_waits_for_a_frozen_server_to_learn_why_a_lock_cannot_be_had() {
    let mut fleet = Fleet::start(5);
    let holding = builder(fleet.urls()).connect().await.unwrap();
    let asking = builder(fleet.urls()).command_timeout(NEVER).connect().await.unwrap();
    let _guard = take(&holding, "a").await;
    eventually("every server has the lease", || fleet.holding("a") == 5).await;
    fleet[0].stop();
    (3..5).for_each(|killed| fleet[killed].kill());
    for _ in 0..5 {
        let error = soon("a refusal", asking.try_lock("a").into_future()).await.unwrap_err();
        assert!(
            error.kind() == ErrorKind::Contended || error.kind() == ErrorKind::Unavailable,
            "{error}"
        );
    }
}

/// One of three is down, so it takes both others to tell of the holder, of which one is far away. An outage that is longer
/// than the TTL would end the wait.
#[tokio::test]
async fn a_holder_that_a_server_far_away_names_too_is_no_outage() {
    let mut fleet = Fleet::start(3);
    let far = FaultProxy::start(fleet[2].address());
    far.set_both(Fault::Delay(Duration::from_millis(20)));
    let urls = [fleet[0].url(), fleet[1].url(), far.url()];
    let waiting = builder(urls).command_timeout(NEVER).ttl(Duration::from_millis(200));
    let waiting = waiting.connect().await.unwrap();
    let holding = builder(fleet.urls()).connect().await.unwrap();
    let lease = holding.lock("a").ttl(Duration::from_secs(2)).no_renewal();
    let _guard = soon("a lock", lease.into_future()).await.unwrap();
    fleet[1].kill();
    let error = waiting.try_lock("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contended, "{error}");
    drop(take(&waiting, "a").await);
}

#[tokio::test]
async fn a_frozen_server_is_given_up_by_its_timeout_and_joins_again() {
    let fleet = Fleet::start(3);
    let timeout = Duration::from_millis(100);
    let locker = builder(fleet.urls()).command_timeout(timeout).connect().await.unwrap();
    fleet[0].stop();
    let is_failed = |vote: &Vote| matches!(vote, Vote::Failed { .. });
    until_first_votes(&locker, "it is given up", is_failed).await;
    fleet[0].cont();
    until_first_votes(&locker, "it votes again", |vote| *vote == Vote::Granted).await;
    until_free(&fleet, "probe").await;
}

#[tokio::test]
async fn nobody_waits_for_replies_that_are_delayed_or_never_come() {
    let fleet = Fleet::start(5);
    let proxy = FaultProxy::start(fleet[0].address());
    let urls: Vec<String> = [proxy.url()].into_iter().chain(fleet.urls().split_off(1)).collect();
    let locker = builder(urls).command_timeout(NEVER).connect().await.unwrap();
    for fault in [Fault::Delay(NEVER), Fault::Blackhole] {
        proxy.to_client().set(fault);
        for _ in 0..20 {
            let first = take_and_release(&locker, "a").await;
            assert_eq!((first.vote, first.round_trip), (Vote::Pending, None), "{fault:?}");
        }
        // What was on its way would come late, or never, and out of step with the rest.
        proxy.reset();
        proxy.to_client().set(Fault::Pass);
        until_first_is_asked(&fleet, &locker).await;
    }
    proxy.to_client().set(Fault::Delay(Duration::from_millis(200)));
    for _ in 0..5 {
        assert_eq!(take_and_release(&locker, "a").await.vote, Vote::Pending);
    }
    until_free(&fleet, "a").await;
}

#[tokio::test]
async fn two_of_five_may_be_away_from_the_start_and_join_when_they_come() {
    let fleet = Fleet::start(3);
    let away = [ports::free(), ports::free()];
    let away_urls = away.map(|port| format!("redis://127.0.0.1:{port}"));
    let urls: Vec<String> = away_urls.iter().cloned().chain(fleet.urls()).collect();
    let locker = builder(urls.clone()).connect().await.unwrap();
    let guard = take(&locker, "a").await;
    let report = guard.report();
    for (server, port) in report.servers().iter().zip(away) {
        assert_eq!(server.server, format!("127.0.0.1:{port}"));
        let Vote::Failed { kind, .. } = server.vote else { panic!("{report}") };
        assert_eq!(kind, FailureKind::Unavailable, "{report}");
    }
    guard.release().await.unwrap();

    let error = builder(urls).quorum(4).connect().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable, "{error}");
    assert!(away.iter().all(|port| error.to_string().contains(&port.to_string())), "{error}");

    let _come = away.map(|port| RedisServer::builder().port(port).start());
    until_first_votes(&locker, "it votes", |vote| *vote == Vote::Granted).await;
}

#[tokio::test]
async fn flushed_scripts_are_loaded_again() {
    let fleet = Fleet::start(5);
    let locker = builder(fleet.urls()).command_timeout(NEVER).connect().await.unwrap();
    let guard = take(&locker, "a").await;
    fleet.cli_all(&["SCRIPT", "FLUSH"]);
    soon("an extension", guard.extend()).await.unwrap();
    fleet.cli_all(&["SCRIPT", "FLUSH"]);
    soon("a release", guard.release()).await.unwrap();
    for round in 0..5 {
        fleet.cli_all(&["SCRIPT", "FLUSH"]);
        let again = locker.try_lock("a").await.unwrap();
        assert!(soon("it is told", locker.try_lock("a").into_future()).await.is_err(), "{round}");
        drop(again);
    }
    until_free(&fleet, "a").await;
}

#[tokio::test]
async fn a_server_that_was_down_at_the_release_is_told_when_it_is_back() {
    let mut fleet = Fleet::start_as(5, &RedisServer::builder().append_only());
    let locker = builder(fleet.urls()).connect().await.unwrap();
    let (released, dropped) = (take(&locker, "released").await, take(&locker, "dropped").await);
    for name in ["released", "dropped"] {
        eventually("all hold it", || fleet.holding(name) == 5).await;
    }
    fleet[0].kill();
    soon("a release", released.release()).await.unwrap();
    drop(dropped);
    fleet[0].restart();
    assert!(exists(&fleet[0], "{released}:fence"), "it has kept its memory");
    for name in ["released", "dropped"] {
        until_free(&fleet, name).await;
    }
}

/// Else one that is away for long fills the backlog, and releases that others are owed are dropped.
#[tokio::test]
async fn nothing_is_kept_for_a_server_that_was_away_from_acquire_to_release() {
    let all_is_noted = RedisServer::builder().arg("--slowlog-log-slower-than").arg("0");
    let mut fleet = Fleet::start_as(3, &all_is_noted.arg("--slowlog-max-len").arg("1000"));
    let locker = builder(fleet.urls()).connect().await.unwrap();
    fleet[0].kill();
    eventually("that is known", || !locker.stats().servers[0].connected).await;
    take_and_release(&locker, "released").await;
    drop(take(&locker, "dropped").await);
    fleet[0].restart();
    // A new connection begins with what is owed.
    until_first_votes(&locker, "it votes again", |vote| *vote == Vote::Granted).await;
    let [noted, of_another] = [0, 1].map(|server| {
        let noted = fleet[server].cli(&["SLOWLOG", "GET", "1000"]);
        ["released", "dropped", "probe"].map(|name| format!("{noted:?}").contains(name))
    });
    assert_eq!((noted, of_another), ([false, false, true], [true; 3]));
}

#[tokio::test]
async fn a_server_that_was_away_is_given_the_lease_and_told_of_its_release() {
    if binary::lacks(binary::has_queue(), "client tracking") {
        return;
    }
    let mut fleet = Fleet::start(3);
    let locker = builder(fleet.urls()).connect().await.unwrap();
    fleet[0].kill();
    eventually("that is known", || !locker.stats().servers[0].connected).await;
    let guards = [take(&locker, "released").await, take(&locker, "dropped").await];
    fleet[0].restart();
    eventually("it is back", || locker.stats().servers[0].connected).await;
    for guard in &guards {
        let name = std::str::from_utf8(guard.name()).unwrap();
        // Whose loss is waited for is renewed at once.
        tokio::select! {
            why = guard.lost() => panic!("{why}"),
            () = eventually("it has the lease", || exists(&fleet[0], name)) => {}
        }
    }
    let [released, dropped] = guards;
    soon("a release", released.release()).await.unwrap();
    drop(dropped);
    for name in ["released", "dropped"] {
        eventually("it is free", || !exists(&fleet[0], name)).await;
    }
}

#[tokio::test]
async fn without_the_guard_a_server_that_restarted_empty_votes_at_once() {
    let mut fleet = Fleet::start(3);
    let locker = builder(fleet.urls()).connect().await.unwrap();
    fleet[0].restart();
    until_first_votes(&locker, "it votes", |vote| {
        assert!(!is_kept_by_restart_quarantine(vote));
        *vote == Vote::Granted
    })
    .await;
}

/// A locker with the restart quarantine on. To it the servers, which have just started, might have
/// forgotten leases: so the first grant has to be waited for.
async fn guarded(fleet: &Fleet) -> Locker {
    // A twentieth of the TTL is less than a busy machine may need for a release.
    let builder = Locker::builder().nodes(fleet.urls()).ttl(SHORT).command_timeout(SHORT / 2);
    let locker = builder.connect().await.unwrap();
    let error = locker.try_lock("first").await.unwrap_err();
    assert!(error.report().has_failure(FailureKind::RestartQuarantine), "{error}");
    assert!(error.to_string().contains("may vote in"), "{error}");
    locker
}

#[tokio::test]
async fn a_server_that_restarted_empty_is_kept_from_voting_and_the_others_are_enough() {
    let mut fleet = Fleet::start(5);
    let locker = guarded(&fleet).await;
    until_first_votes(&locker, "it votes", |vote| *vote == Vote::Granted).await;
    fleet[0].restart();
    until_first_votes(&locker, "it is kept from voting", is_kept_by_restart_quarantine).await;
    assert_eq!(fleet[0].cli_text(&["DBSIZE"]), "0", "it is not even asked");
    until_first_votes(&locker, "it votes again", |vote| *vote == Vote::Granted).await;
}

/// What the guard is for: three that forgot, and two that still know, could make two holders.
#[tokio::test]
async fn a_lease_that_three_of_five_forgot_ends_before_another_is_granted() {
    let mut fleet = Fleet::start(5);
    let holding = guarded(&fleet).await;
    let asking = Locker::builder().nodes(fleet.urls()).ttl(SHORT).connect().await.unwrap();
    let held = take(&holding, "a").await;
    (0..3).for_each(|restarted| fleet[restarted].restart());
    let until_kept_from_voting = async {
        loop {
            match asking.try_lock("other").await {
                Err(error) if error.report().has_failure(FailureKind::RestartQuarantine) => break,
                Err(error) => assert!(error.kind() == ErrorKind::Unavailable, "{error}"),
                // Over connections whose end nobody has noticed yet.
                Ok(guard) => drop(guard),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the three are kept from voting", until_kept_from_voting).await;
    let granted = take(&asking, "a").await;
    assert!(held.is_lost(), "two hold it");
    assert!(granted.fence() > held.fence());
    granted.release().await.unwrap();
}

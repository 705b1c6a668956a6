//! Locks on a quorum of healthy servers: grants, refusals, and tokens and exclusion between clients that know nothing
//! of one another.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use leasehold::{Builder, Error, ErrorKind, FailureKind, Locker, Vote};
use leasehold_testing::{FaultProxy, Fleet, RedisServer, STUCK, eventually, soon};

/// So long that no key is ever free because of it.
const TTL: Duration = Duration::from_secs(3600);
/// Beyond the clock for a thousand years, and below 2^53 with room above.
const FAR: u64 = 8_000_000_000_000_000;

/// The servers have just started, so the restart quarantine would keep them from voting for a TTL.
fn builder(urls: impl IntoIterator<Item = String>) -> Builder {
    Locker::builder().nodes(urls).ttl(TTL).restart_quarantine(false).command_timeout(3 * STUCK)
}

async fn locker_of(fleet: &Fleet) -> Locker {
    builder(fleet.urls()).connect().await.unwrap()
}

fn count<T: PartialEq>(items: &[T], wanted: &T) -> usize {
    items.iter().filter(|item| *item == wanted).count()
}

async fn until_held_by_all(fleet: &Fleet, key: &str) {
    eventually("all servers hold it", || fleet.holding(key) == fleet.iter().len()).await;
}

async fn until_free(fleet: &Fleet, key: &str) {
    eventually("no server holds it", || fleet.holding(key) == 0).await;
}

#[tokio::test]
async fn a_lease_is_one_value_on_a_quorum_at_once_and_on_all_soon_until_its_release() {
    let fleet = Fleet::start(5);
    let locker = locker_of(&fleet).await;
    let guard = locker.lock("invoice").await.unwrap();
    let values = fleet.cli_all(&["GET", "invoice"]);
    let owner = values.iter().find(|value| !value.is_empty()).unwrap();
    assert!(count(&values, owner) >= 3, "{values:?}");
    let is_whole = || count(&fleet.cli_all(&["GET", "invoice"]), owner) == 5;
    eventually("all hold the same", is_whole).await;
    assert!(!guard.is_lost() && guard.remaining() > TTL / 2);
    guard.release().await.unwrap();
    assert!(fleet.holding("invoice") <= 2, "a quorum has said that it is free");
    until_free(&fleet, "invoice").await;
}

#[tokio::test]
async fn tokens_rise_and_each_stands_on_a_quorum_of_counters() {
    let fleet = Fleet::start(5);
    let locker = locker_of(&fleet).await;
    let mut last = 0;
    for _ in 0..10 {
        let guard = locker.try_lock("a").await.unwrap();
        let token = guard.fence().get();
        assert!(token > last);
        last = token;
        let counters = fleet.cli_all(&["GET", "{a}:fence"]);
        assert!(count(&counters, &token.to_string()) >= 3, "{token}: {counters:?}");
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_stale_proposal_is_made_again_above_the_counters_of_the_servers_that_refused_it() {
    let fleet = Fleet::start(5);
    let locker = locker_of(&fleet).await;
    for ahead in 1..=5 {
        let (name, fence) = (format!("a{ahead}"), format!("{{a{ahead}}}:fence"));
        for server in 0..ahead {
            let counter = FAR + 100 * u64::try_from(server * server).unwrap();
            fleet[server].cli(&["SET", &fence, &counter.to_string()]);
        }
        let guard = locker.try_lock(&name).await.unwrap();
        let token = guard.fence().get();
        let counters = fleet.cli_all(&["GET", &fence]);
        assert!(count(&counters, &token.to_string()) >= 3, "{ahead}: {token}: {counters:?}");
        match ahead {
            1 | 2 => assert!(token < FAR, "three accepted the first proposal"),
            3 => assert_eq!(token, FAR + 401, "all three refusals were needed to refuse it"),
            _ => assert!(token > FAR + 400),
        }
        guard.release().await.unwrap();
        let next = locker.try_lock(&name).await.unwrap();
        assert!(next.fence().get() > token);
        next.release().await.unwrap();
        until_free(&fleet, &name).await;
    }
}

#[tokio::test]
async fn a_refused_caller_is_told_the_holder_and_every_server() {
    let fleet = Fleet::start(5);
    let holding = builder(fleet.urls()).label("billing").connect().await.unwrap();
    let asking = locker_of(&fleet).await;
    let guard = holding.lock("a").await.unwrap();
    until_held_by_all(&fleet, "a").await;
    for _ in 0..10 {
        let error = asking.try_lock("a").await.unwrap_err();
        assert!(error.kind() == ErrorKind::Contended, "{error}");
        assert!(!error.report().holders().any(|holder| holder.other_configuration), "{error}");
        let text = error.to_string();
        assert!(text.contains("billing"), "{text}");
        assert!(fleet.addresses().iter().all(|address| text.contains(address)), "{text}");
        let holder = error.report().holder().unwrap();
        assert_eq!(holder.label.as_deref(), Some("billing"));
        assert!(holder.remaining.is_some_and(|left| left <= TTL), "{holder}");
        assert!(error.report().holders().count() >= 3, "{text}");
    }
    guard.release().await.unwrap();
    asking.lock("a").await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_report_has_each_server_in_order_with_its_vote_and_time() {
    let fleet = Fleet::start(5);
    let guard = locker_of(&fleet).await.lock("a").await.unwrap();
    let report = guard.report();
    let servers: Vec<&String> = report.servers().iter().map(|server| &server.server).collect();
    assert_eq!(servers, fleet.addresses().iter().collect::<Vec<_>>());
    let granted = report.servers().iter().filter(|server| server.vote == Vote::Granted);
    assert!(granted.clone().count() >= 3, "{report}");
    for server in report.servers() {
        match (&server.vote, server.round_trip) {
            (Vote::Granted, Some(_)) => {
                let line = format!("{}: granted (", server.server);
                assert!(report.to_string().contains(&line), "{report}");
            }
            (Vote::Pending, None) => {
                let line = format!("{}: not waited for", server.server);
                assert!(report.to_string().contains(&line), "{report}");
            }
            _ => panic!("{report}"),
        }
    }
}

#[tokio::test]
async fn an_extension_needs_a_quorum_that_still_holds_the_lease() {
    let fleet = Fleet::start(5);
    let locker = locker_of(&fleet).await;
    let guard = locker.lock("a").await.unwrap();
    until_held_by_all(&fleet, "a").await;
    fleet.cli_all(&["PEXPIRE", "a", "100000"]);
    let extended = || {
        let left = fleet.cli_all(&["PTTL", "a"]);
        left.iter().filter(|left| left.parse::<i64>().unwrap() > 100_000).count()
    };
    guard.extend().await.unwrap();
    assert!(extended() >= 3);
    eventually("all have extended it", || extended() == 5).await;

    let lose = |servers: std::ops::Range<usize>| {
        servers.for_each(|server| drop(fleet[server].cli(&["DEL", "a"])));
    };
    lose(0..2);
    guard.extend().await.unwrap();
    // Whether or not the two have it again by now.
    lose(2..5);
    let error = guard.extend().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Lost && guard.is_lost(), "{error}");
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    until_free(&fleet, "a").await;
}

/// Why nobody gets the lock. A server that a busy machine keeps from answering as fast as the others is not waited for.
async fn refusal_of(locker: &Locker, name: &str) -> Error {
    let refused = async {
        loop {
            let error = locker.try_lock(name).await.unwrap_err();
            if error.kind() != ErrorKind::Unavailable {
                return error;
            }
        }
    };
    soon("enough servers answer", refused).await
}

#[tokio::test]
async fn where_all_have_to_grant_a_refusal_waits_for_no_server_that_stands_still() {
    let fleet = Fleet::start(2);
    let locker = locker_of(&fleet).await;
    fleet[0].cli(&["SET", "a", "somebody"]);
    fleet[1].stop();
    let error = locker.try_lock("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("held by owner somebody"), "{error}");
    fleet[1].cont();
    assert_eq!(refusal_of(&locker, "a").await.kind(), ErrorKind::Contended);
    eventually("only somebody else's is left", || fleet.holding("a") == 1).await;
}

/// (servers, quorum or the default, how many may forget, how many may be down).
#[tokio::test]
async fn so_many_may_be_against_it_as_the_quorum_allows_and_no_more() {
    let fleet = Fleet::start(5);
    let cases = [
        (5, None, 0, 2),
        (5, Some(4), 2, 1),
        (5, Some(5), 4, 0),
        (4, None, 1, 1),
        (3, None, 0, 1),
        (2, None, 1, 0),
        (1, None, 0, 0),
    ];
    for (case, (servers, quorum, memory_losses, outages)) in cases.into_iter().enumerate() {
        let mut builder = builder(fleet.urls().into_iter().take(servers));
        if let Some(quorum) = quorum {
            builder = builder.quorum(quorum);
        }
        let locker = builder.connect().await.unwrap();
        let tolerance = locker.tolerance();
        assert_eq!((tolerance.memory_losses, tolerance.outages), (memory_losses, outages));
        let name = format!("n{case}");
        for server in 0..outages {
            fleet[server].cli(&["SET", &name, "somebody"]);
        }
        locker.try_lock(&name).await.unwrap().release().await.unwrap();
        fleet[outages].cli(&["SET", &name, "somebody"]);
        let error = refusal_of(&locker, &name).await;
        assert_eq!(error.kind(), ErrorKind::Contended, "{servers} {quorum:?}: {error}");
        eventually("only somebody else's are left", || fleet.holding(&name) == outages + 1).await;
    }
}

#[tokio::test]
async fn a_quorum_that_cannot_be_is_refused() {
    let urls: Vec<String> = (1..=5).map(|port| format!("redis://127.0.0.1:{port}")).collect();
    for (servers, quorum) in [(5, 2), (5, 0), (5, 6), (4, 2), (2, 1), (1, 0), (1, 2)] {
        let builder = builder(urls.iter().take(servers).cloned()).quorum(quorum);
        let error = builder.connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        assert!(error.to_string().contains(&format!("quorum {quorum} ")), "{error}");
    }
    assert_eq!(builder([]).connect().await.unwrap_err().kind(), ErrorKind::Misuse);
}

#[tokio::test]
async fn an_unfenced_lease_leaves_no_counter_and_excludes_fenced_ones() {
    let fleet = Fleet::start(5);
    let locker = locker_of(&fleet).await;
    let guard = locker.lock("a").unfenced().label("plain").await.unwrap();
    until_held_by_all(&fleet, "a").await;
    assert_eq!(fleet.holding("{a}:fence"), 0);
    for error in [
        locker.try_lock("a").unfenced().await.unwrap_err(),
        locker.try_lock("a").await.unwrap_err(),
    ] {
        assert!(
            error.kind() == ErrorKind::Contended && error.to_string().contains("plain"),
            "{error}"
        );
    }
    guard.extend().await.unwrap();
    guard.release().await.unwrap();
    until_free(&fleet, "a").await;
}

/// What the holders of one lock saw.
#[derive(Default)]
struct Ledger {
    is_held: AtomicBool,
    tokens: Mutex<Vec<u64>>,
}

async fn contend(locker: Locker, name: &'static str, ledger: Arc<Ledger>) {
    for turn in 0..10 {
        let guard = soon("a turn", locker.lock(name).into_future()).await.unwrap();
        assert!(!ledger.is_held.swap(true, Ordering::SeqCst), "two hold it");
        ledger.tokens.lock().unwrap().push(guard.fence().get());
        tokio::task::yield_now().await;
        ledger.is_held.store(false, Ordering::SeqCst);
        match turn % 2 {
            0 => guard.release().await.unwrap(),
            _ => drop(guard),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contenders_on_two_lockers_exclude_each_other_and_their_tokens_are_in_order() {
    let fleet = Fleet::start(5);
    for server in 0..4 {
        let counter = (FAR + 1000 * u64::try_from(server).unwrap()).to_string();
        fleet[server].cli(&["SET", "{uneven}:fence", &counter]);
    }
    // The second names the servers in another order: what is agreed on must not depend on it.
    let reversed = builder(fleet.urls().into_iter().rev()).connect().await.unwrap();
    let lockers = [locker_of(&fleet).await, reversed];
    for name in ["even", "uneven"] {
        let ledger = Arc::new(Ledger::default());
        let mut contenders = tokio::task::JoinSet::new();
        for contender in 0..8 {
            contenders.spawn(contend(lockers[contender % 2].clone(), name, ledger.clone()));
        }
        while let Some(ended) = contenders.join_next().await {
            ended.unwrap();
        }
        let tokens = ledger.tokens.lock().unwrap().clone();
        assert_eq!(tokens.len(), 80);
        assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{name}: {tokens:?}");
        until_free(&fleet, name).await;
    }
}

#[tokio::test]
async fn a_dropped_guard_is_released_on_every_server() {
    let fleet = Fleet::start(5);
    let locker = locker_of(&fleet).await;
    for _ in 0..20 {
        drop(locker.try_lock("a").await.unwrap());
    }
    let guard = locker.try_lock("a").await.unwrap();
    until_held_by_all(&fleet, "a").await;
    drop(guard);
    until_free(&fleet, "a").await;
}

/// Polls `future` at most so often; none where that was not enough.
async fn poll_times<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..times {
        let polled = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

#[tokio::test]
async fn an_acquire_dropped_at_any_point_leaves_nothing_and_blocks_nobody() {
    let fleet = Fleet::start(5);
    let locker = locker_of(&fleet).await;
    let mut cancelled = 0;
    for round in 0..200 {
        let ended = poll_times(locker.lock("a").into_future(), 1 + round % 40).await;
        cancelled += usize::from(ended.is_none());
        drop(ended);
        // Behind the release, on the same connections.
        locker.try_lock("a").await.unwrap().release().await.unwrap();
    }
    assert!(cancelled >= 5, "one poll is never enough: {cancelled}");
    let counters = fleet.cli_all(&["EXISTS", "{a}:fence"]);
    assert_eq!(count(&counters, &"1".to_owned()), 5, "all were asked");
    until_free(&fleet, "a").await;
}

#[tokio::test]
async fn one_server_given_twice_is_refused_under_whatever_address() {
    let fleet = Fleet::start(2);
    let proxy = FaultProxy::start(fleet[0].address());
    let [one, other] = [fleet[0].url(), fleet[1].url()];
    for again in [one.clone(), format!("{one}/1"), proxy.url()] {
        let urls = [one.clone(), other.clone(), again];
        let error = builder(urls).connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        let text = error.to_string();
        assert!(text.contains("twice") || text.contains("the same server as"), "{text}");
        assert!(text.contains(&fleet.addresses()[0]), "{text}");
    }
}

#[tokio::test]
async fn a_cluster_node_is_refused_by_name() {
    let fleet = Fleet::start(2);
    let node = RedisServer::builder().arg("--cluster-enabled").arg("yes").start();
    let urls = fleet.urls().into_iter().chain([node.url()]);
    let error = builder(urls).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    let text = error.to_string();
    assert!(text.contains("Cluster") && text.contains(&node.address().to_string()), "{text}");
}

#[tokio::test]
async fn a_replica_does_not_vote_and_is_named() {
    let fleet = Fleet::start(2);
    let port = fleet[0].port().to_string();
    let replica = RedisServer::builder().arg("--replicaof").arg("127.0.0.1").arg(port).start();
    let urls = fleet.urls().into_iter().chain([replica.url()]);
    let locker = builder(urls.clone()).connect().await.unwrap();
    let guard = locker.try_lock("a").await.unwrap();
    let report = guard.report();
    let Vote::Failed { kind: FailureKind::Unavailable, reason, .. } = &report.servers()[2].vote
    else {
        panic!("{report}");
    };
    assert!(reason.contains("replica"), "{report}");
    guard.release().await.unwrap();
    let error = builder(urls).quorum(3).connect().await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::Unavailable && error.to_string().contains("replica"),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_may_evict_is_warned_of_and_refused_where_that_is_asked() {
    let fleet = Fleet::start(3);
    fleet[1].cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let locker = locker_of(&fleet).await;
    let warnings = locker.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains(&fleet.addresses()[1]), "{warnings:?}");
    assert!(warnings[0].contains("allkeys-lru"), "{warnings:?}");
    locker.lock("a").await.unwrap().release().await.unwrap();
    let error = builder(fleet.urls()).refuse_evicting().connect().await.unwrap_err();
    assert!(error.to_string().contains("allkeys-lru"), "{error}");
}

#[tokio::test]
async fn a_holder_with_other_servers_or_another_quorum_is_found_out() {
    let fleet = Fleet::start(5);
    let three_of_five = locker_of(&fleet).await;
    let guard = three_of_five.lock("a").await.unwrap();
    until_held_by_all(&fleet, "a").await;
    let others = [
        builder(fleet.urls()).quorum(4),
        builder(fleet.urls().into_iter().take(3)),
        builder(fleet.urls().into_iter().take(1)),
    ];
    for other in others {
        let error = refusal_of(&other.connect().await.unwrap(), "a").await;
        assert!(
            error.kind() == ErrorKind::Contended
                && error.report().holders().any(|holder| holder.other_configuration),
            "{error}"
        );
        assert!(error.to_string().contains("other servers or another quorum"), "{error}");
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_ttl_that_outlives_the_restart_quarantine_is_refused() {
    let fleet = Fleet::start(3);
    let long = Duration::from_secs(60);
    let guarded = Locker::builder().nodes(fleet.urls()).ttl(long).connect().await.unwrap();
    let error = guarded.try_lock("a").ttl(2 * long).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    let ample = builder(fleet.urls()).ttl(long).max_ttl(2 * long).restart_quarantine(true);
    let error = ample.connect().await.unwrap().try_lock("a").ttl(2 * long).await.unwrap_err();
    assert!(
        error.report().has_failure(FailureKind::RestartQuarantine)
            && error.kind() != ErrorKind::Misuse,
        "{error}"
    );
    let unguarded = builder(fleet.urls()).ttl(long).connect().await.unwrap();
    unguarded.try_lock("a").ttl(2 * long).await.unwrap().release().await.unwrap();
}

//! Locks as other clients see them.

mod listed;

use std::collections::BTreeSet;

use leasehold::inspect::{LockState, LockView};
use leasehold::{FailureKind, Locker};
use leasehold_testing::{Fleet, soon};

const VALUE: &str = "0123456789abcdef0123456789abcdef~:other";

async fn connect(fleet: &Fleet, is_guarded: bool) -> Locker {
    let builder = Locker::builder().nodes(fleet.urls()).restart_quarantine(is_guarded);
    soon("it connects", builder.connect_for_inspection()).await.unwrap()
}

/// All that there is, whether that is complete, and which servers are in doubt.
async fn listed(locker: &Locker) -> (Vec<LockView>, bool, usize) {
    let mut list = locker.list("*");
    let mut views = Vec::new();
    while let Some(view) = soon("a lock", list.next()).await.unwrap() {
        views.push(view);
    }
    (views, list.is_complete(), list.failures().len())
}

/// More locks than one question is about.
#[tokio::test]
async fn what_servers_show_counts_and_what_they_may_have_forgotten_does_not() {
    let mut fleet = Fleet::start(3);
    let names: BTreeSet<String> = (0..200).map(|number| format!("n{number}")).collect();
    let pairs: Vec<&str> = names.iter().flat_map(|name| [name, VALUE]).collect();
    fleet.iter().take(2).for_each(|server| {
        server.cli(&[&["MSET"], &pairs[..]].concat());
        server.cli(&["RPUSH", "list", "1"]);
    });
    // Servers that have just started may have forgotten leases.
    for (is_guarded, doubts) in [(false, 0), (true, 1)] {
        let locker = connect(&fleet, is_guarded).await;
        let (views, is_complete, doubtful) = listed(&locker).await;
        assert_eq!((is_complete, doubtful), (!is_guarded, 3 * doubts));
        let shown = |view: &LockView| (view.state, view.holders[0].servers.len());
        assert!(views.iter().all(|view| shown(view) == (LockState::Held, 2)), "{views:?}");
        assert!(views.iter().all(|view| view.failures.len() == doubts), "{views:?}");
        let found = views.iter().map(|view| String::from_utf8(view.name.clone()).unwrap());
        assert_eq!((views.len(), found.collect()), (200, names.clone()));
    }
    let (locker, guarded) = (connect(&fleet, false).await, connect(&fleet, true).await);
    let seen = locker.inspect("n7").await.unwrap();
    let broken = locker.break_lease(&seen).await.unwrap();
    assert_eq!((broken.freed.len(), broken.is_complete()), (2, true));
    assert_eq!(locker.break_lease(&seen).await.unwrap().freed, [""; 0]);
    assert_eq!(locker.inspect("n7").await.unwrap().state, LockState::Free);
    let error = guarded.inspect("n7").await.unwrap_err();
    assert!(error.report().has_failure(FailureKind::RestartQuarantine), "{error}");
    assert_eq!(locker.inspect("list").await.unwrap().failures[0].kind, FailureKind::Misuse);
    fleet[2].kill();
    let view = locker.inspect("n8").await.unwrap();
    assert_eq!((view.state, view.failures.len()), (LockState::Held, 1));
}

/// One step of the scan is about some 256 of them.
#[tokio::test]
async fn locks_with_the_longest_names_are_listed() {
    let fleet = Fleet::start(1);
    let each = "redis.call('SET', n .. string.rep('n', 16384 - #tostring(n)), ARGV[1])";
    fleet[0].cli(&["EVAL", &format!("for n = 1, 600 do {each} end"), "0", VALUE]);
    let (views, is_complete, doubts) = listed(&connect(&fleet, false).await).await;
    let names: BTreeSet<_> = views.into_iter().map(|view| view.name).collect();
    assert_eq!((names.len(), is_complete, doubts), (600, true, 0));
}

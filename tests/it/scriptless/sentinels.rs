//! Locks on a master under Sentinels, and on its successor.

#![allow(clippy::disallowed_methods, reason = "what real servers do takes real time")]

use std::future::IntoFuture;
use std::time::Duration;

use leasehold::Locker;
use leasehold_testing::binary::{has_at_least, lacks};
use leasehold_testing::{Sentinels, eventually, soon};

const TTL: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_without_scripts_go_on_with_the_server_that_was_promoted() {
    if lacks(has_at_least((8, 4), (8, 1)), "a comparison in SET") {
        return;
    }
    let mut sentinels = Sentinels::start();
    for server in sentinels.servers() {
        let rights = ["-eval", "-evalsha", "-script", "-fcall"];
        server.cli(&[&["ACL", "SETUSER", "default"][..], &rights].concat());
    }
    let connect = || Locker::builder().node(sentinels.url()).ttl(TTL).scriptless().connect();
    let one = soon("it connects", connect()).await.unwrap();
    let other = soon("it connects", connect()).await.unwrap();
    let first = sentinels.master_port();
    let held = soon("a lock", one.lock("held").into_future()).await.unwrap();
    let token = held.fence();
    let is_copied = |sentinels: &Sentinels, master| {
        sentinels.server(master).cli_text(&["WAIT", "2", "100"]) == "2"
    };
    eventually("the replicas have it", || is_copied(&sentinels, first)).await;
    let before = other.stats().contended;
    let waiting = tokio::spawn(other.lock("held").into_future());
    eventually("it waits", || other.stats().contended > before).await;
    sentinels.failover().await;
    let second = sentinels.wait_for_master_other_than(first).await;
    let address = format!("127.0.0.1:{second}");
    for locker in [&one, &other] {
        eventually("it is followed", || locker.stats().servers[0].server == address).await;
    }
    held.extend().await.unwrap();
    assert!(!held.is_lost() && !waiting.is_finished());
    held.release().await.unwrap();
    let guard = soon("the lock", waiting).await.unwrap().unwrap();
    assert!(guard.fence() > token);
    let token = guard.fence();
    guard.release().await.unwrap();
    // Also one that is killed.
    eventually("the replicas are linked again", || is_copied(&sentinels, second)).await;
    sentinels.kill_master();
    sentinels.wait_for_master_other_than(second).await;
    let guard = soon("a lock", one.lock("held").into_future()).await.unwrap();
    assert!(guard.fence() > token);
    guard.release().await.unwrap();
    let third = sentinels.server(sentinels.master_port());
    assert!(!third.cli_text(&["INFO", "commandstats"]).contains("cmdstat_eval"));
}

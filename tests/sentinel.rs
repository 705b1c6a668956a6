//! Locks on a master that real Sentinels watch over, while another is promoted.

mod support;

use std::time::Duration;

use leasehold::{Builder, Guard, Locker};
use support::{Sentinels, eventually, soon};

const TTL: Duration = Duration::from_secs(30);

fn locker(sentinels: &Sentinels) -> Builder {
    Locker::builder().node(sentinels.url()).ttl(TTL)
}

async fn follows(locker: &Locker, master: u16) {
    let address = format!("127.0.0.1:{master}");
    eventually("it is followed", || locker.stats().servers[0].server == address).await;
}

async fn take(locker: &Locker, name: &str) -> Guard {
    soon("it is granted", locker.lock(name).into_future()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_go_on_with_the_server_that_was_promoted() {
    let mut sentinels = Sentinels::start();
    let locker = soon("it connects", locker(&sentinels).connect()).await.unwrap();
    let first = sentinels.master_port();
    let held = take(&locker, "held").await;
    let token = held.fence();
    eventually("the replicas have it", || {
        sentinels.server(first).cli_text(&["WAIT", "2", "100"]) == "2"
    })
    .await;

    // Nothing is lost in a failover that is asked for: the lease goes on.
    sentinels.failover().await;
    let second = sentinels.wait_for_master_other_than(first).await;
    // Until the Sentinels have told it, the server that was the master takes writes that are lost.
    follows(&locker, second).await;
    held.extend().await.unwrap();
    assert_eq!(sentinels.server(second).cli_text(&["EXISTS", "held"]), "1");
    held.release().await.unwrap();
    assert_eq!(sentinels.server(second).cli_text(&["EXISTS", "held"]), "0");
    assert!(take(&locker, "held").await.fence() > token);

    // One that is killed is followed too.
    let dropped = take(&locker, "dropped").await;
    eventually("the replicas are linked again", || {
        sentinels.server(second).cli_text(&["WAIT", "2", "100"]) == "2"
    })
    .await;
    sentinels.kill_master();
    drop(dropped);
    let third = sentinels.wait_for_master_other_than(second).await;
    let guard = take(&locker, "new").await;
    assert_eq!(sentinels.server(third).cli_text(&["EXISTS", "new"]), "1");
    guard.release().await.unwrap();
    eventually("what was owed to the one that is gone is paid", || {
        sentinels.server(third).cli_text(&["EXISTS", "dropped"]) == "0"
    })
    .await;
}

//! The reason of a loss is the same by whatever call, and known in time.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{ErrorKind, Guard, Locker, Loss};

use crate::renewal::{LONG, SHORT, quorum, take, until_renewed};
use leasehold_testing::{Fault, FaultProxy, Fleet, RedisServer, eventually, soon};

/// By every way of asking.
async fn assert_lost(guard: Guard, why: Loss) {
    assert_eq!(soon("the loss", guard.lost()).await, why);
    assert!(guard.is_lost());
    assert_eq!(guard.loss(), Some(why));
    assert_eq!(guard.remaining(), Duration::ZERO);
    let extended = guard.extend().await.unwrap_err();
    let run = guard.run(pending::<()>()).await.unwrap_err();
    let released = guard.release().await.unwrap_err();
    for error in [extended, run, released] {
        assert_eq!(error.loss(), Some(why), "{error}");
        let kind = if why == Loss::ShutDown { ErrorKind::ShutDown } else { ErrorKind::Lost };
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(&why.to_string()), "{error}");
    }
}

#[tokio::test]
async fn every_way_of_asking_gives_the_same_reason() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let expired = locker.lock("expired").ttl(SHORT).no_renewal().await.unwrap();
    assert_lost(expired, Loss::Expired).await;
    let gone = take(&locker, "gone", SHORT).await;
    server.cli(&["DEL", "gone"]);
    assert_lost(gone, Loss::Gone).await;
    let taken = take(&locker, "taken", SHORT).await;
    server.cli(&["SET", "taken", "other"]);
    assert_lost(taken, Loss::Gone).await;
    assert_eq!(server.cli_text(&["GET", "taken"]), "other");
    let shut_down = take(&locker, "shut down", SHORT).await;
    locker.shutdown(LONG).await;
    assert_lost(shut_down, Loss::ShutDown).await;
    let stats = locker.stats();
    let counted = [Loss::Expired, Loss::Gone, Loss::ShutDown].map(|why| stats.losses(why));
    assert_eq!((counted, stats.lost()), ([1, 2, 1], 4));
}

#[tokio::test]
async fn every_way_of_asking_says_that_no_quorum_is_left() {
    let fleet = Fleet::start(5);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", SHORT).await;
    eventually("all have it", || fleet.holding("a") == 5).await;
    for server in fleet.iter().skip(2) {
        server.cli(&["DEL", "a"]);
    }
    assert_lost(guard, Loss::NoQuorum).await;
}

/// As redisson #4698 with tracking; many tasks may wait for one loss.
#[tokio::test]
async fn each_waiter_for_a_loss_is_told() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let guard = Arc::new(take(&locker, "a", LONG).await);
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let guard = Arc::clone(&guard);
            tokio::spawn(async move { guard.lost().await })
        })
        .collect();
    // It is watched from its first renewal on, which waiters bring about.
    eventually("it is watched", || locker.stats().renewed > 0).await;
    server.cli(&["DEL", "a"]);
    for waiting in waiting {
        assert_eq!(soon("each is told", waiting).await.unwrap(), Loss::Gone);
    }
    assert_eq!(locker.stats().losses(Loss::Gone), 1, "it is lost once");
}

/// The renewal of a lease that is watched does not end its being watched.
#[tokio::test]
async fn a_deletion_is_told_after_many_renewals() {
    let fleet = Fleet::start(3);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", LONG).await;
    let short = take(&locker, "short", SHORT).await;
    let waiting = tokio::spawn(async move { guard.lost().await });
    eventually("both were renewed often", || locker.stats().renewed >= 10).await;
    fleet.cli_all(&["PEXPIRE", "a", "50000"]);
    eventually("and once more", || locker.stats().renewed >= 20).await;
    fleet.cli_all(&["DEL", "a"]);
    assert_eq!(soon("the loss", waiting).await.unwrap(), Loss::NoQuorum);
    short.release().await.unwrap();
}

#[tokio::test]
async fn a_server_that_speaks_resp2_only_has_the_next_renewal_find_out() {
    let server = RedisServer::builder().arg("--rename-command").arg("HELLO").arg("").start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    for command in [&["DEL", "a"][..], &["SET", "a", "other"]] {
        let guard = take(&locker, "a", SHORT).await;
        let waiting = tokio::spawn(async move { guard.lost().await });
        let before = locker.stats().renewed;
        eventually("it is renewed", || locker.stats().renewed > before).await;
        server.cli(command);
        assert_eq!(soon("the loss", waiting).await.unwrap(), Loss::Gone);
        server.cli(&["DEL", "a"]);
    }
}

/// node-redlock tells of a loss only after its retries; here nobody else's answer is waited for.
#[tokio::test]
async fn a_server_that_is_killed_for_good_costs_the_lease_at_its_deadline() {
    let mut server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let guard = take(&locker, "a", SHORT).await;
    let waiting = tokio::spawn(async move {
        let loss = guard.lost().await;
        (loss, guard)
    });
    eventually("it is renewed", || locker.stats().renewed > 0).await;
    server.kill();
    let (loss, guard) = soon("the loss", waiting).await.unwrap();
    assert_eq!((loss, guard.loss()), (Loss::Expired, Some(Loss::Expired)));
    assert!(locker.stats().renewals_failed > 0);
}

#[tokio::test]
async fn three_of_five_that_stop_cost_the_lease_and_two_do_not() {
    let fleet = Fleet::start(5);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", Duration::from_secs(2)).await;
    eventually("all have it", || fleet.holding("a") == 5).await;
    fleet[0].stop();
    fleet[1].stop();
    until_renewed(&locker, 4).await;
    assert!(!guard.is_lost());
    fleet[2].stop();
    assert_eq!(soon("the loss", guard.lost()).await, Loss::Expired);
    for server in fleet.iter().take(3) {
        server.cont();
    }
}

#[tokio::test]
async fn servers_that_go_on_before_the_deadline_cost_nothing() {
    let fleet = Fleet::start(3);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", Duration::from_secs(6)).await;
    for _ in 0..2 {
        let failed = locker.stats().renewals_failed;
        fleet[0].stop();
        fleet[1].stop();
        eventually("a renewal fails", || locker.stats().renewals_failed > failed).await;
        fleet[0].cont();
        fleet[1].cont();
        until_renewed(&locker, 1).await;
    }
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
}

/// Safety rule 7. The holder's network is gone and the server is well: the next holder
/// gets the lock after the former could know of the loss.
#[tokio::test]
async fn nobody_is_granted_a_lock_before_its_holder_knows_that_it_is_lost() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let cut_off = Locker::connect(&proxy.url()).await.unwrap();
    let contender = Locker::connect(&server.url()).await.unwrap();
    for round in 0..4 {
        let guard = Arc::new(take(&cut_off, "a", SHORT).await);
        let holder = Arc::clone(&guard);
        let told = tokio::spawn(async move { holder.lost().await });
        let before = cut_off.stats().renewed;
        eventually("it is renewed", || cut_off.stats().renewed > before).await;
        proxy.set_both(Fault::Blackhole);
        let next = take(&contender, "a", LONG).await;
        assert!(guard.is_lost(), "round {round}: two would hold it");
        assert_eq!(soon("it is told", told).await.unwrap(), Loss::Expired, "round {round}");
        assert_eq!(cut_off.stats().lost(), round + 1);
        // Its queued release reaches the server, and leaves the next holder's lock alone.
        drop(guard);
        proxy.set_both(Fault::Pass);
        proxy.cut();
        let again = cut_off.try_lock("a").await.unwrap_err();
        let kinds = [ErrorKind::Contended, ErrorKind::Unavailable];
        assert!(kinds.contains(&again.kind()), "{again}");
        assert!(!next.is_lost());
        next.release().await.unwrap();
    }
}

#[tokio::test]
async fn work_that_ends_in_time_is_given_back_as_it_is() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let found = locker.with_lock("a", async |_| Err::<(), &str>("not found")).await;
    assert_eq!(found.unwrap(), Err("not found"), "the value of the work is its own");
    assert_eq!(server.cli_text(&["EXISTS", "a"]), "0");
    let cancelled = locker.with_lock("a", async |_| pending::<()>().await);
    let timed_out = tokio::time::timeout(SHORT, cancelled).await;
    assert!(timed_out.is_err());
    eventually("it is given back", || server.cli_text(&["EXISTS", "a"]) == "0").await;
}

/// The work is past its await when its lease is found lost: its value does not hide that.
#[tokio::test]
async fn a_loss_that_the_work_did_not_wait_for_is_told_at_its_end() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let done = locker.lock("a").ttl(LONG).with(async |_| {
        server.cli(&["DEL", "a"]);
        7
    });
    assert_eq!(soon("the end", done).await.unwrap_err().loss(), Some(Loss::Gone));
}

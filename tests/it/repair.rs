//! Repair: a lease is given to servers that lost it, and only to those.

use std::future::IntoFuture;
use std::time::Duration;

use leasehold::{Locker, Loss};
use leasehold_resp::Frame;
use leasehold_testing::{Fleet, RedisServer, eventually, soon};

use super::renewal::{LONG, SHORT, fence_of, pttl, quorum, take, until_renewed};

#[tokio::test]
async fn one_or_two_of_five_that_lost_a_lease_have_its_owner_and_its_token_again() {
    let fleet = Fleet::start(5);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", SHORT).await;
    eventually("all have it", || fleet.holding("a") == 5).await;
    let owner = fleet[4].cli_text(&["GET", "a"]);
    for losers in [&[2][..], &[0, 3]] {
        for &loser in losers {
            fleet[loser].cli(&["DEL", "a", "{a}:fence"]);
        }
        eventually("all have it again", || fleet.holding("a") == 5).await;
        assert!(fleet.cli_all(&["GET", "a"]).iter().all(|found| *found == owner));
        assert!(fleet.iter().all(|server| fence_of(server, "a") >= guard.fence().get()));
    }
    eventually("three repairs", || locker.stats().repaired >= 3).await;
    assert!(!guard.is_lost());
    // A later owner is given a later token, also by the servers that were repaired.
    let before = guard.fence();
    guard.release().await.unwrap();
    assert!(take(&locker, "a", SHORT).await.fence() > before);
}

/// Counters of servers are ahead of the token of a lease that came from hand to hand.
#[tokio::test]
async fn what_came_from_hand_to_hand_in_a_process_is_given_back_too() {
    let fleet = Fleet::start(3);
    let locker = quorum(&fleet).connect().await.unwrap();
    let mut holder = take(&locker, "a", SHORT).await;
    for handed in 0..3 {
        let request = locker.lock("a").ttl(SHORT);
        let next = tokio::spawn(request.into_future());
        eventually("one waits", || locker.stats().waiting == 1).await;
        holder.release().await.unwrap();
        holder = soon("the lock", next).await.unwrap().unwrap();
        eventually("all have it", || fleet.holding("a") == 3).await;
        let lost: &[&str] = if handed == 1 { &["DEL", "a", "{a}:fence"] } else { &["DEL", "a"] };
        fleet[handed].cli(lost);
        eventually("all have it again", || fleet.holding("a") == 3).await;
        assert!(fence_of(&fleet[handed], "a") >= holder.fence().get());
    }
    assert!(!holder.is_lost());
    let last = holder.fence();
    holder.release().await.unwrap();
    assert!(take(&locker, "a", SHORT).await.fence() > last);
}

#[tokio::test]
async fn a_lease_without_a_token_is_given_back_without_one() {
    let fleet = Fleet::start(3);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = locker.lock("a").unfenced().ttl(SHORT).await.unwrap();
    eventually("all have it", || fleet.holding("a") == 3).await;
    let owner = fleet[0].cli_text(&["GET", "a"]);
    fleet[1].cli(&["DEL", "a"]);
    eventually("all have it again", || fleet.holding("a") == 3).await;
    assert_eq!(fleet[1].cli_text(&["GET", "a"]), owner);
    assert_eq!(fleet.holding("{a}:fence"), 0);
    guard.release().await.unwrap();
}

#[cfg(feature = "groups")]
#[tokio::test]
async fn of_several_locks_that_are_held_at_once_a_lost_one_is_given_back() {
    let fleet = Fleet::start(3);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = locker.lock_all(["a", "b", "c"]).ttl(SHORT).await.unwrap();
    eventually("all have them", || ["a", "b", "c"].iter().all(|n| fleet.holding(n) == 3)).await;
    fleet[2].cli(&["DEL", "b"]);
    eventually("it has it again", || fleet.holding("b") == 3).await;
    let owner = fleet[2].cli_text(&["GET", "a"]);
    assert_eq!(fleet[2].cli_text(&["GET", "b"]), owner);
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    eventually("all are free", || ["a", "b", "c"].iter().all(|n| fleet.holding(n) == 0)).await;
}

/// RedLock.net #48, #68: a renewal created the lost key again, and hid that another had held it.
#[tokio::test]
async fn what_three_of_five_lost_is_created_again_nowhere() {
    let fleet = Fleet::start(5);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", SHORT).await;
    let other = take(&locker, "other", SHORT).await;
    eventually("all have it", || fleet.holding("a") == 5).await;
    for loser in [0, 2, 4] {
        fleet[loser].cli(&["DEL", "a"]);
    }
    assert_eq!(soon("its loss", guard.lost()).await, Loss::NoQuorum);
    // Renewals that would have been of both go on for several TTLs.
    until_renewed(&locker, 7).await;
    assert_eq!(locker.stats().repaired, 0);
    assert!([0, 2, 4].iter().all(|loser| fleet[*loser].cli_text(&["EXISTS", "a"]) == "0"));
    assert_eq!(guard.release().await.unwrap_err().loss(), Some(Loss::NoQuorum));
    eventually("nothing of it is left", || fleet.holding("a") == 0).await;
    other.release().await.unwrap();
}

#[tokio::test]
async fn a_single_server_repairs_nothing() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let guard = take(&locker, "a", SHORT).await;
    let other = take(&locker, "other", SHORT).await;
    server.cli(&["DEL", "a"]);
    assert_eq!(soon("its loss", guard.lost()).await, Loss::Gone);
    until_renewed(&locker, 7).await;
    assert_eq!(server.cli_text(&["EXISTS", "a"]), "0");
    assert_eq!(locker.stats().repaired, 0);
    drop((guard, other));
}

#[tokio::test]
async fn a_server_that_accepted_a_later_token_is_repaired_and_its_counter_stays() {
    let fleet = Fleet::start(5);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", SHORT).await;
    eventually("all have it", || fleet.holding("a") == 5).await;
    let later = guard.fence().get() + 5;
    // As another leaves it that only this server let in. In one step, so that no repair comes between.
    let script = "redis.call('SET', KEYS[2], ARGV[1]) return redis.call('DEL', KEYS[1])";
    fleet[3].cli(&["EVAL", script, "2", "a", "{a}:fence", &later.to_string()]);
    eventually("all have it again", || fleet.holding("a") == 5).await;
    assert_eq!(fence_of(&fleet[3], "a"), later);
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn what_another_took_on_one_server_stays_the_others() {
    let fleet = Fleet::start(5);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", SHORT).await;
    eventually("all have it", || fleet.holding("a") == 5).await;
    fleet[1].cli(&["SET", "a", "other", "PX", "30000"]);
    until_renewed(&locker, 5).await;
    assert_eq!(fleet[1].cli_text(&["GET", "a"]), "other");
    assert!(pttl(&fleet[1], "a") <= 30_000);
    guard.release().await.unwrap();
    eventually("ours are free", || fleet.holding("a") == 1).await;
    assert_eq!(fleet[1].cli_text(&["GET", "a"]), "other", "and its holder still has it");
}

/// A repair that came behind the release would take the lock again, for nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repair_never_takes_again_what_was_given_back() {
    let fleet = Fleet::start(3);
    let locker = quorum(&fleet).connect().await.unwrap();
    let mut side = fleet[2].client();
    for round in 0..100 {
        let guard = take(&locker, "a", LONG).await;
        let before = locker.stats().renewed;
        let repaired = locker.stats().repaired;
        // A task that waits for the loss has the key watched: then the lease is renewed when a key is deleted, and
        // repaired right behind that.
        let work = async {
            eventually("it is watched", || locker.stats().renewed > before).await;
            // A busy server may not have it yet: a quorum was faster.
            eventually("it is deleted", || side.call(&["DEL", "a"]) == Frame::Integer(1)).await;
            for _ in 0..round % 25 {
                tokio::task::yield_now().await;
            }
            if round % 4 == 0 {
                eventually("it is repaired", || locker.stats().repaired > repaired).await;
            }
        };
        guard.run(work).await.unwrap();
        guard.release().await.unwrap();
        // Far sooner than its TTL would have it.
        eventually("it is free everywhere", || fleet.holding("a") == 0).await;
    }
}

/// A server that has the lease again tells of its next end too.
#[tokio::test]
async fn what_was_repaired_is_watched_again() {
    let fleet = Fleet::start(3);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", LONG).await;
    let work = async {
        eventually("it is watched and repaired", || {
            fleet[2].cli(&["DEL", "a"]);
            locker.stats().repaired > 0
        })
        .await;
        for _ in 0..3 {
            // Nothing of the time before is under way.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let repaired = locker.stats().repaired;
            assert_eq!(fleet[2].cli_text(&["DEL", "a"]), "1");
            // Far sooner than the next renewal that is due.
            eventually("it is repaired again", || locker.stats().repaired > repaired).await;
        }
    };
    guard.run(work).await.unwrap();
    guard.release().await.unwrap();
}

/// A server in quarantine may have forgotten another's lease: it is given nothing until then.
#[tokio::test]
async fn a_server_that_restarted_empty_is_repaired_once_it_may_vote() {
    const TTL: Duration = Duration::from_secs(3);
    let mut fleet = Fleet::start(5);
    let locker = Locker::builder().nodes(fleet.urls()).ttl(TTL).connect().await.unwrap();
    let guard = soon("the end of quarantine", locker.lock("a").into_future()).await.unwrap();
    eventually("all have it", || fleet.holding("a") == 5).await;
    fleet[1].restart();
    eventually("it is connected", || locker.stats().servers[1].connected).await;
    let repaired = locker.stats().repaired;
    until_renewed(&locker, 1).await;
    assert_eq!(locker.stats().repaired, repaired, "it is in quarantine");
    assert_eq!(fleet[1].cli_text(&["EXISTS", "a"]), "0");
    eventually("it has it again", || fleet.holding("a") == 5).await;
    assert_eq!(fence_of(&fleet[1], "a"), guard.fence().get());
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
}

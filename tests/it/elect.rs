//! Elections on real servers.

use std::time::Duration;

use leasehold::election::{Campaigning, Leadership};
use leasehold::{Error, ErrorKind, Locker};
use leasehold_testing::{Fleet, RedisServer, eventually, soon};
use tokio::task::JoinHandle;

/// So long that nobody leads because of it.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(900);

async fn connect(urls: &[String], ttl: Duration) -> Locker {
    let builder = Locker::builder().nodes(urls.to_vec()).restart_quarantine(false);
    soon("it connects", builder.ttl(ttl).max_ttl(LONG).connect()).await.unwrap()
}

type Led = JoinHandle<Result<Leadership, Error>>;

/// A candidate with a locker of its own, once it waits.
struct Candidate {
    name: &'static str,
    locker: Locker,
    campaign: Led,
}

fn campaign(locker: &Locker, name: &str, priority: u8) -> Campaigning {
    locker.elect("office").campaign(name).priority(priority).into_future()
}

/// How many candidates stand in the queue of the server that has most of them.
fn queued(fleet: &Fleet) -> usize {
    let fields = fleet.cli_all(&["HLEN", "{office}:queue"]);
    // Its first and its last place are fields, and each candidate has two.
    fields
        .iter()
        .map(|fields| fields.parse::<usize>().unwrap().saturating_sub(2) / 2)
        .max()
        .unwrap()
}

async fn candidate(fleet: &Fleet, name: &'static str, priority: u8) -> Candidate {
    let locker = connect(&fleet.urls(), LONG).await;
    let before = queued(fleet);
    let campaign = tokio::spawn(campaign(&locker, name, priority));
    eventually("it waits", || queued(fleet) > before).await;
    Candidate { name, locker, campaign }
}

/// Has each resign in turn: the leaders, in their order.
async fn terms(first: Leadership, candidates: Vec<Candidate>) -> Vec<&'static str> {
    let (mut lead, mut waiting, mut order) = (first, candidates, Vec::new());
    while !waiting.is_empty() {
        let term = lead.fence();
        soon("it resigns", lead.release()).await.unwrap();
        let next = || waiting.iter().position(|candidate| candidate.campaign.is_finished());
        eventually("one leads", || next().is_some()).await;
        let led = waiting.remove(next().unwrap());
        lead = led.campaign.await.unwrap().unwrap();
        assert!(lead.fence() > term, "terms rise");
        order.push(led.name);
        assert!(!waiting.iter().any(|candidate| candidate.campaign.is_finished()));
        drop(led.locker);
    }
    order
}

const IN_ORDER: [&str; 5] = ["late", "high", "equal", "mid", "low"];

/// The order in which candidates lead that came in another: one of them was nominated.
async fn order(fleet: &Fleet) -> Vec<&'static str> {
    let first = connect(&fleet.urls(), LONG).await;
    let lead = soon("nobody leads", campaign(&first, "first", 0)).await.unwrap();
    let mut candidates = Vec::new();
    for (name, priority) in [("low", 0), ("mid", 1), ("high", 200), ("late", 0), ("equal", 200)] {
        candidates.push(candidate(fleet, name, priority).await);
    }
    let election = first.elect("office");
    assert!(!election.nominate("nobody").await.unwrap());
    assert!(!election.nominate("first").await.unwrap(), "it does not wait");
    election.nominate("late").await.unwrap();
    terms(lead, candidates).await
}

#[tokio::test]
async fn the_nominated_leads_next_and_then_the_highest_priority() {
    assert_eq!(order(&Fleet::start(1)).await, IN_ORDER);
}

/// One of them has the queue, and calls the next candidate, which then asks all servers. Where a server fails to
/// answer in time, as on a machine that stands still for a while, the candidate asks again as another owner, and its
/// first owner's lock at the server with the queue goes to the candidate behind it.
#[tokio::test]
async fn on_several_servers_too() {
    let fleet = Fleet::start(3);
    for _ in 0..3 {
        if order(&fleet).await == IN_ORDER {
            return;
        }
    }
    panic!("the order was never right");
}

/// A lock goes to the next task of its process first; an office does not.
#[tokio::test]
async fn a_candidate_of_the_same_process_comes_in_its_turn() {
    let fleet = Fleet::start(1);
    let locker = connect(&fleet.urls(), LONG).await;
    let lead = soon("nobody leads", campaign(&locker, "first", 0)).await.unwrap();
    let other = candidate(&fleet, "other", 1).await;
    let here = tokio::spawn(campaign(&locker, "here", 0));
    eventually("it waits", || locker.stats().waiting == 1).await;
    drop(lead);
    let lead = soon("the other leads", other.campaign).await.unwrap().unwrap();
    assert!(!here.is_finished());
    lead.release().await.unwrap();
    let lead = soon("it leads", here).await.unwrap().unwrap();
    // Where nobody else waits, the server says so.
    let next = tokio::spawn(campaign(&locker, "next", 0));
    eventually("it waits", || queued(&fleet) == 1).await;
    lead.release().await.unwrap();
    soon("it leads", next).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(locker.stats().handed_over, 0);
}

#[tokio::test]
async fn a_leader_that_vanishes_is_followed_by_the_highest_priority() {
    let fleet = Fleet::start(1);
    let locker = connect(&fleet.urls(), LONG).await;
    let lead = soon("nobody leads", campaign(&locker, "first", 0)).await.unwrap();
    let low = candidate(&fleet, "low", 0).await;
    let high = candidate(&fleet, "high", 9).await;
    // As if it had expired.
    fleet.cli_all(&["DEL", "office"]);
    let next = soon("the next leads", high.campaign).await.unwrap().unwrap();
    assert!(next.fence() > lead.fence() && !low.campaign.is_finished());
    assert_eq!(lead.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(!next.is_lost());
}

#[tokio::test]
async fn a_candidate_that_withdraws_is_passed_over() {
    let fleet = Fleet::start(1);
    let locker = connect(&fleet.urls(), LONG).await;
    let lead = soon("nobody leads", campaign(&locker, "first", 0)).await.unwrap();
    let (low, high) = (candidate(&fleet, "low", 0).await, candidate(&fleet, "high", 9).await);
    high.campaign.abort();
    let election = locker.elect("office");
    eventually("it is gone", || queued(&fleet) == 1).await;
    assert!(!election.nominate("high").await.unwrap());
    lead.release().await.unwrap();
    soon("the other leads", low.campaign).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_a_campaign_can_be_limited() {
    let server = RedisServer::start();
    let locker = connect(&[server.url()], LONG).await;
    let election = locker.elect("office");
    let nameless = locker.elect("");
    assert_eq!(nameless.campaign("x").await.unwrap_err().kind(), ErrorKind::Misuse);
    assert_eq!(nameless.nominate("x").await.unwrap_err().kind(), ErrorKind::Misuse);
    #[cfg(feature = "inspect")]
    for _ in 0..2 {
        let watched = soon("an error", nameless.watch().changed()).await;
        assert_eq!(watched.unwrap_err().kind(), ErrorKind::Misuse);
    }
    assert_eq!(election.campaign("").await.unwrap_err().kind(), ErrorKind::Misuse);
    assert_eq!(election.campaign("x".repeat(257)).await.unwrap_err().kind(), ErrorKind::Misuse);
    let lead = election.campaign("one").ttl(SHORT).await.unwrap();
    assert_eq!(lead.name(), b"office");
    let other = connect(&[server.url()], LONG).await.elect("office");
    let error = other.campaign("two").wait_at_most(Duration::ZERO).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Contended && error.to_string().contains("one"), "{error}");
    locker.shutdown(SHORT).await;
    assert_eq!(election.nominate("one").await.unwrap_err().kind(), ErrorKind::ShutDown);
}

#[cfg(feature = "inspect")]
mod watched {
    use leasehold::election::{ElectionWatch, Leader, LeaderState};
    use leasehold::inspect::LockState;

    use super::*;

    async fn leader(watch: &mut ElectionWatch) -> Leader {
        soon("a leader", async {
            loop {
                if let LeaderState::Led(leader) = watch.changed().await.unwrap() {
                    return leader;
                }
            }
        })
        .await
    }

    async fn shows(watch: &mut ElectionWatch, candidate: &str) -> Leader {
        loop {
            let seen = leader(watch).await;
            if seen.candidate() == candidate {
                return seen;
            }
        }
    }

    async fn is_shown(urls: &[String]) {
        let (one, two) = (connect(urls, LONG).await, connect(urls, SHORT).await);
        let mut watch = connect(urls, LONG).await.elect("office").watch();
        assert_eq!(soon("the first look", watch.changed()).await.unwrap(), LeaderState::Vacant);
        let lead = soon("nobody leads", campaign(&one, "one", 3)).await.unwrap();
        let seen = shows(&mut watch, "one").await;
        assert_eq!(seen.fence(), Some(lead.fence()));
        assert!(seen.remaining() < LONG && seen.remaining() > LONG / 2);
        // What is asked for in vain is no term.
        for _ in 0..3 {
            let refused = campaign(&two, "two", 0);
            assert!(tokio::time::timeout(SHORT / 9, refused).await.is_err());
        }
        let fresh = leader(&mut one.elect("office").watch()).await;
        assert_eq!((fresh.fence(), fresh.candidate()), (Some(lead.fence()), "one"));
        let next = tokio::spawn(campaign(&two, "two", 0));
        eventually("it waits", || two.stats().waiting == 1).await;
        lead.release().await.unwrap();
        let lead = soon("it leads", next).await.unwrap().unwrap();
        let seen = shows(&mut watch, "two").await;
        assert_eq!(seen.fence(), Some(lead.fence()));
        // Its renewals are told too.
        for _ in 0..3 {
            assert_eq!(leader(&mut watch).await.fence(), Some(lead.fence()));
        }
        assert!(!lead.is_lost());
        lead.release().await.unwrap();
        while soon("a vacancy", watch.changed()).await.unwrap() != LeaderState::Vacant {}
        assert_eq!(one.inspect("office").await.unwrap().state, LockState::Free);
    }

    #[tokio::test]
    async fn leader_term_and_deadline_are_told() {
        let server = RedisServer::start();
        is_shown(&[server.url()]).await;
    }

    #[tokio::test]
    async fn of_several_servers_a_quorum_tells() {
        let fleet = Fleet::start(3);
        is_shown(&fleet.urls()).await;
    }
}

//! What a locker counts and reports, and a TTL that follows from it.

mod ends;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{BreakerState, Builder, ErrorKind, Event, Guard, Locker, Loss};
use leasehold_resp::Frame;
use leasehold_testing::{Fleet, RedisServer, eventually, soon};

/// So long that nothing ends because of it.
pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const SHORT: Duration = Duration::from_millis(400);

pub(crate) fn quorum(fleet: &Fleet) -> Builder {
    Locker::builder().nodes(fleet.urls()).restart_quarantine(false).ttl(LONG)
}

pub(crate) async fn take(locker: &Locker, name: &str, ttl: Duration) -> Guard {
    soon("a lock", locker.lock(name).ttl(ttl).into_future()).await.unwrap()
}

/// What an observer was told: what happened, and to which lock.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn observe(&self, event: &Event<'_>) {
        let name = String::from_utf8_lossy(event.name());
        let what = match event {
            Event::Lost { reason, .. } => format!("Lost {name} {reason:?}"),
            other => {
                let text = format!("{other:?}");
                format!("{} {name}", text.split(' ').next().unwrap_or_default())
            }
        };
        self.0.lock().unwrap().push(what);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    async fn until(&self, what: &str) {
        eventually(what, || self.0.lock().unwrap().iter().any(|heard| heard == what)).await;
    }
}

async fn observed(server: &RedisServer) -> (Locker, Heard) {
    let heard = Heard::default();
    let ears = heard.clone();
    let builder = Locker::builder().node(server.url()).ttl(LONG).key_prefix("app:");
    let observer = move |event: &Event<'_>| ears.observe(event);
    (builder.observer(observer).connect().await.unwrap(), heard)
}

#[tokio::test]
async fn events_are_told_in_order_under_the_names_that_servers_know() {
    let server = RedisServer::start();
    let (locker, heard) = observed(&server).await;
    let first = locker.lock("a").await.unwrap();
    locker.try_lock("a").await.unwrap_err();
    assert_eq!(heard.take(), ["Granted app:a", "Contended app:a"]);
    locker.lock("a").wait_at_most(SHORT).await.unwrap_err();
    assert_eq!(heard.take().last().unwrap(), "TimedOut app:a");
    let next = tokio::spawn(locker.lock("a").into_future());
    eventually("it waits", || locker.stats().waiting == 1).await;
    heard.until("Contended app:a").await;
    heard.take();
    first.release().await.unwrap();
    let next = soon("the next", next).await.unwrap().unwrap();
    let mut handed = heard.take();
    // It may have asked once more before.
    handed.retain(|event| event != "Contended app:a");
    handed.sort();
    assert_eq!(handed, ["Granted app:a", "HandedOver app:a", "Released app:a"]);
    drop(next);
    assert_eq!(heard.take(), ["Released app:a"]);
}

#[tokio::test]
async fn renewals_and_losses_are_told_in_order_and_once() {
    let server = RedisServer::start();
    let (locker, heard) = observed(&server).await;
    let kept = take(&locker, "kept", SHORT).await;
    heard.until("Renewed app:kept").await;
    server.cli(&["DEL", "app:kept"]);
    assert_eq!(soon("the loss", kept.lost()).await, Loss::Gone);
    kept.release().await.unwrap_err();
    let told = heard.take();
    assert_eq!(told.first().unwrap(), "Granted app:kept");
    assert_eq!(told.last().unwrap(), "Lost app:kept Gone");
    assert!(told[1..told.len() - 1].iter().all(|event| event == "Renewed app:kept"), "{told:?}");
    let ended = locker.lock("ended").ttl(SHORT).no_renewal().await.unwrap();
    soon("the loss", ended.lost()).await;
    drop(ended);
    assert_eq!(heard.take(), ["Granted app:ended", "Lost app:ended Expired"]);
    let refused = take(&locker, "refused", SHORT).await;
    server.stop();
    heard.until("RenewalFailed app:refused").await;
    heard.until("Lost app:refused Expired").await;
    server.cont();
    drop(refused);
    server.cli(&["SET", "{app:a}:fence", "no number"]);
    assert!(locker.try_lock("a").await.is_err());
    heard.until("Failed app:a").await;
}

#[tokio::test]
async fn a_known_sequence_has_known_figures() {
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let other = Locker::connect(&server.url()).await.unwrap();
    for _ in 0..3 {
        locker.lock("a").await.unwrap().release().await.unwrap();
    }
    drop(locker.try_lock("a").await.unwrap());
    let held = other.lock("a").await.unwrap();
    for _ in 0..2 {
        assert_eq!(locker.try_lock("a").await.unwrap_err().kind(), ErrorKind::Contended);
    }
    assert_eq!(locker.lock("").await.unwrap_err().kind(), ErrorKind::Misuse);
    let stats = locker.stats();
    let counted = (stats.attempts, stats.granted, stats.contended, stats.released);
    assert_eq!(counted, (6, 4, 2, 4));
    let none = (stats.held, stats.waiting, stats.timed_out, stats.unknown, stats.failed);
    assert_eq!(none, (0, 0, 0, 0, 0));
    let none = (stats.handed_over, stats.woken, stats.renewed, stats.renewals_failed);
    assert_eq!((none, stats.repaired, stats.lost()), ((0, 0, 0, 0), 0, 0));
    assert_eq!((stats.wait.count(), stats.hold.count()), (4, 4));
    assert_eq!(stats.renewal_round_trip.count(), 0);

    assert!(locker.lock("a").wait_at_most(SHORT).await.unwrap_err().is_timeout());
    let stats = locker.stats();
    assert_eq!((stats.timed_out, stats.granted, stats.waiting), (1, 4, 0));
    let waiting = tokio::spawn(locker.lock("a").into_future());
    eventually("it waits", || locker.stats().waiting == 1).await;
    let cancelled = tokio::spawn(locker.lock("a").into_future());
    eventually("both wait", || locker.stats().waiting == 2).await;
    cancelled.abort();
    eventually("one has gone", || locker.stats().waiting == 1).await;
    // It has read the key where the server tells of its end.
    tokio::time::sleep(SHORT).await;
    held.release().await.unwrap();
    let woken = soon("it wakes", waiting).await.unwrap().unwrap();
    let stats = locker.stats();
    assert_eq!((stats.woken >= 1, stats.held, stats.granted), (true, 1, 5));
    woken.release().await.unwrap();
    // The clones of a locker count together, another counts for itself.
    assert_eq!(locker.clone().stats().released, 5);
    assert_eq!((other.stats().granted, other.stats().released), (1, 1));
}

#[tokio::test]
async fn renewals_repairs_and_losses_are_in_their_figures() {
    let fleet = Fleet::start(3);
    let locker = quorum(&fleet).connect().await.unwrap();
    let guard = take(&locker, "a", SHORT).await;
    eventually("all have it", || fleet.holding("a") == 3).await;
    fleet[0].cli(&["DEL", "a"]);
    eventually("it is repaired", || locker.stats().repaired == 1).await;
    fleet.cli_all(&["DEL", "a"]);
    assert_eq!(soon("the loss", guard.lost()).await, Loss::NoQuorum);
    let stats = locker.stats();
    assert_eq!((stats.losses(Loss::NoQuorum), stats.lost(), stats.released), (1, 1, 0));
    assert_eq!(stats.renewed, stats.renewal_round_trip.count());
    drop(guard);
    let stats = locker.stats();
    assert_eq!((stats.held, stats.released, stats.hold.count()), (0, 0, 0));
}

#[tokio::test]
async fn a_server_that_comes_back_is_asked_and_shown_again() {
    let mut fleet = Fleet::start(3);
    let locker = quorum(&fleet).connect().await.unwrap();
    let shown: Vec<_> = locker.stats().servers.into_iter().map(|server| server.server).collect();
    assert_eq!(shown, fleet.addresses());
    fleet[1].kill();
    let asked = async |wanted: &dyn Fn(&[leasehold::ServerStats]) -> bool| {
        while !wanted(&locker.stats().servers) {
            locker.lock("a").await.unwrap().release().await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let is_away = |servers: &[leasehold::ServerStats]| {
        !servers[1].connected && servers[1].breaker == BreakerState::Open
    };
    soon("it is shown as away", asked(&is_away)).await;
    let servers = locker.stats().servers;
    assert!([0, 2].iter().all(|well| servers[*well].connected));
    assert!([0, 2].iter().all(|well| servers[*well].breaker == BreakerState::Closed));
    let text = locker.stats().to_string();
    assert!(
        text.contains(&format!("{}: not connected, breaker open", servers[1].server)),
        "{text}"
    );
    fleet[1].restart();
    let is_back = |servers: &[leasehold::ServerStats]| {
        servers[1].connected && servers[1].breaker == BreakerState::Closed
    };
    soon("it is asked again", asked(&is_back)).await;
    let guard = take(&locker, "b", LONG).await;
    eventually("it votes", || fleet.holding("b") == 3).await;
    guard.release().await.unwrap();
}

pub(crate) fn ttl_at(server: &RedisServer, key: &str) -> Duration {
    let Frame::Integer(pttl) = server.cli(&["PTTL", key]) else { panic!() };
    Duration::from_millis(pttl.try_into().unwrap())
}

#[tokio::test]
#[cfg(feature = "adaptive")]
async fn a_ttl_follows_what_was_observed() {
    use leasehold::AdaptiveTtl;

    let server = RedisServer::start();
    let (shortest, longest) = (Duration::from_secs(5), Duration::from_secs(500));
    let locker = Locker::connect(&server.url()).await.unwrap();
    let adaptive = AdaptiveTtl::new(&locker, shortest, longest).unwrap();
    let brief = async || locker.lock("brief").ttl(adaptive.ttl()).await.unwrap();
    let unknown = brief().await;
    assert!(ttl_at(&server, "brief") > longest / 2, "nothing is known yet");
    drop(unknown);
    for _ in 0..400 {
        brief().await.release().await.unwrap();
    }
    let known = async {
        loop {
            let _brief = brief().await;
            if ttl_at(&server, "brief") <= shortest {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    soon("leases are known to be brief", known).await;
    assert_eq!(AdaptiveTtl::new(&locker, longest, shortest).unwrap_err().kind(), ErrorKind::Misuse);
}

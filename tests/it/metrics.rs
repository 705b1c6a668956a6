//! The figures that a recorder of the crate `metrics` gets.
//!
//! Each recorder is for one thread, and each test's runtime has only that thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Event, Locker, Loss, SECONDS_BUCKETS};
use leasehold_testing::{Client, Fault, FaultProxy, Fleet, RedisServer, eventually, soon};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, LocalRecorderGuard,
    Metadata, SharedString, Unit,
};

use crate::answers::{TOLD, ask_each};

/// So long that no key is ever free because of it, and that no renewal is due.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(300);

/// A counter or a gauge, or of a histogram how many values there were; and their sum.
#[derive(Default)]
struct Figure(Mutex<(f64, f64)>);

impl Figure {
    fn add(&self, figure: f64, sum: f64) {
        let mut total = self.0.lock().unwrap();
        *total = (total.0 + figure, total.1 + sum);
    }
}

impl CounterFn for Figure {
    fn increment(&self, value: u64) {
        self.add(value as f64, 0.0);
    }

    fn absolute(&self, value: u64) {
        self.set(value as f64);
    }
}

impl GaugeFn for Figure {
    fn increment(&self, value: f64) {
        self.add(value, 0.0);
    }

    fn decrement(&self, value: f64) {
        self.add(-value, 0.0);
    }

    fn set(&self, value: f64) {
        self.0.lock().unwrap().0 = value;
    }
}

impl HistogramFn for Figure {
    fn record(&self, value: f64) {
        self.add(1.0, value);
    }
}

/// By name and labels.
#[derive(Default)]
struct Figures(Mutex<BTreeMap<String, Arc<Figure>>>);

impl Figures {
    fn of(&self, key: &Key) -> Arc<Figure> {
        let labels = key.labels().map(|label| format!("{{{}={}}}", label.key(), label.value()));
        let name = labels.fold(key.name().to_owned(), |name, label| name + &label);
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }
}

/// A recorder of one thread.
#[derive(Default)]
struct Recorder {
    figures: Figures,
    described: Mutex<BTreeSet<String>>,
}

impl Recorder {
    fn note(&self, name: &KeyName, unit: Option<Unit>, meaning: &SharedString) {
        assert!(unit.is_some() && !meaning.is_empty(), "{} is not described", name.as_str());
        self.described.lock().unwrap().insert(name.as_str().to_owned());
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, meaning: SharedString) {
        self.note(&name, unit, &meaning);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, meaning: SharedString) {
        self.note(&name, unit, &meaning);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, meaning: SharedString) {
        self.note(&name, unit, &meaning);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.figures.of(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.figures.of(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.figures.of(key))
    }
}

/// What has been recorded on this thread so far.
struct Recorded(&'static Recorder);

impl Recorded {
    /// Records what this thread does, until what is given back is dropped.
    fn start() -> (Self, LocalRecorderGuard<'static>) {
        let recorder: &'static Recorder = Box::leak(Box::default());
        (Self(recorder), metrics::set_default_local_recorder(recorder))
    }

    fn figure(&self, name: &str) -> (f64, f64) {
        self.names();
        let figures = self.0.figures.0.lock().unwrap();
        figures.get(name).map_or((0.0, 0.0), |figure| *figure.0.lock().unwrap())
    }

    fn get(&self, name: &str) -> f64 {
        self.figure(name).0
    }

    fn sum(&self, name: &str) -> f64 {
        self.figure(name).1
    }

    fn acquisitions(&self, outcome: &str) -> f64 {
        self.get(&format!("leasehold_acquisitions_total{{outcome={outcome}}}"))
    }

    /// Of all figures, each of which is described.
    fn names(&self) -> BTreeSet<String> {
        let names: BTreeSet<String> = self.0.figures.0.lock().unwrap().keys().cloned().collect();
        let described = self.0.described.lock().unwrap();
        let is_described = |name: &&String| described.contains(name.split('{').next().unwrap());
        assert_eq!(names.iter().find(|name| !is_described(name)), None);
        names
    }
}

async fn locker(server: &RedisServer) -> Locker {
    Locker::builder().node(server.url()).ttl(LONG).connect().await.unwrap()
}

#[tokio::test]
async fn a_lease_is_counted_and_measured() {
    let (recorded, _recording) = Recorded::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("a").await.unwrap();
    assert_eq!(recorded.get("leasehold_held_leases"), 1.0);
    assert_eq!(recorded.get("leasehold_hold_seconds"), 0.0, "it is held still");
    guard.release().await.unwrap();
    assert_eq!(recorded.get("leasehold_held_leases"), 0.0);
    for counted in ["attempts_total", "releases_total", "wait_seconds", "hold_seconds"] {
        assert_eq!(recorded.get(&format!("leasehold_{counted}")), 1.0, "{counted}");
    }
    assert_eq!(recorded.acquisitions("granted"), 1.0);
    let stats = locker.stats();
    let measured = [("wait", &stats.wait), ("hold", &stats.hold)];
    for (name, latencies) in measured {
        let sum = recorded.sum(&format!("leasehold_{name}_seconds"));
        let own = latencies.max().unwrap().as_secs_f64();
        assert!((sum - own).abs() < 1e-6, "{name}, in seconds: {sum} and {own}");
    }
    assert_eq!(recorded.get(&connections(&server)), 1.0);
}

fn connections(server: &RedisServer) -> String {
    format!("leasehold_connections{{server={}}}", server.address())
}

#[tokio::test]
async fn each_answer_of_each_primitive_is_counted() {
    let (recorded, _recording) = Recorded::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    soon("all answers", ask_each(&locker)).await;
    for (primitive, outcome) in TOLD {
        let labels = format!("{{primitive={primitive}}}{{outcome={outcome}}}");
        let name = format!("leasehold_answers_total{labels}");
        assert_eq!(recorded.get(&name), 1.0, "{name}");
    }
}

#[tokio::test]
async fn a_request_is_counted_by_what_came_of_it() {
    let (recorded, _recording) = Recorded::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let _holder = locker.lock("a").await.unwrap();
    locker.try_lock("a").await.unwrap_err();
    locker.lock("a").wait_at_most(Duration::from_millis(20)).await.unwrap_err();
    let waiting = tokio::spawn(locker.lock("a").into_future());
    eventually("it waits", || recorded.get("leasehold_waiting_requests") == 1.0).await;
    waiting.abort();
    assert!(soon("its end", waiting).await.unwrap_err().is_cancelled());
    server.cli(&["RPUSH", "list", "x"]);
    locker.lock("list").await.unwrap_err();
    let outcomes = ["granted", "contended", "timed_out", "cancelled", "failed"];
    assert_eq!(outcomes.map(|outcome| recorded.acquisitions(outcome)), [1.0; 5]);
    assert_eq!(recorded.get("leasehold_waiting_requests"), 0.0);
    let own = locker.stats();
    assert_eq!(recorded.get("leasehold_contentions_total"), own.contended as f64);
    assert_eq!(recorded.get("leasehold_attempts_total"), own.attempts as f64);
}

#[tokio::test]
async fn a_hand_over_is_a_release_and_a_grant() {
    let (recorded, _recording) = Recorded::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let first = locker.lock("a").await.unwrap();
    let next = tokio::spawn(locker.lock("a").into_future());
    eventually("it waits", || recorded.get("leasehold_waiting_requests") == 1.0).await;
    drop(first);
    drop(soon("the next", next).await.unwrap().unwrap());
    let all = ["releases_total", "hand_overs_total", "held_leases"];
    assert_eq!(all.map(|name| recorded.get(&format!("leasehold_{name}"))), [2.0, 1.0, 0.0]);
    assert_eq!(recorded.acquisitions("granted"), 2.0);
}

#[tokio::test]
async fn renewals_and_losses_are_counted_with_their_reason() {
    let (recorded, _recording) = Recorded::start();
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guard = locker.lock("a").ttl(SHORT).await.unwrap();
    let renewed = || recorded.get("leasehold_renewals_total{outcome=renewed}");
    eventually("it is renewed", || renewed() > 1.0).await;
    assert!(recorded.get("leasehold_renewal_seconds") > 1.0);
    server.stop();
    let failed = || recorded.get("leasehold_renewals_total{outcome=failed}");
    soon("its loss", guard.lost()).await;
    eventually("the renewal came to nothing", || failed() > 0.0).await;
    server.cont();
    assert_eq!(recorded.get("leasehold_losses_total{reason=expired}"), 1.0);
    let other = locker.lock("b").await.unwrap();
    server.cli(&["DEL", "b"]);
    other.extend().await.unwrap_err();
    assert_eq!(recorded.get("leasehold_losses_total{reason=gone}"), 1.0);
    assert_eq!(recorded.get("leasehold_held_leases"), 0.0);
    let _held = locker.lock("c").await.unwrap();
    locker.shutdown(LONG).await;
    assert_eq!(recorded.get("leasehold_losses_total{reason=shut_down}"), 1.0);
    assert_eq!(locker.stats().losses(Loss::ShutDown), 1);
}

#[tokio::test]
async fn a_server_that_is_away_is_seen_by_its_gauges() {
    let (recorded, _recording) = Recorded::start();
    let mut fleet = Fleet::start(3);
    let builder = Locker::builder().nodes(fleet.urls()).ttl(LONG).restart_quarantine(false);
    let locker = builder.connect().await.unwrap();
    let of = |gauge: &str, number: usize| {
        recorded.get(&format!("leasehold_{gauge}{{server={}}}", fleet_address(&locker, number)))
    };
    assert!((0..3).all(|n| of("connections", n) == 1.0 && of("breaker_open", n) == 0.0));
    assert!(recorded.names().iter().filter(|name| name.contains("breaker_open")).count() == 3);
    fleet[1].kill();
    let noticed = async {
        while of("breaker_open", 1) == 0.0 {
            drop(locker.lock("a").await.unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("its breaker opens", noticed).await;
    assert_eq!((of("connections", 1), of("connections", 0)), (0.0, 1.0));
    assert_eq!((of("breaker_open", 1), of("breaker_open", 0)), (1.0, 0.0));
    fleet[1].restart();
    eventually("it is back", || of("connections", 1) == 1.0 && of("breaker_open", 1) == 0.0).await;
    fleet[2].kill();
    let addresses = [0, 1, 2].map(|number| fleet_address(&locker, number));
    drop(locker);
    let left = |gauge: &str| {
        let names = addresses.iter().map(|server| format!("leasehold_{gauge}{{server={server}}}"));
        names.map(|name| recorded.get(&name)).collect::<Vec<_>>()
    };
    eventually("what is gone is counted no more", || left("connections") == [0.0; 3]).await;
    eventually("nor its breakers", || left("breaker_open") == [0.0; 3]).await;
}

fn fleet_address(locker: &Locker, number: usize) -> String {
    locker.stats().servers[number].server.clone()
}

#[tokio::test]
async fn what_a_server_does_not_answer_is_unknown() {
    let (recorded, _recording) = Recorded::start();
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address());
    let builder = Locker::builder().node(proxy.url()).ttl(LONG).command_timeout(SHORT);
    let locker = builder.connect().await.unwrap();
    proxy.to_client().set(Fault::Blackhole);
    let error = soon("it is told", locker.try_lock("a").into_future()).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert_eq!(recorded.get("leasehold_unknown_attempts_total"), 1.0);
    assert_eq!(recorded.acquisitions("failed"), 1.0);
}

#[tokio::test]
async fn a_repair_and_a_wake_up_are_counted() {
    let (recorded, _recording) = Recorded::start();
    let fleet = Fleet::start(3);
    let builder = Locker::builder().nodes(fleet.urls()).ttl(SHORT).restart_quarantine(false);
    let locker = builder.connect().await.unwrap();
    let guard = locker.lock("a").await.unwrap();
    eventually("all have it", || fleet.holding("a") == 3).await;
    // Not necessarily none: a busy machine may have let the key of one server expire.
    let repairs = recorded.get("leasehold_repairs_total");
    fleet[0].cli(&["DEL", "a"]);
    eventually("it is given back", || recorded.get("leasehold_repairs_total") > repairs).await;
    drop(guard);

    let server = RedisServer::start();
    let (holder, waiter) = (self::locker(&server).await, self::locker(&server).await);
    let woken = async {
        // A caller that comes just as the lock is free need not be woken.
        while recorded.get("leasehold_wake_ups_total") == 0.0 {
            let held = holder.lock("b").await.unwrap();
            let next = tokio::spawn(waiter.lock("b").into_future());
            tokio::time::sleep(Duration::from_millis(5)).await;
            held.release().await.unwrap();
            drop(next.await.unwrap().unwrap());
        }
    };
    soon("a waiter is woken", woken).await;
    assert_eq!(recorded.get("leasehold_hand_overs_total"), 0.0, "they are two lockers");
}

/// A locker's clones, and other lockers of the process, add up.
#[tokio::test]
async fn several_lockers_add_up() {
    let (recorded, _recording) = Recorded::start();
    let server = RedisServer::start();
    let (one, other) = (locker(&server).await, locker(&server).await);
    let _held = (one.lock("a").await.unwrap(), other.lock("b").await.unwrap());
    assert_eq!(recorded.get("leasehold_held_leases"), 2.0);
    assert_eq!(recorded.get(&connections(&server)), 2.0);
}

/// There is no end to names of locks, and a password is nobody's business.
#[tokio::test]
async fn neither_a_lock_nor_a_password_is_a_label() {
    const PASSWORD: &str = "correct-horse-battery";
    let (recorded, _recording) = Recorded::start();
    let server = RedisServer::builder().arg("--requirepass").arg(PASSWORD).start();
    let url = format!("redis://default:{PASSWORD}@{}/0", server.address());
    let builder = Locker::builder().node(url).ttl(LONG).label("the-label");
    let locker = builder.observer(|_: &Event<'_>| {}).connect().await.unwrap();
    let guard = locker.lock("the-lock").ttl(SHORT).await.unwrap();
    locker.try_lock("the-lock").await.unwrap_err();
    eventually("it is renewed", || locker.stats().renewed > 0).await;
    let mut side = Client::connect(server.address(), Some(PASSWORD)).unwrap();
    side.text(&["DEL", "the-lock"]);
    soon("its loss", guard.lost()).await;
    let names = recorded.names();
    assert!(names.iter().any(|name| name.contains(&server.address().to_string())));
    let secrets = [PASSWORD, "redis://", "the-lock", "the-label"];
    assert!(
        !names.iter().any(|name| secrets.iter().any(|secret| name.contains(secret))),
        "{names:?}"
    );
    let conventions = |name: &str| name.starts_with("leasehold_") && !name.contains("__");
    assert!(names.iter().all(|name| conventions(name)), "{names:?}");
}

#[test]
fn the_buckets_rise_from_a_fraction_of_a_round_trip_to_minutes() {
    assert!(SECONDS_BUCKETS.is_sorted_by(|one, next| one < next));
    assert!(SECONDS_BUCKETS[0] <= 0.0001 && SECONDS_BUCKETS[SECONDS_BUCKETS.len() - 1] >= 600.0);
}

/// Its figures would have two names otherwise.
#[cfg(feature = "cluster")]
#[tokio::test]
async fn a_node_is_named_as_others_name_it_and_not_where_it_is_reached() {
    let (recorded, _guard) = Recorded::start();
    let node = RedisServer::builder().arg("--cluster-enabled").arg("yes").start();
    node.complete_slots(0..=16_383).await;
    let named = format!("192.0.2.1:{}", node.port());
    let builder = Locker::builder().node(format!("redis-cluster://{named}"));
    let builder = builder.map_address(|_, port| Some(("127.0.0.1".to_owned(), port)));
    let _locker = soon("it connects", builder.connect()).await.unwrap();
    assert_eq!(recorded.get(&format!("leasehold_connections{{server={named}}}")), 1.0);
    let names = recorded.names();
    assert_eq!(names.iter().find(|name| name.contains(&node.address().to_string())), None);
}

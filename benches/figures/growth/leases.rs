//! What it costs to keep leases: memory and time of this process and of the server, and how late the
//! latest renewal comes.
//!
//! The heap is what was asked of the allocator and not given back, the guards in their vector with
//! it: once as the leases are granted, and once when each has been renewed and is watched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use allocation_counter::measure;
use leasehold::{Event, Guard, Locker};
use tokio::time::sleep;

use super::super::cost::{cpu_seconds, resident_bytes, told};
use super::super::leases::{TAKERS, take};
use super::super::report::{Cell, Report};
use super::super::runtimes::{Shape, Stage};
use super::Plan;
use crate::support::RedisServer;

/// How long somebody waits for a lock, so that the server is asked to tell of changes.
const REFUSED_AFTER: Duration = Duration::from_millis(50);
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub fn run(plan: &Plan) -> Report {
    let seconds = |time: Duration| time.as_secs_f64();
    Report {
        scenario: "growth-leases",
        notes: vec![
            format!(
                "Leases of {} s on one locker, held and renewed every third of that, watched for {} s after",
                seconds(plan.ttl),
                seconds(plan.watched_for)
            ),
            "each was renewed once. Bytes here are live heap, names and guards included; bytes at the server"
                .into(),
            "have the fencing counters with them. The latest renewal: the longest time between two".into(),
            "confirmed renewals of one lease, less a third of the TTL. CPU here has with it what notes that."
                .into(),
        ],
        columns: vec![
            "leases",
            "bytes a lease, granted",
            "bytes a lease, renewed",
            "resident bytes a lease",
            "bytes a lease at the server",
            "CPU here, %",
            "CPU of the server, %",
            "renewals a second",
            "CPU here, µs a renewal",
            "CPU of the server, µs a renewal",
            "latest renewal, ms",
        ],
        rows: plan.leases.iter().map(|leases| row(*leases, plan)).collect(),
    }
}

fn row(leases: usize, &Plan { ttl, watched_for, .. }: &Plan) -> Vec<Cell> {
    let server = RedisServer::start();
    // All tasks of this runtime run on this thread, where what they allocate is counted.
    let stage = Stage::new(Shape::CurrentThread);
    let intervals = Arc::new(Intervals::of(leases));
    let locker = stage.run(prepare(server.url(), ttl, Arc::clone(&intervals)));
    let (resident, there) = (resident_bytes(), told(&server, "memory", "used_memory"));
    let mut guards: Vec<Guard> = Vec::new();
    let taking = locker.clone();
    let taken = measure(|| guards = stage.run(async move { take(&taking, leases).await }));
    let renewing = locker.clone();
    let renewed = measure(|| stage.run(until_all_renewed(renewing, leases as u64)));
    let resident = resident_bytes().saturating_sub(resident);
    let there = told(&server, "memory", "used_memory") - there;

    intervals.longest.store(0, Relaxed);
    let before =
        (locker.stats().renewed, cpu_seconds(std::process::id()), cpu_seconds(server.pid()));
    let began = Instant::now();
    stage.run(async move { sleep(watched_for).await });
    let seconds = began.elapsed().as_secs_f64();
    let stats = locker.stats();
    assert!(guards.iter().all(|guard| !guard.is_lost()), "all are held: {stats:?}");
    let renewals = (stats.renewed - before.0) as f64;
    let here = cpu_seconds(std::process::id()) - before.1;
    let of_server = cpu_seconds(server.pid()) - before.2;
    let longest = Duration::from_micros(intervals.longest.load(Relaxed));
    stage.run(async move { locker.shutdown(ttl).await });

    let each = |bytes: f64| Cell::Number(bytes / leases as f64, 0);
    let micros = |cpu: f64| Cell::Number(cpu * 1e6 / renewals, 2);
    let share = |cpu: f64| Cell::Number(100.0 * cpu / seconds, 2);
    vec![
        Cell::Number(leases as f64, 0),
        each(taken.bytes_current as f64),
        each((taken.bytes_current + renewed.bytes_current) as f64),
        each(resident as f64),
        each(there),
        share(here),
        share(of_server),
        Cell::Number(renewals / seconds, 0),
        micros(here),
        micros(of_server),
        Cell::Number(longest.saturating_sub(ttl / 3).as_secs_f64() * 1e3, 1),
    ]
}

/// A locker that has what it keeps for acquires to come, and whose server tells of changes.
async fn prepare(url: String, ttl: Duration, intervals: Arc<Intervals>) -> Locker {
    let observer = move |event: &Event<'_>| {
        if let Event::Granted { name, .. } | Event::Renewed { name, .. } = event {
            intervals.note(name);
        }
    };
    let builder = Locker::builder().node(url).ttl(ttl).observer(observer);
    let locker = builder.connect().await.expect("the server is up");
    drop(take(&locker, TAKERS).await);
    let held = locker.lock("held").await.expect("it is free");
    let refused = locker.lock("held").wait_at_most(REFUSED_AFTER).await;
    assert!(refused.is_err_and(|error| error.is_timeout()), "it is held");
    held.release().await.expect("it was held");
    locker
}

async fn until_all_renewed(locker: Locker, leases: u64) {
    let before = locker.stats().renewed;
    while locker.stats().renewed < before + leases {
        sleep(LOOK_EVERY).await;
    }
}

/// Between two confirmed renewals of one lease, in microseconds.
struct Intervals {
    began: Instant,
    last: Vec<AtomicU64>,
    longest: AtomicU64,
}

impl Intervals {
    fn of(leases: usize) -> Self {
        let last = (0..leases.max(TAKERS)).map(|_| AtomicU64::new(u64::MAX)).collect();
        Self { began: Instant::now(), last, longest: AtomicU64::new(0) }
    }

    /// That a lease was granted or renewed just now.
    fn note(&self, name: &[u8]) {
        let Some(number) = name.strip_prefix(b"lease:") else { return };
        let number = number.iter().fold(0, |sum, digit| 10 * sum + usize::from(digit - b'0'));
        let now = self.began.elapsed().as_micros() as u64;
        let before = self.last[number].swap(now, Relaxed);
        self.longest.fetch_max(now.saturating_sub(before), Relaxed);
    }
}

//! What it costs to keep leases: memory and time of this process and of the server.
//!
//! The heap is what was asked of the allocator and not given back, the guards in their vector with
//! it: once as the leases are granted, and once when each has been renewed and is watched.

use std::time::{Duration, Instant};

use allocation_counter::measure;
use leasehold::{Guard, Locker};
use tokio::time::sleep;

use super::leases::{TAKERS, take};
use super::runtimes::{Shape, Stage};
use crate::support::RedisServer;

/// How many leases are renewed, and for how long.
pub struct Plan {
    pub leases: &'static [usize],
    pub ttl: Duration,
    pub time: Duration,
}

pub const PLAN: Plan = Plan {
    leases: &[1_000, 10_000, 100_000],
    ttl: Duration::from_secs(30),
    time: Duration::from_secs(10),
};

/// How long somebody waits for a lock, so that the server is asked to tell of changes.
const REFUSED_AFTER: Duration = Duration::from_millis(50);
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub fn run(&Plan { leases, ttl, time }: &Plan) {
    println!("\nLeases held on one locker, renewed by its one task every third of {ttl:?}:");
    println!(
        "{:>8} {:>12} {:>12} {:>12} {:>16} {:>16} {:>12} {:>6}",
        "leases",
        "heap bytes",
        "once renewed",
        "resident",
        "CPU here, s/min",
        "server, s/min",
        "renewals/s",
        "lost"
    );
    for &leases in leases {
        let server = RedisServer::start();
        // All tasks of this runtime run on this thread, where what they allocate is counted.
        let stage = Stage::new(Shape::CurrentThread);
        let locker = stage.run(prepare(server.url(), ttl));
        let before = resident_bytes();
        let mut guards: Vec<Guard> = Vec::new();
        let taking = locker.clone();
        let taken = measure(|| guards = stage.run(async move { take(&taking, leases).await }));
        let renewing = locker.clone();
        let renewed = measure(|| stage.run(until_all_renewed(renewing, leases as u64)));
        let each = |bytes: i64| bytes as f64 / leases as f64;
        let resident = resident_bytes().saturating_sub(before) / leases as u64;
        let (began, here, there) = (Instant::now(), cpu(std::process::id()), cpu(server.pid()));
        let before = locker.stats().renewed;
        stage.run(async move { sleep(time).await });
        let minutes = began.elapsed().as_secs_f64() / 60.0;
        let stats = locker.stats();
        println!(
            "{leases:>8} {:>12.0} {:>12.0} {resident:>12} {:>16.2} {:>16.2} {:>12.0} {:>6}",
            each(taken.bytes_current),
            each(taken.bytes_current + renewed.bytes_current),
            (cpu(std::process::id()) - here) / minutes,
            (cpu(server.pid()) - there) / minutes,
            (stats.renewed - before) as f64 / (minutes * 60.0),
            stats.lost(),
        );
        assert!(guards.iter().all(|guard| !guard.is_lost()), "all are held: {stats:?}");
        stage.run(async move { locker.shutdown(ttl).await });
        drop(guards);
    }
}

/// A locker that has what it keeps for acquires to come, and whose server tells of changes.
async fn prepare(url: String, ttl: Duration) -> Locker {
    let locker = Locker::builder().node(url).ttl(ttl).connect().await.expect("the server is up");
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

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Seconds of user and system time that a process has used.
pub fn cpu(process: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

//! What it costs to keep leases: memory and time of this process and of the server.

use std::time::{Duration, Instant};

use leasehold::{Guard, Locker};

use super::leases::take;
use super::runtimes::{Shape, Stage};
use crate::support::RedisServer;

const TTL: Duration = Duration::from_secs(30);

pub fn run(leases: &[usize], time: Duration) {
    println!("\nLeases held on one locker, renewed by its one task every third of {TTL:?}:");
    println!(
        "{:>8} {:>14} {:>20} {:>20} {:>12} {:>6}",
        "leases", "bytes a lease", "CPU here, s/minute", "server, s/minute", "renewals/s", "lost"
    );
    for &leases in leases {
        let server = RedisServer::start();
        let stage = Stage::new(Shape::Worker);
        let before = resident_bytes();
        let url = server.url();
        let (locker, guards) = stage.run(fill(url, leases));
        let bytes = resident_bytes().saturating_sub(before) / leases as u64;
        let (began, here, there) = (Instant::now(), cpu(std::process::id()), cpu(server.pid()));
        let renewed = locker.stats().renewed;
        std::thread::sleep(time);
        let minutes = began.elapsed().as_secs_f64() / 60.0;
        let stats = locker.stats();
        println!(
            "{leases:>8} {bytes:>14} {:>20.2} {:>20.2} {:>12.0} {:>6}",
            (cpu(std::process::id()) - here) / minutes,
            (cpu(server.pid()) - there) / minutes,
            (stats.renewed - renewed) as f64 / (minutes * 60.0),
            stats.lost(),
        );
        assert!(guards.iter().all(|guard| !guard.is_lost()), "all are held");
        stage.run(async move { locker.shutdown(TTL).await });
        drop(guards);
    }
}

async fn fill(url: String, leases: usize) -> (Locker, Vec<Guard>) {
    let locker = Locker::builder().node(url).ttl(TTL).connect().await.expect("the server is up");
    let guards = take(&locker, leases).await;
    (locker, guards)
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Seconds of user and system time that a process has used.
fn cpu(process: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

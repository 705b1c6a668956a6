//! The allocations of a pair.

use allocation_counter::measure;
use leasehold::Locker;

use super::ours;
use super::runtimes::{Shape, Stage};
use super::wire::Kind;
use crate::support::RedisServer;

const WARM_UP: u32 = 200;
const PAIRS: u32 = 1000;
const NAME: &str = "invoice:42";

pub fn run(server: &RedisServer) {
    println!("\nHeap allocations a pair, average of {PAIRS} on current_thread:\n");
    println!("{:<9} {:>12} {:>12}", "lease", "allocations", "bytes");
    // All tasks of this runtime run on this thread, where they are counted.
    let (stage, url) = (Stage::new(Shape::CurrentThread), server.url());
    let locker = stage.run(async move { Locker::connect(&url).await }).expect("the server is up");
    for kind in Kind::ALL {
        let pairs = |count: u32| {
            let locker = locker.clone();
            stage.run(async move {
                for _ in 0..count {
                    ours::pair(&locker, kind, NAME).await;
                }
            });
        };
        pairs(WARM_UP);
        let info = measure(|| pairs(PAIRS));
        let per_pair = |total: u64| total as f64 / f64::from(PAIRS);
        println!(
            "{:<9} {:>12.2} {:>12.0}",
            kind.name(),
            per_pair(info.count_total),
            per_pair(info.bytes_total)
        );
    }
}

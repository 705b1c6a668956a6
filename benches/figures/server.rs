//! What a pair costs the server, as it counts itself: the microseconds of the commands alone,
//! without the reading and writing around them.

use leasehold::Locker;
use tokio::task::JoinSet;

use super::ours;
use super::runtimes::{Shape, Stage};
use super::wire::Kind;
use crate::support::RedisServer;

/// So many at once that the server's caches stay warm.
const TASKS: u32 = 64;

/// With so many pairs of each kind, for each task.
pub fn run(pairs: u32) {
    println!("\nThe server's microseconds a pair, by its commands, {TASKS} tasks at once:\n");
    println!("{:<9} {:>7} {:>7} {:>8}", "lease", "SET", "EVALSHA", "together");
    let server = RedisServer::start();
    let (stage, url) = (Stage::new(Shape::CurrentThread), server.url());
    let locker = stage.run(async move { Locker::connect(&url).await }).expect("the server is up");
    for kind in Kind::ALL {
        server.cli_text(&["CONFIG", "RESETSTAT"]);
        let locker = locker.clone();
        stage.run(async move { crowd(&locker, kind, pairs).await });
        let stats = server.cli_text(&["INFO", "commandstats"]);
        let each = |command| micros_of(&stats, command) / f64::from(TASKS * pairs);
        // What a script runs is in the script's own time already.
        let set = if matches!(kind, Kind::Unfenced) { each("set") } else { 0.0 };
        let script = each("evalsha");
        println!("{:<9} {set:>7.2} {script:>7.2} {:>8.2}", kind.name(), set + script);
    }
}

async fn crowd(locker: &Locker, kind: Kind, pairs: u32) {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let locker = locker.clone();
        tasks.spawn(async move {
            let name = format!("crowd:{task}");
            for _ in 0..pairs {
                ours::pair(&locker, kind, &name).await;
            }
        });
    }
    tasks.join_all().await;
}

/// All the time that a command has taken.
fn micros_of(stats: &str, command: &str) -> f64 {
    let head = format!("cmdstat_{command}:");
    let line = stats.lines().find_map(|line| line.strip_prefix(&head)).expect("it was called");
    let micros = line.split(',').find_map(|field| field.strip_prefix("usec="));
    micros.and_then(|micros| micros.parse().ok()).expect("the server counts its time")
}

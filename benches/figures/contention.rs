//! Contention for one lock: how long it lies idle between two holders, and whether all get it.
//!
//! The unit is the round trip of a lone acquire in the same run. A gap is from before one holder
//! gives back to after the next one has it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold::Locker;

use super::runtimes::{Shape, Stage};
use super::statistics::Samples;
use crate::support::RedisServer;

const NAME: &str = "contended";
const HOLD: Duration = Duration::from_millis(1);
const LONE_ACQUIRES: usize = 500;
/// Set in a process that contends: the server's URL, and for how many milliseconds.
const CHILD: &str = "LEASEHOLD_BENCH_CONTENDER";

/// When one holder had the lock, in microseconds of one clock.
type Held = (f64, f64);

pub fn run(time: Duration) {
    let server = RedisServer::start();
    println!("\nContention, hold {} ms, gaps in round trips of a lone acquire:", HOLD.as_millis());
    for shape in [Shape::CurrentThread, Shape::Worker] {
        let stage = Stage::new(shape);
        let url = server.url();
        let round_trip = stage.run(lone(url.clone()));
        let tasks = stage.run(within(url, 8, time));
        print(&format!("8 tasks, {}", shape.name()), round_trip, tasks);
    }
    let stage = Stage::new(Shape::CurrentThread);
    for processes in [2, 4, 8] {
        let round_trip = stage.run(lone(server.url()));
        let before = scripts_run(&server);
        let held = between(&server, processes, time);
        let hands: usize = held.iter().map(Vec::len).sum();
        print(&format!("{processes} processes"), round_trip, held);
        let commands = (scripts_run(&server) - before) as f64 / hands as f64;
        println!("{:<34} {commands:.1} commands a hand-over", "");
    }
    println!("\nWaiters in one process, commands to the server and round trips a hand-over:");
    for waiters in [10, 100, 1000] {
        let round_trip = stage.run(lone(server.url()));
        stage.run(hand_overs(server.url(), waiters, round_trip));
        println!("{waiters:>5} waiters: {:.2} commands", hand_over_cost(&stage, &server, waiters));
    }
}

/// A process that contends, if this is one.
pub fn contend_if_told() -> bool {
    let Ok(told) = std::env::var(CHILD) else { return false };
    let (url, millis) = told.split_once(' ').expect("a URL and a time");
    let time = Duration::from_millis(millis.parse().expect("a number"));
    let stage = Stage::new(Shape::CurrentThread);
    let held = stage.run(within(url.to_owned(), 1, time)).swap_remove(0);
    held.iter().for_each(|(from, until)| println!("{from} {until}"));
    true
}

fn micros() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

async fn lone(url: String) -> f64 {
    let locker = Locker::connect(&url).await.expect("the server is up");
    let mut round_trips = Samples::default();
    for _ in 0..LONE_ACQUIRES {
        // In the same rhythm: a processor that has slept takes its time.
        tokio::time::sleep(HOLD).await;
        let started = Instant::now();
        let guard = locker.lock("lone").await.expect("it is free");
        round_trips.push(started.elapsed().as_secs_f64() * 1e6);
        guard.release().await.expect("it is held");
    }
    round_trips.summary().median
}

/// So many tasks on one locker; when each of them had the lock.
async fn within(url: String, tasks: usize, time: Duration) -> Vec<Vec<Held>> {
    let locker = Locker::connect(&url).await.expect("the server is up");
    let end = Instant::now() + time;
    let contenders: Vec<_> = (0..tasks)
        .map(|_| {
            let locker = locker.clone();
            tokio::spawn(async move {
                let mut held = Vec::new();
                while Instant::now() < end {
                    let guard = locker.lock(NAME).await.expect("the server is well");
                    let from = micros();
                    tokio::time::sleep(HOLD).await;
                    held.push((from, micros()));
                    guard.release().await.expect("it is held");
                }
                held
            })
        })
        .collect();
    let mut all = Vec::new();
    for contender in contenders {
        all.push(contender.await.expect("a contender does not panic"));
    }
    all
}

fn between(server: &RedisServer, processes: usize, time: Duration) -> Vec<Vec<Held>> {
    let told = format!("{} {}", server.url(), time.as_millis());
    let children: Vec<_> = (0..processes)
        .map(|_| {
            Command::new(std::env::current_exe().expect("this program has a path"))
                .env(CHILD, &told)
                .stdout(Stdio::piped())
                .spawn()
                .expect("it runs again")
        })
        .collect();
    let read = |line: &str| -> Option<Held> {
        let (from, until) = line.split_once(' ')?;
        Some((from.parse().ok()?, until.parse().ok()?))
    };
    children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().expect("it ends");
            let text = String::from_utf8(output.stdout).expect("it writes numbers");
            text.lines().filter_map(read).collect()
        })
        .collect()
}

fn print(who: &str, round_trip: f64, held: Vec<Vec<Held>>) {
    let counts: Vec<usize> = held.iter().map(Vec::len).collect();
    let mut all: Vec<Held> = held.into_iter().flatten().collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut gaps = Samples::default();
    let mut sum = 0.0;
    for pair in all.windows(2) {
        let gap = pair[1].0 - pair[0].1;
        assert!(gap >= 0.0, "two held the lock at once");
        sum += gap / round_trip;
        gaps.push(gap / round_trip);
    }
    let (most, least) = (counts.iter().max().unwrap_or(&0), counts.iter().min().unwrap_or(&0));
    println!(
        "{who:<34} gap {:.2}, mean {:.2}; round trip {round_trip:.0} µs; {} hands, \
         most {most} and least {least}, {:.2}",
        gaps.summary(),
        sum / (all.len().max(2) - 1) as f64,
        all.len(),
        *most as f64 / *least as f64
    );
}

fn scripts_run(server: &RedisServer) -> u64 {
    let statistics = server.cli_text(&["INFO", "commandstats"]);
    let lines = statistics.lines().filter_map(|line| line.strip_prefix("cmdstat_eval"));
    let calls = lines
        .filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok());
    calls.sum()
}

/// Waiters that stand in line before the lock is given back for the first time.
async fn hand_overs(url: String, waiters: usize, round_trip: f64) {
    let locker = Locker::connect(&url).await.expect("the server is up");
    let guard = locker.lock(NAME).await.expect("it is free");
    let waiting = line_up(&locker, waiters).await;
    let started = Instant::now();
    drop(guard);
    for waiter in waiting {
        waiter.await.expect("a waiter does not panic");
    }
    let each = started.elapsed().as_secs_f64() * 1e6 / waiters as f64;
    print!("{:.2} round trips, ", each / round_trip);
}

async fn line_up(locker: &Locker, waiters: usize) -> Vec<tokio::task::JoinHandle<()>> {
    let waiting = (0..waiters)
        .map(|_| {
            let request = locker.lock(NAME);
            tokio::spawn(async move { drop(request.await.expect("the server is well")) })
        })
        .collect();
    while locker.stats().waiting < waiters as u64 {
        tokio::time::sleep(HOLD).await;
    }
    waiting
}

fn hand_over_cost(stage: &Stage, server: &RedisServer, waiters: usize) -> f64 {
    let url = server.url();
    let (locker, guard, waiting) = stage.run(async move {
        let locker = Locker::connect(&url).await.expect("the server is up");
        let guard = locker.lock(NAME).await.expect("it is free");
        let waiting = line_up(&locker, waiters).await;
        // The first in line has asked to be told by now.
        tokio::time::sleep(HOLD * 50).await;
        (locker, guard, waiting)
    });
    let before = scripts_run(server);
    stage.run(async move {
        drop(guard);
        for waiter in waiting {
            waiter.await.expect("a waiter does not panic");
        }
        drop(locker);
    });
    (scripts_run(server) - before) as f64 / waiters as f64
}

//! Many who wait for one lock in one process: what each hand-over costs, however many wait.

use std::time::{Duration, Instant};

use leasehold::Locker;
use tokio::task::JoinHandle;

use super::contention::{HOLD, NAME, Yardstick};
use super::processes::scripts_run;
use super::report::{Cell, Report};
use super::runtimes::{Shape, Stage};
use super::statistics::Samples;
use crate::support::RedisServer;

const CROWDS: [usize; 3] = [10, 100, 1000];
/// By then the first in the line has asked to be told.
const SETTLING: Duration = Duration::from_millis(50);

/// What was measured of one crowd.
#[derive(Default)]
struct Crowd {
    commands: Samples,
    round_trips: Samples,
}

pub fn run(rounds: usize) -> Report {
    let server = RedisServer::start();
    let stage = Stage::new(Shape::CurrentThread);
    let mut yardstick = Yardstick::new(&stage, &server, server.address());
    let mut crowds = CROWDS.map(|_| Crowd::default());
    for _ in 0..rounds {
        for (&waiters, crowd) in CROWDS.iter().zip(&mut crowds) {
            let round_trip = yardstick.measure(&stage);
            let (commands, micros) = hand_overs(&stage, &server, waiters);
            crowd.commands.push(commands);
            crowd.round_trips.push(micros / round_trip);
        }
    }
    let row = |(waiters, crowd): (&usize, &Crowd)| {
        vec![
            Cell::Number(*waiters as f64, 0),
            Cell::spread(&crowd.commands, 2),
            Cell::spread(&crowd.round_trips, 2),
        ]
    };
    Report {
        scenario: "hand-over-crowd",
        notes: vec![format!(
            "Waiters in one process that give the lock on at once: a hand-over, {rounds} rounds."
        )],
        columns: vec!["waiters", "scripts", "bare round trips"],
        rows: CROWDS.iter().zip(&crowds).map(row).collect(),
    }
}

/// Commands and microseconds a hand-over, with so many who wait before the first one.
fn hand_overs(stage: &Stage, server: &RedisServer, waiters: usize) -> (f64, f64) {
    let url = server.url();
    let (guard, waiting) = stage.run(async move {
        let locker = Locker::connect(&url).await.expect("the server is up");
        let guard = locker.lock(NAME).await.expect("it is free");
        let waiting = line_up(&locker, waiters).await;
        tokio::time::sleep(SETTLING).await;
        (guard, waiting)
    });
    let before = scripts_run(server);
    let seconds = stage.run(async move {
        let started = Instant::now();
        drop(guard);
        for waiter in waiting {
            waiter.await.expect("a waiter does not panic");
        }
        started.elapsed().as_secs_f64()
    });
    let commands = (scripts_run(server) - before) as f64;
    (commands / waiters as f64, seconds * 1e6 / waiters as f64)
}

async fn line_up(locker: &Locker, waiters: usize) -> Vec<JoinHandle<()>> {
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

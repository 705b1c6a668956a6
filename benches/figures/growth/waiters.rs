//! Many waiters for one lock: what each hand-over costs, however many wait. Those of one locker wait in
//! the line of the process, of which only the first asks the server; lockers wait in the server's queue.

use std::time::{Duration, Instant};

use allocation_counter::measure;
use leasehold::Locker;
use tokio::task::JoinHandle;

use super::super::contention::{NAME, Yardstick};
use super::super::cost::{cpu_seconds, told};
use super::super::processes::scripts_run;
use super::super::report::{Cell, Report};
use super::super::runtimes::{Shape, Stage};
use super::super::statistics::Samples;
use super::{Plan, lockers};
use crate::support::RedisServer;

const QUEUE: &str = "{contended}:queue";
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// By then the first in the line has asked to be told.
const SETTLING: Duration = Duration::from_millis(50);

/// Where they wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Line,
    Queue,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Line => "in the line of a process",
            Self::Queue => "in the queue of the server",
        }
    }
}

/// What was measured of one crowd, a hand-over or a waiter.
#[derive(Default)]
struct Crowd {
    scripts: Samples,
    bytes_in: Samples,
    cpu: Samples,
    round_trips: Samples,
    heap: Samples,
}

pub fn run(plan: &Plan) -> Report {
    let server = RedisServer::start();
    let stage = Stage::new(Shape::CurrentThread);
    let mut yardstick = Yardstick::new(&stage, &server, server.address());
    let each = |place| move |count: &usize| (place, *count, Crowd::default());
    let in_line = plan.in_line.iter().map(each(Place::Line));
    let mut crowds: Vec<_> = in_line.chain(plan.in_queue.iter().map(each(Place::Queue))).collect();
    for _ in 0..plan.rounds {
        for (place, waiters, crowd) in &mut crowds {
            let round_trip = yardstick.measure(&stage);
            crowd.add(&hand_overs(&stage, &server, *place, *waiters), round_trip);
        }
    }
    let row = |(place, waiters, crowd): &(Place, usize, Crowd)| {
        vec![
            Cell::text(place.name()),
            Cell::Number(*waiters as f64, 0),
            Cell::spread(&crowd.scripts, 2),
            Cell::spread(&crowd.bytes_in, 0),
            Cell::spread(&crowd.cpu, 1),
            Cell::spread(&crowd.round_trips, 2),
            Cell::spread(&crowd.heap, 0),
        ]
    };
    Report {
        scenario: "growth-waiters",
        notes: vec![
            format!(
                "Each waiter for one lock hands it on at once; a hand-over, median (10th to 90th percentile) of {}",
                plan.rounds
            ),
            "rounds: scripts that the server ran, bytes that it read, its CPU, and the time in bare round trips."
                .into(),
            "Bytes a waiter are live heap: its task and its place in the line; in the server's queue its".into(),
            "second connection, too.".into(),
        ],
        columns: vec![
            "where",
            "waiters",
            "scripts",
            "bytes to the server",
            "CPU of the server, µs",
            "bare round trips",
            "bytes a waiter",
        ],
        rows: crowds.iter().map(row).collect(),
    }
}

/// Of all waiters together.
struct Cost {
    waiters: usize,
    scripts: u64,
    bytes_in: f64,
    cpu: f64,
    seconds: f64,
    heap: i64,
}

impl Crowd {
    fn add(&mut self, cost: &Cost, round_trip: f64) {
        let each = |sum: f64| sum / cost.waiters as f64;
        self.scripts.push(each(cost.scripts as f64));
        self.bytes_in.push(each(cost.bytes_in));
        self.cpu.push(each(cost.cpu * 1e6));
        self.round_trips.push(each(cost.seconds * 1e6) / round_trip);
        self.heap.push(each(cost.heap as f64));
    }
}

fn hand_overs(stage: &Stage, server: &RedisServer, place: Place, waiters: usize) -> Cost {
    let lockers = if place == Place::Line { 1 } else { waiters };
    let (url, mut waiting) = (server.url(), Vec::new());
    let (guard, lockers) = stage.run(async move {
        let holder = Locker::connect(&url).await.expect("the server is up");
        let guard = holder.lock(NAME).await.expect("it is free");
        (guard, lockers::connect(&url, lockers).await)
    });
    let requests: Vec<Locker> = lockers.iter().cycle().take(waiters).cloned().collect();
    let mut client = server.client();
    // Each has a ticket and an entry, beside the first and the last ticket.
    let all_are_in = (2 * lockers.len() + 2).to_string();
    let lined_up = measure(|| {
        waiting = stage.run(async move {
            let waiting = line_up(requests);
            let in_line = || lockers.iter().map(|locker| locker.stats().waiting).sum::<u64>();
            while in_line() < waiters as u64 || client.text(&["HLEN", QUEUE]) != all_are_in {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            tokio::time::sleep(SETTLING).await;
            waiting
        });
    });
    let read = || told(server, "stats", "total_net_input_bytes");
    let (scripts, bytes, cpu) = (scripts_run(server), read(), cpu_seconds(server.pid()));
    let seconds = stage.run(async move {
        let started = Instant::now();
        drop(guard);
        for waiter in waiting {
            waiter.await.expect("a waiter does not panic");
        }
        started.elapsed().as_secs_f64()
    });
    Cost {
        waiters,
        scripts: scripts_run(server) - scripts,
        bytes_in: read() - bytes,
        cpu: cpu_seconds(server.pid()) - cpu,
        seconds,
        heap: lined_up.bytes_current,
    }
}

fn line_up(requests: Vec<Locker>) -> Vec<JoinHandle<()>> {
    let each = |locker: Locker| {
        let request = locker.lock(NAME);
        tokio::spawn(async move { drop(request.await.expect("the server is well")) })
    };
    requests.into_iter().map(each).collect()
}

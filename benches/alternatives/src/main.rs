//! The same work by locks of other stores: `scripts/bench.sh alternatives`. It starts servers of its own.
//!
//! `leasehold-alternatives [--quick] [--out DIRECTORY]`

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::{Client, Kind};
use leasehold_testing as support;
use report::{Cell, Report};
use servers::{Keeping, Servers};
use statistics::Samples;
use terms::Outcome;
use tokio::runtime::Runtime;
use tokio::time::sleep;

mod client;
mod nats;
mod processes;
#[path = "../../figures/report.rs"]
mod report;
mod servers;
#[path = "../../figures/statistics.rs"]
#[allow(dead_code, reason = "others use all of it")]
mod statistics;
mod terms;

const CLIENTS: usize = 64;
const NAME: &str = "invoice:42";
/// Until a server that was just started answers.
const READY: Duration = Duration::from_secs(40);

const PLACES: [(Kind, usize, Keeping); 13] = [
    (Kind::Leasehold, 1, Keeping::Memory),
    (Kind::Leasehold, 1, Keeping::Fsync),
    (Kind::Leasehold, 3, Keeping::Memory),
    (Kind::Leasehold, 3, Keeping::Fsync),
    (Kind::PostgresSession, 1, Keeping::NotWritten),
    (Kind::PostgresTransaction, 1, Keeping::NotWritten),
    (Kind::Etcd, 1, Keeping::Memory),
    (Kind::Etcd, 1, Keeping::Fsync),
    (Kind::Etcd, 3, Keeping::Fsync),
    (Kind::ZooKeeper, 1, Keeping::Memory),
    (Kind::ZooKeeper, 1, Keeping::Fsync),
    (Kind::ZooKeeper, 3, Keeping::Fsync),
    (Kind::Nats, 1, Keeping::Memory),
];

const CROWDS: [usize; 3] = [2, 8, 64];

/// How much is measured.
#[derive(Clone, Copy)]
struct Plan {
    /// All stores in turn, so that what disturbs the machine disturbs all.
    rounds: usize,
    /// Of each figure in each round.
    time: Duration,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if processes::is_child(&arguments) {
        return;
    }
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let out = arguments.iter().skip_while(|argument| *argument != "--out").nth(1);
    let directory = out.map_or_else(|| PathBuf::from("target/bench"), PathBuf::from);
    let plan = if is_quick {
        Plan { rounds: 1, time: Duration::from_millis(300) }
    } else {
        Plan { rounds: 5, time: Duration::from_millis(600) }
    };
    let mut seats: Vec<Seat> = PLACES.into_iter().filter_map(Seat::new).collect();
    for round in 1..=plan.rounds {
        for seat in &mut seats {
            eprintln!("alternatives: round {round}, {}, {}", seat.kind.name(), seat.servers);
            seat.round(plan.time);
        }
    }
    report(&seats, plan).publish(Some(&directory), is_quick);
}

/// A store, and what was measured of it.
struct Seat {
    kind: Kind,
    servers: usize,
    keeping: Keeping,
    started: Servers,
    runtime: Runtime,
    /// None while it is lent.
    client: Option<Client>,
    pairs: Vec<f64>,
    rates: Samples,
    gaps: [Samples; CROWDS.len()],
    /// Microseconds of all servers a hand-over, of each round.
    cpu: [Samples; CROWDS.len()],
    kills: Samples,
}

impl Seat {
    fn new((kind, servers, keeping): (Kind, usize, Keeping)) -> Option<Self> {
        let Some(started) = Servers::start(kind, servers, keeping) else {
            eprintln!("NOT TRIED without its server: {}", kind.name());
            return None;
        };
        let runtime = Runtime::new().expect("a runtime starts");
        let client = runtime.block_on(ready(kind, &started.address)).expect("the servers come up");
        let (pairs, rates, gaps, cpu, kills) = Default::default();
        let client = Some(client);
        Some(Self {
            kind,
            servers,
            keeping,
            started,
            runtime,
            client,
            pairs,
            rates,
            gaps,
            cpu,
            kills,
        })
    }

    fn round(&mut self, time: Duration) {
        let (kind, address) = (self.kind, self.started.address.clone());
        let client = self.client.take().expect("it is put back");
        let (client, micros) =
            self.runtime.block_on(pairs(client, time)).expect("the servers are well");
        self.client = Some(client);
        self.pairs.extend(micros);
        let rate = self.runtime.block_on(crowd(kind, &address, time));
        self.rates.push(rate.expect("the servers are well"));
        for (place, &processes) in CROWDS.iter().enumerate() {
            let before = processes::cpu_micros(&self.started.pids());
            let gaps = processes::hand_overs(kind, &address, processes, time);
            let cpu = processes::cpu_micros(&self.started.pids()) - before;
            if !gaps.is_empty() {
                self.cpu[place].push(cpu / gaps.len() as f64);
            }
            gaps.into_iter().for_each(|gap| self.gaps[place].push(gap));
        }
        self.kills.push(processes::after_a_kill(&self.runtime, kind, &address));
    }

    fn row(&self) -> Vec<Cell> {
        let mut cells = vec![
            Cell::text(self.kind.name()),
            Cell::Number(self.servers as f64, 0),
            Cell::text(self.keeping.name()),
            Cell::Number(quantile(&self.pairs, 0.5), 0),
            Cell::Number(quantile(&self.pairs, 0.99), 0),
            Cell::spread(&self.rates, 0),
        ];
        for (gaps, cpu) in self.gaps.iter().zip(&self.cpu) {
            cells.extend([Cell::spread(gaps, 0), Cell::spread(cpu, 0)]);
        }
        cells.extend([Cell::spread(&self.kills, 0), Cell::text(self.kind.token())]);
        cells
    }
}

/// The first client whose pair succeeds.
async fn ready(kind: Kind, address: &str) -> Outcome<Client> {
    let started = Instant::now();
    loop {
        let first = async {
            let mut client = Client::connect(kind, address).await?;
            let held = client.lock("ready").await?;
            client.unlock(held).await?;
            Ok(client)
        };
        let outcome = tokio::time::timeout(READY, first).await?;
        if outcome.is_ok() || started.elapsed() > READY {
            return outcome;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Microseconds of each, one client after itself; the first fifth warms up.
async fn pairs(mut client: Client, time: Duration) -> Outcome<(Client, Vec<f64>)> {
    let mut micros = Vec::new();
    let end = Instant::now() + time;
    while Instant::now() < end {
        let started = Instant::now();
        let held = client.lock(NAME).await?;
        client.unlock(held).await?;
        micros.push(started.elapsed().as_secs_f64() * 1e6);
    }
    let warm = micros.len() / 5;
    Ok((client, micros.split_off(warm)))
}

/// Pairs a second of clients with a name each.
async fn crowd(kind: Kind, address: &str, time: Duration) -> Outcome<f64> {
    let first = Client::connect(kind, address).await?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(first.another(kind, address).await?);
    }
    let started = Instant::now();
    let tasks: Vec<_> = (clients.into_iter().enumerate())
        .map(|(number, mut client)| {
            tokio::spawn(async move {
                let (name, mut count) = (format!("invoice:{number}"), 0_u64);
                while started.elapsed() < time {
                    let held = client.lock(&name).await?;
                    client.unlock(held).await?;
                    count += 1;
                }
                Outcome::Ok(count)
            })
        })
        .collect();
    let mut count = 0;
    for task in tasks {
        count += task.await??;
    }
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

fn report(seats: &[Seat], plan: Plan) -> Report {
    Report {
        scenario: "alternatives",
        notes: vec![
            format!("A lock and its release; {} rounds, all stores in turn, {:?} of each figure in each of", plan.rounds, plan.time),
            format!("them; leases and sessions of {:?}. Pairs of one client; pairs a second of {CLIENTS} clients in", terms::LEASE),
            "one process with a lock each, over as few connections as the client allows; processes that".into(),
            "want one lock and hold it for a millisecond: from before a release to after the next grant at".into(),
            "another process, median (10th to 90th percentile), and CPU of all servers for each of these;".into(),
            "from SIGKILL of the holder to the grant of a waiting process.".into(),
        ],
        columns: vec![
            "store", "servers", "written", "pair p50, µs", "pair p99, µs", "64 clients, pairs a second",
            "hand-over of 2, µs", "its server CPU, µs", "hand-over of 8, µs", "its server CPU of 8, µs",
            "hand-over of 64, µs", "its server CPU of 64, µs", "after SIGKILL, ms", "token",
        ],
        rows: seats.iter().map(Seat::row).collect(),
    }
}

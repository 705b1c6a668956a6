//! One task that takes and releases one lock, beside the same bytes over a bare stream.

use std::time::Instant;

use leasehold::Locker;
use rustix::time::{ClockId, clock_gettime};

use super::ours;
use super::runtimes::{Shape, Stage};
use super::statistics::Samples;
use super::wire::{Bare, Kind, Pen, Scripts};
use crate::support::RedisServer;

pub const PAIRS_PER_BLOCK: u32 = 200;
const NAME: &str = "invoice:42";
/// What this stage of the project aims at, where no thread blocks on the caller.
const RATIO_MAX: f64 = 1.25;

/// One runtime and one kind of lease: both clients, and what was measured of them.
struct Cell {
    kind: Kind,
    locker: Locker,
    bare: Option<Bare>,
    ours: Side,
    theirs: Side,
}

/// Of one client.
#[derive(Default)]
struct Side {
    latency: Samples,
    cpu: Samples,
}

/// Microseconds a pair, of one block.
pub struct Micros {
    pub latency: f64,
    pub cpu: f64,
}

pub fn run(server: &RedisServer, scripts: &Scripts, rounds: usize) {
    let mut stages: Vec<(Stage, Vec<Cell>)> = Shape::ALL
        .into_iter()
        .map(|shape| {
            let stage = Stage::new(shape);
            let cells = Kind::ALL.map(|kind| Cell::new(&stage, server, scripts, kind));
            (stage, cells.into())
        })
        .collect();
    for round in 0..=rounds {
        for (stage, cells) in &mut stages {
            cells.iter_mut().for_each(|cell| cell.round(stage, round));
        }
    }
    print(&stages, rounds);
}

impl Cell {
    fn new(stage: &Stage, server: &RedisServer, scripts: &Scripts, kind: Kind) -> Self {
        let (url, address, pen) = (server.url(), server.address(), Pen::new(scripts));
        let (locker, bare) = stage.run(async move {
            let locker = Locker::connect(&url).await.expect("the server is up");
            (locker, Bare::connect(address, pen, NAME).await)
        });
        let (ours, theirs) = Default::default();
        Self { kind, locker, bare: Some(bare), ours, theirs }
    }

    /// Both, the first of them changing from round to round; round 0 warms up.
    fn round(&mut self, stage: &Stage, round: usize) {
        let (ours, theirs) = if round % 2 == 0 {
            let ours = self.time_ours(stage);
            (ours, self.time_theirs(stage))
        } else {
            let theirs = self.time_theirs(stage);
            (self.time_ours(stage), theirs)
        };
        if round > 0 {
            self.ours.push(&ours);
            self.theirs.push(&theirs);
        }
    }

    fn time_ours(&self, stage: &Stage) -> Micros {
        let (locker, kind) = (self.locker.clone(), self.kind);
        stage.run(async move {
            let started = Start::now();
            for _ in 0..PAIRS_PER_BLOCK {
                ours::pair(&locker, kind, NAME).await;
            }
            started.micros_per_pair()
        })
    }

    fn time_theirs(&mut self, stage: &Stage) -> Micros {
        let mut bare = self.bare.take().expect("it is put back");
        let (bare, micros) = stage.run(async move {
            let started = Start::now();
            for _ in 0..PAIRS_PER_BLOCK {
                bare.pair().await;
            }
            let micros = started.micros_per_pair();
            (bare, micros)
        });
        self.bare = Some(bare);
        micros
    }
}

impl Side {
    fn push(&mut self, block: &Micros) {
        self.latency.push(block.latency);
        self.cpu.push(block.cpu);
    }
}

pub struct Start {
    at: Instant,
    cpu: f64,
}

impl Start {
    pub fn now() -> Self {
        Self { at: Instant::now(), cpu: process_cpu_seconds() }
    }

    pub fn micros_per_pair(&self) -> Micros {
        let per_pair = |seconds: f64| seconds * 1e6 / f64::from(PAIRS_PER_BLOCK);
        Micros {
            latency: per_pair(self.at.elapsed().as_secs_f64()),
            cpu: per_pair(process_cpu_seconds() - self.cpu),
        }
    }
}

/// Of all threads of this process; no other one has anything to do meanwhile.
fn process_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn print(stages: &[(Stage, Vec<Cell>)], rounds: usize) {
    println!("\nUncontended acquire and release, one task, microseconds a pair:");
    println!("median (10th to 90th percentile) of {rounds} rounds of {PAIRS_PER_BLOCK} pairs");
    println!("cpu: median of what this process used, without the server\n");
    println!(
        "{:<26} {:<9} {:>23} {:>5} {:>23} {:>5} {:>20}",
        "runtime", "lease", "bare tokio stream", "cpu", "leasehold", "cpu", "ratio"
    );
    for (stage, cells) in stages {
        for Cell { kind, ours, theirs, .. } in cells {
            let ratio = ours.latency.over(&theirs.latency).summary();
            println!(
                "{:<26} {:<9} {:>23.1} {:>5.1} {:>23.1} {:>5.1} {:>20.2}  {}",
                stage.shape().name(),
                kind.name(),
                theirs.latency.summary(),
                theirs.cpu.summary().median,
                ours.latency.summary(),
                ours.cpu.summary().median,
                ratio,
                judge(stage.shape(), ratio.median),
            );
        }
    }
}

fn judge(shape: Shape, ratio: f64) -> String {
    match shape {
        Shape::BlockOn => String::new(),
        _ if ratio <= RATIO_MAX => format!("at most {RATIO_MAX}: yes"),
        _ => format!("at most {RATIO_MAX}: NO"),
    }
}

//! Many tasks on one connection, each with a lock of its own, beside the server's ceiling.

use std::time::Instant;

use leasehold::Locker;
use tokio::task::JoinSet;

use super::blast::Blast;
use super::ours;
use super::runtimes::{Shape, Stage};
use super::statistics::Samples;
use super::wire::{Kind, Pen, Scripts};
use crate::support::RedisServer;

/// How many tasks, and how many pairs each of them makes in a round.
const CROWDS: [(usize, usize); 5] = [(1, 1000), (8, 500), (64, 100), (256, 30), (1024, 10)];
const SHAPES: [Shape; 2] = [Shape::CurrentThread, Shape::Worker];
const BLAST_PAIRS: usize = 10_000;

/// One runtime, one kind of lease, one crowd.
struct Cell {
    stage: usize,
    kind: Kind,
    crowd: (usize, usize),
    samples: Samples,
}

struct Ceiling {
    kind: Kind,
    blast: Blast,
    samples: Samples,
}

pub fn run(server: &RedisServer, scripts: &Scripts, rounds: usize) {
    let stages = SHAPES.map(|shape| {
        let (stage, url) = (Stage::new(shape), server.url());
        let locker = stage.run(async move { Locker::connect(&url).await });
        (stage, locker.expect("the server is up"))
    });
    let mut ceilings = Kind::ALL.map(|kind| {
        let blast = Blast::new(server.address(), Pen::new(scripts), BLAST_PAIRS);
        Ceiling { kind, blast, samples: Samples::default() }
    });
    let mut cells: Vec<Cell> = Vec::new();
    for kind in Kind::ALL {
        for stage in 0..stages.len() {
            let cell = |crowd| Cell { stage, kind, crowd, samples: Samples::default() };
            cells.extend(CROWDS.map(cell));
        }
    }
    for round in 0..=rounds {
        // Round 0 warms up.
        let keep = |samples: &mut Samples, sample| {
            if round > 0 {
                samples.push(sample);
            }
        };
        for ceiling in &mut ceilings {
            keep(&mut ceiling.samples, ceiling.blast.run());
        }
        for cell in &mut cells {
            let (stage, locker) = &stages[cell.stage];
            keep(&mut cell.samples, crowd(stage, locker, cell.kind, cell.crowd));
        }
    }
    print(&ceilings, &cells, rounds);
}

/// Pairs a second, from the first spawn to the end of the last task.
fn crowd(stage: &Stage, locker: &Locker, kind: Kind, (tasks, pairs): (usize, usize)) -> f64 {
    let locker = locker.clone();
    stage.run(async move {
        let started = Instant::now();
        let mut crowd = JoinSet::new();
        for task in 0..tasks {
            let locker = locker.clone();
            crowd.spawn(async move {
                let name = format!("crowd:{task}");
                for _ in 0..pairs {
                    ours::pair(&locker, kind, &name).await;
                }
            });
        }
        crowd.join_all().await;
        (tasks * pairs) as f64 / started.elapsed().as_secs_f64()
    })
}

fn print(ceilings: &[Ceiling], cells: &[Cell], rounds: usize) {
    println!("\nThroughput on one connection, distinct locks, pairs a second:");
    println!("median (10th to 90th percentile) of {rounds} rounds\n");
    println!(
        "{:<9} {:<26} {:>6} {:>28} {:>22}",
        "lease", "runtime", "tasks", "pairs/s", "of the ceiling"
    );
    for ceiling in ceilings {
        let (lease, server) = (ceiling.kind.name(), "the server's ceiling");
        println!("{lease:<9} {server:<26} {:>6} {:>28.0}", "", ceiling.samples.summary());
        for cell in cells.iter().filter(|cell| cell.kind == ceiling.kind) {
            println!(
                "{lease:<9} {:<26} {:>6} {:>28.0} {:>22.2}",
                SHAPES[cell.stage].name(),
                cell.crowd.0,
                cell.samples.summary(),
                cell.samples.over(&ceiling.samples).summary(),
            );
        }
    }
}

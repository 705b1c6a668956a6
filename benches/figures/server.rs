//! The server's cost of a pair: all the CPU time of its process, reading and writing included.

use leasehold::Locker;
use tokio::task::JoinSet;

use super::blast::Blast;
use super::cost::cpu_seconds;
use super::ours;
use super::report::{Cell, Report};
use super::runtimes::{Shape, Stage};
use super::statistics::Samples;
use super::wire::{Kind, Pen, Scripts};
use crate::support::RedisServer;

/// Enough at once that the server's caches stay warm.
const TASKS: u32 = 64;
const ROUNDS: u32 = 9;

/// With this number of pairs of each kind, for each task and round.
pub fn run(pairs: u32) -> Report {
    let server = RedisServer::start();
    let (stage, url) = (Stage::new(Shape::CurrentThread), server.url());
    let locker = stage.run(async move { Locker::connect(&url).await }).expect("the server is up");
    let pen = Pen::new(&Scripts::load(&mut server.client()));
    let mut plain = Blast::new(server.address(), pen, (TASKS * pairs) as usize);
    let measure = |work: &mut dyn FnMut()| {
        let before = cpu_seconds(server.pid());
        work();
        (cpu_seconds(server.pid()) - before) * 1e6 / f64::from(TASKS * pairs)
    };
    let mut rounds: [Samples; 3] = Default::default();
    for _ in 0..ROUNDS {
        rounds[0].push(measure(&mut || {
            plain.run();
        }));
        rounds[1].push(measure(&mut || crowd(&stage, &locker, Kind::Unfenced, pairs)));
        rounds[2].push(measure(&mut || crowd(&stage, &locker, Kind::Fenced, pairs)));
    }
    let row = |(name, samples): (&str, &Samples)| {
        vec![
            Cell::text(name),
            Cell::spread(samples, 2),
            Cell::spread(&samples.over(&rounds[0]), 2),
            Cell::spread(&samples.over(&rounds[1]), 2),
        ]
    };
    Report {
        scenario: "server",
        notes: vec![
            format!(
                "The server's CPU a pair, in microseconds: {TASKS} tasks at once, {pairs} pairs each in"
            ),
            format!(
                "each of {ROUNDS} rounds; median (10th to 90th percentile), ratios round by round."
            ),
            "Plain: SET NX PX and the releasing script, all sent without waiting for replies."
                .into(),
        ],
        columns: vec!["lease", "CPU, µs a pair", "over plain", "over unfenced"],
        rows: ["plain, without waiting", "unfenced", "fenced"]
            .into_iter()
            .zip(&rounds)
            .map(row)
            .collect(),
    }
}

fn crowd(stage: &Stage, locker: &Locker, kind: Kind, pairs: u32) {
    let locker = locker.clone();
    stage.run(async move { take_turns(&locker, kind, pairs).await });
}

async fn take_turns(locker: &Locker, kind: Kind, pairs: u32) {
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

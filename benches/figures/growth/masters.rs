//! What a pair costs the client of a Cluster, by how many masters the locks are spread over.

use std::time::Duration;

use leasehold::Locker;
use tokio::task::JoinSet;

use super::super::cost::cpu_seconds;
use super::super::ours;
use super::super::report::{Cell, Report};
use super::super::runtimes::{Shape, Stage};
use super::super::statistics::Samples;
use super::super::wire::Kind;
use super::Plan;
use crate::support::Cluster;

const TASKS: usize = 64;
/// Of all tasks together, in each round.
const PAIRS_PER_SECOND: f64 = 2_000.0;

pub fn run(plan: &Plan) -> Report {
    let pairs = pairs_in(plan.time);
    Report {
        scenario: "growth-masters",
        notes: vec![
            format!(
                "Fenced locks of {TASKS} names, spread over the masters of a Cluster; CPU of the client a pair, one"
            ),
            format!(
                "thread: median (10th to 90th percentile) of {} rounds of {pairs} pairs.",
                plan.rounds
            ),
        ],
        columns: vec![
            "masters",
            "masters with locks",
            "CPU, µs a pair of one task",
            "CPU, µs a pair of 64 tasks",
        ],
        rows: plan.masters.iter().map(|masters| row(*masters, plan)).collect(),
    }
}

fn pairs_in(time: Duration) -> usize {
    ((time.as_secs_f64() * PAIRS_PER_SECOND) as usize / TASKS).max(1) * TASKS
}

fn row(masters: usize, plan: &Plan) -> Vec<Cell> {
    let cluster = Cluster::of_masters(masters);
    let names: Vec<String> = (0..TASKS).map(|number| format!("invoice:{number}")).collect();
    let mut used: Vec<_> = names.iter().map(|name| cluster.master_of(cluster.slot(name))).collect();
    used.sort_unstable();
    used.dedup();
    let stage = Stage::new(Shape::CurrentThread);
    let url = cluster.seed_url(masters);
    let locker = stage.run(async move { Locker::connect(&url).await }).expect("the nodes are up");
    let pairs = pairs_in(plan.time);
    let mut cpu: [Samples; 2] = Default::default();
    // Round 0 connects, and warms up.
    for round in 0..=plan.rounds {
        for (tasks, samples) in [1, TASKS].into_iter().zip(&mut cpu) {
            let before = cpu_seconds(std::process::id());
            stage.run(take_turns(locker.clone(), names.clone(), tasks, pairs));
            if round > 0 {
                samples.push((cpu_seconds(std::process::id()) - before) * 1e6 / pairs as f64);
            }
        }
    }
    let [one, many] = &cpu;
    vec![
        Cell::Number(masters as f64, 0),
        Cell::Number(used.len() as f64, 0),
        Cell::spread(one, 1),
        Cell::spread(many, 1),
    ]
}

/// Each task takes the names that are its own, one after another.
async fn take_turns(locker: Locker, names: Vec<String>, tasks: usize, pairs: usize) {
    let mut crowd = JoinSet::new();
    for task in 0..tasks {
        let locker = locker.clone();
        let own: Vec<String> = names.iter().skip(task).step_by(tasks).cloned().collect();
        crowd.spawn(async move {
            for name in own.iter().cycle().take(pairs / tasks) {
                ours::pair(&locker, Kind::Fenced, name).await;
            }
        });
    }
    crowd.join_all().await;
}

//! Redlock over five servers: an acquire beside the same bytes over five bare streams, and with one server frozen
//! beside five that reply.
//!
//! Only the acquire is timed, until three servers have granted. Between two acquires both sides release and rest for a
//! millisecond, so that no late reply is read within the other side's time.

use std::time::{Duration, Instant};

use leasehold::Locker;

use super::fan::Fan;
use super::report::{Cell as Told, Report};
use super::runtimes::{Shape, Stage};
use super::statistics::Samples;
use super::wire::Kind;
use crate::support::Fleet;

const SERVERS: usize = 5;
const ACQUIRES_PER_BLOCK: usize = 50;
const WARM_UP_BLOCKS: usize = 2;
const NAME: &str = "invoice:42";
const REST: Duration = Duration::from_millis(1);

/// One runtime and one kind of lease, and what was measured of it.
struct Cell {
    kind: Kind,
    healthy: Locker,
    frozen: Locker,
    bare: Option<Fan>,
    of_healthy: Side,
    of_frozen: Side,
    of_bare: Side,
}

/// Microseconds an acquire.
#[derive(Default)]
struct Side {
    /// Of each block, the median.
    medians: Samples,
    all: Vec<f64>,
}

impl Side {
    fn push(&mut self, micros: Vec<f64>) {
        self.medians.push(quantile(&micros, 0.5));
        self.all.extend(micros);
    }

    fn p99(&self) -> f64 {
        quantile(&self.all, 0.99)
    }
}

fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

pub fn run(rounds: usize) -> Report {
    let healthy = Fleet::start(SERVERS);
    let with_a_frozen = Fleet::start(SERVERS);
    let mut stages: Vec<(Stage, Vec<Cell>)> = [Shape::CurrentThread, Shape::Worker]
        .into_iter()
        .map(|shape| {
            let stage = Stage::new(shape);
            let cells = Kind::ALL.map(|kind| Cell::new(&stage, kind, &healthy, &with_a_frozen));
            (stage, cells.into())
        })
        .collect();
    with_a_frozen[0].stop();
    for round in 0..WARM_UP_BLOCKS + rounds {
        for (stage, cells) in &mut stages {
            cells.iter_mut().for_each(|cell| cell.round(stage, round));
        }
    }
    report(&stages, rounds)
}

impl Cell {
    fn new(stage: &Stage, kind: Kind, healthy: &Fleet, with_a_frozen: &Fleet) -> Self {
        let connect = |fleet: &Fleet| {
            let builder = Locker::builder().nodes(fleet.urls()).restart_quarantine(false);
            stage.run(async move { builder.connect().await.expect("the servers are up") })
        };
        let (addresses, pen) = Fan::prepare(healthy, kind);
        let bare = stage.run(Fan::connect(addresses, pen, SERVERS));
        let (of_healthy, of_frozen, of_bare) = Default::default();
        let (healthy, frozen) = (connect(healthy), connect(with_a_frozen));
        Self { kind, healthy, frozen, bare: Some(bare), of_healthy, of_frozen, of_bare }
    }

    /// All three, beginning with another one each time; the first rounds warm up.
    fn round(&mut self, stage: &Stage, round: usize) {
        for turn in 0..3 {
            let (side, micros) = match (round + turn) % 3 {
                0 => (&mut self.of_healthy, time_ours(stage, &self.healthy, self.kind)),
                1 => (&mut self.of_frozen, time_ours(stage, &self.frozen, self.kind)),
                _ => {
                    let bare = self.bare.take().expect("it is put back");
                    let (bare, micros) = stage.run(time_bare(bare));
                    self.bare = Some(bare);
                    (&mut self.of_bare, micros)
                }
            };
            if round >= WARM_UP_BLOCKS {
                side.push(micros);
            }
        }
    }
}

fn time_ours(stage: &Stage, locker: &Locker, kind: Kind) -> Vec<f64> {
    let locker = locker.clone();
    stage.run(async move {
        let mut micros = Vec::with_capacity(ACQUIRES_PER_BLOCK);
        for _ in 0..ACQUIRES_PER_BLOCK {
            let started = Instant::now();
            match kind {
                Kind::Fenced => {
                    let guard = locker.lock(NAME).await.expect("it is free");
                    micros.push(micros_since(started));
                    guard.release().await.expect("it is held");
                }
                Kind::Unfenced => {
                    let guard = locker.lock(NAME).unfenced().await.expect("it is free");
                    micros.push(micros_since(started));
                    guard.release().await.expect("it is held");
                }
            }
            tokio::time::sleep(REST).await;
        }
        micros
    })
}

async fn time_bare(mut bare: Fan) -> (Fan, Vec<f64>) {
    let mut micros = Vec::with_capacity(ACQUIRES_PER_BLOCK);
    for _ in 0..ACQUIRES_PER_BLOCK {
        let started = Instant::now();
        bare.acquire().await;
        micros.push(micros_since(started));
        bare.settle().await;
        bare.release().await;
        bare.settle().await;
        tokio::time::sleep(REST).await;
    }
    (bare, micros)
}

fn micros_since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e6
}

fn report(stages: &[(Stage, Vec<Cell>)], rounds: usize) -> Report {
    let mut rows = Vec::new();
    for (stage, cells) in stages {
        for Cell { kind, of_healthy, of_frozen, of_bare, .. } in cells {
            for (name, side) in
                [("bare fan-out", of_bare), ("leasehold", of_healthy), ("one frozen", of_frozen)]
            {
                let over = |other: &Side| Told::spread(&side.medians.over(&other.medians), 2);
                rows.push(vec![
                    Told::text(stage.shape().name()),
                    Told::text(kind.name()),
                    Told::text(name),
                    Told::spread(&side.medians, 1),
                    Told::Number(side.p99(), 1),
                    over(of_bare),
                    if name == "one frozen" { over(of_healthy) } else { Told::Nothing },
                ]);
            }
        }
    }
    Report {
        scenario: "redlock-acquire",
        notes: vec![
            format!(
                "Redlock over {SERVERS}, uncontended acquire, one task, microseconds: median (10th to"
            ),
            format!(
                "90th percentile) of the medians of {rounds} rounds of {ACQUIRES_PER_BLOCK}, and the 99th"
            ),
            "percentile of all. One frozen: Leasehold, with one server stopped by SIGSTOP.".into(),
        ],
        columns: vec![
            "runtime",
            "lease",
            "who",
            "acquire, µs",
            "p99, µs",
            "over fan-out",
            "over five healthy",
        ],
        rows,
    }
}

//! Redlock over five servers: all healthy, one frozen by SIGSTOP, one dead.
//!
//! Times are until the caller goes on. Between an acquire and its release, and after it, all sides
//! rest for a millisecond, so that no late reply is read on somebody else's time.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use leasehold::Locker;
use rslock::LockManager;

use crate::contender::{NAME, TTL_MS};
use crate::contenders::Rslock;
use crate::fan::Fan;
use crate::measure::Start;
use crate::placement::Placement;
use crate::report::{Cell, Report};
use crate::runtimes::{Shape, Stage};
use crate::statistics::Samples;
use crate::support::{Fleet, RedisServer};
use crate::wire::Kind as Lease;

const SERVERS: usize = 5;
/// rslock waits 500 ms for a server that does not answer, twice a pair.
const PAIRS_OF_RSLOCK_FROZEN: usize = 2;
const SHAPES: [Shape; 2] = [Shape::CurrentThread, Shape::Worker];
const REST: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Healthy,
    Frozen,
    Dead,
}

impl Condition {
    const ALL: [Self; 3] = [Self::Healthy, Self::Frozen, Self::Dead];

    fn name(self) -> &'static str {
        match self {
            Self::Healthy => "five healthy",
            Self::Frozen => "one frozen",
            Self::Dead => "one dead",
        }
    }
}

/// Takes a lock on five servers and gives it back; returns microseconds of each.
trait Redlock: Send + 'static {
    fn pair(&mut self) -> impl Future<Output = (f64, f64)> + Send;
}

struct Ours(Locker, Lease);

impl Redlock for Ours {
    async fn pair(&mut self) -> (f64, f64) {
        let started = Instant::now();
        match self.1 {
            Lease::Fenced => {
                let guard = self.0.lock(NAME).await.expect("a quorum is up");
                let acquire = rest_after(started).await;
                let started = Instant::now();
                guard.release().await.expect("it is held");
                (acquire, rest_after(started).await)
            }
            Lease::Unfenced => {
                let guard = self.0.lock(NAME).unfenced().await.expect("a quorum is up");
                let acquire = rest_after(started).await;
                let started = Instant::now();
                guard.release().await.expect("it is held");
                (acquire, rest_after(started).await)
            }
        }
    }
}

struct Theirs(LockManager);

impl Redlock for Theirs {
    async fn pair(&mut self) -> (f64, f64) {
        let started = Instant::now();
        let lock = self.0.lock(NAME.as_bytes(), Duration::from_millis(TTL_MS)).await;
        let lock = lock.expect("a quorum is up");
        let acquire = rest_after(started).await;
        let started = Instant::now();
        self.0.unlock(&lock).await;
        (acquire, rest_after(started).await)
    }
}

impl Redlock for Fan {
    async fn pair(&mut self) -> (f64, f64) {
        let started = Instant::now();
        self.acquire().await;
        let acquire = rest_after(started).await;
        self.settle().await;
        let started = Instant::now();
        self.release().await;
        let release = rest_after(started).await;
        self.settle().await;
        (acquire, release)
    }
}

async fn rest_after(started: Instant) -> f64 {
    let micros = started.elapsed().as_secs_f64() * 1e6;
    tokio::time::sleep(REST).await;
    micros
}

type Block = (Box<dyn Side>, Vec<(f64, f64)>);

trait Side: Send {
    fn block(self: Box<Self>, pairs: usize) -> Pin<Box<dyn Future<Output = Block> + Send>>;
}

impl<R: Redlock> Side for R {
    fn block(mut self: Box<Self>, pairs: usize) -> Pin<Box<dyn Future<Output = Block> + Send>> {
        Box::pin(async move {
            let mut micros = Vec::with_capacity(pairs);
            for _ in 0..pairs {
                micros.push(self.pair().await);
            }
            (self as Box<dyn Side>, micros)
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Fan(Lease),
    Ours(Lease),
    Rslock,
}

impl Who {
    const ALL: [Self; 5] = [
        Self::Fan(Lease::Unfenced),
        Self::Ours(Lease::Unfenced),
        Self::Rslock,
        Self::Fan(Lease::Fenced),
        Self::Ours(Lease::Fenced),
    ];

    fn name(self) -> String {
        match self {
            Self::Fan(lease) => format!("bare fan-out, {}", lease.name()),
            Self::Ours(lease) => format!("leasehold, {}", lease.name()),
            Self::Rslock => "rslock".to_owned(),
        }
    }

    /// What all are measured against: a plain lock's commands to every server.
    const FLOOR: Self = Self::Fan(Lease::Unfenced);
}

/// One contender on a runtime of its own, under one condition.
struct Seat {
    who: Who,
    condition: Condition,
    stage: Stage,
    side: Option<Box<dyn Side>>,
    acquire: Samples,
    release: Samples,
    /// Of this process, with the rests between.
    cpu: Samples,
}

/// Servers under each condition, and all contenders, each on its CPUs.
struct Room {
    placement: Placement,
    fleets: Vec<(Condition, Fleet)>,
    seats: Vec<Seat>,
}

pub fn run(quick: bool) -> Report {
    report("redlock", quick, &[Placement::Anywhere])
}

pub fn pinned(quick: bool) -> Report {
    report("redlock-pinned", quick, &Placement::pinned())
}

impl Room {
    fn new(placement: Placement) -> Self {
        let start = || Condition::ALL.map(|condition| (condition, Fleet::start(SERVERS)));
        let mut fleets: Vec<(Condition, Fleet)> = placement.start_servers(start).into();
        let mut seats = Vec::new();
        for shape in SHAPES {
            for (condition, fleet) in &fleets {
                seats.extend(Who::ALL.map(|who| Seat::new(shape, who, *condition, fleet)));
            }
        }
        // All have met five healthy servers before one falls ill.
        seats.iter_mut().for_each(|seat| seat.block(2, false));
        for (condition, fleet) in &mut fleets {
            match condition {
                Condition::Healthy => {}
                Condition::Frozen => fleet[0].stop(),
                Condition::Dead => fleet[0].kill(),
            }
        }
        Self { placement, fleets, seats }
    }

    fn round(&mut self, round: usize, Plan { rounds, pairs }: Plan) {
        self.placement.enter();
        self.seats.rotate_left(1);
        for seat in &mut self.seats {
            let is_slow = seat.who == Who::Rslock && seat.condition == Condition::Frozen;
            match is_slow {
                // A few say as much as many, and take a second each.
                true if round <= rounds / 10 => seat.block(PAIRS_OF_RSLOCK_FROZEN, true),
                true => {}
                false => seat.block(pairs, round > 0),
            }
        }
    }

    fn assert_is_free(&self) {
        for (condition, fleet) in &self.fleets {
            let ill = usize::from(*condition != Condition::Healthy);
            let exists = |server: &RedisServer| server.cli_text(&["EXISTS", NAME]);
            assert!(fleet.iter().skip(ill).all(|server| exists(server) == "0"), "a lock was left");
        }
    }
}

impl Seat {
    fn new(shape: Shape, who: Who, condition: Condition, fleet: &Fleet) -> Self {
        let (stage, urls) = (Stage::new(shape), fleet.urls());
        let side: Box<dyn Side> = match who {
            Who::Fan(lease) => {
                let ill = usize::from(condition != Condition::Healthy);
                let (addresses, pen) = Fan::prepare(fleet, lease);
                Box::new(stage.run(Fan::connect(addresses, pen, SERVERS - ill)))
            }
            Who::Ours(lease) => {
                let builder = Locker::builder().nodes(urls).restart_quarantine(false);
                let locker = stage.run(async move { builder.connect().await });
                Box::new(Ours(locker.expect("the servers are up"), lease))
            }
            Who::Rslock => Box::new(Theirs(Rslock::connect(&urls).manager)),
        };
        let (acquire, release, cpu) = Default::default();
        Self { who, condition, stage, side: Some(side), acquire, release, cpu }
    }

    fn block(&mut self, pairs: usize, keep: bool) {
        let side = self.side.take().expect("it is put back");
        let start = Start::now();
        let (side, micros) = self.stage.run(side.block(pairs));
        let cost = start.each(pairs as u32);
        self.side = Some(side);
        if keep {
            self.cpu.push(cost.cpu);
            let median = |of: fn(&(f64, f64)) -> f64| {
                let mut samples = Samples::default();
                micros.iter().for_each(|pair| samples.push(of(pair)));
                samples.summary().median
            };
            self.acquire.push(median(|pair| pair.0));
            self.release.push(median(|pair| pair.1));
        }
    }
}

#[derive(Clone, Copy)]
struct Plan {
    rounds: usize,
    /// Of each contender in a round.
    pairs: usize,
}

fn report(scenario: &'static str, quick: bool, placements: &[Placement]) -> Report {
    let plan = if quick { Plan { rounds: 3, pairs: 10 } } else { Plan { rounds: 30, pairs: 40 } };
    let mut rooms: Vec<Room> = placements.iter().map(|placement| Room::new(*placement)).collect();
    // Round 0 warms up.
    for round in 0..=plan.rounds {
        rooms.iter_mut().for_each(|room| room.round(round, plan));
    }
    rooms.iter().for_each(Room::assert_is_free);
    let Plan { rounds, pairs } = plan;
    Report {
        scenario,
        notes: vec![
            format!("One task takes a lock over {SERVERS} servers and gives it back; {rounds} rounds of {pairs}"),
            "pairs each, in turns (rslock with one frozen: fewer). Median (10th to 90th percentile)".into(),
            "of the rounds' medians. The fan-out writes to five bare streams and returns at three".into(),
            "replies.".into(),
        ],
        columns: vec![
            "placement",
            "runtime",
            "servers",
            "contender",
            "acquire, µs",
            "over fan-out",
            "release, µs",
            "over fan-out, release",
            "CPU, µs a pair",
        ],
        rows: rooms.iter().flat_map(Room::rows).collect(),
    }
}

impl Room {
    fn rows(&self) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        for shape in SHAPES {
            for condition in Condition::ALL {
                let is_here =
                    |seat: &&Seat| seat.stage.shape() == shape && seat.condition == condition;
                let find = |who| self.seats.iter().filter(is_here).find(|seat| seat.who == who);
                let floor = find(Who::FLOOR).expect("all take part");
                for who in Who::ALL {
                    let seat = find(who).expect("all take part");
                    rows.push(vec![
                        Cell::text(self.placement.name()),
                        Cell::text(shape.name()),
                        Cell::text(condition.name()),
                        Cell::Text(who.name()),
                        Cell::spread(&seat.acquire, 1),
                        Cell::spread(&seat.acquire.over(&floor.acquire), 2),
                        Cell::spread(&seat.release, 1),
                        Cell::spread(&seat.release.over(&floor.release), 2),
                        Cell::spread(&seat.cpu, 1),
                    ]);
                }
            }
        }
        rows
    }
}

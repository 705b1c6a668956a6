//! One task that takes and gives back one lock: time, the longest times, CPU and allocations a pair.

use crate::alloc;
use crate::contender::{BoxedSide, NAME, Site, Who};
use crate::measure::{Cost, Start, cpu_micros_of};
use crate::placement::Placement;
use crate::report::{Cell, Report};
use crate::runtimes::{Shape, Stage};
use crate::statistics::{Samples, quantile};
use crate::support::{Client, RedisServer};

const PAIRS: u32 = 200;

/// One client on a runtime of its own.
struct Seat {
    who: Who,
    stage: Stage,
    side: Option<BoxedSide>,
    wall: Samples,
    cpu: Samples,
    server_cpu: Samples,
    /// Of each pair that was timed by itself, in microseconds.
    each: Vec<f64>,
    allocations: f64,
    bytes: f64,
}

/// A server, and all clients, each on its CPUs.
struct Room {
    placement: Placement,
    server: RedisServer,
    client: Client,
    seats: Vec<Vec<Seat>>,
}

pub fn run(quick: bool) -> Report {
    report("uncontended", quick, &[Placement::Anywhere])
}

pub fn pinned(quick: bool) -> Report {
    report("uncontended-pinned", quick, &Placement::pinned())
}

impl Room {
    fn new(placement: Placement) -> Self {
        let server = placement.start_servers(RedisServer::start);
        let (site, client) = (Site::of(&server), server.client());
        let seats = |shape| Who::ALL.map(|who| Seat::new(shape, who, &site)).into();
        let seats = Shape::ALL.into_iter().map(seats).collect();
        Self { placement, server, client, seats }
    }

    /// The first to run changes from round to round.
    fn round(&mut self, is_kept: bool) {
        self.placement.enter();
        for seats in &mut self.seats {
            seats.rotate_left(1);
            for seat in &mut *seats {
                let before = cpu_micros_of(self.server.pid());
                let cost = seat.block();
                let server_cpu = cpu_micros_of(self.server.pid()) - before;
                assert_is_free(&mut self.client);
                if is_kept {
                    seat.wall.push(cost.wall);
                    seat.cpu.push(cost.cpu);
                    seat.server_cpu.push(server_cpu / f64::from(PAIRS));
                    seat.time_each();
                }
            }
        }
    }

    fn finish(&mut self) {
        self.placement.enter();
        for seats in &mut self.seats {
            seats.iter_mut().for_each(Seat::count_allocations);
            seats.iter_mut().for_each(|seat| seat.each.sort_by(f64::total_cmp));
            seats.sort_by_key(|seat| seat.who as u8);
        }
    }
}

fn assert_is_free(client: &mut Client) {
    assert_eq!(client.text(&["EXISTS", NAME]), "0", "a lock was left behind");
}

impl Seat {
    fn new(shape: Shape, who: Who, site: &Site) -> Self {
        let (stage, site) = (Stage::new(shape), site.clone());
        let side = Some(stage.run(who.connect(site)));
        let (wall, cpu, server_cpu, each) = Default::default();
        Self { who, stage, side, wall, cpu, server_cpu, each, allocations: 0.0, bytes: 0.0 }
    }

    fn block(&mut self) -> Cost {
        let side = self.side.take().expect("it is put back");
        let (side, cost) = self.stage.run(async move {
            let start = Start::now();
            let side = side.pairs(PAIRS).await;
            let cost = start.each(PAIRS);
            (side, cost)
        });
        self.side = Some(side);
        cost
    }

    /// The clock is read between pairs, so the block counts for nothing else.
    fn time_each(&mut self) {
        let (mut side, mut each) = (self.side.take(), std::mem::take(&mut self.each));
        (self.side, self.each) = self.stage.run(async move {
            for _ in 0..PAIRS {
                let start = Start::now();
                side = Some(side.take().expect("it is put back").pairs(1).await);
                each.push(start.cost().wall);
            }
            (side, each)
        });
    }

    /// What the block itself allocates is the same for all: less than one in a hundred pairs.
    fn count_allocations(&mut self) {
        alloc::start();
        self.block();
        let counts = alloc::stop();
        self.allocations = counts.allocations as f64 / f64::from(PAIRS);
        self.bytes = counts.bytes as f64 / f64::from(PAIRS);
    }
}

fn report(scenario: &'static str, quick: bool, placements: &[Placement]) -> Report {
    let rounds = if quick { 5 } else { 100 };
    let mut rooms: Vec<Room> = placements.iter().map(|placement| Room::new(*placement)).collect();
    // Round 0 warms up.
    for round in 0..=rounds {
        rooms.iter_mut().for_each(|room| room.round(round > 0));
    }
    rooms.iter_mut().for_each(Room::finish);
    Report {
        scenario,
        notes: vec![
            format!(
                "One task takes a lock (SET NX PX) and gives it back (EVALSHA); {rounds} rounds"
            ),
            format!("of {PAIRS} pairs each, in turns. Median (10th to 90th percentile) of the"),
            "rounds' means. Ratios are round by round, over the commands of a plain lock on a bare"
                .into(),
            "tokio stream, also those of the fenced contender. Percentiles are of as many pairs in rounds of".into(),
            "their own, each timed by itself.".into(),
        ],
        columns: vec![
            "placement",
            "runtime",
            "contender",
            "µs a pair",
            "over bare",
            "p99, µs",
            "p99.9, µs",
            "CPU, µs a pair",
            "CPU over bare",
            "server CPU, µs a pair",
            "allocations a pair",
            "bytes a pair",
        ],
        rows: rooms.iter().flat_map(Room::rows).collect(),
    }
}

impl Room {
    fn rows(&self) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        for seats in &self.seats {
            let floor = seats.iter().find(|seat| seat.who == Who::FLOOR);
            let floor = floor.expect("all take part");
            rows.extend(seats.iter().map(|seat| {
                vec![
                    Cell::text(self.placement.name()),
                    Cell::text(seat.stage.shape().name()),
                    Cell::text(seat.who.name()),
                    Cell::spread(&seat.wall, 1),
                    Cell::spread(&seat.wall.over(&floor.wall), 2),
                    Cell::Number(quantile(&seat.each, 0.99), 1),
                    Cell::Number(quantile(&seat.each, 0.999), 1),
                    Cell::spread(&seat.cpu, 1),
                    Cell::spread(&seat.cpu.over(&floor.cpu), 2),
                    Cell::spread(&seat.server_cpu, 1),
                    Cell::Number(seat.allocations, 2),
                    Cell::Number(seat.bytes, 0),
                ]
            }));
        }
        rows
    }
}

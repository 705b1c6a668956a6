//! One task that takes and gives back one lock: time, CPU and allocations a pair.

use crate::alloc;
use crate::chart::{Bar, Chart, Kind, Role};
use crate::contender::{BoxedSide, NAME, Site, Who};
use crate::measure::{Cost, Start};
use crate::report::{Cell, Report};
use crate::runtimes::{Shape, Stage};
use crate::statistics::Samples;
use crate::support::{Client, RedisServer};

const PAIRS: u32 = 200;

/// One client on a runtime of its own.
struct Seat {
    who: Who,
    stage: Stage,
    side: Option<BoxedSide>,
    wall: Samples,
    cpu: Samples,
    allocations: f64,
    bytes: f64,
}

pub fn run(quick: bool) -> Report {
    let rounds = if quick { 5 } else { 100 };
    let server = RedisServer::start();
    let (site, mut client) = (Site::of(&server), server.client());
    let mut seats: Vec<Vec<Seat>> = Shape::ALL
        .into_iter()
        .map(|shape| Who::ALL.into_iter().map(|who| Seat::new(shape, who, &site)).collect())
        .collect();
    // Round 0 warms up. Who begins changes from round to round.
    for round in 0..=rounds {
        for seats in &mut seats {
            seats.rotate_left(1);
            for seat in &mut *seats {
                let cost = seat.block();
                assert_is_free(&mut client);
                if round > 0 {
                    seat.wall.push(cost.wall);
                    seat.cpu.push(cost.cpu);
                }
            }
        }
    }
    for seats in &mut seats {
        seats.iter_mut().for_each(Seat::count_allocations);
        seats.sort_by_key(|seat| seat.who as u8);
    }
    report(&seats, rounds)
}

fn assert_is_free(client: &mut Client) {
    assert_eq!(client.text(&["EXISTS", NAME]), "0", "a lock was left behind");
}

impl Seat {
    fn new(shape: Shape, who: Who, site: &Site) -> Self {
        let (stage, site) = (Stage::new(shape), site.clone());
        let side = Some(stage.run(who.connect(site)));
        let (wall, cpu) = Default::default();
        Self { who, stage, side, wall, cpu, allocations: 0.0, bytes: 0.0 }
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

    /// What the block itself allocates is the same for all: less than one in a hundred pairs.
    fn count_allocations(&mut self) {
        alloc::start();
        self.block();
        let counts = alloc::stop();
        self.allocations = counts.allocations as f64 / f64::from(PAIRS);
        self.bytes = counts.bytes as f64 / f64::from(PAIRS);
    }
}

fn report(seats: &[Vec<Seat>], rounds: u32) -> Report {
    let mut rows = Vec::new();
    let mut groups = Vec::new();
    for seats in seats {
        let mut bars = Vec::new();
        for seat in seats {
            let floor = seats.iter().find(|other| other.who == Who::FLOOR);
            let floor = floor.expect("all take part");
            let ratio = seat.wall.over(&floor.wall);
            let role = match seat.who {
                who if who.is_ours() => Role::Ours,
                who if who.is_floor() => Role::Floor,
                _ => Role::Peer,
            };
            bars.push(Bar { label: seat.who.name().into(), role, value: ratio.summary() });
            rows.push(vec![
                Cell::text(seat.stage.shape().name()),
                Cell::text(seat.who.name()),
                Cell::spread(&seat.wall, 1),
                Cell::spread(&ratio, 2),
                Cell::spread(&seat.cpu, 1),
                Cell::spread(&seat.cpu.over(&floor.cpu), 2),
                Cell::Number(seat.allocations, 2),
                Cell::Number(seat.bytes, 0),
            ]);
        }
        groups.push((seats[0].stage.shape().name().to_owned(), bars));
    }
    Report {
        scenario: "uncontended",
        notes: vec![
            format!(
                "One task takes a lock (SET NX PX) and gives it back (EVALSHA); {rounds} rounds"
            ),
            format!("of {PAIRS} pairs each, in turns. Median (10th to 90th percentile) of the"),
            "rounds' means. Ratios are round by round, over the commands of a plain lock on a bare".into(),
            "tokio stream, also those of fenced contenders. The bare fenced one sends Leasehold's".into(),
            "fencing script instead of the SET.".into(),
        ],
        columns: vec![
            "runtime",
            "contender",
            "µs a pair",
            "over bare",
            "CPU, µs a pair",
            "CPU over bare",
            "allocations a pair",
            "bytes a pair",
        ],
        rows,
        chart: Chart {
            title:
                "Lock and unlock, one task, in multiples of a bare tokio stream (less is better)"
                    .into(),
            kind: Kind::Bars(groups),
            digits: 2,
        },
    }
}

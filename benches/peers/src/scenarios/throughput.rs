//! Many tasks with a lock each, on one connection (deadpool-redis: its pool), in shares of what
//! the server does when everything is sent at once.

use crate::blast::Blast;
use crate::contender::{BoxedSide, Site, Who};
use crate::measure::{Cost, Start};
use crate::report::{Cell, Report};
use crate::runtimes::{Shape, Stage};
use crate::statistics::Samples;
use crate::support::RedisServer;
use crate::wire::Pen;

const WHO: [Who; 8] = [
    Who::Ours,
    Who::Multiplexed,
    Who::Manager,
    Who::Rustis,
    Who::Rslock,
    Who::Fred,
    Who::Deadpool,
    Who::OursFenced,
];
const SHAPES: [Shape; 2] = [Shape::CurrentThread, Shape::Worker];
const TASKS: [u32; 6] = [1, 8, 16, 64, 256, 1024];

/// One client on a runtime of its own, with what was measured for each number of tasks.
struct Seat {
    who: Who,
    stage: Stage,
    side: BoxedSide,
    of_ceiling: [Samples; TASKS.len()],
    rate: [Samples; TASKS.len()],
    cpu: [Samples; TASKS.len()],
}

/// What the server does of a plain lock's commands, which all are measured against.
struct Ceiling {
    blast: Blast,
    rate: Samples,
}

pub fn run(quick: bool) -> Report {
    let (rounds, pairs) = if quick { (1, 1_000) } else { (9, 8_000) };
    let server = RedisServer::start();
    let site = Site::of(&server);
    let pen = Pen::new(&site.scripts);
    let blast = Blast::new(server.address(), pen, pairs as usize);
    let mut ceiling = Ceiling { blast, rate: Samples::default() };
    let mut seats: Vec<Seat> =
        SHAPES.into_iter().flat_map(|shape| WHO.map(|who| Seat::new(shape, who, &site))).collect();
    for round in 0..=rounds {
        seats.rotate_left(1);
        for (place, &tasks) in TASKS.iter().enumerate() {
            for seat in &mut seats {
                // Again for each, since what a machine can do changes from second to second.
                let most = ceiling.blast.run();
                let cost = seat.crowd(tasks, (pairs / tasks).clamp(1, 1_000));
                if round > 0 {
                    let rate = 1e6 / cost.wall;
                    seat.rate[place].push(rate);
                    seat.of_ceiling[place].push(rate / most);
                    ceiling.rate.push(most);
                    seat.cpu[place].push(cost.cpu);
                }
            }
        }
    }
    let left: Vec<String> = (0..TASKS[TASKS.len() - 1]).map(name_of).collect();
    let mut exists = vec!["EXISTS"];
    exists.extend(left.iter().map(String::as_str));
    assert_eq!(server.cli_text(&exists), "0", "a lock was left behind");
    seats.sort_by_key(|seat| (seat.stage.shape() as u8, seat.who as u8));
    report(&seats, &ceiling, rounds)
}

fn name_of(task: u32) -> String {
    format!("crowd:{task}")
}

impl Seat {
    fn new(shape: Shape, who: Who, site: &Site) -> Self {
        let (stage, site) = (Stage::new(shape), site.clone());
        let side = stage.run(who.connect(site));
        let (of_ceiling, rate, cpu) = Default::default();
        Self { who, stage, side, of_ceiling, rate, cpu }
    }

    /// A pair's share of the time from the first spawn to the end of the last task.
    fn crowd(&self, tasks: u32, pairs: u32) -> Cost {
        let sides: Vec<BoxedSide> = (0..tasks)
            .map(|task| self.side.another(&name_of(task)).expect("it can be shared"))
            .collect();
        self.stage.run(async move {
            let start = Start::now();
            let crowd: Vec<_> =
                sides.into_iter().map(|side| tokio::spawn(side.pairs(pairs))).collect();
            for task in crowd {
                task.await.expect("a task does not panic");
            }
            start.each(tasks * pairs)
        })
    }
}

fn report(seats: &[Seat], ceiling: &Ceiling, rounds: u32) -> Report {
    let mut row = vec![Cell::text("-"), Cell::text("the server's ceiling"), Cell::Nothing];
    row.extend([Cell::spread(&ceiling.rate, 0), Cell::Number(1.0, 2), Cell::Nothing]);
    let mut rows = vec![row];
    for seat in seats {
        let shape = seat.stage.shape().name();
        for (place, &tasks) in TASKS.iter().enumerate() {
            rows.push(vec![
                Cell::text(shape),
                Cell::text(seat.who.name()),
                Cell::Number(f64::from(tasks), 0),
                Cell::spread(&seat.rate[place], 0),
                Cell::spread(&seat.of_ceiling[place], 2),
                Cell::spread(&seat.cpu[place], 1),
            ]);
        }
    }
    Report {
        scenario: "throughput",
        notes: vec![
            format!(
                "Tasks with a lock each, one connection; {rounds} rounds, in turns. Median (10th to"
            ),
            "90th percentile). The ceiling is a pile of a plain lock's commands written without"
                .into(),
            "waiting for replies, also for the fenced one, measured again before each crowd."
                .into(),
        ],
        columns: vec![
            "runtime",
            "contender",
            "tasks",
            "pairs a second",
            "of the ceiling",
            "CPU, µs a pair",
        ],
        rows,
    }
}

//! Processes that contend for one lock: how long the lock is idle between two holders, whether all are granted it, and
//! the server's cost.
//!
//! This program runs itself again as each of them. They begin and end together, at times of the
//! clock that all processes of a machine share.

use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold::Locker;

use super::contention::{Held, Lease, Tally, Yardstick, contend, micros, rounds_in};
use super::list;
use super::report::Cell;
use super::runtimes::{Shape, Stage};
use super::way::{Network, Way};
use crate::support::RedisServer;

/// Set in a process that contends: by what, where the server is, when to begin, and for how long.
const CHILD: &str = "LEASEHOLD_BENCH_CONTENDER";
/// Until then all have started and are connected: a part, and another for each.
const START: Duration = Duration::from_millis(200);
const START_EACH: Duration = Duration::from_millis(15);
const CROWDS: &[(usize, Lease)] = &[
    (2, Lease::Lock),
    (4, Lease::Lock),
    (8, Lease::Lock),
    (64, Lease::Lock),
    #[cfg(feature = "full")]
    (2, Lease::Writer),
    #[cfg(feature = "full")]
    (8, Lease::Writer),
    #[cfg(feature = "full")]
    (2, Lease::Permit),
    #[cfg(feature = "full")]
    (8, Lease::Permit),
];
/// Processes of a round of the usual length; a round of more is as much longer. In a round in which only some of
/// them have the lock, the order of their starts decides, and says nothing of the queue.
const SERVED_A_ROUND: usize = 16;

/// What changes hands.
#[derive(Clone, Copy)]
enum Prize {
    Lease(Lease),
    Element,
}

pub fn rows(time: Duration) -> Vec<Vec<Cell>> {
    let server = RedisServer::start();
    let network = Network::before(&server);
    let ways = [Way::direct(&server), network.way()];
    ways.into_iter().flat_map(|way| on_the_way(&server, way, time)).collect()
}

fn on_the_way(server: &RedisServer, way: Way, time: Duration) -> Vec<Vec<Cell>> {
    let stage = Stage::new(Shape::CurrentThread);
    let mut yardstick = Yardstick::new(&stage, server, way.address);
    let (rounds, round) = rounds_in(time);
    let tally = |(processes, _): &(usize, Lease)| (Tally::new(*processes), 0);
    let mut tallies: Vec<_> = CROWDS.iter().map(tally).collect();
    for _ in 0..rounds {
        for (&(processes, lease), (tally, scripts)) in CROWDS.iter().zip(&mut tallies) {
            let round_trip = yardstick.measure(&stage);
            let round = round * processes.div_ceil(SERVED_A_ROUND) as u32;
            let before = scripts_run(server);
            let held = between(way, processes, Prize::Lease(lease), round);
            *scripts += scripts_run(server) - before;
            list::begin(server);
            let by_list = between(way, processes, Prize::Element, round);
            tally.add(&held, &by_list, round_trip);
        }
    }
    let rows = CROWDS.iter().zip(&tallies).map(|((processes, lease), (tally, scripts))| {
        let what =
            if *lease == Lease::Lock { String::new() } else { format!(", a {}", lease.word()) };
        let who = format!("{processes} processes{what}");
        tally.row(who, way.name, Cell::Nothing, *scripts)
    });
    rows.collect()
}

impl Prize {
    fn word(self) -> &'static str {
        match self {
            Self::Lease(lease) => lease.word(),
            Self::Element => "element",
        }
    }
}

/// Scripts that clients had the server run.
pub fn scripts_run(server: &RedisServer) -> u64 {
    let statistics = server.cli_text(&["INFO", "commandstats"]);
    let lines = statistics.lines().filter_map(|line| line.strip_prefix("cmdstat_eval"));
    let calls = lines
        .filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok());
    calls.sum()
}

/// A process that contends, if this is one.
pub fn contend_if_told() -> bool {
    let Ok(told) = std::env::var(CHILD) else { return false };
    let words: Vec<&str> = told.split(' ').collect();
    let [prize, address, begin, millis] = words[..] else { panic!("four words: {told}") };
    let (url, address) = (format!("redis://{address}"), address.parse().expect("an address"));
    let lease = Lease::ALL.iter().copied().find(|lease| lease.word() == prize);
    let begin = begin.parse::<f64>().expect("a number");
    let time = Duration::from_millis(millis.parse().expect("a number"));
    let held = Stage::new(Shape::CurrentThread).run(async move {
        let locker = Locker::connect(&url).await.expect("the server is up");
        let left = (begin - micros()).max(0.0);
        tokio::time::sleep(Duration::from_secs_f64(left / 1e6)).await;
        let mut held = match lease {
            Some(lease) => contend(locker, lease, 1, time).await,
            None => list::contend(address, 1, time).await,
        };
        held.swap_remove(0)
    });
    held.iter().for_each(|(from, until)| println!("{from} {until}"));
    true
}

fn between(way: Way, processes: usize, prize: Prize, time: Duration) -> Vec<Vec<Held>> {
    let start = START + START_EACH * processes as u32;
    let begin = micros() + start.as_secs_f64() * 1e6;
    let told = format!("{} {} {begin} {}", prize.word(), way.address, time.as_millis());
    let children: Vec<_> = (0..processes)
        .map(|_| {
            Command::new(std::env::current_exe().expect("this program has a path"))
                .env(CHILD, &told)
                .stdout(Stdio::piped())
                .spawn()
                .expect("it runs again")
        })
        .collect();
    let read = |line: &str| -> Option<Held> {
        let (from, until) = line.split_once(' ')?;
        Some((from.parse().ok()?, until.parse().ok()?))
    };
    let outputs = children.into_iter().map(|child| {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "a contender failed");
        let text = String::from_utf8(output.stdout).expect("it writes numbers");
        text.lines().filter_map(read).collect()
    });
    outputs.collect()
}

//! How cost grows with the number of leases, of waiters, of a Cluster's masters, and of connections.
//! `scripts/growth.py` compares the growth with the law that it should follow.

use std::time::Duration;

use super::report::Report;

#[path = "growth/connections.rs"]
pub mod connections;
#[path = "growth/leases.rs"]
mod leases;
#[path = "growth/lockers.rs"]
mod lockers;
#[cfg(feature = "full")]
#[path = "growth/masters.rs"]
mod masters;
#[path = "growth/waiters.rs"]
mod waiters;

/// How many of each there are, and how long each is looked at.
pub struct Plan {
    leases: &'static [usize],
    ttl: Duration,
    watched_for: Duration,
    /// In the line of one process, and in the queue of the server.
    in_line: &'static [usize],
    in_queue: &'static [usize],
    #[cfg(feature = "full")]
    masters: &'static [usize],
    connections: &'static [usize],
    time: Duration,
    rounds: usize,
}

pub const ONCE: Plan = Plan {
    leases: &[100],
    ttl: Duration::from_millis(900),
    watched_for: Duration::from_millis(400),
    in_line: &[4],
    in_queue: &[4],
    #[cfg(feature = "full")]
    masters: &[1, 2],
    connections: &[1, 16],
    time: Duration::from_millis(100),
    rounds: 1,
};

pub const QUICK: Plan = Plan {
    leases: &[1_000, 10_000],
    ttl: Duration::from_secs(6),
    watched_for: Duration::from_secs(5),
    in_line: &[10, 1_000],
    in_queue: &[10, 100],
    #[cfg(feature = "full")]
    masters: &[1, 3, 6],
    connections: &[1, 10, 100],
    time: Duration::from_secs(3),
    rounds: 3,
};

pub const FULL: Plan = Plan {
    leases: &[10_000, 100_000, 1_000_000],
    ttl: Duration::from_secs(60),
    watched_for: Duration::from_secs(45),
    in_line: &[10, 100, 1_000, 10_000],
    in_queue: &[10, 100, 1_000],
    #[cfg(feature = "full")]
    masters: &[1, 3, 6, 12],
    connections: &[1, 10, 100, 1_000, 10_000],
    time: Duration::from_secs(5),
    rounds: 5,
};

/// By its name.
type Table = (&'static str, fn(&Plan) -> Report);

/// Those tables whose names are wished for; all where none is.
pub fn run(plan: &Plan, is_wished: impl Fn(&str) -> bool, tell: impl Fn(Report)) {
    let tables: &[Table] = &[
        ("growth-leases", leases::run),
        ("growth-waiters", waiters::run),
        #[cfg(feature = "full")]
        ("growth-masters", masters::run),
        ("growth-connections", connections::run),
    ];
    let all = !tables.iter().any(|(name, _)| is_wished(name));
    for (name, table) in tables.iter().copied() {
        if all || is_wished(name) {
            tell(table(plan));
        }
    }
}

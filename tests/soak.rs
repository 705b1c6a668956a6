//! Real servers and networks that fail at random, clients that take locks meanwhile, and a history
//! of it all that is held against what a lock promises. A program of its own, which is built optimised
//! to run for hours.
//!
//! Some seconds of it are a test; `scripts/soak.sh MINUTES` goes on for longer. Its environment:
//! `LEASEHOLD_SOAK_SECONDS` for how long, `LEASEHOLD_SOAK_SEED` for a run whose seed was printed,
//! `LEASEHOLD_SOAK_SHAPE` for a quorum and a number of servers, such as `4/5`, and
//! `LEASEHOLD_SOAK_BEYOND=1` for taking more keys than the servers can lose.
//!
//! Without the feature `full` clients take locks alone, so that what serves a default build is tried too.

#![cfg_attr(not(feature = "full"), allow(dead_code, reason = "locks alone need less"))]
#![allow(clippy::disallowed_methods, reason = "servers fail in real time")]
#![allow(clippy::print_stdout, reason = "a long run is watched")]

#[path = "soak/attack.rs"]
mod attack;
#[path = "soak/budget.rs"]
mod budget;
#[cfg_attr(feature = "full", path = "soak/callers.rs")]
#[cfg_attr(not(feature = "full"), path = "soak/alone.rs")]
mod callers;
#[path = "soak/checks.rs"]
mod checks;
#[path = "soak/client.rs"]
mod client;
#[path = "soak/episode.rs"]
mod episode;
#[cfg(feature = "full")]
#[path = "soak/failovers.rs"]
mod failovers;
#[cfg(feature = "full")]
#[path = "soak/family.rs"]
mod family;
#[path = "soak/fleet.rs"]
mod fleet;
#[path = "soak/history.rs"]
mod history;
#[path = "soak/injector.rs"]
mod injector;
#[path = "soak/plan.rs"]
mod plan;
#[path = "soak/prng.rs"]
mod prng;
#[path = "soak/register.rs"]
mod register;
#[path = "soak/trouble.rs"]
mod trouble;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

// As `family` names them, which is a part of the simulation too.
#[cfg(feature = "full")]
use leasehold::{Error, Locker, barriers, limits, once};
use plan::Plan;
use prng::Prng;

const SECONDS_DEFAULT: u64 = 10;
/// A longer run is made of episodes, each with servers, a plan and a history of its own.
const EPISODE: Duration = Duration::from_secs(15);
/// Episodes of which one goes beyond the budget.
const BEYOND_EVERY: u64 = 6;

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: that cannot be read")))
}

/// `LEASEHOLD_SOAK_SHAPE=4/5`.
fn shape() -> Option<(usize, usize)> {
    let text: String = setting("LEASEHOLD_SOAK_SHAPE")?;
    let numbers = text.split_once('/').expect("a quorum and a number of servers, such as 4/5");
    Some((numbers.0.parse().expect("a quorum"), numbers.1.parse().expect("a number of servers")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_at_random_breaks_no_promise() {
    let length = Duration::from_secs(setting("LEASEHOLD_SOAK_SECONDS").unwrap_or(SECONDS_DEFAULT));
    let seed = setting("LEASEHOLD_SOAK_SEED")
        .unwrap_or_else(|| RandomState::new().hash_one(0) % 1_000_000_000);
    let is_always_beyond = setting::<u8>("LEASEHOLD_SOAK_BEYOND") == Some(1);
    println!("soak for {length:?}, LEASEHOLD_SOAK_SEED={seed}");
    let mut totals: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut seeds, mut seed) = (Prng::new(seed), seed);
    let started = Instant::now();
    for number in 1.. {
        let left = length.saturating_sub(started.elapsed());
        if left < Duration::from_secs(1) {
            break;
        }
        let is_beyond = is_always_beyond || number % BEYOND_EVERY == 0;
        // Not inside `left`: what comes after the faults takes its time too.
        let plan = Plan::new(seed, shape(), is_beyond);
        println!("{:4} s, episode {number}: {plan}", started.elapsed().as_secs());
        for (what, count) in episode::run(plan, left.min(EPISODE)).await {
            *totals.entry(what).or_default() += count;
        }
        seed = seeds.within(0..1_000_000_000);
    }
    println!("in {:.0?}:", started.elapsed());
    totals.iter().for_each(|(what, count)| println!("{count:10} {what}"));
}

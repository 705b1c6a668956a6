//! What a lock costs: latency beside a bare stream, throughput beside the server, allocations.
//!
//! `cargo bench --bench figures` takes about two minutes, `-- --quick` some seconds, and `-- --once` runs everything
//! once, as a check. Parts: `-- --redlock` for five servers, `-- --contention` for contention for one lock, `--
//! --server` for what a pair costs the server, `-- --idle` for what an idle locker costs, and `-- --growth` for how
//! cost grows, or one of its tables (`-- --growth growth-leases`). With `--features full`, `-- --cluster` for a Cluster
//! and Sentinels, `-- --shares` for what shares cost the server, and `-- --together` for requests for several locks
//! beside requests for one. It starts redis-servers of its own. Rounds are interleaved, so that disturbances hit all
//! sides, and only the ratios are comparable: the microseconds are this machine's. `--table DIRECTORY` writes tables as
//! JSON, too.
//!
//! The allocations are counted in the same process; the counting costs each side some nanoseconds
//! per allocation.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of samples")]

use std::path::Path;
use std::time::Duration;

use leasehold_testing::{self as support, RedisServer};
use report::Report;

#[path = "figures/blast.rs"]
mod blast;
#[path = "figures/checks.rs"]
mod checks;
#[cfg(feature = "full")]
#[path = "figures/cluster.rs"]
mod cluster;
#[path = "figures/contention.rs"]
mod contention;
#[path = "figures/cost.rs"]
mod cost;
#[path = "figures/fan.rs"]
mod fan;
#[cfg(feature = "full")]
#[path = "figures/features.rs"]
mod features;
#[path = "figures/growth.rs"]
mod growth;
#[path = "figures/idle.rs"]
mod idle;
#[path = "figures/leases.rs"]
mod leases;
#[path = "figures/list.rs"]
mod list;
#[path = "figures/memory.rs"]
mod memory;
#[path = "figures/ours.rs"]
mod ours;
#[path = "figures/processes.rs"]
mod processes;
#[path = "figures/redlock.rs"]
mod redlock;
#[path = "figures/report.rs"]
mod report;
#[path = "figures/runtimes.rs"]
mod runtimes;
#[path = "figures/server.rs"]
mod server;
#[cfg(feature = "full")]
#[path = "figures/shares.rs"]
mod shares;
#[path = "figures/split.rs"]
mod split;
#[path = "figures/statistics.rs"]
mod statistics;
#[path = "figures/throughput.rs"]
mod throughput;
#[cfg(feature = "full")]
#[path = "figures/together.rs"]
mod together;
#[path = "figures/uncontended.rs"]
mod uncontended;
#[path = "figures/way.rs"]
mod way;
#[path = "figures/wire.rs"]
mod wire;

const MILLISECOND: Duration = Duration::from_millis(1);

/// How much is measured.
struct Rounds {
    latency: usize,
    throughput: usize,
    redlock: usize,
    /// Pairs of each of many tasks, for what they cost the server.
    server: u32,
    /// Pairs of each kind of share.
    #[cfg(feature = "full")]
    shares: usize,
    /// How often a master is killed.
    #[cfg(feature = "full")]
    failovers: usize,
    /// How long contenders contend.
    split: Duration,
    contention: Duration,
    /// How long tasks ask for several locks and for one.
    #[cfg(feature = "full")]
    together: Duration,
    growth: growth::Plan,
    /// How long a locker does nothing.
    idle: Duration,
    /// Of a Cluster that it does nothing with.
    #[cfg(feature = "full")]
    masters: usize,
}

fn main() {
    let has_part = processes::contend_if_told() || growth::connections::connect_if_told();
    #[cfg(feature = "full")]
    let has_part = has_part || together::contend_if_told();
    if has_part {
        return;
    }
    let given = |flag: &str| std::env::args().any(|argument| argument == flag);
    // `cargo test --benches` runs this too, without `--bench`.
    let is_once = given("--once") || !given("--bench");
    let rounds = match (is_once, given("--quick")) {
        (true, _) => Rounds {
            latency: 1,
            throughput: 1,
            redlock: 1,
            server: 10,
            #[cfg(feature = "full")]
            shares: 10,
            #[cfg(feature = "full")]
            failovers: 1,
            split: MILLISECOND * 50,
            contention: MILLISECOND * 100,
            #[cfg(feature = "full")]
            together: MILLISECOND * 500,
            growth: growth::ONCE,
            idle: MILLISECOND * 100,
            #[cfg(feature = "full")]
            masters: 2,
        },
        (false, true) => Rounds {
            latency: 15,
            throughput: 2,
            redlock: 8,
            server: 300,
            #[cfg(feature = "full")]
            shares: 1_000,
            #[cfg(feature = "full")]
            failovers: 3,
            split: MILLISECOND * 500,
            contention: MILLISECOND * 2000,
            #[cfg(feature = "full")]
            together: MILLISECOND * 5000,
            growth: growth::QUICK,
            idle: MILLISECOND * 10_000,
            #[cfg(feature = "full")]
            masters: 12,
        },
        (false, false) => Rounds {
            latency: 100,
            throughput: 9,
            redlock: 40,
            server: 2_000,
            #[cfg(feature = "full")]
            shares: 10_000,
            #[cfg(feature = "full")]
            failovers: 10,
            split: MILLISECOND * 3000,
            contention: MILLISECOND * 10_000,
            #[cfg(feature = "full")]
            together: MILLISECOND * 60_000,
            growth: growth::FULL,
            idle: MILLISECOND * 60_000,
            #[cfg(feature = "full")]
            masters: 12,
        },
    };
    let directory = std::env::args().skip_while(|argument| argument != "--table").nth(1);
    let tell = |report: Report| {
        report.publish(directory.as_deref().map(Path::new), is_once || given("--quick"));
    };
    #[cfg(feature = "full")]
    if features::run(&rounds, given, tell) {
        return;
    }
    if given("--growth") {
        return growth::run(&rounds.growth, given, tell);
    }
    if given("--contention") {
        return tell(contention::run(rounds.contention));
    }
    if given("--idle") {
        return tell(idle::run(
            rounds.idle,
            #[cfg(feature = "full")]
            rounds.masters,
        ));
    }
    if given("--server") {
        return tell(server::run(rounds.server));
    }
    if given("--redlock") {
        tell(redlock::run(rounds.redlock));
        split::run(rounds.split);
        return;
    }

    let server = RedisServer::start();
    let scripts = wire::Scripts::load(&mut server.client());
    checks::run(&server, &scripts);
    println!("{}", support::binary::version());
    uncontended::run(&server, &scripts, rounds.latency);
    throughput::run(&server, &scripts, rounds.throughput);
    tell(redlock::run(rounds.redlock));
    split::run(rounds.split);
    memory::run(&server);
    tell(server::run(rounds.server));
    tell(contention::run(rounds.contention));
    #[cfg(feature = "full")]
    features::run(&rounds, |flag| flag == "--shares" || is_once, tell);
    if is_once {
        growth::run(&rounds.growth, |_| false, tell);
        tell(idle::run(
            rounds.idle,
            #[cfg(feature = "full")]
            rounds.masters,
        ));
    }
}

//! What a lock costs: latency beside a bare stream, throughput beside the server, allocations.
//!
//! `cargo bench --bench figures` takes about a minute, `-- --quick` some seconds. It starts a
//! redis-server of its own. Rounds are interleaved, so that what disturbs the machine disturbs all
//! sides, and the ratios are what to read: the microseconds are this machine's.
//!
//! The allocations are counted in the same process; the counting costs each side some nanoseconds
//! per allocation.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of samples")]

use support::RedisServer;

#[path = "figures/blast.rs"]
mod blast;
#[path = "figures/checks.rs"]
mod checks;
#[path = "figures/memory.rs"]
mod memory;
#[path = "figures/ours.rs"]
mod ours;
#[path = "figures/runtimes.rs"]
mod runtimes;
#[path = "figures/statistics.rs"]
mod statistics;
#[path = "../tests/support/mod.rs"]
mod support;
#[path = "figures/throughput.rs"]
mod throughput;
#[path = "figures/uncontended.rs"]
mod uncontended;
#[path = "figures/wire.rs"]
mod wire;

fn main() {
    // `cargo test --benches` runs this too, without `--bench`: then it is to work, not to measure.
    let given = |flag| std::env::args().any(|argument| argument == flag);
    let (latency_rounds, throughput_rounds) = match (given("--bench"), given("--quick")) {
        (false, _) => (1, 1),
        (true, true) => (15, 2),
        (true, false) => (100, 9),
    };

    let server = RedisServer::start();
    let scripts = wire::Scripts::load(&mut server.client());
    checks::run(&server, &scripts);
    println!("{}", server_version(&server));
    uncontended::run(&server, &scripts, latency_rounds);
    throughput::run(&server, &scripts, throughput_rounds);
    memory::run(&server);
}

fn server_version(server: &RedisServer) -> String {
    let info = server.cli_text(&["INFO", "server"]);
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
    format!("redis-server {}", version.unwrap_or("of unknown version"))
}

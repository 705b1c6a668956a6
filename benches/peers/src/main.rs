//! Compares Leasehold with other Redis clients, and with the least possible code.
//!
//! `leasehold-peers SCENARIO [--quick] [--out DIRECTORY]`; `../../scripts/bench.sh` builds it and runs it. It starts
//! redis-servers of its own. Contenders take turns, so that disturbances hit all; only the ratios are comparable.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(
    clippy::collapsible_if,
    reason = "the oldest Rust of the tests' helpers has no let chains"
)]

use std::path::PathBuf;

use leasehold_testing as support;
use report::Report;

mod adapter;
mod alloc;
#[path = "../../figures/blast.rs"]
mod blast;
mod contender;
mod contenders;
#[path = "../../figures/fan.rs"]
mod fan;
#[path = "../../figures/leases.rs"]
mod leases;
mod measure;
mod placement;
#[path = "../../figures/report.rs"]
mod report;
#[path = "../../figures/runtimes.rs"]
mod runtimes;
#[path = "../../../resp/benches/codec/scan.rs"]
mod scan;
mod scenarios;
#[path = "../../figures/statistics.rs"]
mod statistics;
#[path = "../../figures/wire.rs"]
#[allow(dead_code, reason = "the figures use all of it")]
mod wire;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// None where the machine lacks what it takes.
type Scenario = fn(quick: bool) -> Option<Report>;

const SCENARIOS: [(&str, Scenario); 12] = [
    ("uncontended", |quick| Some(scenarios::uncontended::run(quick))),
    ("uncontended-pinned", |quick| Some(scenarios::uncontended::pinned(quick))),
    ("syscalls", scenarios::syscalls::run),
    ("throughput", |quick| Some(scenarios::throughput::run(quick))),
    ("redlock", |quick| Some(scenarios::redlock::run(quick))),
    ("redlock-pinned", |quick| Some(scenarios::redlock::pinned(quick))),
    ("contention", |quick| Some(scenarios::contention::run(quick))),
    ("contention-pinned", |quick| Some(scenarios::contention::pinned(quick))),
    ("renewal", |quick| Some(scenarios::renewal::run(quick))),
    ("members", |quick| Some(scenarios::members::run(quick))),
    ("codec", |quick| Some(scenarios::codec::run(quick))),
    ("adoption", |_| Some(scenarios::adoption::run())),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if scenarios::syscalls::is_child(&arguments) || scenarios::contention::is_child(&arguments) {
        return;
    }
    if let [name, urls @ ..] = &arguments[..] {
        if name == adapter::NAME {
            return adapter::serve(urls);
        }
    }
    let (mut quick, mut wanted) = (false, Vec::new());
    let mut directory = PathBuf::from("target/bench");
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--quick" => quick = true,
            "--out" => directory = rest.next().unwrap_or_else(|| usage()).into(),
            name => match SCENARIOS.iter().find(|(known, _)| *known == name) {
                Some(scenario) => wanted.push(scenario),
                None => usage(),
            },
        }
    }
    if wanted.is_empty() {
        // It builds every library from nothing, which takes minutes.
        wanted.extend(SCENARIOS.iter().filter(|(name, _)| !(quick && *name == "adoption")));
    }
    for (_, run) in wanted {
        if let Some(report) = run(quick) {
            report.publish(Some(&directory), quick);
        }
    }
}

fn usage() -> ! {
    let names: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
    eprintln!("usage: leasehold-peers [{}]... [--quick] [--out DIRECTORY]", names.join("|"));
    std::process::exit(2);
}

//! A black-box checker of lock libraries. It starts servers, ways to them that fail, and processes that
//! take locks by some library, each through a small adapter; it writes down what the library told its
//! callers, and holds that history against what a lock promises. README.md has the adapters' language.
//!
//! What happened is judged in the library's favour: see `tests/soak/history.rs`, whose clock, checks and
//! random numbers this program shares.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "clients and servers fail in real time")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

mod adapter;
#[path = "../../tests/soak/checks.rs"]
#[allow(dead_code, reason = "the soak uses all of it")]
mod checks;
mod client;
mod faults;
#[path = "../../tests/soak/history.rs"]
#[allow(dead_code, reason = "the soak uses all of it")]
mod history;
mod naive;
mod ours;
mod plan;
#[path = "../../tests/soak/prng.rs"]
#[allow(dead_code, reason = "the soak uses all of it")]
mod prng;
mod queue;
#[path = "../../tests/soak/register.rs"]
#[allow(dead_code, reason = "the soak uses all of it")]
mod register;
mod run;
mod verdict;

use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;
use std::time::Duration;

use plan::{Kind, Plan, Setting};

const USAGE: &str = "usage:
  leasehold-checker queue [--waiters N] [--sentinel | --cluster] [--seconds S] [--seed N] [--servers N] [-- ADAPTER...]
      has N processes, 64 by default, wait for a few locks while processes, connections and servers fail
  leasehold-checker [--seconds S] [--seed N] [--servers N] [--shares | --permits N] [--faulty] [-- ADAPTER...]
      checks the library behind the adapter, or Leasehold: its locks, its reader-writer locks, or a semaphore
      of N permits; --faulty: fails unless faults are found
  leasehold-checker adapt leasehold|blocking|naive URL...
      is an adapter itself: for Leasehold, for its handles without async, or for locks and shares with the best
      known faults";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    match &texts[..] {
        ["adapt", "leasehold", urls @ ..] => ours::serve(urls),
        ["adapt", "blocking", urls @ ..] => ours::serve_blocking(urls),
        ["adapt", "naive", urls @ ..] => naive::serve(urls),
        _ => match plan(&texts) {
            Some(plan) => return check(&plan),
            None => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        },
    }
    ExitCode::SUCCESS
}

fn plan(words: &[&str]) -> Option<Plan> {
    let myself = std::env::current_exe().expect("this program has a path");
    let myself = myself.display().to_string();
    let mut plan = Plan {
        adapter: [&myself, "adapt", "leasehold"].map(str::to_owned).into(),
        length: Duration::from_secs(10),
        seed: RandomState::new().hash_one(0) % 1_000_000_000,
        servers: 1,
        kind: Kind::Lock,
        expects_faults: false,
        waiters: None,
        setting: Setting::Servers,
    };
    let mut words = words.iter();
    if words.as_slice().first() == Some(&"queue") {
        words.next();
        plan.waiters = Some(64);
    }
    while let Some(word) = words.next() {
        match *word {
            "--sentinel" => plan.setting = Setting::Sentinel,
            "--cluster" => plan.setting = Setting::Cluster,
            "--shares" => plan.kind = Kind::Shares,
            "--faulty" => plan.expects_faults = true,
            "--" => {
                let adapter: Vec<String> = words.by_ref().map(|&word| word.to_owned()).collect();
                plan.adapter = match &adapter[..] {
                    [] => return None,
                    [name] if ["blocking", "naive"].contains(&name.as_str()) => {
                        [&myself, "adapt", name].map(str::to_owned).into()
                    }
                    _ => adapter,
                };
            }
            flag => {
                let value = words.next()?;
                match flag {
                    "--seconds" => plan.length = Duration::from_secs(value.parse().ok()?),
                    "--seed" => plan.seed = value.parse().ok()?,
                    "--servers" => plan.servers = value.parse().ok()?,
                    "--waiters" => plan.waiters = Some(value.parse().ok()?),
                    "--permits" => plan.kind = Kind::Permits(value.parse().ok()?),
                    _ => return None,
                }
            }
        }
    }
    Some(plan)
}

fn check(plan: &Plan) -> ExitCode {
    let verdict = match plan.waiters {
        Some(waiters) => queue::run(plan, waiters),
        None => run::run(plan),
    };
    print!("{verdict}");
    match (verdict.is_clean(), plan.expects_faults) {
        (true, false) | (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
        (true, true) => {
            eprintln!("faults were expected, and none was found: the checker sees too little");
            ExitCode::FAILURE
        }
    }
}

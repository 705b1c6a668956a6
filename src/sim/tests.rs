//! Seeds, few or many.

use std::time::{Duration, Instant};

use super::plan::Plan;
use super::run::{Outcome, run};
use crate::policy::mutants::{self, Mutant};

/// Without a wish of the caller's.
const SHORT: Duration = Duration::from_secs(6);

/// Seeds that found a bug of the library's, each with what it was.
const FOUND: [(u64, &str); 3] = [
    (456_467_028, "a lease between two connections was not given back to that server"),
    (947_951_785, "nor was one that was handed over just then, to one who gave up"),
    (14_660_893, "of two hand-overs in a row, the first was not given back where it had no answer"),
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn show(outcome: &Outcome) -> String {
    let mut text = format!("{}\n", outcome.plan);
    for breach in outcome.breaches.iter().take(5) {
        text += &format!("{}: {}\n", breach.check, breach.text);
    }
    if number("LEASEHOLD_SIM_SEED").is_some() {
        for (at, note) in &outcome.notes {
            text += &format!("{at:>12.3?} {note}\n");
        }
    }
    text
}

#[test]
fn one_seed_is_one_history() {
    for seed in [2, 5] {
        let digests = [(); 2].map(|()| run(Plan::new(seed, false)).digest);
        assert_eq!(digests[0], digests[1], "seed {seed}");
    }
}

#[test]
fn what_was_found_once_stays_mended() {
    for (seed, what) in FOUND {
        let outcome = run(Plan::new(seed, false));
        assert!(outcome.breaches.is_empty(), "{what}\n{}", show(&outcome));
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "it is told how long to run, and says how far it came"
)]
fn no_promise_is_broken_within_the_budget() {
    if let Some(seed) = number("LEASEHOLD_SIM_SEED") {
        let outcome = run(Plan::new(seed, false));
        eprintln!("{}{:?}", show(&outcome), outcome.counts);
        assert!(outcome.breaches.is_empty());
        return;
    }
    let wished = number("LEASEHOLD_SIM_SECONDS").map(Duration::from_secs);
    let first = if wished.is_some() { crate::clock::random_bits() % 1_000_000_000 } else { 0 };
    let (started, mut seeds, mut simulated, mut grants, mut lost) =
        (Instant::now(), 0, Duration::ZERO, 0, 0);
    while started.elapsed() < wished.unwrap_or(SHORT) {
        let outcome = run(Plan::new(first + seeds, false));
        assert!(
            outcome.breaches.is_empty(),
            "LEASEHOLD_SIM_SEED={}\n{}",
            first + seeds,
            show(&outcome)
        );
        if number("LEASEHOLD_SIM_VERBOSE").is_some() {
            eprintln!("{:.2?} {} {:?}", started.elapsed(), outcome.plan, outcome.counts);
        }
        seeds += 1;
        simulated += outcome.simulated;
        grants += outcome.counts.get("grants").copied().unwrap_or(0);
        lost += outcome.control_lost;
    }
    eprintln!(
        "simulation: {:.1} hours in {:.0?}, seeds {first}..{}, {grants} grants, 0 violations, \
         {lost} increments lost by the control",
        simulated.as_secs_f64() / 3600.0,
        started.elapsed(),
        first + seeds,
    );
    assert!(grants > 0 && lost > 0, "nothing happened");
}

/// Were there nothing to find where all servers lose keys, nothing would be found elsewhere either.
#[test]
fn promises_are_broken_beyond_the_budget() {
    let is_broken = |seed: &u64| {
        let outcome = run(Plan::new(*seed, true));
        outcome.breaches.iter().any(|breach| breach.check == "two holders")
    };
    assert!(
        (0..40).any(|seed| is_broken(&seed)),
        "no two held a lock that was taken from the first"
    );
}

/// Every known bug is noticed by a check. It takes a while: `scripts/mutants.sh` asks for it.
#[test]
#[ignore = "minutes: scripts/mutants.sh"]
#[expect(clippy::print_stdout, reason = "the table is what it is for")]
fn every_mutant_is_caught() {
    let seeds_max = number("LEASEHOLD_MUTANT_SEEDS").unwrap_or(400);
    let wished = std::env::var("LEASEHOLD_MUTANT").ok();
    let mut escaped = Vec::new();
    println!("| Mutant | Caught by | Seeds |\n|---|---|---|");
    for mutant in Mutant::ALL {
        let name = format!("{mutant:?}");
        if wished.as_ref().is_some_and(|wished| *wished != name) {
            continue;
        }
        mutants::set(Some(mutant));
        let caught = (0..seeds_max).find_map(|seed| {
            let outcome = run(Plan::new(seed, false));
            Some((outcome.breaches.first()?.check, seed + 1))
        });
        mutants::set(None);
        match caught {
            Some((check, seeds)) => println!("| {name} | {check} | {seeds} |"),
            None => {
                println!("| {name} | **nothing** | {seeds_max} |");
                escaped.push(name);
            }
        }
    }
    assert!(escaped.is_empty(), "not caught: {escaped:?}");
}

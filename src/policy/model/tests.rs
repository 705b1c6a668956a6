mod apart;
mod exclusion;
mod fencing;
mod grace;
mod handover;
mod mutants;
mod queue;
mod register;
mod repair;
mod sharing;
mod steps;
mod turn;

use std::time::Duration;

use super::explore::{Explored, Model, explore};
use super::lease::{Bounds, Elder, Mutant, Repair};

const BOTH: &str = "two clients hold the lock at once";
const OVERTAKEN: &str = "a lease goes on although another was granted in between";
const FOREIGN: &str = "a release deletes the lock of another attempt";

/// No rule is switched off.
const NONE: Mutant = Mutant {
    counts_from_reply: false,
    ignores_drift: false,
    reuses_owner: false,
    counts_own_key: false,
    short_quarantine: false,
    steps_are_free: false,
    no_guard: false,
    extends_by_one: false,
    repair: Repair::Nowhere,
    elder: Elder::Gone,
    inherits_grants: false,
    reuses_heir: false,
    deletes_any: false,
    revives: false,
    exclusion_only: false,
};

/// Ticks fine enough for drift to matter: a TTL of 10 ms, whose drift of 2.1 ms is one tick.
const DRIFTING: Bounds = Bounds {
    quorum: 2,
    tick: Duration::from_millis(2),
    ttl: 5,
    attempts: [1, 1],
    extensions: [0, 0],
    hand_overs: false,
    losses: 0,
    restarts: false,
    strays: false,
};

/// Ticks coarse enough for an uptime in seconds to matter; the drift is far below one.
const RESTARTING: Bounds =
    Bounds { tick: Duration::from_secs(1), ttl: 3, restarts: true, ..DRIFTING };

/// The shortest TTL that still has a moment between its beginning and its end.
const SHORT: Bounds = Bounds { ttl: 2, ..RESTARTING };

/// Explores all states, prints their number, and fails if they are fewer than before.
fn finds_nothing(title: &str, model: &impl Model, states_min: usize) {
    let Explored { states, counterexample } = explore(model);
    tell(&format!("{title}: {states} states"));
    if let Some(counterexample) = counterexample {
        panic!("{title}: {counterexample}");
    }
    assert!(states >= states_min, "{title}: only {states} states; {states_min} are expected");
}

/// Explores up to the first breach, which has to be `breach`, and prints the way there.
fn finds(title: &str, model: &impl Model, breach: &str) {
    let Explored { states, counterexample } = explore(model);
    let counterexample =
        counterexample.unwrap_or_else(|| panic!("{title}: nothing is wrong in {states} states"));
    tell(&format!("{title}: {states} states; {counterexample}"));
    assert_eq!(counterexample.breach, breach, "{title}");
}

#[expect(clippy::print_stdout, reason = "a test's own output, seen with --nocapture")]
fn tell(text: &str) {
    println!("{text}");
}

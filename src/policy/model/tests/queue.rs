//! Hand-over by queue and push: what holds, and what breaks where a rule is switched off.

use std::time::Duration;

use super::super::queue::{
    BOTH, Bounds, Faults, IDLE, KEYLESS, OVERTAKEN, Queues, STRANDED, TOKENS, Weakness,
};
use super::{finds, finds_nothing};

const NO_FAULTS: Faults = Faults {
    losses: 0,
    crashes: 0,
    cancels: 0,
    drops: 0,
    foreign: 0,
    counters: 0,
    strays: 0,
    restarts: 0,
    dead: 0,
    forgeries: 0,
};

/// Two processes of one attempt each; ticks coarse enough for the drift to be below one.
const TWO: Bounds = Bounds {
    processes: 2,
    attempts: 1,
    tick: Duration::from_millis(4),
    ttl: [4; 3],
    questions: 1,
    rests: 0,
    newcomers: false,
    extensions: false,
    relays: false,
    is_live: false,
    is_fair: false,
    faults: NO_FAULTS,
};

fn holds(title: &str, bounds: Bounds, states_min: usize) {
    finds_nothing(title, &Queues::new(bounds, Weakness::None), states_min);
}

fn breaks(title: &str, bounds: Bounds, weakness: Weakness, breach: &str) {
    finds(title, &Queues::new(bounds, weakness), breach);
}

/// Ticks fine enough for the drift to be one of them: keys may expire a tick early.
const DRIFTING: Bounds = Bounds { tick: Duration::from_millis(2), ttl: [5; 3], ..TWO };

#[test]
fn messages_that_are_lost_and_a_crash() {
    let faults = Faults { losses: 1, crashes: 1, ..NO_FAULTS };
    holds("losses, crash", Bounds { faults, is_live: true, questions: 0, ..TWO }, 70_000);
}

#[test]
fn waiters_that_leave_and_leases_that_are_extended() {
    let faults = Faults { cancels: 1, crashes: 1, ..NO_FAULTS };
    let bounds = Bounds { faults, is_live: true, extensions: true, questions: 0, ..TWO };
    holds("cancel, crash", bounds, 70_000);
}

#[test]
fn subscriptions_that_end() {
    let faults = Faults { drops: 1, ..NO_FAULTS };
    holds("drops", Bounds { faults, is_live: true, questions: 0, ..TWO }, 50_000);
}

#[test]
fn a_client_that_knows_no_queue() {
    let faults = Faults { foreign: 1, losses: 1, ..NO_FAULTS };
    holds("foreign", Bounds { faults, questions: 0, ..TWO }, 200_000);
}

#[test]
fn a_counter_that_is_lost_at_any_moment() {
    let faults = Faults { counters: 1, losses: 1, ..NO_FAULTS };
    holds("counters, losses", Bounds { faults, questions: 0, ..TWO }, 140_000);
}

#[test]
fn questions_from_a_connection_that_has_ended() {
    let faults = Faults { strays: 1, cancels: 1, ..NO_FAULTS };
    holds("strays", Bounds { faults, questions: 0, ..TWO }, 400_000);
}

#[test]
fn a_restart_without_memory_that_the_guard_covers() {
    let faults = Faults { restarts: 1, ..NO_FAULTS };
    let bounds = Bounds { faults, questions: 0, newcomers: true, ..TWO };
    holds("restarts", bounds, 90_000);
    breaks("restarts, no guard", bounds, Weakness::NoGuard, BOTH);
}

#[test]
fn ttls_that_differ_between_processes() {
    let faults = Faults { losses: 1, ..NO_FAULTS };
    holds("mixed TTLs", Bounds { faults, ttl: [4, 6, 6], ..TWO }, 300_000);
}

#[test]
fn keys_that_expire_as_early_as_the_drift_allows() {
    let faults = Faults { losses: 1, ..NO_FAULTS };
    holds("drift", Bounds { faults, questions: 0, ..DRIFTING }, 60_000);
}

#[test]
fn three_processes_are_served_in_the_order_in_which_they_came() {
    let three = Bounds { processes: 3, ttl: [3; 3], questions: 0, rests: 2, is_fair: true, ..TWO };
    holds("three in order", three, 100_000);
}

#[test]
fn a_newcomer_goes_behind_the_waiters() {
    let faults = Faults { losses: 1, cancels: 1, ..NO_FAULTS };
    let bounds = Bounds { newcomers: true, is_fair: true, faults, questions: 0, ..TWO };
    holds("two in order", bounds, 100_000);
    let faults = Faults { foreign: 1, ..NO_FAULTS };
    let bounds = Bounds { newcomers: true, is_fair: true, faults, questions: 0, ..TWO };
    breaks("newcomer overtakes", bounds, Weakness::NewcomerOvertakes, OVERTAKEN);
}

/// A process that holds hands on to another of its owners, though others wait.
#[test]
fn a_relay_within_a_process() {
    let bounds = Bounds { relays: true, attempts: 2, ttl: [3; 3], questions: 0, rests: 2, ..TWO };
    holds("relays", bounds, 680_000);
    let faults = Faults { foreign: 1, ..NO_FAULTS };
    let foreign = Bounds { faults, ..bounds };
    breaks("takes over from anybody", foreign, Weakness::TakesOverFromAnybody, KEYLESS);
    breaks("without minting", bounds, Weakness::TakesOverWithoutMinting, TOKENS);
}

#[test]
fn validity_that_counts_from_a_push_or_from_a_question_without_an_answer() {
    breaks("from the push", TWO, Weakness::CountsFromThePush, KEYLESS);
    breaks("from a question", TWO, Weakness::CountsFromAnUnansweredQuestion, KEYLESS);
}

#[test]
fn a_lock_that_is_handed_on_with_its_token_or_with_one_of_a_lost_counter() {
    breaks("without minting", TWO, Weakness::HandsOverWithoutMinting, TOKENS);
    let faults = Faults { counters: 1, ..NO_FAULTS };
    breaks("lost counter", Bounds { faults, ..TWO }, Weakness::LostCounterGoesOn, TOKENS);
}

#[test]
fn a_push_that_names_no_owner() {
    let faults = Faults { cancels: 1, ..NO_FAULTS };
    let bounds = Bounds { faults, attempts: 2, questions: 0, ..TWO };
    breaks("no owner", bounds, Weakness::PushWithoutOwner, KEYLESS);
}

/// Safety rule 20: a user that may read the queue and publish delays nobody for longer than a question takes.
#[test]
fn a_push_that_somebody_forged() {
    let faults = Faults { forgeries: 1, losses: 1, ..NO_FAULTS };
    let bounds = Bounds { faults, is_live: true, questions: 0, ..TWO };
    holds("forgeries, losses", bounds, 100_000);
    breaks("any token is pushed", bounds, Weakness::AnyTokenIsPushed, KEYLESS);
}

#[test]
fn an_owner_that_is_told_yours_without_a_ttl_anew() {
    breaks("not re-armed", TWO, Weakness::YoursWithoutRearming, KEYLESS);
}

#[test]
fn a_heartbeat_that_queues_an_owner_again() {
    let faults = Faults { foreign: 1, ..NO_FAULTS };
    let bounds = Bounds { faults, questions: 0, ..TWO };
    breaks("queues again", bounds, Weakness::HeartbeatQueuesAgain, KEYLESS);
}

/// A message that the server counts nobody for reaches a process anyway, through a replica or another
/// node of a Cluster.
#[test]
fn a_push_to_one_that_is_passed_over() {
    let faults = Faults { drops: 1, ..NO_FAULTS };
    let bounds = Bounds { faults, questions: 0, ..TWO };
    breaks("tells whom it passes over", bounds, Weakness::TellsWhomItPassesOver, KEYLESS);
}

#[test]
fn a_dead_waiter_whose_entry_stays_and_a_heartbeat_that_takes_nothing() {
    let faults = Faults { crashes: 1, foreign: 1, ..NO_FAULTS };
    let bounds = Bounds { faults, is_live: true, questions: 0, ..TWO };
    breaks("entries stay", bounds, Weakness::EntriesNeverExpire, STRANDED);
    breaks("takes nothing", bounds, Weakness::BeatsDoNotTake, STRANDED);
}

/// Safety rule 19: dead waiters whose entries last, gaps and garbage, more of them than a script takes out at once.
#[test]
fn whatever_stands_before_a_waiter_that_can_hear() {
    let faults = Faults { dead: 5, crashes: 1, ..NO_FAULTS };
    let bounds = Bounds { faults, is_live: true, questions: 0, ..TWO };
    holds("dead, crash", bounds, 10_000);
    let faults = Faults { dead: 5, cancels: 1, ..NO_FAULTS };
    holds("dead, cancel", Bounds { faults, newcomers: true, ..bounds }, 10_000);
    breaks("the bound ends the search", bounds, Weakness::BoundEndsTheSearch, IDLE);
}

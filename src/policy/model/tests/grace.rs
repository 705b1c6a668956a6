//! Failovers of a primary whose replica is late.

use super::super::super::mutants::{self, Mutant};
use super::super::grace::{BOTH, Bounds, FALLS, Failovers, LOST, SHUT};
use super::{finds, finds_nothing};

/// One promotion, and leases of two lengths.
const ONCE: Bounds = Bounds {
    ttls: [3, 2],
    heirs_ttl: 0,
    promotions: 1,
    restarts: 0,
    losses: 0,
    attempts: 2,
    is_off: false,
    behind: 0,
    is_exclusion_alone: false,
    late: 0,
    is_left: false,
    ticks: 1,
    length: 8,
};
const TWICE: Bounds = Bounds { promotions: 2, length: 6, ..ONCE };
const LATE: Bounds = Bounds { late: 1, length: 6, ..ONCE };
/// Tokens are in no order.
const BEHIND: Bounds = Bounds { behind: 4, ..ONCE };
const HEIRS: Bounds = Bounds { heirs_ttl: 1, attempts: 3, length: 6, ..ONCE };
/// Tokens are the furthest apart, and leases the shortest.
const OFF: Bounds = Bounds { ttls: [1, 1], is_off: true, ..ONCE };

fn finds_bug(mutant: Mutant, bounds: Bounds, breach: &str) {
    mutants::set(Some(mutant));
    finds(&format!("{mutant:?}"), &Failovers(bounds), breach);
    mutants::set(None);
}

#[test]
fn one_holds_and_keeps_its_lease_through_a_promotion() {
    finds_nothing("promoted", &Failovers(ONCE), 200_000);
    finds_nothing("promoted, a clock behind", &Failovers(BEHIND), 200_000);
    finds_bug(Mutant::GrantsAtOnceAfterAFailover, BEHIND, BOTH);
    finds_bug(Mutant::StaleKeysStay, ONCE, LOST);
}

#[test]
fn names_can_be_had_again_and_tokens_go_on() {
    finds_nothing("short leases", &Failovers(OFF), 80_000);
    finds_bug(Mutant::GraceIsNoLongerThanLeases, OFF, FALLS);
    finds_bug(Mutant::EachBeginsTheReign, ONCE, SHUT);
}

#[test]
fn a_server_that_is_promoted_again() {
    finds_nothing("promoted twice", &Failovers(TWICE), 240_000);
    finds_bug(Mutant::RunAloneIsTheReign, TWICE, BOTH);
    finds_bug(Mutant::ReplicaIsMet, TWICE, LOST);
    finds_bug(Mutant::ReignNeverLapses, TWICE, LOST);
    finds_bug(Mutant::AnyUseRenewsTheReign, TWICE, LOST);
    finds_bug(Mutant::GoneIsBelievedUnsure, TWICE, LOST);
}

#[test]
fn a_restart_before_or_after_a_promotion() {
    finds_nothing("restarted", &Failovers(Bounds { restarts: 1, length: 6, ..ONCE }), 220_000);
}

#[test]
fn a_marker_that_is_lost() {
    finds_nothing("lost marker", &Failovers(Bounds { losses: 1, length: 6, ..ONCE }), 270_000);
}

#[test]
fn questions_that_are_late() {
    finds_nothing("late", &Failovers(LATE), 700_000);
    let bounds = Bounds { attempts: 3, length: 5, ..LATE };
    finds_bug(Mutant::HandsOnInTheGrace, bounds, LOST);
    let bounds = Bounds { ttls: [2, 2], late: 1, length: 7, ..BEHIND };
    finds_bug(Mutant::LateHoldersAreHeard, bounds, LOST);
}

/// A grant of an earlier reign may take the lock from a holder that has not said yet that it holds, which loses it;
/// but no two hold.
#[test]
fn questions_that_are_under_way_while_a_server_is_a_replica() {
    let bounds = Bounds { is_exclusion_alone: true, length: 5, late: 1, ..TWICE };
    finds_nothing("late, promoted twice", &Failovers(bounds), 860_000);
    finds_bug(Mutant::GrantIsBelievedLate, bounds, BOTH);
}

#[test]
fn a_lease_that_goes_on_within_its_process() {
    finds_nothing("heirs", &Failovers(HEIRS), 230_000);
    finds_bug(Mutant::TokenIsNotAboveThePredecessors, HEIRS, FALLS);
    let bounds = Bounds { ttls: [2, 2], heirs_ttl: 3, late: 1, attempts: 2, ..HEIRS };
    finds_bug(Mutant::AnyHolderTakesOver, bounds, LOST);
}

/// Half a second is less than what a connection has learned is good for.
#[test]
fn an_answer_that_takes_half_a_second() {
    let bounds = Bounds { ticks: 2, ttls: [6, 6], is_left: true, length: 12, ..LATE };
    finds_nothing("halves of a second", &Failovers(bounds), 290_000);
    finds_bug(Mutant::GraceCountsFromTheQuestion, bounds, BOTH);
}

//! Registers over several servers, with no clock to lean on.

use super::super::register::{Bounds, Registering, Rule};
use super::{finds, finds_nothing};

const THREE: Bounds = Bounds {
    quorum: 2,
    attempts: 3,
    tokens: 3,
    losses: 0,
    slots: None,
    repeats: false,
    ends: false,
};
const TWO_RESULTS: &str = "two results are told";
const ABOVE: &str = "an attempt works above the token of a decided result";
const TWICE: &str = "a slot is claimed twice";

#[test]
fn one_result_is_told_and_nobody_works_above_it() {
    finds_nothing("register of 3", &Registering::<3>::new(THREE, Rule::Right), 39_000);
    let bounds = Bounds { tokens: 4, ..THREE };
    finds_nothing(
        "register of 3, more tokens",
        &Registering::<3>::new(bounds, Rule::Right),
        132_000,
    );
    let bounds = Bounds { quorum: 3, tokens: 2, ..THREE };
    finds_nothing("register of 5", &Registering::<5>::new(bounds, Rule::Right), 38_000);
}

/// Its lease is no matter here: another attempt may have begun, and even have a result.
#[test]
fn an_attempt_may_propose_its_result_again() {
    let bounds = Bounds { repeats: true, tokens: 4, ..THREE };
    finds_nothing("register of 3, again", &Registering::<3>::new(bounds, Rule::Right), 43_000);
    let broken = Registering::<3>::new(bounds, Rule::IgnoresAccepted);
    finds("register of 3, again, ignores", &broken, ABOVE);
}

/// A caller whose clock is behind may then have a smaller token promised.
#[test]
fn a_result_that_comes_when_its_promises_have_ended_replaces_no_other() {
    let bounds = Bounds { ends: true, ..THREE };
    finds_nothing("register of 3, ends", &Registering::<3>::new(bounds, Rule::Right), 51_000);
    let broken = Registering::<3>::new(bounds, Rule::AcceptsAbove);
    finds("register of 3, ends, accepts above", &broken, TWO_RESULTS);
    // Without an end it does no harm.
    let endless = Registering::<3>::new(THREE, Rule::AcceptsAbove);
    finds_nothing("register of 3, accepts above", &endless, 58_000);
}

#[test]
fn as_many_servers_forget_as_the_quorum_tolerates() {
    let bounds = Bounds { quorum: 3, losses: 1, attempts: 2, ..THREE };
    finds_nothing("register of 3 of 4, k=1", &Registering::<4>::new(bounds, Rule::Right), 16_000);
    let bounds = Bounds { quorum: 4, losses: 2, attempts: 2, ..THREE };
    finds_nothing("register of 4 of 5, k=2", &Registering::<5>::new(bounds, Rule::Right), 113_000);
    let bounds = Bounds { quorum: 4, losses: 3, attempts: 2, ..THREE };
    finds("register of 4 of 5, k+1", &Registering::<5>::new(bounds, Rule::Right), ABOVE);
    let bounds = Bounds { losses: 1, ..THREE };
    finds("register of 3, k+1", &Registering::<3>::new(bounds, Rule::Right), ABOVE);
}

#[test]
fn a_slot_is_claimed_once_and_never_behind_a_later_one() {
    for slots in [[1, 1, 1], [1, 1, 2], [2, 1, 2]] {
        let bounds = Bounds { slots: Some(slots), ..THREE };
        finds_nothing("slots of 3", &Registering::<3>::new(bounds, Rule::Right), 71_000);
    }
    let bounds = Bounds { slots: Some([1, 1, 0]), attempts: 2, quorum: 4, losses: 2, ..THREE };
    finds_nothing("slots of 4 of 5, k=2", &Registering::<5>::new(bounds, Rule::Right), 123_000);
    let bounds = Bounds { losses: 3, ..bounds };
    finds("slots of 4 of 5, k+1", &Registering::<5>::new(bounds, Rule::Right), TWICE);
}

#[test]
fn each_broken_rule_is_found() {
    let rules = [
        (Rule::IgnoresAccepted, ABOVE),
        (Rule::TakesTheLowest, TWO_RESULTS),
        (Rule::TellsAMinoritys, TWO_RESULTS),
        (Rule::TellsAtOnce, TWO_RESULTS),
        (Rule::AcceptsBelow, ABOVE),
        (Rule::ForgetsThePromise, ABOVE),
        (Rule::PromisesBelow, ABOVE),
        (Rule::OneTooFew, ABOVE),
    ];
    for (rule, breach) in rules {
        finds(&format!("{rule:?}"), &Registering::<3>::new(THREE, rule), breach);
    }
}

#[test]
fn each_broken_rule_claims_a_slot_twice() {
    for rule in [Rule::IgnoresAccepted, Rule::AcceptsBelow, Rule::ForgetsThePromise] {
        let bounds = Bounds { slots: Some([1, 1, 1]), ..THREE };
        finds(&format!("{rule:?} of slots"), &Registering::<3>::new(bounds, rule), TWICE);
    }
}

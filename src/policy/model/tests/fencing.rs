//! Tokens, with no clock and no exclusion to lean on.

use super::super::fence::{Bounds, Fencing, Rule};
use super::{finds, finds_nothing};

const THREE: Bounds = Bounds {
    quorum: 2,
    attempts: 3,
    tokens: 4,
    second_proposals: 0,
    losses: 0,
    repairs: true,
    aside: 0,
};

const TWICE: &str = "a token is issued twice";

const LATE: &str = "a token is not above one that was issued before it was asked for";

/// Repairs come at any time too: they neither issue a token nor lower a counter.
#[test]
fn tokens_are_unique_and_in_order_while_counters_are_kept() {
    let bounds = Bounds { attempts: 4, ..THREE };
    finds_nothing("tokens of 3", &Fencing::<3>::new(bounds, Rule::Ballot), 382_000);
    let bounds = Bounds { attempts: 2, second_proposals: 2, ..THREE };
    finds_nothing("tokens of 3, twice", &Fencing::<3>::new(bounds, Rule::Ballot), 166_000);
    let bounds = Bounds { quorum: 3, ..THREE };
    finds_nothing("tokens of 5", &Fencing::<5>::new(bounds, Rule::Ballot), 130_000);
}

#[test]
fn as_many_lost_counters_as_the_quorum_tolerates() {
    let bounds = Bounds { quorum: 3, tokens: 3, losses: 1, ..THREE };
    finds_nothing("tokens of 3 of 4, k=1", &Fencing::<4>::new(bounds, Rule::Ballot), 85_000);
    let bounds = Bounds { quorum: 4, tokens: 3, losses: 2, attempts: 2, ..THREE };
    finds_nothing("tokens of 4 of 5, k=2", &Fencing::<5>::new(bounds, Rule::Ballot), 9_400);
    let bounds = Bounds { quorum: 3, tokens: 3, losses: 2, ..THREE };
    finds("tokens of 3 of 4, k+1", &Fencing::<4>::new(bounds, Rule::Ballot), TWICE);
}

/// Those that asked after a lease was passed on have larger tokens than its holder. That one counts as one with those
/// before it (`policy/relay.rs`): its own token may be below one that was issued meanwhile.
#[test]
fn tokens_that_are_set_aside_are_nobody_elses() {
    let aside = Bounds { tokens: 5, aside: 1, ..THREE };
    finds_nothing("tokens of 3, passed on", &Fencing::<3>::new(aside, Rule::Ballot), 65_000);
    let losing = Bounds { quorum: 3, tokens: 4, losses: 1, ..aside };
    finds_nothing("tokens of 3 of 4, passed on", &Fencing::<4>::new(losing, Rule::Ballot), 328_000);
    finds("none aside", &Fencing::<3>::new(aside, Rule::NoneAside), TWICE);
}

#[test]
fn the_largest_of_counts_is_no_token() {
    finds("largest of counts", &Fencing::<3>::new(THREE, Rule::LargestOfCounts), TWICE);
}

#[test]
fn grants_of_two_proposals_are_no_quorum() {
    let bounds = Bounds { second_proposals: 1, ..THREE };
    finds("mixed proposals", &Fencing::<3>::new(bounds, Rule::MixedProposals), TWICE);
}

#[test]
fn an_equal_token_is_stale() {
    finds("accepts equal", &Fencing::<3>::new(THREE, Rule::AcceptsEqual), TWICE);
}

#[test]
fn a_token_that_a_successor_is_handed() {
    finds("hands the token on", &Fencing::<3>::new(THREE, Rule::HandsTokenOn), LATE);
}

#[test]
fn a_repair_that_lowers_a_counter() {
    finds("repair lowers", &Fencing::<3>::new(THREE, Rule::RepairLowers), TWICE);
}

#[test]
fn a_repair_that_counts_as_an_acceptance() {
    finds("repair accepts", &Fencing::<3>::new(THREE, Rule::RepairAccepts), TWICE);
}

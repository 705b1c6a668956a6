//! Turns of several servers: what holds, and what breaks where a rule is switched off.

use super::super::turn::{BOTH, Bounds, Faults, ROBBED, STUCK, Turns, Weakness};
use super::{finds, finds_nothing};

const NO_FAULTS: Faults = Faults { crashes: 0, expiries: 0, losses: 0, memories: 0 };

/// Two processes, each with a turn and a vote, or with a turn and two votes.
const TWO: Bounds = Bounds {
    processes: 2,
    quorum: 2,
    owners: 2,
    again: 0,
    newcomers: false,
    is_silent: false,
    is_live: false,
    faults: NO_FAULTS,
};

fn holds(title: &str, bounds: Bounds, states_min: usize) {
    finds_nothing(title, &Turns { bounds, weakness: Weakness::None }, states_min);
}

fn breaks(title: &str, bounds: Bounds, weakness: Weakness, breach: &str) {
    finds(title, &Turns { bounds, weakness }, breach);
}

#[test]
fn one_with_the_turn_and_one_that_asks_without() {
    holds("turns", Bounds { is_live: true, ..TWO }, 9_800);
    holds("turns, newcomers", Bounds { newcomers: true, is_live: true, ..TWO }, 300_000);
    holds("turns, two votes", Bounds { owners: 3, ..TWO }, 390_000);
    holds("turns of three", Bounds { processes: 3, ..TWO }, 790_000);
}

#[test]
fn a_vote_under_a_turn_that_asks_again() {
    holds("turns, again", Bounds { again: 1, is_live: true, ..TWO }, 88_000);
    let newcomers = Bounds { again: 1, newcomers: true, ..TWO };
    holds("turns, again, newcomers", newcomers, 660_000);
    let faults = Faults { expiries: 1, ..NO_FAULTS };
    holds("turns, again, expiry", Bounds { again: 1, faults, ..TWO }, 888_000);
}

#[test]
fn a_server_that_is_silent_and_a_process_that_crashes() {
    holds("turns, silent", Bounds { is_silent: true, is_live: true, owners: 3, ..TWO }, 24_000);
    let faults = Faults { crashes: 1, ..NO_FAULTS };
    holds("turns, crash", Bounds { is_live: true, faults, ..TWO }, 29_000);
}

#[test]
fn keys_that_expire_and_messages_that_are_lost() {
    let faults = Faults { expiries: 1, losses: 1, ..NO_FAULTS };
    holds("turns, expiry, loss", Bounds { faults, ..TWO }, 290_000);
}

#[test]
fn as_many_servers_forget_as_the_quorum_tolerates() {
    let faults = Faults { memories: 2, ..NO_FAULTS };
    holds("turns of 3 of 3, k=2", Bounds { quorum: 3, faults, ..TWO }, 91_000);
    let faults = Faults { memories: 1, ..NO_FAULTS };
    breaks("turns of 2 of 3, k=1", Bounds { faults, ..TWO }, Weakness::None, BOTH);
}

#[test]
fn the_leaders_word_is_no_lock_and_no_turn_is_anothers() {
    let bounds = Bounds { newcomers: true, ..TWO };
    breaks("the leader's word", bounds, Weakness::TurnIsTheLock, BOTH);
    breaks("any turn", bounds, Weakness::AnyTurnIsFree, ROBBED);
}

/// With another server silent, the leader's vote is needed.
#[test]
fn a_vote_that_does_not_name_its_turn() {
    let bounds = Bounds { is_silent: true, is_live: true, ..TWO };
    breaks("no name", bounds, Weakness::VotesWithoutTheTurn, STUCK);
}

#[test]
fn a_turn_that_is_given_back_not_at_all_or_with_the_lock() {
    let bounds = Bounds { is_live: true, ..TWO };
    breaks("kept", bounds, Weakness::TurnIsNotGivenBack, STUCK);
    let faults = Faults { expiries: 1, ..NO_FAULTS };
    let bounds = Bounds { newcomers: true, faults, ..TWO };
    breaks("with the lock", bounds, Weakness::TurnFreesTheLock, BOTH);
}

#[test]
fn a_second_vote_under_one_turn_by_the_owner_of_the_first() {
    let bounds = Bounds { owners: 3, ..TWO };
    breaks("the same owner", bounds, Weakness::VotesAgainAsTheSame, BOTH);
}

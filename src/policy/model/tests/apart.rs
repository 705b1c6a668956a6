//! A slot on its way: the lock is on one node, and its counter on another.

use super::super::apart::{Apart, Bounds, CalledOff, Rule};
use super::{finds, finds_nothing};

const THREE: Bounds =
    Bounds { attempts: 3, tokens: 2, is_lost_early: true, called_off: CalledOff::Never };
const ALONE: Bounds = Bounds { is_lost_early: false, ..THREE };

const TWO: &str = "two attempts hold the lock at once";
const INVERTED: &str = "who took the lock later has the smaller token";

fn model(bounds: Bounds, rule: Rule) -> Apart {
    Apart { bounds, rule }
}

#[test]
fn one_holds_while_keys_move_one_by_one() {
    finds_nothing("keys apart", &model(ALONE, Rule::Confirmed), 255_000);
    let bounds = Bounds { called_off: CalledOff::WhileEmpty, ..ALONE };
    finds_nothing("keys apart, called off", &model(bounds, Rule::Confirmed), 1);
}

/// Tokens rise in the order in which the lock was taken, even where it is lost under its holders:
/// that is what the last question is for.
#[test]
fn tokens_follow_the_lock_while_keys_move_one_by_one() {
    finds_nothing("tokens of keys apart", &model(THREE, Rule::Confirmed), 336_000);
    finds("not confirmed", &model(THREE, Rule::Unconfirmed), INVERTED);
}

#[test]
fn a_token_before_the_lock() {
    finds("mints first", &model(ALONE, Rule::MintsFirst), INVERTED);
}

/// One key's `ASK` says nothing of the other.
#[test]
fn one_sent_on_for_one_key_that_stays() {
    let model = model(ALONE, Rule::StaysWhereSent);
    finds("stays where it was sent", &model, "a token is issued twice");
}

/// Only the node that has the slot knows whether it still has the key.
#[test]
fn one_that_asks_the_importing_node_unsent() {
    finds("goes ahead", &model(ALONE, Rule::GoesAhead), TWO);
}

/// No rule of ours, but the operator's.
#[test]
fn a_migration_that_is_called_off_at_the_cost_of_keys() {
    let bounds = Bounds { called_off: CalledOff::WithKeys, ..ALONE };
    finds("called off with keys", &model(bounds, Rule::Confirmed), TWO);
    let bounds = Bounds { called_off: CalledOff::ToBeginAgain, ..ALONE };
    finds("called off and begun again", &model(bounds, Rule::Confirmed), INVERTED);
}

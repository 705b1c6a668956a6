//! A lock that is taken step by step, beside others that are taken by scripts.

use super::super::steps::{Bounds, Rule, Steps};
use super::{finds, finds_nothing};

const THREE: Bounds = Bounds { attempts: 3, clock: 2, is_lost_early: true };
const ALONE: Bounds = Bounds { is_lost_early: false, ..THREE };

fn model(bounds: Bounds, rule: Rule) -> Steps {
    Steps { bounds, rule }
}

#[test]
fn one_holds_that_took_the_lock_in_steps() {
    finds_nothing("a lock in steps", &model(ALONE, Rule::Proved), 1);
    finds("not proved", &model(ALONE, Rule::Unproved), "two attempts hold the lock at once");
}

#[test]
fn tokens_follow_the_lock_that_is_taken_in_steps() {
    finds_nothing("tokens in steps", &model(THREE, Rule::Proved), 1);
    let twice = "a token is issued twice";
    finds("the counter is overwritten", &model(THREE, Rule::Overwrites), twice);
    let inverted = "who took the lock later has the smaller token";
    finds("let in twice", &model(THREE, Rule::TakesAgain), inverted);
}

#[test]
fn a_release_that_compares_nothing() {
    let model = model(ALONE, Rule::FreesAnybodys);
    finds("frees anybody's", &model, "two attempts hold the lock at once");
}

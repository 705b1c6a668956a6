//! Tokens that are drawn from one server's counter.

use super::super::draw::{Bounds, Drawing, Rule};
use super::{finds, finds_nothing};

/// A counter that lives, on a server that is always right.
const CALM: Bounds = Bounds {
    losses: 0,
    restores: 0,
    demotions: 0,
    steals: 0,
    ahead: 0,
    second_off: 0,
    length: 2,
    is_used_daily: false,
    attempts: 4,
    clients: 2,
};
/// Long enough for the counter to expire.
const LONG: Bounds = Bounds { length: 15, is_used_daily: true, attempts: 9, clients: 1, ..CALM };

const LATE: &str = "a token is not above one that was issued before it was asked for";
const SMALLER: &str = "a thief's token is smaller than its victim's";

#[test]
fn drawn_tokens_are_unique_and_in_order_while_the_counter_lives_whatever_clocks_say() {
    for second_off in [0, -1, -14, 14, -7000, 7000] {
        let bounds = Bounds { second_off, ..CALM };
        let drawing = Drawing::new(bounds, Rule::Sound);
        finds_nothing(&format!("draws, off {second_off}"), &drawing, 7_000);
    }
}

#[test]
fn a_counter_that_is_lost_at_any_moment_or_expires_in_use() {
    for second_off in [0, -3, 3, -7000] {
        let bounds = Bounds { losses: 2, second_off, ..CALM };
        let drawing = Drawing::new(bounds, Rule::Sound);
        finds_nothing(&format!("lost, off {second_off}"), &drawing, 60_000);
    }
    finds_nothing("draws for a week", &Drawing::new(LONG, Rule::Sound), 35_000);
}

#[test]
fn a_server_that_begins_anew_with_an_older_counter() {
    let bounds = Bounds { restores: 2, losses: 1, ..CALM };
    finds_nothing("restored", &Drawing::new(bounds, Rule::Sound), 720_000);
}

/// A counter that a wrong clock has driven ahead is kept for as long as it is used.
#[test]
fn a_counter_that_is_ahead_of_all_clocks() {
    let bounds = Bounds { ahead: 30, ..LONG };
    finds_nothing("ahead", &Drawing::new(bounds, Rule::Sound), 290_000);
    finds("drawn ahead", &Drawing::new(bounds, Rule::BelievesAhead), LATE);
}

#[test]
fn a_number_of_a_lost_counter_is_no_token() {
    let bounds = Bounds { losses: 1, ..CALM };
    finds("any number", &Drawing::new(bounds, Rule::BelievesAny), LATE);
}

#[test]
fn a_name_is_not_drawn_for_on_another_connection() {
    let bounds = Bounds { restores: 1, ..CALM };
    finds("any connection", &Drawing::new(bounds, Rule::DrawsAnywhere), LATE);
}

#[test]
fn a_server_that_is_demoted_and_promoted_while_its_connections_stay() {
    let bounds = Bounds { demotions: 2, losses: 1, ..CALM };
    finds_nothing("demoted", &Drawing::new(bounds, Rule::Sound), 100_000);
    finds("a right that does not lapse", &Drawing::new(bounds, Rule::DrawsAnyTime), LATE);
}

#[test]
fn a_thief_between_the_taking_and_the_draw_has_the_larger_token() {
    let bounds = Bounds { steals: 2, losses: 1, demotions: 1, ..CALM };
    finds_nothing("stolen", &Drawing::new(bounds, Rule::Sound), 100_000);
    let bounds = Bounds { steals: 1, ..CALM };
    finds("without a proof", &Drawing::new(bounds, Rule::DrawsWithoutProof), SMALLER);
}

use super::*;

fn at(ms: u64) -> Moment {
    Moment::from_nanos(0).after(Duration::from_millis(ms))
}

#[test]
fn a_relay_ends_after_so_many_hands() {
    let mut relay = Relay::default();
    for _ in 0..HANDS_MAX {
        relay = relay.next(at(5)).unwrap();
    }
    assert_eq!(relay.next(at(5)), None);
}

#[test]
fn a_relay_ends_in_time_but_a_long_first_hold_does_not_count() {
    let relay = Relay::default().next(at(60_000)).unwrap();
    assert!(relay.next(at(61_000)).is_some());
    assert_eq!(relay.next(at(61_001)), None);
}

#[test]
fn a_lease_is_passed_on_with_its_end_and_the_next_token_that_is_set_aside() {
    let (term, until) = (Term::DEFAULT, at(10_000));
    let lease = |token| Passed { until, token };
    assert_eq!(Relay::default().pass(lease(Some(70)), term, at(1)), None, "none is set aside");
    let mut relay = Relay::begin();
    for token in 70..70 + u64::from(ASIDE) {
        let passed = relay.pass(lease(Some(token)), term, at(1)).unwrap();
        assert_eq!(passed.0, lease(Some(token + 1)));
        relay = passed.1;
        assert_eq!(relay.last_aside(token + 1), 70 + u64::from(ASIDE));
    }
    assert_eq!(relay.pass(lease(Some(70 + u64::from(ASIDE))), term, at(1)), None);
    assert!(relay.pass(lease(None), term, at(1)).is_some(), "it needs no token");
    assert_eq!(Relay::begin().last_aside(0), 0, "a lease without a token has none for others");
    assert_eq!(Relay::begin().pass(lease(None), term, at(5_001)), None, "it is short");
}

#[test]
fn leases_that_are_passed_on_count_among_the_hands() {
    let (mut relay, lease) = (Relay::default(), Passed { until: at(10_000), token: None });
    for _ in 0..HANDS_MAX {
        relay = relay.pass(lease, Term::DEFAULT, at(1)).unwrap().1;
    }
    assert_eq!(relay.pass(lease, Term::DEFAULT, at(1)), None);
    assert_eq!(relay.next(at(1)), None);
}

#[test]
fn servers_set_as_many_tokens_aside_as_are_issued() {
    let raised = format!("string.sub(judged, 1, -4), {ASIDE}");
    let script = include_str!("../../../scripts/acquire.lua");
    assert!(script.contains(&raised), "{script}");
}

use super::*;

#[test]
fn an_attempt_is_late_at_the_limit_of_its_request_at_the_latest() {
    let at = |secs| Moment::from_nanos(0).after(Duration::from_secs(secs));
    let late = [None, Some(at(9)), Some(at(1))].map(|ends_at| late_within(at(5), ends_at));
    assert_eq!(late, [at(5), at(5), at(1)]);
}

#[test]
fn a_limit_below_the_timers_tick_is_one_try() {
    let nanos = Duration::from_nanos;
    for (limit, is) in [(0, 0), (1, 0), (999_999, 0), (1_000_000, 1_000_000)] {
        assert_eq!(waitable(nanos(limit)), nanos(is));
    }
    assert_eq!(waitable(Duration::MAX), Duration::MAX);
}

#[test]
fn a_limit_that_is_used_up_is_no_request_without_one() {
    let of = |limit, passed| left_of(Duration::from_millis(limit), Duration::from_millis(passed));
    assert_eq!(of(50, 20), Duration::from_millis(30));
    for passed in [50, 51] {
        let left = of(50, passed);
        assert!(!left.is_zero() && left < Duration::from_micros(1), "{left:?}");
    }
    assert!(of(0, 1).is_zero(), "one try");
}

use super::*;

const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(8), longest: Duration::from_millis(100) };

#[test]
fn delays_double_up_to_the_longest() {
    let most: Vec<u128> =
        (0..6).map(|failed| BACKOFF.delay(failed, u64::MAX).as_micros()).collect();
    assert_eq!(most, [7_999, 15_999, 31_999, 63_999, 99_999, 99_999]);
}

#[test]
fn jitter_stays_between_half_and_the_whole_even_at_the_longest() {
    assert_eq!(BACKOFF.delay(90, 0), Duration::from_millis(50));
    assert!(BACKOFF.delay(u32::MAX, u64::MAX) < Duration::from_millis(100));
    assert_eq!(BACKOFF.delay(90, 1 << 63), Duration::from_millis(75));
}

#[test]
fn a_wait_ends_soon_after_what_it_waits_for() {
    let ends_in = Duration::from_millis(3);
    let delay = BACKOFF.delay_until(5, Some(ends_in), 0);
    assert_eq!(delay, Duration::from_millis(3 + 4));
    assert_eq!(BACKOFF.delay_until(0, Some(Duration::from_secs(9)), 0), BACKOFF.delay(0, 0));
    assert_eq!(BACKOFF.delay_until(0, None, 0), BACKOFF.delay(0, 0));
}

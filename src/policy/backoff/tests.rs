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

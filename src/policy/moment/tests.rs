use super::*;

#[test]
fn arithmetic_saturates_at_both_ends() {
    let end = Moment::from_nanos(u64::MAX);
    assert_eq!(end.after(Duration::from_secs(1)), end);
    assert_eq!(Moment::from_nanos(5).after(Duration::MAX), end);
    assert_eq!(Moment::from_nanos(5).since(end), Duration::ZERO);
}

#[test]
fn after_and_since_are_inverse() {
    let start = Moment::from_nanos(7);
    let span = Duration::from_millis(30);
    assert_eq!(start.after(span).since(start), span);
}

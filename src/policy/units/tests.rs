use super::*;

#[test]
fn durations_have_the_unit_that_people_would_choose() {
    let cases = [
        (Duration::ZERO, "0 s"),
        (Duration::from_nanos(1), "0.001 µs"),
        (Duration::from_micros(120), "120 µs"),
        (Duration::from_millis(10), "10 ms"),
        (Duration::from_micros(10_500), "10.5 ms"),
        (Duration::from_secs(1), "1 s"),
        (Duration::from_millis(9_898), "9.898 s"),
        (Duration::from_nanos(1_999_999_999), "1.999999999 s"),
        (Duration::from_nanos(9_999_999), "9.999999 ms"),
        (Duration::from_nanos(86_400_000_000_001), "86400.000000001 s"),
        (Duration::from_nanos(9_898_000_001), "9.898 s"),
        (Duration::from_secs(90), "90 s"),
        (Duration::from_secs(300), "5 min"),
        (Duration::from_secs(3_600), "1 h"),
        (Duration::from_secs(86_400), "24 h"),
        (Duration::MAX, "18446744073709551615.999999999 s"),
    ];
    for (duration, text) in cases {
        assert_eq!(Units(duration).to_string(), text);
    }
}

#[test]
fn a_precision_rounds_and_leaves_out_zeros() {
    let one = |micros| format!("{:.1}", Units(Duration::from_micros(micros)));
    assert_eq!(one(3_249_000), "3.2 s");
    assert_eq!(one(3_000_400), "3 s");
    assert_eq!(one(999_999), "1000 ms");
    assert_eq!(format!("{:.0}", Units(Duration::from_millis(8_600))), "9 s");
}

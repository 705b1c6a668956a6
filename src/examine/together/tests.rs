use super::super::report::Severity;
use super::*;

#[test]
fn a_run_that_is_met_twice_is_found_at_its_second_place() {
    let runs = [("a", Some("1")), ("b", Some("2")), ("c", None), ("d", Some("1")), ("e", None)];
    let found: Vec<_> = (0..runs.len()).map(|index| same_run(&runs, index)).collect();
    assert_eq!(found, [None, None, None, Some("a"), None]);
}

fn reading(ahead_ms: i64, within_ms: u64) -> ClockReading {
    ClockReading { ahead_micros: ahead_ms * 1000, within: Duration::from_millis(within_ms) }
}

#[test]
fn clocks_far_apart_are_warned_of_unless_the_difference_may_be_the_networks() {
    let severity = |readings: &[ClockReading]| {
        let named: Vec<_> = readings.iter().map(|reading| ("s", *reading)).collect();
        clocks(&named).map(|finding| finding.severity)
    };
    assert_eq!(severity(&[]), None);
    assert_eq!(severity(&[reading(5000, 1)]), None);
    assert_eq!(severity(&[reading(-400, 1), reading(500, 1)]), Some(Severity::Ok));
    assert_eq!(severity(&[reading(-900, 1), reading(900, 1)]), Some(Severity::Warning));
    assert_eq!(severity(&[reading(-900, 400), reading(900, 500)]), Some(Severity::Ok));
    let named = [("a", reading(0, 1)), ("b", reading(9000, 1)), ("c", reading(20, 1))];
    assert!(clocks(&named).unwrap().reason.contains("of b is 9 s ahead of the clock of a"));
}

#[test]
fn the_set_is_as_good_as_its_voters() {
    let severity = |servers, needed, voting| {
        tolerance(Quorum::new(servers, needed).unwrap(), servers, voting, 0).severity
    };
    let of_waiting = tolerance(Quorum::new(5, None).unwrap(), 5, 2, 1);
    assert_eq!(of_waiting.severity, Severity::Warning);
    assert_eq!(severity(1, None, 1), Severity::Ok);
    assert_eq!(severity(1, None, 0), Severity::Error);
    assert_eq!(severity(5, None, 5), Severity::Ok);
    assert_eq!(severity(5, None, 4), Severity::Warning);
    assert_eq!(severity(5, None, 3), Severity::Warning);
    assert_eq!(severity(5, None, 2), Severity::Error);
    assert_eq!(severity(5, Some(4), 3), Severity::Error);
    assert_eq!(severity(2, None, 2), Severity::Note);
    let reason = tolerance(Quorum::new(5, Some(4)).unwrap(), 5, 5, 0).reason;
    assert!(reason.contains("4 of 5") && reason.contains("k = 2") && reason.contains("f = 1"));
}

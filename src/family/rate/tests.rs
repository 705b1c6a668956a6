use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn what_servers_share_is_no_more_than_the_whole() {
    let rate = Rate::new(10, SECOND).burst(7);
    assert_eq!(rate.shared_by(1), Ok(rate));
    assert_eq!(rate.shared_by(3), Ok(Rate { count: 10, period: SECOND * 3, burst: 2 }));
    assert_eq!(Rate::parse("10/3000000/2"), rate.shared_by(3).ok());
    assert_eq!(rate.arguments().join("/"), "10/1000000/7");
    assert_eq!(rate.time_of(5), Some(SECOND / 2));
}

#[test]
fn rates_that_cannot_be_kept_are_refused_with_what_would_do() {
    let refused = |rate: Rate, servers| rate.shared_by(servers).unwrap_err();
    let nothing = " lets nothing through: both must be at least 1";
    assert!(refused(Rate::new(0, SECOND), 1).ends_with(nothing));
    assert!(refused(Rate::new(5, SECOND).burst(0), 1).ends_with(nothing));
    let year = SECOND * 366 * 24 * 60 * 60;
    let [short, long] = [Duration::from_micros(999), year + SECOND * 60 * 60];
    let wrong = "the period of a rate must be between 1 ms and";
    assert_eq!(refused(Rate::new(5, short), 1), format!("{wrong} 8784 h, not 999 µs"));
    // Its tokens are back in time.
    assert_eq!(refused(Rate::new(9, long).burst(1), 1), format!("{wrong} 8784 h, not 8785 h"));
    assert_eq!(refused(Rate::new(9, year).burst(3), 3), format!("{wrong} 2928 h, not 8784 h"));
    assert_eq!(
        refused(Rate::new(5, SECOND).burst(2), 3),
        "a burst of 2 cannot be shared by 3 servers, which each decide alone: it must be at least 3"
    );
    assert!(Rate::new(1, year).shared_by(1).is_ok());
    for rate in [Rate::new(1, year).burst(2), Rate::new(1, SECOND * 60 * 60).burst(u32::MAX)] {
        assert!(refused(rate, 1).ends_with("takes longer than 8784 h to refill"), "{rate}");
    }
}

#[test]
fn what_is_no_rate_is_not_read_as_one() {
    for text in ["", "1/2", "1/2/3/4", "1/2/x", "-1/2/3", "5000000000/1/1"] {
        assert_eq!(Rate::parse(text), None, "{text}");
    }
}

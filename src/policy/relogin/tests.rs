use super::*;

#[test]
fn a_quarter_of_the_time_is_left_and_a_fleet_is_spread() {
    let at = |random| {
        let from = Moment::from_nanos(7);
        relogin_at(from, Duration::from_secs(800), random).since(from)
    };
    assert_eq!(at(0), Duration::from_secs(500));
    assert!((Duration::from_secs(599)..Duration::from_secs(600)).contains(&at(u64::MAX)));
}

#[test]
fn no_time_makes_a_connection_busy_with_logins_and_all_time_is_no_overflow() {
    let from = Moment::from_nanos(7);
    assert_eq!(relogin_at(from, Duration::ZERO, 0), from.after(APART_MIN));
    assert_eq!(relogin_at(from, Duration::MAX, u64::MAX), Moment::from_nanos(u64::MAX));
}

use super::*;

const TTL: Duration = Duration::from_secs(10);

fn at(secs: u64) -> Moment {
    Moment::from_nanos(0).after(Duration::from_secs(secs))
}

fn wait(uptime_secs: i64, first_seen: u64, not_before: Option<u64>, now: u64) -> Duration {
    let run = Run { uptime_secs, first_seen: at(first_seen), not_before: not_before.map(at) };
    quarantine(TTL, run, at(now))
}

#[test]
fn a_server_that_has_run_for_the_longest_ttl_may_vote() {
    assert_eq!(wait(11, 5, None, 5), Duration::ZERO);
    assert_eq!(wait(1_000_000, 5, None, 5), Duration::ZERO);
}

#[test]
fn one_that_has_just_started_waits_out_the_rest() {
    assert_eq!(wait(0, 5, None, 5), TTL);
    assert_eq!(wait(10, 5, None, 5), Duration::from_secs(1), "10 s may be 9.1");
}

/// On Redis 7.0, a step of -1 h gave an uptime of -3596 s.
#[test]
fn an_uptime_below_zero_is_none_and_our_own_time_ends_the_wait() {
    assert_eq!(wait(-3596, 5, None, 5), TTL);
    assert_eq!(wait(-3596, 5, None, 12), Duration::from_secs(3));
    assert_eq!(wait(-3596, 5, None, 15), Duration::ZERO);
}

/// A reboot after which the clock is set forward by an hour.
#[test]
fn an_uptime_that_reaches_back_before_the_run_before_is_not_believed() {
    assert_eq!(wait(3600, 53, Some(50), 53), TTL);
    assert_eq!(wait(3600, 53, Some(50), 60), Duration::from_secs(3));
    assert_eq!(wait(12, 53, Some(40), 53), Duration::ZERO, "it can be true");
}

use super::*;

/// The longest that the default adds to a time that is known.
const BEHIND: Duration = ms(4);
const GRACE: Duration = Duration::from_secs(10);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Moment {
    Moment::from_nanos(0).after(ms(n))
}

fn patience(wait: Wait, retry: Retry, grace: Duration) -> RetryState {
    RetryState::new(wait, retry, grace, ms(500), at(0))
}

fn rest(next: Next) -> Rest {
    match next {
        Next::Rest(rest) => rest,
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_waiting_the_first_setback_is_the_answer_and_one_attempts_time_the_limit() {
    for setback in [Setback::Held(None), Setback::TooLate, Setback::Failing] {
        for wait in [Wait::Never, Wait::AtMost(Duration::ZERO)] {
            let mut patience = patience(wait, Retry::default(), GRACE);
            assert_eq!(patience.ends_at(), Some(at(500)));
            assert_eq!(patience.after(setback, at(6), 0), Next::GiveUp);
        }
    }
}

#[test]
fn a_waiter_backs_off_but_is_there_when_the_holders_lease_ends() {
    let mut patience = patience(Wait::Forever, Retry::default(), GRACE);
    let first = rest(patience.after(Setback::Held(Some(ms(5000))), at(0), 0)).most;
    let second = rest(patience.after(Setback::Held(Some(ms(5000))), at(9), 0)).most;
    assert!(second > first);
    let last = rest(patience.after(Setback::Held(Some(ms(1))), at(99), 0)).most;
    assert!(last >= ms(1) && last <= ms(1) + BEHIND);
}

/// A Cluster that has no quorum, or a server that loads, may be back in time.
#[test]
fn servers_may_fail_for_as_long_as_a_limit_allows() {
    let mut patience = patience(Wait::AtMost(ms(900)), Retry::default(), ms(100));
    for now in [0, 101, 500, 899] {
        assert!(matches!(patience.after(Setback::Failing, at(now), 0), Next::Rest(_)));
    }
    assert_eq!(patience.after(Setback::Failing, at(900), 0), Next::OutOfTime);
}

#[test]
fn who_is_next_in_line_has_put_up_with_failing_servers_since_it_came() {
    let mut first = patience(Wait::Forever, Retry::default(), GRACE);
    first.after(Setback::Failing, at(5), 0);
    let next = |came_at| {
        let (wait, retry) = (Wait::Forever, Retry::default());
        let mut next = RetryState::new(wait, retry, GRACE, ms(500), at(came_at));
        next.goes_on_from(&first);
        next
    };
    assert_eq!(next(1).failing_for(at(20)), ms(15));
    assert_eq!(next(7).failing_for(at(20)), ms(13));
    assert_eq!(next(1).after(Setback::Failing, at(10_006), 0), Next::GiveUp);
}

/// However long a caller's delays and a server's times are, no sum of them ends the caller's task.
#[test]
fn the_longest_delays_and_times_add_up_to_a_rest() {
    let longest = Retry::fixed(Duration::MAX);
    for retry in [longest, longest.jitter(false), Retry::exponential(ms(4), Duration::MAX)] {
        for wait in [Wait::Forever, Wait::AtMost(Duration::MAX)] {
            let mut patience = patience(wait, retry, Duration::MAX);
            let times = [ms(0), ms(9), Duration::MAX - ms(1), Duration::MAX];
            for time in times {
                for setback in [
                    Setback::Held(Some(time)),
                    Setback::Watched(Some(time)),
                    Setback::Quarantined(time),
                    Setback::Held(None),
                    Setback::Failing,
                ] {
                    let it = rest(patience.after(setback, at(5), u64::MAX));
                    assert!(it.least <= it.most, "{setback:?}");
                }
            }
        }
    }
}

#[test]
fn a_limited_wait_ends_at_its_limit() {
    let mut patience = patience(Wait::AtMost(ms(10)), Retry::default(), GRACE);
    let last = rest(patience.after(Setback::Held(None), at(9), u64::MAX));
    assert_eq!(last.most, ms(1));
    assert!(!patience.is_over(at(9)) && patience.is_over(at(10)));
    assert_eq!(patience.after(Setback::Held(None), at(10), 0), Next::OutOfTime);
}

#[test]
fn news_ends_a_rest_at_once_only_where_it_may_lead_on() {
    let retry = Retry::fixed(ms(40)).jitter(false);
    let mut patience = patience(Wait::Forever, retry, GRACE);
    let mut least = |now| rest(patience.after(Setback::Watched(None), at(now), 0)).least;
    assert_eq!(least(0), ms(0), "the first");
    assert_eq!(least(1), ms(40), "a moment later");
    assert_eq!(least(41), ms(0), "and after a whole delay");
    for setback in [Setback::Failing, Setback::TooLate, Setback::Quarantined(ms(9))] {
        let Rest { least, most } = rest(patience.after(setback, at(99), 0));
        assert_eq!(least, most, "what one server tells of the lock is no news of the others");
    }
}

/// Whatever a server says, and however often it has the waiter ask.
#[test]
fn nobody_is_asked_more_often_than_twice_in_a_delay() {
    let retry = Retry::fixed(ms(10)).jitter(false);
    let mut patience = patience(Wait::Forever, retry, GRACE);
    let (mut now, mut turns) = (0, 0);
    while now < 1000 {
        let setback = [Setback::Held(Some(ms(0))), Setback::Watched(Some(ms(0)))][turns % 2];
        let Rest { least, .. } = rest(patience.after(setback, at(now), 0));
        now += u64::try_from(least.as_millis()).unwrap();
        turns += 1;
    }
    assert!(turns <= 2 * 1000 / 10 + 2, "{turns}");
}

#[test]
fn failing_servers_are_put_up_with_for_the_grace_in_a_row() {
    let mut patience = patience(Wait::Forever, Retry::default(), ms(100));
    let mut next = |setback, now| patience.after(setback, at(now), 0);
    assert!(matches!(next(Setback::Failing, 0), Next::Rest(_)));
    assert!(matches!(next(Setback::Failing, 100), Next::Rest(_)));
    assert!(matches!(next(Setback::Held(None), 101), Next::Rest(_)));
    assert!(matches!(next(Setback::Failing, 150), Next::Rest(_)));
    assert_eq!(next(Setback::Failing, 251), Next::GiveUp);
}

#[test]
fn a_quarantine_is_waited_out_in_one_go() {
    let mut patience = patience(Wait::Forever, Retry::default(), ms(100));
    let wait = rest(patience.after(Setback::Quarantined(ms(7000)), at(0), 0)).least;
    assert!(wait > ms(7000) && wait <= ms(7000) + BEHIND);
    let next = patience.after(Setback::Quarantined(ms(1)), at(7100), 0);
    assert!(matches!(next, Next::Rest(_)));
}

#[test]
fn the_setback_of_the_last_attempt_is_the_answer() {
    let retry = Retry::fixed(ms(7)).attempts(3).jitter(false);
    let mut patience = patience(Wait::Forever, retry, GRACE);
    assert_eq!(rest(patience.after(Setback::Held(None), at(1), 0)).most, ms(7));
    assert_eq!(rest(patience.after(Setback::TooLate, at(8), 0)).most, ms(7));
    assert_eq!(patience.after(Setback::Held(None), at(15), 0), Next::GiveUp);
}

#[test]
fn the_hopeless_is_never_tried_again() {
    let mut patience = patience(Wait::Forever, Retry::default(), GRACE);
    assert_eq!(patience.after(Setback::Hopeless, at(0), 0), Next::GiveUp);
}

//! What limits a wait.

use std::time::Duration;

use super::Moment;

/// A timer is no more exact than this, so it is not set for less.
const TICK: Duration = Duration::from_millis(1);

/// A wait that may last this long. What no timer can tell from zero is zero: one try, as long as that takes.
pub(crate) fn waitable(limit: Duration) -> Duration {
    if limit < TICK { Duration::ZERO } else { limit }
}

/// When an attempt is late that is so at `late_at`, where the request's limit is over at `ends_at`: what it was granted
/// later is given back.
pub(crate) fn late_within(late_at: Moment, ends_at: Option<Moment>) -> Moment {
    ends_at.map_or(late_at, |ends_at| ends_at.min(late_at))
}

#[cfg(test)]
mod tests {
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
}

//! When a wait for answers needs a timer of its own.

use std::time::Duration;

#[cfg(any(test, feature = "_engine"))]
use super::Moment;

/// A timer is no more exact than this, so it is not set for less.
const TICK: Duration = Duration::from_millis(1);

/// A wait that may last this long. What no timer can tell from zero is zero: one try, as long as that takes.
pub(crate) fn waitable(limit: Duration) -> Duration {
    if limit < TICK { Duration::ZERO } else { limit }
}

/// How long a wait for answers may last at the most, where nothing else ends it: at `end`, or where
/// there is none after `command_max`, the maximum time of one command. A connection ends by itself the
/// wait for what was sent on it, that time after `asked_at`; none where something is not sent yet, or
/// nobody may drive the connection.
#[cfg(any(test, feature = "_engine"))]
pub(crate) fn alarm(
    end: Option<Moment>,
    asked_at: Option<Moment>,
    command_max: Duration,
    now: impl FnOnce() -> Moment,
) -> Option<Duration> {
    match (end, asked_at) {
        (None, Some(_)) => None,
        (None, None) => Some(command_max),
        (Some(end), Some(asked_at)) if end.after(TICK) >= asked_at.after(command_max) => None,
        (Some(end), _) => Some(end.since(now())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_the_timers_tick_is_one_try() {
        let nanos = Duration::from_nanos;
        for (limit, is) in [(0, 0), (1, 0), (999_999, 0), (1_000_000, 1_000_000)] {
            assert_eq!(waitable(nanos(limit)), nanos(is));
        }
        assert_eq!(waitable(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn a_timer_is_set_only_where_no_connection_ends_the_wait() {
        let ms = Duration::from_millis;
        let at = |at| Moment::from_nanos(0).after(ms(at));
        for (end, asked_at, alarm_in) in [
            (None, Some(at(10)), None),
            (None, None, Some(ms(500))),
            (Some(at(509)), Some(at(10)), None),
            (Some(at(508)), Some(at(10)), Some(ms(488))),
            (Some(at(900)), None, Some(ms(880))),
            (Some(at(15)), None, Some(Duration::ZERO)),
        ] {
            let set = alarm(end, asked_at, ms(500), || at(20));
            assert_eq!(set, alarm_in, "{end:?}, {asked_at:?}");
        }
    }
}

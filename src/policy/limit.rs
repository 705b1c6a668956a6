//! How short a wait is one.

use std::time::Duration;

/// A timer is no more exact than this, so it is not set for less.
const TICK: Duration = Duration::from_millis(1);

/// A wait that may last this long. What no timer can tell from zero is zero: one try, as long as that takes.
pub(crate) fn waitable(limit: Duration) -> Duration {
    if limit < TICK { Duration::ZERO } else { limit }
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
}

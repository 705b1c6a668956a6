//! When a connection whose login ends logs in again.

use std::time::Duration;

use super::backoff::{Backoff, jittered};
use super::moment::Moment;

/// Between two tries that failed: the provider of credentials is somebody's service, too.
pub(crate) const RELOGIN: Backoff =
    Backoff { first: Duration::from_millis(250), longest: Duration::from_secs(15) };
/// Logins of one connection are at least this far apart, whatever its provider says.
const APART_MIN: Duration = Duration::from_millis(100);

/// When to log in again for a login that lasts `valid_for` from `from` on: after 5/8 to 6/8 of that
/// time, so that a fleet does not come in step, and a quarter of it is left for tries that fail.
pub(crate) fn relogin_at(from: Moment, valid_for: Duration, random: u64) -> Moment {
    let after = valid_for / 2 + jittered(valid_for / 4, random);
    from.after(after.max(APART_MIN))
}

#[cfg(test)]
mod tests {
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
}

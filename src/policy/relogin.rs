//! When a connection whose login ends logs in again.

use std::time::Duration;

use super::backoff::{Backoff, jittered};
use super::moment::Moment;

/// The pauses after failed logins, which also spare the service that provides credentials.
pub(crate) const RELOGIN: Backoff =
    Backoff { first: Duration::from_millis(250), longest: Duration::from_secs(15) };
/// Logins of one connection are at least this far apart, whatever its provider says.
const APART_MIN: Duration = Duration::from_millis(100);

/// When to renew a login that lasts `valid_for` from `from` on: after 5/8 to 6/8 of that time, so
/// that a fleet does not come in step, and a quarter of it is left for failed tries.
pub(crate) fn relogin_at(from: Moment, valid_for: Duration, random: u64) -> Moment {
    let after = valid_for / 2 + jittered(valid_for / 4, random);
    from.after(after.max(APART_MIN))
}

#[cfg(test)]
mod tests;

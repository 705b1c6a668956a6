//! The limits of waits.

use std::time::Duration;

use super::Moment;

/// The resolution of a timer, which is not set for less.
const TICK: Duration = Duration::from_millis(1);

/// The limit of a wait. Less than a timer's resolution is zero: one try, as long as that takes.
pub(crate) fn waitable(limit: Duration) -> Duration {
    if limit < TICK { Duration::ZERO } else { limit }
}

/// The rest of a limit after `passed`. It stays above zero, because zero means one try, as long as that takes.
pub(crate) fn left_of(limit: Duration, passed: Duration) -> Duration {
    let least = if limit.is_zero() { Duration::ZERO } else { Duration::from_nanos(1) };
    limit.saturating_sub(passed).max(least)
}

/// The end of an attempt: `late_at`, or the end of the request's limit before that. What is granted later is released.
pub(crate) fn late_within(late_at: Moment, ends_at: Option<Moment>) -> Moment {
    ends_at.map_or(late_at, |ends_at| ends_at.min(late_at))
}

/// Whether servers that were asked at `since` have been silent for half of a timeout: then their former answers no
/// longer count when a limit ends.
pub(crate) fn is_silence(since: Moment, timeout: Duration, now: Moment) -> bool {
    since.after(timeout / 2) <= now
}

#[cfg(test)]
mod tests;

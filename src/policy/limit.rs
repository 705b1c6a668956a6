//! What limits a wait.

use std::time::Duration;

use super::Moment;

/// A timer is no more exact than this, so it is not set for less.
const TICK: Duration = Duration::from_millis(1);

/// A wait that may last this long. What no timer can tell from zero is zero: one try, as long as that takes.
pub(crate) fn waitable(limit: Duration) -> Duration {
    if limit < TICK { Duration::ZERO } else { limit }
}

/// What is left of a limit behind what has passed. One that is used up is still a limit: no time at all would be one try, as
/// long as that takes.
pub(crate) fn left_of(limit: Duration, passed: Duration) -> Duration {
    let least = if limit.is_zero() { Duration::ZERO } else { Duration::from_nanos(1) };
    limit.saturating_sub(passed).max(least)
}

/// When an attempt is late that is so at `late_at`, where the request's limit is over at `ends_at`: what it was granted
/// later is given back.
pub(crate) fn late_within(late_at: Moment, ends_at: Option<Moment>) -> Moment {
    ends_at.map_or(late_at, |ends_at| ends_at.min(late_at))
}

/// Whether servers that were asked at `since` have been silent for half of a timeout: when a limit is over, what they said
/// before counts no more.
pub(crate) fn is_silence(since: Moment, timeout: Duration, now: Moment) -> bool {
    since.after(timeout / 2) <= now
}

#[cfg(test)]
mod tests;

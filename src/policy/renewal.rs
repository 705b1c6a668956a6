//! When a lease is renewed, and when again if that failed.

use std::time::Duration;

use super::{Backoff, Moment, Quorum, Verdict};

/// A renewal begins after one in this many parts of the TTL.
const RENEW_SHARE: u32 = 3;
/// Renewals are due on a grid, whose step is one in this many parts of the TTL: those of a process with many leases
/// go out together, in few commands, few writes and few wakes.
const GRID_SHARE: u32 = 2048;
/// The first retry comes after one in this many parts of the TTL, within the two bounds below.
const FIRST_SHARE: u32 = 60;
/// Sooner than this, a reply that is merely slow would be overtaken by a retry.
const FIRST_MIN: Duration = Duration::from_millis(5);
/// Later than this, a retry would wait needlessly after a hiccup of the network.
const FIRST_MAX: Duration = Duration::from_millis(200);
/// Maximum time between retries, as one in this many parts of the TTL, so that several fit.
const LONGEST_SHARE: u32 = 6;
/// The last try leaves one in this many parts of the TTL for its reply to come before the end.
const LAST_SHARE: u32 = 20;

/// The result of the answers to an extension so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    Open,
    /// A quorum extended the lease (safety rule 6).
    Extended,
    /// The lease is gone from more servers than a quorum can be without.
    Lost,
}

/// The result after `extended` servers extended a lease, and `gone` said that it is gone.
pub(crate) fn extension(quorum: Quorum, extended: usize, gone: usize) -> Extension {
    match (quorum.verdict(extended, gone), quorum.verdict(0, gone)) {
        (Verdict::Won, _) => Extension::Extended,
        (_, Verdict::Lost) => Extension::Lost,
        _ => Extension::Open,
    }
}

/// When to renew a lease of `ttl` that was last asked for at `asked_at`.
///
/// After a third of the TTL, or up to a step of the grid before, so that two more tries as far apart fit before its
/// end: a renewal that is lost with its whole interval does not cost the lease.
pub(crate) fn renew_at(asked_at: Moment, ttl: Duration) -> Moment {
    asked_at.after(ttl / RENEW_SHARE).on_grid(ttl / GRID_SHARE)
}

/// When to try again after the `failed`th renewal in a row (the first is 0) whose outcome is
/// unknown or that found too few servers, for a lease that ends at `deadline`.
///
/// The delay is short at first, and grows, with jitter. The last try leaves some time for its reply;
/// `None` if there is no time for another.
pub(crate) fn retry_at(
    now: Moment,
    failed: u32,
    ttl: Duration,
    deadline: Moment,
    random: u64,
) -> Option<Moment> {
    let until_last = deadline.since(now).checked_sub(ttl / LAST_SHARE)?;
    if until_last.is_zero() {
        return None;
    }
    let first = soonest(ttl);
    let delay = Backoff { first, longest: first.max(ttl / LONGEST_SHARE) }.delay(failed, random);
    Some(now.after(delay.min(until_last)))
}

fn soonest(ttl: Duration) -> Duration {
    (ttl / FIRST_SHARE).clamp(FIRST_MIN, FIRST_MAX)
}

#[cfg(test)]
mod tests;

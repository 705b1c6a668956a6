use std::time::Duration;

use super::{Moment, Units};

/// The shortest TTL that is accepted: below it, drift and a round trip leave nothing to hold.
pub(crate) const TTL_MIN: Duration = Duration::from_millis(10);
/// The longest TTL that is accepted, and the longest time for which a lock without a lease is kept
/// from others. A fence counter has to outlive its last lease by far, and expires after seven days
/// without use.
pub(crate) const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Clocks may drift apart by one in this many parts of the TTL.
const DRIFT_SHARE: u32 = 100;
/// What Redis needs to notice an expiry, and its clock's granularity of one millisecond.
const DRIFT_FLOOR: Duration = Duration::from_millis(2);
/// With this, a fraction of a millisecond makes a whole one.
const ROUNDS_UP: Duration = Duration::from_nanos(999_999);

/// A lease's TTL, and how much of it has to be left at the grant.
///
/// The source is the validity rule of Redlock, "The Redlock algorithm" step 3
/// (<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>): validity counts
/// from before the first byte was sent, never from the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    ttl_ms: u32,
    /// Less than a TTL. Not a `Duration`, which takes four times the room in every lease.
    min_validity_ms: u32,
}

/// How far two clocks may drift apart within this time.
pub(crate) fn drift(time: Duration) -> Duration {
    time / DRIFT_SHARE + DRIFT_FLOOR
}

impl Term {
    /// A TTL of 10 s, of which a tenth has to be left at the grant.
    pub(crate) const DEFAULT: Self = Self { ttl_ms: 10_000, min_validity_ms: 1_000 };

    /// A term of `ttl`, of which `min_validity` has to be left at the grant; by default a tenth of the
    /// TTL. Redis counts in milliseconds: the TTL is rounded down, and the minimum validity up.
    pub(crate) fn new(ttl: Duration, min_validity: Option<Duration>) -> Result<Self, String> {
        let ttl_ms = u32::try_from(ttl.as_millis()).unwrap_or(u32::MAX);
        let whole_ms = Duration::from_millis(ttl_ms.into());
        if whole_ms < TTL_MIN {
            return Err(format!("TTL must be at least {}, not {}", Units(TTL_MIN), Units(ttl)));
        }
        if whole_ms > TTL_MAX {
            return Err(format!(
                "TTL must be at most {}, not {}: renewal keeps a lease for longer",
                Units(TTL_MAX),
                Units(ttl)
            ));
        }
        let min_validity = min_validity.unwrap_or(whole_ms / 10);
        let min_validity_ms = min_validity.saturating_add(ROUNDS_UP).as_millis();
        let min_validity_ms = u32::try_from(min_validity_ms).unwrap_or(u32::MAX);
        let term = Self { ttl_ms, min_validity_ms };
        let worth = whole_ms.saturating_sub(term.drift());
        if term.min_validity() >= worth {
            return Err(format!(
                "minimum validity {} exceeds what a TTL of {} is good for after drift, {}",
                Units(min_validity),
                Units(whole_ms),
                Units(worth)
            ));
        }
        Ok(term)
    }

    pub(crate) fn ttl(self) -> Duration {
        Duration::from_millis(self.ttl_ms.into())
    }

    pub(crate) fn ttl_ms(self) -> u64 {
        self.ttl_ms.into()
    }

    fn min_validity(self) -> Duration {
        Duration::from_millis(self.min_validity_ms.into())
    }

    /// How far the server's clock may run ahead of ours within one TTL: safety rule 2.
    fn drift(self) -> Duration {
        drift(self.ttl())
    }

    /// When a lease asked for at `asked_at` ends for its holder: `asked_at` + TTL - drift.
    ///
    /// `asked_at` has to be read before the first byte of the request is sent.
    #[inline(never)]
    pub(crate) fn deadline(self, asked_at: Moment) -> Moment {
        asked_at.after(self.ttl() - self.drift())
    }

    /// Whether a lease that ends at `deadline` is still worth handing to its caller at `now`.
    pub(crate) fn is_worthwhile(self, deadline: Moment, now: Moment) -> bool {
        now < deadline && deadline.since(now) >= self.min_validity()
    }
}

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::validity::TTL_MAX;
use super::{Moment, Units};

/// Bounds on how long a lock is held or kept from others, beside its TTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The lock stays taken for this long after its grant, even if its lease is released before.
    pub(crate) at_least: Option<Duration>,
    /// The lease ends this long after its grant, even if it is renewed.
    pub(crate) at_most: Option<Duration>,
    /// The lock stays taken for this long after a lease that ended without a release.
    pub(crate) lock_delay: Option<Duration>,
}

impl Bounds {
    pub(crate) fn check(self) -> Result<(), String> {
        let Self { at_least, at_most, lock_delay } = self;
        if at_most == Some(Duration::ZERO) {
            return Err("hold_at_most must be above 0".to_owned());
        }
        for (what, time) in [("hold_at_least", at_least), ("lock_delay", lock_delay)] {
            if let Some(time) = time.filter(|time| *time > TTL_MAX) {
                return Err(format!(
                    "{what} must be at most {}, not {}",
                    Units(TTL_MAX),
                    Units(time)
                ));
            }
        }
        match (at_least, at_most) {
            (Some(least), Some(most)) if least > most => {
                Err(format!("hold_at_least {} exceeds hold_at_most {}", Units(least), Units(most)))
            }
            _ => Ok(()),
        }
    }

    /// Whether no bound is set.
    pub(crate) fn are_none(self) -> bool {
        self == Self::default()
    }

    /// How long the key of a lease with this TTL lives.
    pub(crate) fn key_life(self, ttl: Duration) -> Duration {
        ttl.saturating_add(self.lock_delay.unwrap_or_default())
    }

    /// The end of a lease that was granted at `granted_at` and whose TTL ends at `until`.
    pub(crate) fn cut(self, granted_at: Moment, until: Moment) -> Moment {
        self.last(granted_at).map_or(until, |last| until.min(last))
    }

    /// Whether the lease may not end later than `until`: then no renewal helps.
    pub(crate) fn are_reached(self, granted_at: Moment, until: Moment) -> bool {
        self.last(granted_at).is_some_and(|last| last <= until)
    }

    fn last(self, granted_at: Moment) -> Option<Moment> {
        Some(granted_at.after(self.at_most?))
    }
}

#[cfg(test)]
mod tests;

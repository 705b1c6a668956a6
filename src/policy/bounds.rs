use std::fmt;
use std::time::Duration;

use super::validity::TTL_MAX;
use super::{Moment, Units};

/// How long a lock is to be held or kept from others, beside what its TTL says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The lock stays taken for this long after its grant, though its lease is given back before.
    pub(crate) at_least: Option<Duration>,
    /// The lease ends this long after its grant, though it is renewed.
    pub(crate) at_most: Option<Duration>,
    /// The lock stays taken for this long after a lease that nobody gave back.
    pub(crate) lock_delay: Option<Duration>,
}

/// Why bounds cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundsError {
    NoTimeAtMost,
    TooLong { what: &'static str, time: Duration },
    Crossed { at_least: Duration, at_most: Duration },
}

impl fmt::Display for BoundsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTimeAtMost => f.write_str("hold_at_most must be above 0"),
            Self::TooLong { what, time } => {
                write!(f, "{what} must be at most {}, not {}", Units(TTL_MAX), Units(*time))
            }
            Self::Crossed { at_least, at_most } => write!(
                f,
                "hold_at_least {} exceeds hold_at_most {}",
                Units(*at_least),
                Units(*at_most)
            ),
        }
    }
}

impl Bounds {
    pub(crate) fn check(self) -> Result<(), BoundsError> {
        let kept = [("hold_at_least", self.at_least), ("lock_delay", self.lock_delay)];
        let too_long = kept.into_iter().find_map(|(what, time)| {
            Some(BoundsError::TooLong { what, time: time.filter(|time| *time > TTL_MAX)? })
        });
        match (self.at_least, self.at_most) {
            (_, Some(Duration::ZERO)) => Err(BoundsError::NoTimeAtMost),
            _ if too_long.is_some() => too_long.map_or(Ok(()), Err),
            (Some(at_least), Some(at_most)) if at_least > at_most => {
                Err(BoundsError::Crossed { at_least, at_most })
            }
            _ => Ok(()),
        }
    }

    /// Whether the lease is an ordinary one.
    pub(crate) fn are_none(self) -> bool {
        self == Self::default()
    }

    /// How long a key lives of a lease that is asked for with this TTL.
    pub(crate) fn key_life(self, ttl: Duration) -> Duration {
        ttl.saturating_add(self.lock_delay.unwrap_or_default())
    }

    /// When a lease ends that was granted at `granted_at` and whose TTL lasts until `until`.
    pub(crate) fn cut(self, granted_at: Moment, until: Moment) -> Moment {
        self.last(granted_at).map_or(until, |last| until.min(last))
    }

    /// Whether `until` is as late as the lease may end: there is nothing to renew it for.
    pub(crate) fn are_reached(self, granted_at: Moment, until: Moment) -> bool {
        self.last(granted_at).is_some_and(|last| last <= until)
    }

    fn last(self, granted_at: Moment) -> Option<Moment> {
        Some(granted_at.after(self.at_most?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(0).after(Duration::from_millis(ms))
    }

    #[test]
    fn a_lease_ends_at_its_bound_and_without_one_with_its_ttl() {
        let none = Bounds::default();
        assert_eq!(none.cut(at(5), at(900)), at(900));
        assert!(none.are_none() && !none.are_reached(at(5), at(900)));
        let bounds = Bounds { at_most: Some(Duration::from_millis(100)), ..none };
        assert!(!bounds.are_none());
        for (until, ends, is_reached) in [(104, 104, false), (105, 105, true), (106, 105, true)] {
            assert_eq!(bounds.cut(at(5), at(until)), at(ends));
            assert_eq!(bounds.are_reached(at(5), at(until)), is_reached, "{until}");
        }
    }

    #[test]
    fn bounds_that_cannot_be_kept_are_refused() {
        let ms = Duration::from_millis;
        let of = |at_least: Option<u64>, at_most: Option<u64>| {
            let (at_least, at_most) = (at_least.map(ms), at_most.map(ms));
            Bounds { at_least, at_most, lock_delay: None }.check()
        };
        assert_eq!(of(None, Some(0)), Err(BoundsError::NoTimeAtMost));
        assert_eq!(
            (of(None, Some(1)), of(None, None), of(Some(5), Some(5))),
            (Ok(()), Ok(()), Ok(()))
        );
        let (at_least, at_most) = (ms(6), ms(5));
        let crossed = BoundsError::Crossed { at_least, at_most };
        assert_eq!(of(Some(6), Some(5)), Err(crossed));
        let day = u64::try_from(TTL_MAX.as_millis()).unwrap();
        assert_eq!(of(Some(day), None), Ok(()));
        let too_long = |what| Err(BoundsError::TooLong { what, time: ms(day + 1) });
        assert_eq!(of(Some(day + 1), None), too_long("hold_at_least"));
        let delayed = |days| Bounds { lock_delay: Some(ms(days)), ..Bounds::default() }.check();
        assert_eq!((delayed(day), delayed(day + 1)), (Ok(()), too_long("lock_delay")));
    }
}

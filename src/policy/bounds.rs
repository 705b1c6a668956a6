use std::fmt;
use std::time::Duration;

use super::{Moment, Units};

/// The longest time that a lock is kept from others whose lease was given back: as for a TTL.
const AT_LEAST_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a lease is to be held, counted from its grant, beside what its TTL says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The lock stays taken for this long after its grant, though its lease is given back before.
    pub(crate) at_least: Option<Duration>,
    /// The lease ends this long after its grant, though it is renewed.
    pub(crate) at_most: Option<Duration>,
}

/// Why bounds cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundsError {
    NoTimeAtMost,
    TooLongAtLeast(Duration),
    Crossed { at_least: Duration, at_most: Duration },
}

impl fmt::Display for BoundsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTimeAtMost => f.write_str("hold_at_most must be above 0"),
            Self::TooLongAtLeast(at_least) => {
                write!(
                    f,
                    "hold_at_least must be at most {}, not {}",
                    Units(AT_LEAST_MAX),
                    Units(*at_least)
                )
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
        match (self.at_least, self.at_most) {
            (_, Some(Duration::ZERO)) => Err(BoundsError::NoTimeAtMost),
            (Some(at_least), _) if at_least > AT_LEAST_MAX => {
                Err(BoundsError::TooLongAtLeast(at_least))
            }
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
        let bounds = Bounds { at_least: None, at_most: Some(Duration::from_millis(100)) };
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
            Bounds { at_least: at_least.map(ms), at_most: at_most.map(ms) }.check()
        };
        assert_eq!(of(None, Some(0)), Err(BoundsError::NoTimeAtMost));
        assert_eq!(
            (of(None, Some(1)), of(None, None), of(Some(5), Some(5))),
            (Ok(()), Ok(()), Ok(()))
        );
        let (at_least, at_most) = (ms(6), ms(5));
        let crossed = BoundsError::Crossed { at_least, at_most };
        assert_eq!(of(Some(6), Some(5)), Err(crossed));
        let day = u64::try_from(AT_LEAST_MAX.as_millis()).unwrap();
        assert_eq!(of(Some(day), None), Ok(()));
        assert_eq!(of(Some(day + 1), None), Err(BoundsError::TooLongAtLeast(ms(day + 1))));
    }
}

use std::fmt;
use std::time::Duration;

use super::Moment;

/// How long a lease is to be held, counted from its grant, beside what its TTL says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The lease ends this long after its grant, though it is renewed.
    pub(crate) at_most: Option<Duration>,
}

/// Why bounds cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundsError {
    AtMostZero,
}

impl fmt::Display for BoundsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMostZero => f.write_str("hold_at_most must be above 0"),
        }
    }
}

impl Bounds {
    pub(crate) fn check(self) -> Result<(), BoundsError> {
        match self.at_most {
            Some(at_most) if at_most.is_zero() => Err(BoundsError::AtMostZero),
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
        let bounds = Bounds { at_most: Some(Duration::from_millis(100)) };
        assert!(!bounds.are_none());
        for (until, ends, is_reached) in [(104, 104, false), (105, 105, true), (106, 105, true)] {
            assert_eq!(bounds.cut(at(5), at(until)), at(ends));
            assert_eq!(bounds.are_reached(at(5), at(until)), is_reached, "{until}");
        }
    }

    #[test]
    fn a_lease_that_would_end_at_once_is_refused() {
        let of = |ms| Bounds { at_most: Some(Duration::from_millis(ms)) };
        assert_eq!(of(0).check(), Err(BoundsError::AtMostZero));
        assert_eq!((of(1).check(), Bounds::default().check()), (Ok(()), Ok(())));
    }
}

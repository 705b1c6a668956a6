//! The TTL that fits how long leases are held and how long their renewals take.
//!
//! A TTL is a bargain: the longer it is, the longer everybody waits for a holder that died; the
//! shorter, the more renewals there are, and the less time one that failed has to be repeated.
//!
//! What was observed comes in as quantiles. Working those out means reading hundreds of counters,
//! so callers do it once in a while (once a second is plenty) and keep the result: one lease more
//! cannot move a quantile of many.

use std::fmt;
use std::time::Duration;

use super::validity::TermError;
use super::{Term, Units};

/// The quantile of what was observed that a TTL has to fit. A higher one would follow single
/// outliers; what lies above this one is covered by renewal.
pub(crate) const OBSERVED_QUANTILE: f64 = 0.99;
/// A TTL is this many times what leases are held for: a renewal begins at a third of the TTL, and
/// most leases should be given back before their first, which then costs the servers nothing.
const HOLD_FACTOR: u32 = 3;
/// A TTL is at least this many round trips: the last try of a renewal leaves a twentieth of the TTL
/// for its reply, which has to be enough for one. The tries before it have more.
const ROUND_TRIP_FACTOR: u32 = 20;
/// With fewer observations than this, nothing of the uppermost hundredth has been seen in more
/// than one case in twenty (0.99 to this power is 0.049), and the quantile may be far too small.
const OBSERVATIONS_MIN: u64 = 300;

/// What is known of the leases of one locker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// How many leases were given back.
    pub(crate) leases: u64,
    /// The [`OBSERVED_QUANTILE`] of how long they were held.
    pub(crate) hold: Option<Duration>,
    /// The [`OBSERVED_QUANTILE`] of how long renewals took, or the best estimate while there was none.
    pub(crate) round_trip: Option<Duration>,
}

/// A TTL that follows what is observed, within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Adaptive {
    shortest: Duration,
    longest: Duration,
}

/// Why a TTL cannot stay within two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdaptiveError {
    /// A bound is itself no TTL.
    Bound(TermError),
    Inverted {
        shortest: Duration,
        longest: Duration,
    },
}

impl fmt::Display for AdaptiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bound(error) => write!(f, "adaptive TTL: {error}"),
            Self::Inverted { shortest, longest } => write!(
                f,
                "shortest adaptive TTL {} exceeds the longest, {}",
                Units(*shortest),
                Units(*longest)
            ),
        }
    }
}

impl Adaptive {
    /// A TTL between two bounds, of which fractions of a millisecond are cut off as of any TTL.
    pub(crate) fn new(shortest: Duration, longest: Duration) -> Result<Self, AdaptiveError> {
        let whole = |bound| Term::new(bound, None).map(Term::ttl).map_err(AdaptiveError::Bound);
        let (whole_shortest, whole_longest) = (whole(shortest)?, whole(longest)?);
        if shortest > longest {
            return Err(AdaptiveError::Inverted { shortest, longest });
        }
        Ok(Self { shortest: whole_shortest, longest: whole_longest })
    }

    /// The TTL for the next lease, in whole milliseconds.
    ///
    /// What the caller `expected` of this lease stands in for the observed hold time, also before
    /// anything was observed: the caller knows this lock, and what was observed is a mixture of
    /// all. Without it, and with few observations, it is the longest: a lease that is too long costs
    /// time only when its holder dies.
    pub(crate) fn ttl(self, observed: Observed, expected: Option<Duration>) -> Duration {
        let is_known = observed.leases >= OBSERVATIONS_MIN;
        let Some(hold) = expected.or(observed.hold.filter(|_| is_known)) else {
            return self.longest;
        };
        let for_round_trips = observed.round_trip.unwrap_or_default();
        let wanted =
            hold.saturating_mul(HOLD_FACTOR).max(for_round_trips.saturating_mul(ROUND_TRIP_FACTOR));
        // Both bounds are whole milliseconds, so rounding up leads past neither.
        up_to_whole_ms(wanted.clamp(self.shortest, self.longest))
    }
}

fn up_to_whole_ms(duration: Duration) -> Duration {
    let over = Duration::from_nanos(u64::from(duration.subsec_nanos() % 1_000_000));
    if over.is_zero() { duration } else { duration - over + Duration::from_millis(1) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Moment;
    use super::super::renewal::{renew_at, retry_at};
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn adaptive(shortest: u64, longest: u64) -> Adaptive {
        Adaptive::new(ms(shortest), ms(longest)).unwrap()
    }

    fn observed(hold: Duration, round_trip: Duration) -> Observed {
        Observed { leases: OBSERVATIONS_MIN, hold: Some(hold), round_trip: Some(round_trip) }
    }

    #[test]
    fn a_ttl_covers_most_holds_and_several_round_trips() {
        let adaptive = adaptive(10, 60_000);
        assert_eq!(adaptive.ttl(observed(ms(500), ms(1)), None), ms(1500));
        assert_eq!(adaptive.ttl(observed(ms(5), ms(40)), None), ms(800));
        assert_eq!(adaptive.ttl(observed(ms(1), Duration::ZERO), None), ms(10));
        assert_eq!(adaptive.ttl(observed(Duration::MAX, Duration::MAX), None), ms(60_000));
    }

    #[test]
    fn with_few_observations_it_is_the_longest() {
        let adaptive = adaptive(10, 60_000);
        assert_eq!(adaptive.ttl(Observed::default(), None), ms(60_000));
        let enough = observed(ms(10), ms(1));
        let few = Observed { leases: OBSERVATIONS_MIN - 1, ..enough };
        assert_eq!(adaptive.ttl(few, None), ms(60_000));
        assert_eq!(adaptive.ttl(enough, None), ms(30));
        assert_eq!(adaptive.ttl(Observed { hold: None, ..enough }, None), ms(60_000));
    }

    #[test]
    fn what_the_caller_expects_stands_in_for_what_was_observed() {
        let adaptive = adaptive(10, 60_000);
        assert_eq!(adaptive.ttl(Observed::default(), Some(ms(200))), ms(600));
        let few = Observed { leases: 1, hold: Some(ms(9000)), round_trip: Some(ms(50)) };
        assert_eq!(adaptive.ttl(few, Some(ms(200))), ms(1000), "round trips count all the same");
        assert_eq!(adaptive.ttl(observed(ms(9000), ms(1)), Some(ms(200))), ms(600));
        assert_eq!(adaptive.ttl(observed(ms(1), ms(1)), Some(ms(200))), ms(600));
    }

    #[test]
    fn fractions_of_a_millisecond_are_rounded_up() {
        let adaptive = adaptive(10, 60_000);
        let ttl = |micros| adaptive.ttl(Observed::default(), Some(Duration::from_micros(micros)));
        assert_eq!([7_000, 7_001, 6_999].map(ttl), [ms(21), ms(22), ms(21)]);
        let odd = Adaptive::new(Duration::from_micros(10_900), Duration::from_micros(10_999));
        assert_eq!(odd.unwrap().ttl(Observed::default(), None), ms(10));
    }

    #[test]
    fn bounds_that_cannot_be_are_refused() {
        let new = |shortest, longest| Adaptive::new(ms(shortest), ms(longest));
        let inverted = AdaptiveError::Inverted { shortest: ms(21), longest: ms(20) };
        assert_eq!(new(21, 20), Err(inverted));
        assert_eq!(new(9, 20), Err(AdaptiveError::Bound(TermError::TtlTooShort(ms(9)))));
        let day = 24 * 60 * 60 * 1000;
        let too_long = AdaptiveError::Bound(TermError::TtlTooLong(ms(day + 1)));
        assert_eq!(new(10, day + 1), Err(too_long));
        assert!(new(10, 10).is_ok() && new(day, day).is_ok());
        assert!(inverted.to_string().contains("21 ms") && too_long.to_string().contains("at most"));
    }

    proptest! {
        #[test]
        fn it_is_a_ttl_within_its_bounds(
            bounds in (10_u64..86_400_000, 10_u64..86_400_000),
            leases: u64,
            hold: Option<Duration>,
            round_trip: Option<Duration>,
            expected: Option<Duration>,
        ) {
            let (shortest, longest) = (bounds.0.min(bounds.1), bounds.0.max(bounds.1));
            let observed = Observed { leases, hold, round_trip };
            let ttl = adaptive(shortest, longest).ttl(observed, expected);
            prop_assert!((ms(shortest)..=ms(longest)).contains(&ttl));
            prop_assert_eq!(Term::new(ttl, None).map(Term::ttl), Ok(ttl), "whole milliseconds");
        }

        #[test]
        fn it_grows_with_what_it_has_to_fit(
            hold in (0_u64..90_000_000_000, 0_u64..90_000_000_000),
            round_trip in (0_u64..90_000_000_000, 0_u64..90_000_000_000),
            is_expected: bool,
        ) {
            let ttl = |hold, round_trip| {
                let (hold, round_trip) =
                    (Duration::from_micros(hold), Duration::from_micros(round_trip));
                adaptive(10, 86_400_000).ttl(observed(hold, round_trip), is_expected.then_some(hold))
            };
            let smaller = ttl(hold.0.min(hold.1), round_trip.0.min(round_trip.1));
            prop_assert!(smaller <= ttl(hold.0.max(hold.1), round_trip.0.max(round_trip.1)));
        }

        /// The two factors are held against the schedule of renewals that they rest upon.
        #[test]
        fn most_leases_are_not_renewed_and_a_renewal_can_be_repeated_twice(
            hold in 1_u64..10_000_000,
            round_trip in 1_u64..1_000_000,
            random: u64,
        ) {
            let (hold, round_trip) =
                (Duration::from_micros(hold), Duration::from_micros(round_trip));
            let ttl = adaptive(10, 86_400_000).ttl(observed(hold, round_trip), None);
            let granted_at = Moment::from_nanos(0);
            let deadline = Term::new(ttl, None).unwrap().deadline(granted_at);
            let mut asked_at = renew_at(granted_at, ttl);
            prop_assert!(granted_at.after(hold) <= asked_at);
            let mut tries = 1;
            while let Some(next) =
                retry_at(asked_at.after(round_trip), tries - 1, ttl, deadline, random)
            {
                (asked_at, tries) = (next, tries + 1);
            }
            prop_assert!(tries >= 3, "{tries} tries within {ttl:?}");
            prop_assert!(asked_at.after(round_trip) <= deadline, "the last reply is too late");
        }
    }
}

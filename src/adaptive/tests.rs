use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;
use crate::policy::{renew_at, retry_at};
use crate::stats::Meter;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn bounds(shortest: u64, longest: u64) -> Bounds {
    Bounds::new(ms(shortest), ms(longest)).unwrap()
}

fn observed(hold: Duration, round_trip: Duration) -> Observed {
    Observed { leases: OBSERVATIONS_MIN, hold: Some(hold), round_trip: Some(round_trip) }
}

#[test]
fn a_ttl_covers_most_holds_and_several_round_trips() {
    let bounds = bounds(10, 60_000);
    assert_eq!(bounds.fit(observed(ms(500), ms(1))), ms(1500));
    assert_eq!(bounds.fit(observed(ms(5), ms(40))), ms(800));
    assert_eq!(bounds.fit(observed(ms(1), Duration::ZERO)), ms(10));
    assert_eq!(bounds.fit(observed(Duration::MAX, Duration::MAX)), ms(60_000));
}

#[test]
fn with_few_observations_it_is_the_longest() {
    let bounds = bounds(10, 60_000);
    assert_eq!(bounds.fit(Observed::default()), ms(60_000));
    let enough = observed(ms(10), ms(1));
    let few = Observed { leases: OBSERVATIONS_MIN - 1, ..enough };
    assert_eq!(bounds.fit(few), ms(60_000));
    assert_eq!(bounds.fit(enough), ms(30));
    assert_eq!(bounds.fit(Observed { hold: None, ..enough }), ms(60_000));
}

#[test]
fn fractions_of_a_millisecond_are_rounded_up() {
    let bounds = bounds(10, 60_000);
    let ttl = |micros| bounds.fit(observed(Duration::from_micros(micros), Duration::ZERO));
    assert_eq!([7_000, 7_001, 6_999].map(ttl), [ms(21), ms(22), ms(21)]);
    let odd = Bounds::new(Duration::from_micros(10_900), Duration::from_micros(10_999));
    assert_eq!(odd.unwrap().fit(Observed::default()), ms(10));
}

#[test]
fn bounds_that_cannot_be_are_refused() {
    let day = 24 * 60 * 60 * 1000;
    let wrong = [(21, 20, "21 ms exceeds"), (9, 20, "at least"), (10, day + 1, "at most")];
    for (shortest, longest, text) in wrong {
        let error = Bounds::new(ms(shortest), ms(longest)).unwrap_err();
        assert!(error.kind() == ErrorKind::Misuse && error.to_string().contains(text), "{error}");
    }
    assert!(Bounds::new(ms(10), ms(10)).is_ok() && Bounds::new(ms(day), ms(day)).is_ok());
}

#[test]
fn it_follows_holds_and_the_best_known_round_trip() {
    let meter = Meter::new(None);
    let seen = || Observed::of(&meter.snapshot(Vec::new()));
    assert_eq!(seen(), Observed::default());
    (0..99).for_each(|_| meter.note_released(b"a", ms(10)));
    meter.note_released(b"a", ms(4000));
    [1, 1, 1, 500].into_iter().for_each(|waited| meter.note_granted(b"a", ms(waited)));
    let Observed { leases, hold, round_trip } = seen();
    let is_about = |found: Option<Duration>, n| {
        found.is_some_and(|found| ms(n) <= found && found <= ms(n) + ms(n) / 8)
    };
    assert_eq!(leases, 100);
    assert!(is_about(hold, 10), "{hold:?}");
    assert!(is_about(round_trip, 1), "{round_trip:?}");
    meter.note_renewed(b"a", ms(40));
    assert!(is_about(seen().round_trip, 40));
}

proptest! {
    #[test]
    fn it_is_a_ttl_within_its_bounds(
        ends in (10_u64..86_400_000, 10_u64..86_400_000),
        leases: u64,
        hold: Option<Duration>,
        round_trip: Option<Duration>,
    ) {
        let (shortest, longest) = (ends.0.min(ends.1), ends.0.max(ends.1));
        let observed = Observed { leases, hold, round_trip };
        let ttl = bounds(shortest, longest).fit(observed);
        prop_assert!((ms(shortest)..=ms(longest)).contains(&ttl));
        prop_assert_eq!(Term::new(ttl, None).map(Term::ttl), Ok(ttl), "whole milliseconds");
    }

    #[test]
    fn it_grows_with_what_it_has_to_fit(
        hold in (0_u64..90_000_000_000, 0_u64..90_000_000_000),
        round_trip in (0_u64..90_000_000_000, 0_u64..90_000_000_000),
    ) {
        let ttl = |hold, round_trip| {
            let (hold, round_trip) =
                (Duration::from_micros(hold), Duration::from_micros(round_trip));
            bounds(10, 86_400_000).fit(observed(hold, round_trip))
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
        let ttl = bounds(10, 86_400_000).fit(observed(hold, round_trip));
        let granted_at = Moment::from_nanos(0);
        let deadline = Term::new(ttl, None).unwrap().deadline(granted_at);
        let mut asked_at = renew_at(granted_at, ttl);
        let within_a_step = ttl / 1000;
        prop_assert!(granted_at.after(hold) <= asked_at.after(within_a_step));
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

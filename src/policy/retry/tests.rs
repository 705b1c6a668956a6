use proptest::prelude::*;

use super::*;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn wholes(retry: Retry) -> Vec<u128> {
    (0..5).map(|failed| retry.jitter(false).delay(failed, 7).as_millis()).collect()
}

#[test]
fn delays_grow_as_they_are_named() {
    assert_eq!(wholes(Retry::fixed(ms(5))), [5, 5, 5, 5, 5]);
    assert_eq!(wholes(Retry::linear(ms(5), ms(18))), [5, 10, 15, 18, 18]);
    assert_eq!(wholes(Retry::exponential(ms(5), ms(50))), [5, 10, 20, 40, 50]);
}

#[test]
fn a_long_delay_does_not_keep_a_waiter_past_the_end_that_it_waits_for() {
    let retry = Retry::fixed(ms(1000));
    assert_eq!(retry.delay_until(0, Some(ms(100)), 0), ms(102));
    assert_eq!(retry.jitter(false).delay_until(0, Some(ms(100)), 0), ms(104));
}

#[test]
fn policies_that_cannot_be_followed_are_refused() {
    assert_eq!(Retry::default().check(), Ok(()));
    let refused = |retry: Retry| retry.check().unwrap_err();
    assert!(refused(Retry::fixed(Duration::ZERO)).starts_with("retry delay must be above 0"));
    let error = refused(Retry::linear(ms(9), ms(8)));
    assert_eq!(error, "longest retry delay 8 ms is shorter than the first, 9 ms");
    assert_eq!(refused(Retry::default().attempts(0)), "attempts must be at least 1");
    assert_eq!(Retry::default().attempts(1).check(), Ok(()));
}

fn policies() -> impl Strategy<Value = Retry> {
    (any::<bool>(), 1..u64::MAX, 0..u64::MAX).prop_map(|(doubles, first, more)| {
        let first = Duration::from_nanos(first);
        let longest = first + Duration::from_nanos(more);
        let make = if doubles { Retry::exponential } else { Retry::linear };
        make(first, longest)
    })
}

proptest! {
    #[test]
    fn delays_stay_between_half_and_the_whole_and_the_whole_never_shrinks(
        retry in policies(), failed in prop_oneof![0_u32..80, any::<u32>()], random: u64,
    ) {
        let whole = retry.jitter(false).delay(failed, random);
        let delay = retry.delay(failed, random);
        prop_assert!(whole / 2 <= delay && delay <= whole);
        prop_assert!(whole <= retry.longest && whole >= retry.first);
        prop_assert!(retry.jitter(false).delay(failed.saturating_add(1), random) >= whole);
    }
}

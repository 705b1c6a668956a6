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
    assert_eq!(of(None, Some(0)), Err("hold_at_most must be above 0".to_owned()));
    assert_eq!((of(None, Some(1)), of(None, None), of(Some(5), Some(5))), (Ok(()), Ok(()), Ok(())));
    let crossed = "hold_at_least 6 ms exceeds hold_at_most 5 ms";
    assert_eq!(of(Some(6), Some(5)), Err(crossed.to_owned()));
    let day = u64::try_from(TTL_MAX.as_millis()).unwrap();
    assert_eq!(of(Some(day), None), Ok(()));
    let too_long = |what| Err(format!("{what} must be at most 24 h, not 86400.001 s"));
    assert_eq!(of(Some(day + 1), None), too_long("hold_at_least"));
    let delayed = |days| Bounds { lock_delay: Some(ms(days)), ..Bounds::default() }.check();
    assert_eq!((delayed(day), delayed(day + 1)), (Ok(()), too_long("lock_delay")));
}

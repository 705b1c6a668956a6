use super::*;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Moment {
    Moment::from_nanos(0).after(ms(n))
}

/// Safety rule 2: deadline = T1 + TTL - (TTL/100 + 2 ms).
#[test]
fn the_default_is_what_a_ttl_of_10_s_makes() {
    assert_eq!(Term::new(Duration::from_secs(10), None), Ok(Term::DEFAULT));
}

#[test]
fn the_deadline_is_counted_from_the_request_less_drift() {
    let term = Term::new(ms(10_000), None).unwrap();
    assert_eq!(term.deadline(at(500)), at(500 + 10_000 - 100 - 2));
}

#[test]
fn a_grant_is_worthwhile_up_to_its_least_validity_and_not_beyond() {
    let term = Term::new(ms(1000), Some(ms(300))).unwrap();
    let deadline = term.deadline(at(0));
    assert_eq!(deadline, at(988));
    assert!(term.is_worthwhile(deadline, at(688)));
    assert!(!term.is_worthwhile(deadline, at(689)));
    assert!(!term.is_worthwhile(deadline, at(989)));
    let any = Term::new(ms(1000), Some(Duration::ZERO)).unwrap();
    assert!(any.is_worthwhile(deadline, at(987)) && !any.is_worthwhile(deadline, at(988)));
}

#[test]
fn fractions_of_a_millisecond_are_never_counted_as_held() {
    let term = Term::new(Duration::from_micros(10_999), None).unwrap();
    assert_eq!(term.ttl(), ms(10));
    assert_eq!(term.ttl_ms(), 10);
    let term = Term::new(ms(1000), Some(Duration::from_micros(299_001))).unwrap();
    let deadline = term.deadline(at(0));
    assert!(term.is_worthwhile(deadline, at(688)) && !term.is_worthwhile(deadline, at(689)));
}

#[test]
fn terms_that_cannot_be_kept_are_refused() {
    let refused = |ttl, min_validity| Term::new(ttl, min_validity).unwrap_err();
    assert_eq!(refused(ms(9), None), "TTL must be at least 10 ms, not 9 ms");
    assert!(refused(Duration::MAX, None).starts_with("TTL must be at most 24 h, not "));
    assert_eq!(
        refused(ms(100), Some(ms(97))),
        "minimum validity 97 ms exceeds what a TTL of 100 ms is good for after drift, 97 ms"
    );
    assert!(Term::new(ms(100), Some(ms(96))).is_ok());
}

use super::*;

#[test]
fn time_does_not_run_backwards() {
    let earlier = now();
    assert!(now() >= earlier);
    assert!(earlier > Moment::from_nanos(0));
}

#[test]
fn ids_differ() {
    assert_ne!(random_id(), random_id());
}

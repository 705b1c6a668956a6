use super::*;

#[test]
fn a_marker_whose_slot_has_moved_is_asked_for_again_and_a_right_that_lacks_is_not() {
    let failing = |said: &'static str| Met { said: Some(said.into()), ..Met::default() }.failing();
    assert_eq!(failing("MOVED 1755 127.0.0.1:7001"), Failing::Otherwise);
    assert_eq!(failing("NOPERM this user has no permissions"), Failing::Hopeless);
}

use super::*;

#[test]
fn a_beat_that_is_overdue_says_that_the_process_stood_still() {
    let beat = Moment::from_nanos(0);
    let after = |ms| Loss::at_deadline(beat, beat.after(Duration::from_millis(ms)));
    assert_eq!(after(500), Loss::Expired);
    assert_eq!(after(1500), Loss::Expired);
    assert_eq!(after(1501), Loss::Suspended);
}

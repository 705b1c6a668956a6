use super::*;

#[test]
fn what_was_given_back_lately_is_remembered_up_to_a_bound_and_taken_once() {
    let at = |ms| Moment::from_nanos(0).after(Duration::from_millis(ms));
    let mut releases = Releases::default();
    let note = |releases: &mut Releases, ms| releases.note(&Command::new(true), at(ms));
    let told = |releases: &mut Releases, ms| {
        let mut told = 0;
        releases.tell_again(at(ms), &mut |_| told += 1);
        told
    };
    note(&mut releases, 0);
    note(&mut releases, 4000);
    assert_eq!([6000; 2].map(|ms| told(&mut releases, ms)), [1, 0]);
    note(&mut releases, 0);
    note(&mut releases, 5001);
    assert_eq!(releases.0.len(), 1, "what is old makes room");
    (0..3000).for_each(|_| note(&mut releases, 5002));
    assert_eq!(told(&mut releases, 5003), REMEMBERED_MAX);
}

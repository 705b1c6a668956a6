use super::*;

const LIFE: Duration = Duration::from_secs(70);

fn at(millis: u64) -> Moment {
    Moment::from_nanos(0).after(Duration::from_millis(millis))
}

#[test]
fn what_is_refused_is_tried_again_with_a_back_off_that_ends() {
    let mut release = Redelivery::new(at(0).after(LIFE), false);
    let mut now = at(0);
    let mut gaps = Vec::new();
    for _ in 0..12 {
        let due_at = release.after_failure(now, u64::MAX);
        gaps.push(due_at.since(now).as_micros().div_ceil(1000));
        now = due_at;
    }
    assert_eq!(gaps, [4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000, 1000]);
}

#[test]
fn an_answer_settles_what_is_not_doubtful() {
    assert_eq!(Redelivery::new(at(0).after(LIFE), false).was_sent(at(0)), None);
}

/// However often a release is repeated, one of its copies at a time is tried again.
#[test]
fn a_server_that_refuses_for_long_is_asked_about_once_a_second() {
    let mut waiting = vec![(at(0), Redelivery::new(at(0).after(LIFE), true))];
    let mut sent = 0;
    while let Some(next) = (0..waiting.len()).min_by_key(|it| waiting[*it].0) {
        let (now, mut release) = waiting.remove(next);
        if release.pointless_at <= now {
            continue;
        }
        sent += 1;
        waiting.extend(release.was_sent(now));
        waiting.push((release.after_refusal(now, u64::MAX), release));
        assert!(waiting.len() <= 3, "one that goes out, its repetition, and one that ends by it");
    }
    // Each of eight copies begins with eight tries in its first second.
    assert!((70..=70 + 8 * 8).contains(&sent), "{sent}");
}

/// Each try is a repetition there, and goes out before the next one would be due.
#[test]
fn what_is_refused_elsewhere_is_tried_again_as_rarely_and_stays_doubtful() {
    let (mut release, mut now) = (Redelivery::new(at(0).after(LIFE), true), at(0));
    let mut gaps = Vec::new();
    for _ in 0..10 {
        let (due_at, again) = release.was_sent(now).expect("it is repeated");
        assert_eq!(due_at.since(now).as_millis(), FIRST_GAP_MS.into());
        release = again;
        let due_at = release.after_refusal_elsewhere(now, u64::MAX);
        gaps.push(due_at.since(now).as_micros().div_ceil(1000));
        now = due_at;
    }
    assert_eq!(gaps, [4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000]);
}

/// Whenever the acquire arrives, a release is sent soon after it: no later than twice the time, and
/// the first gap.
#[test]
fn a_late_acquire_is_undone_within_about_the_time_that_it_was_late() {
    let mut sent = vec![at(0)];
    let mut release = Redelivery::new(at(0).after(LIFE), true);
    while let Some((due_at, again)) = release.was_sent(*sent.last().unwrap()) {
        assert_eq!(release.gap_ms, 0, "one repetition each");
        sent.push(due_at);
        release = again;
    }
    assert_eq!(sent.len(), 8);
    for late in (0..60_000).step_by(250) {
        let undone = sent.iter().find(|sent| **sent > at(late)).unwrap();
        assert!(*undone <= at(2 * late + 500), "late by {late} ms, undone at {undone:?}");
    }
    assert!(sent.iter().all(|sent| *sent < release.pointless_at));
}

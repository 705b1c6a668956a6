use std::time::Duration;

use super::{Backoff, Moment};

/// Between two tries of a release that a server refuses, or that no connection can take: a slot takes
/// milliseconds to move, a script that keeps a server busy seconds to end, and a fleet must not ask a
/// server that loads its data more than once a second for each release.
const TRIES: Backoff = Backoff { first: Duration::from_millis(4), longest: Duration::from_secs(1) };
/// From a release whose acquire may still arrive to its first repetition. Each later gap is twice as
/// long as the one before it.
const FIRST_GAP: Duration = Duration::from_millis(500);

/// When a release that has no answer for good is sent again: safety rule 15.
///
/// The rules:
///
/// 1. A release that was refused, or that no connection could take, is sent again after a back-off.
/// 2. A release whose connection ended before the answer is sent again on the next connection.
/// 3. A release whose acquire was not answered before its connection ended is *doubtful*: bytes of the
///    acquire may be under way to the server still. An answer on another connection says nothing of
///    them. So the release is repeated, with gaps that double: an acquire that arrives late is undone
///    once at most about as much time again has passed, and no release takes more than eight commands. What
///    went out is tried again by rules 1 and 2 only until the repetition is due, which takes its place.
/// 4. Nothing is sent once the lease's longest possible life is over.
///
/// A release names an owner that is never used twice, so sending a release again can only do nothing.
///
/// Call order: [`Redelivery::was_sent`] after each time that the release went out on another connection
/// than that of its acquire; [`Redelivery::after_failure`] where it could not go out, and
/// [`Redelivery::after_refusal`] where the server refused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redelivery {
    pointless_at: Moment,
    /// How often it was refused, or could not be sent.
    failed: u32,
    /// The gap until the next repetition, where it is doubtful.
    gap: Option<Duration>,
}

impl Redelivery {
    /// Of a release that is not worth sending any more from `pointless_at` on.
    #[must_use]
    pub fn new(pointless_at: Moment, is_doubtful: bool) -> Self {
        Self { pointless_at, failed: 0, gap: is_doubtful.then_some(FIRST_GAP) }
    }

    /// From when on it is not worth sending any more.
    #[must_use]
    pub fn pointless_at(&self) -> Moment {
        self.pointless_at
    }

    /// It was refused, or no connection could take it: when to send it again.
    pub(crate) fn after_failure(&mut self, now: Moment, random: u64) -> Moment {
        let due_at = now.after(TRIES.delay(self.failed, random));
        self.failed = self.failed.saturating_add(1);
        due_at
    }

    /// The server refused it. A refusal that comes on the connection of its acquire proves that the
    /// acquire does not come any more; on another connection nothing goes out that is doubtful.
    pub(crate) fn after_refusal(&mut self, now: Moment, random: u64) -> Moment {
        self.gap = None;
        self.after_failure(now, random)
    }

    /// The server refused what had gone out on another connection than its acquire: that is still to be repeated, and after
    /// the same gap.
    pub(crate) fn after_refusal_elsewhere(&mut self, now: Moment, random: u64) -> Moment {
        self.gap = self.gap.map(|gap| gap / 2);
        self.after_failure(now, random)
    }

    /// It goes out, on another connection than its acquire did. What is to be repeated, and when, if it
    /// is doubtful; what goes out is not doubtful any more, and pointless once the repetition is due.
    pub(crate) fn was_sent(&mut self, now: Moment) -> Option<(Moment, Self)> {
        let gap = self.gap.take()?;
        let due_at = now.after(gap);
        if due_at >= self.pointless_at {
            return None;
        }
        let again = Self { failed: 0, gap: Some(gap * 2), ..*self };
        self.pointless_at = due_at;
        Some((due_at, again))
    }
}

#[cfg(test)]
mod tests {
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
            if release.pointless_at() <= now {
                continue;
            }
            sent += 1;
            waiting.extend(release.was_sent(now));
            waiting.push((release.after_refusal(now, u64::MAX), release));
            assert!(
                waiting.len() <= 3,
                "one that goes out, its repetition, and one that ends by it"
            );
        }
        // Each of eight copies begins with eight tries in its first second.
        assert!((70..=70 + 8 * 8).contains(&sent), "{sent}");
    }

    /// Whenever the acquire arrives, a release is sent soon after it: no later than twice the time, and
    /// the first gap.
    #[test]
    fn a_late_acquire_is_undone_within_about_the_time_that_it_was_late() {
        let mut sent = vec![at(0)];
        let mut release = Redelivery::new(at(0).after(LIFE), true);
        while let Some((due_at, again)) = release.was_sent(*sent.last().unwrap()) {
            assert_eq!(release.gap, None, "one repetition each");
            sent.push(due_at);
            release = again;
        }
        assert_eq!(sent.len(), 8);
        for late in (0..60_000).step_by(250) {
            let undone = sent.iter().find(|sent| **sent > at(late)).unwrap();
            assert!(*undone <= at(2 * late + 500), "late by {late} ms, undone at {undone:?}");
        }
        assert!(sent.iter().all(|sent| *sent < release.pointless_at()));
    }
}

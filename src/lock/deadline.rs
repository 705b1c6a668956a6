//! When a lease ends, shared by those who extend it and those who ask.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::policy::Moment;

/// No lease ends at boot, so this is the end of one that was found to be lost.
const LOST: u64 = 0;

/// When a lease ends for its holder.
///
/// Once anybody was told that it is lost, it stays lost, whatever reply comes later (safety rule
/// 7); and it is never moved to an earlier moment (safety rule 6).
#[derive(Debug)]
pub(super) struct Deadline(AtomicU64);

impl Deadline {
    pub(super) fn new(moment: Moment) -> Self {
        Self(AtomicU64::new(moment.as_nanos()))
    }

    /// How long it is to the end; zero once lost.
    pub(super) fn remaining(&self, now: Moment) -> Duration {
        Moment::from_nanos(self.0.load(Ordering::Acquire)).since(now)
    }

    /// Whether the lease has ended at `now`, or was found to be lost before.
    pub(super) fn is_lost(&self, now: Moment) -> bool {
        !self.step(now, |held_until| held_until)
    }

    /// Moves the end to `until`, if that is later. False when the lease has ended at `now`.
    pub(super) fn prolong(&self, until: Moment, now: Moment) -> bool {
        self.step(now, |held_until| held_until.max(until))
    }

    /// The lease is lost before its end.
    pub(super) fn lose(&self) {
        self.0.store(LOST, Ordering::Release);
    }

    /// Replaces the end of a lease that is held at `now`, or makes its loss final.
    fn step(&self, now: Moment, next: impl Fn(Moment) -> Moment) -> bool {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let held_until = Moment::from_nanos(seen);
            let is_held = seen != LOST && now < held_until;
            let wanted = if is_held { next(held_until).as_nanos() } else { LOST };
            if wanted == seen {
                return is_held;
            }
            match self.0.compare_exchange(seen, wanted, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return is_held,
                Err(newer) => seen = newer,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(0).after(Duration::from_millis(ms))
    }

    #[test]
    fn a_lease_is_lost_at_its_deadline_and_not_before() {
        let deadline = Deadline::new(at(10));
        assert!(!deadline.is_lost(at(9)));
        assert_eq!(deadline.remaining(at(9)), Duration::from_millis(1));
        assert!(deadline.is_lost(at(10)));
        assert_eq!(deadline.remaining(at(9)), Duration::ZERO);
    }

    #[test]
    fn an_extension_moves_the_deadline_and_never_back() {
        let deadline = Deadline::new(at(10));
        assert!(deadline.prolong(at(20), at(5)));
        assert!(deadline.prolong(at(15), at(6)));
        assert!(!deadline.is_lost(at(19)));
    }

    #[test]
    fn what_was_said_to_be_lost_stays_lost() {
        let told = Deadline::new(at(10));
        assert!(told.is_lost(at(11)));
        assert!(!told.prolong(at(99), at(5)));
        assert!(told.is_lost(at(5)));

        let late = Deadline::new(at(10));
        assert!(!late.prolong(at(99), at(10)), "the reply came when it had ended");
        assert!(late.is_lost(at(5)));

        let deleted = Deadline::new(at(10));
        deleted.lose();
        assert!(deleted.is_lost(at(1)));
        assert!(!deleted.prolong(at(99), at(1)));
    }
}

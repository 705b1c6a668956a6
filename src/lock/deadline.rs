//! When a lease ends, shared by those who extend it and those who ask.

#[cfg(not(leasehold_loom))]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(leasehold_loom)]
use loom::sync::atomic::{AtomicU64, Ordering};

use crate::policy::{Loss, Moment};

/// No lease ends in the first moments after boot, so these are the ends of leases that were lost,
/// each for its reason; the first is that of a lease that has not begun.
const REASONS: [Loss; 5] =
    [Loss::Expired, Loss::Gone, Loss::NoQuorum, Loss::Suspended, Loss::ShutDown];

/// When a lease ends for its holder.
///
/// Once anybody was told that it is lost, it stays lost, whatever reply comes later (safety rule
/// 7); and it is never moved to an earlier moment (safety rule 6).
#[derive(Debug)]
pub(super) struct Deadline(AtomicU64);

/// How a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Held,
    /// It was found to be lost by this very call: whoever asked tells the others.
    JustLost(Loss),
    Lost(Loss),
}

impl Deadline {
    /// That of a lease which has still to be granted.
    pub(super) fn not_begun() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(super) fn begin(&self, until: Moment) {
        self.0.store(until.as_nanos(), Ordering::Release);
    }

    /// The end, as far as it is known; none once lost.
    pub(super) fn moment(&self) -> Option<Moment> {
        let seen = self.0.load(Ordering::Acquire);
        reason_of(seen).is_none().then(|| Moment::from_nanos(seen))
    }

    /// How long it is to the end; zero once lost.
    pub(super) fn remaining(&self, now: Moment) -> Duration {
        Moment::from_nanos(self.0.load(Ordering::Acquire)).since(now)
    }

    /// How the lease stands at `now`; `why` says for what reason it is lost if it has just ended.
    pub(super) fn check(&self, now: Moment, why: impl Fn() -> Loss) -> Standing {
        self.step(now, why, |held_until| held_until)
    }

    /// Moves the end to `until`, if that is later, unless the lease has ended at `now`.
    pub(super) fn prolong(&self, until: Moment, now: Moment, why: impl Fn() -> Loss) -> Standing {
        #[cfg(test)]
        if crate::policy::mutants::Mutant::ExtensionShortens.is_on() {
            return self.step(now, why, |_| until);
        }
        self.step(now, why, |held_until| held_until.max(until))
    }

    /// The lease is lost before its end, unless it was lost before.
    pub(super) fn lose(&self, why: Loss) -> Standing {
        self.step(Moment::from_nanos(u64::MAX), || why, |held_until| held_until)
    }

    /// Replaces the end of a lease that is held at `now`, or makes its loss final.
    fn step(
        &self,
        now: Moment,
        why: impl Fn() -> Loss,
        next: impl Fn(Moment) -> Moment,
    ) -> Standing {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            if let Some(reason) = reason_of(seen) {
                return Standing::Lost(reason);
            }
            let held_until = Moment::from_nanos(seen);
            let (wanted, standing) = if now < held_until {
                (next(held_until).as_nanos(), Standing::Held)
            } else {
                let reason = why();
                (code_of(reason), Standing::JustLost(reason))
            };
            if wanted == seen {
                return standing;
            }
            match self.0.compare_exchange(seen, wanted, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return standing,
                Err(newer) => seen = newer,
            }
        }
    }
}

fn code_of(loss: Loss) -> u64 {
    REASONS.iter().position(|reason| *reason == loss).map_or(0, |index| index as u64)
}

fn reason_of(nanos: u64) -> Option<Loss> {
    REASONS.get(usize::try_from(nanos).unwrap_or(usize::MAX)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(0).after(Duration::from_millis(ms))
    }

    fn until(ms: u64) -> Deadline {
        let deadline = Deadline::not_begun();
        deadline.begin(at(ms));
        deadline
    }

    fn check(deadline: &Deadline, ms: u64) -> Standing {
        deadline.check(at(ms), || Loss::Expired)
    }

    fn prolong(deadline: &Deadline, until: u64, now: u64) -> Standing {
        deadline.prolong(at(until), at(now), || Loss::Expired)
    }

    #[test]
    fn a_lease_is_lost_at_its_deadline_and_not_before() {
        let deadline = until(10);
        assert_eq!(check(&deadline, 9), Standing::Held);
        assert_eq!(deadline.remaining(at(9)), Duration::from_millis(1));
        assert_eq!(check(&deadline, 10), Standing::JustLost(Loss::Expired));
        assert_eq!(deadline.remaining(at(9)), Duration::ZERO);
        assert_eq!(deadline.moment(), None);
    }

    #[test]
    fn an_extension_moves_the_deadline_and_never_back() {
        let deadline = until(10);
        assert_eq!(prolong(&deadline, 20, 5), Standing::Held);
        assert_eq!(prolong(&deadline, 15, 6), Standing::Held);
        assert_eq!(check(&deadline, 19), Standing::Held);
        assert_eq!(deadline.moment(), Some(at(20)));
    }

    #[test]
    fn what_was_said_to_be_lost_stays_lost_for_its_first_reason() {
        let told = until(10);
        assert_eq!(check(&told, 11), Standing::JustLost(Loss::Expired));
        assert_eq!(prolong(&told, 99, 5), Standing::Lost(Loss::Expired));
        assert_eq!(check(&told, 5), Standing::Lost(Loss::Expired));

        let late = until(10);
        let standing = late.prolong(at(99), at(10), || Loss::Suspended);
        assert_eq!(standing, Standing::JustLost(Loss::Suspended), "the reply came too late");
        assert_eq!(check(&late, 5), Standing::Lost(Loss::Suspended));

        for reason in REASONS {
            let lost = until(10);
            assert_eq!(lost.lose(reason), Standing::JustLost(reason));
            assert_eq!(lost.lose(Loss::Expired), Standing::Lost(reason));
            assert_eq!(prolong(&lost, 99, 1), Standing::Lost(reason));
        }
    }
}

/// Every order in which those who extend a lease and those who ask can come: `scripts/loom.sh`.
#[cfg(all(test, leasehold_loom))]
mod interleavings {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(0).after(Duration::from_millis(ms))
    }

    fn until_10() -> Arc<Deadline> {
        let deadline = Deadline::not_begun();
        deadline.begin(at(10));
        Arc::new(deadline)
    }

    #[test]
    fn one_is_told_of_a_loss_and_it_is_final() {
        loom::model(|| {
            let deadline = until_10();
            let spawn = |step: fn(&Deadline) -> Standing| {
                let deadline = Arc::clone(&deadline);
                thread::spawn(move || (step(&deadline), deadline.check(at(5), || Loss::Expired)))
            };
            let losing = spawn(|deadline| deadline.lose(Loss::Gone));
            let extending = spawn(|deadline| deadline.prolong(at(99), at(5), || Loss::Expired));
            let late = (deadline.check(at(11), || Loss::Suspended), Standing::Held);
            let steps = [losing.join().unwrap(), extending.join().unwrap(), late];
            let end = deadline.check(at(5), || Loss::Expired);
            let told = steps.iter().filter_map(|(first, _)| match first {
                Standing::JustLost(reason) => Some(Standing::Lost(*reason)),
                _ => None,
            });
            assert_eq!(told.collect::<Vec<_>>(), [end], "{steps:?}");
            for (first, then) in steps.into_iter().take(2) {
                assert!(first == Standing::Held || then == end, "{first:?}, and then {then:?}");
            }
        });
    }

    #[test]
    fn of_two_extensions_the_later_end_stays() {
        loom::model(|| {
            let deadline = until_10();
            let other = Arc::clone(&deadline);
            let extending = thread::spawn(move || other.prolong(at(20), at(5), || Loss::Expired));
            assert_eq!(deadline.prolong(at(30), at(5), || Loss::Expired), Standing::Held);
            assert_eq!(extending.join().unwrap(), Standing::Held);
            assert_eq!(deadline.moment(), Some(at(30)));
        });
    }
}

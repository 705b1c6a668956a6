//! The state of one lease, shared by its handle, its renewal, and the code that ends it.

#[cfg(not(leasehold_loom))]
use std::sync::{Mutex, MutexGuard};

#[cfg(leasehold_loom)]
use loom::sync::{Mutex, MutexGuard};

use crate::policy::{LeaseEvent, LeaseState, Loss, Moment, Transition};

/// A [`LeaseState`] that changes by transitions, one after the other.
pub(super) struct Life(Mutex<LeaseState>);

impl Life {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LeaseState::Acquiring))
    }

    fn lock(&self) -> MutexGuard<'_, LeaseState> {
        // A transition does not panic half-way.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    #[inline(never)]
    pub(super) fn state(&self) -> LeaseState {
        *self.lock()
    }

    /// Makes the transition, and returns the state before it too.
    pub(super) fn happens(
        &self,
        event: LeaseEvent,
        now: Moment,
        overdue: impl FnOnce(Moment) -> Loss,
    ) -> (LeaseState, Transition) {
        let mut state = self.lock();
        let (before, transition) = (*state, state.transition(event, now, overdue));
        *state = transition.next;
        (before, transition)
    }

    /// Sends what may be sent only while the lease is held at `now`: it is on its way before a release
    /// can be, or it is not sent.
    pub(super) fn while_held<T>(&self, now: Moment, send: impl FnOnce() -> T) -> Option<T> {
        let state = self.lock();
        // Only looked at: a loss is told where no lock is held.
        state.until().filter(|until| now < *until).map(|_| send())
    }
}

/// Every order in which the parts that share a lease can come: `scripts/loom.sh`.
#[cfg(all(test, leasehold_loom))]
mod interleavings {
    use std::time::Duration;

    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, Ordering};
    use loom::thread::{self, JoinHandle};

    use super::{LeaseEvent, LeaseState, Life, Loss, Moment};
    use crate::policy::End;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(0).after(Duration::from_millis(ms))
    }

    fn happens(life: &Life, event: LeaseEvent, now: u64) -> Option<End> {
        life.happens(event, at(now), |_| Loss::Expired).1.end
    }

    fn held_until_10() -> Arc<Life> {
        let life = Life::new();
        assert_eq!(happens(&life, LeaseEvent::Granted { until: at(10) }, 0), None);
        Arc::new(life)
    }

    fn spawn<T: 'static>(
        life: &Arc<Life>,
        act: impl FnOnce(&Life) -> T + 'static,
    ) -> JoinHandle<T> {
        let life = Arc::clone(life);
        thread::spawn(move || act(&life))
    }

    #[test]
    fn one_is_told_how_a_lease_ended_and_it_is_final() {
        loom::model(|| {
            let life = held_until_10();
            let losing =
                spawn(&life, |life| [happens(life, LeaseEvent::Lost(Loss::Gone), 5), None]);
            let renewing = spawn(&life, |life| {
                let extended = LeaseEvent::Extended { until: at(99) };
                [happens(life, extended, 5), happens(life, LeaseEvent::Passed, 11)]
            });
            let releasing = [
                happens(&life, LeaseEvent::Release, 5),
                happens(&life, LeaseEvent::Ended(End::Released), 5),
            ];
            let ends = [losing.join().unwrap(), renewing.join().unwrap(), releasing];
            let ends: Vec<End> = ends.into_iter().flatten().flatten().collect();
            let expected = match life.state() {
                LeaseState::Lost(why) => End::Lost(why),
                state => {
                    assert_eq!(state, LeaseState::Released);
                    End::Released
                }
            };
            assert_eq!(ends, [expected]);
        });
    }

    #[test]
    fn nothing_that_could_take_the_lock_again_is_sent_behind_a_release() {
        loom::model(|| {
            let life = held_until_10();
            let is_released = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&is_released);
            let repairing = spawn(&life, move |life| {
                life.while_held(at(5), || assert!(!seen.load(Ordering::SeqCst)));
            });
            happens(&life, LeaseEvent::Release, 5);
            is_released.store(true, Ordering::SeqCst);
            repairing.join().unwrap();
        });
    }

    #[test]
    fn of_two_extensions_the_later_end_stays() {
        loom::model(|| {
            let life = held_until_10();
            let extended = |until| LeaseEvent::Extended { until: at(until) };
            let extending = spawn(&life, move |life| happens(life, extended(20), 5));
            assert_eq!(happens(&life, extended(30), 5), None);
            assert_eq!(extending.join().unwrap(), None);
            assert_eq!(life.state(), LeaseState::Held { until: at(30) });
        });
    }
}

//! The state of one lease, shared by its handle, its renewal, and whoever ends it. How a lease ended
//! is counted, and told, where its state changes.

use std::sync::PoisonError;
#[cfg(not(leasehold_loom))]
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

#[cfg(leasehold_loom)]
use loom::sync::{Mutex, MutexGuard};

use super::hold::Hold;
use crate::clock;
use crate::policy::{End, LeaseEvent, LeaseState, Loss, Moment, Transition};

/// A [`LeaseState`] that changes by transitions, one after the other.
pub(super) struct Life(Mutex<LeaseState>);

impl Life {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LeaseState::Acquiring))
    }

    fn lock(&self) -> MutexGuard<'_, LeaseState> {
        // A transition does not panic half-way.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn state(&self) -> LeaseState {
        *self.lock()
    }

    /// Makes the transition, and returns the state before it too.
    pub(super) fn happens(
        &self,
        event: LeaseEvent,
        now: Moment,
        overdue: impl FnOnce() -> Loss,
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

impl Hold {
    /// It was granted.
    pub(super) fn grant(&self, until: Moment, now: Moment) {
        self.happens(LeaseEvent::Granted { until }, now);
    }

    /// How long it is to its end; once zero, it is lost.
    pub(super) fn remaining(&self) -> Duration {
        let now = clock::now();
        let until = self.happens(LeaseEvent::Passed, now).until();
        until.map_or(Duration::ZERO, |until| until.since(now))
    }

    /// When it ends, as far as is known; none where it is not held.
    pub(super) fn ends_at(&self) -> Option<Moment> {
        self.life.state().until()
    }

    pub(super) fn state(&self) -> LeaseState {
        self.life.state()
    }

    /// Why it is lost, if it is.
    pub(super) fn loss(&self) -> Option<Loss> {
        self.happens(LeaseEvent::Passed, clock::now()).loss()
    }

    /// Moves its end to `until`, if that is later and it is held; whether it is.
    pub(super) fn prolong(&self, until: Moment) -> bool {
        self.happens(LeaseEvent::Extended { until }, clock::now()).is_held()
    }

    /// It is lost, if it is held.
    pub(super) fn lose(&self, why: Loss) {
        self.happens(LeaseEvent::Lost(why), clock::now());
    }

    /// Its holder gives it back, if it is held; how it stands then.
    pub(super) fn leave(&self) -> LeaseState {
        self.happens(LeaseEvent::Release, clock::now())
    }

    /// What became of giving it back.
    pub(super) fn conclude(&self, end: End) {
        self.happens(LeaseEvent::Ended(end), clock::now());
    }

    /// Sends what may be sent only while it is held: see [`Life::while_held`].
    pub(super) fn while_held<T>(&self, send: impl FnOnce() -> T) -> Option<T> {
        self.life.while_held(clock::now(), send)
    }

    /// The one way of its state: makes the transition, and tells of what is new.
    fn happens(&self, event: LeaseEvent, now: Moment) -> LeaseState {
        let overdue = || self.core.keeper().why_ended(now);
        let (before, after) = self.life.happens(event, now, overdue);
        if before.is_held() && !after.next.is_held() {
            self.core.meter().note_lease_ended();
        }
        if let Some(end) = after.end {
            self.tell(end, now);
        }
        after.next
    }

    fn tell(&self, end: End, now: Moment) {
        let meter = self.core.meter();
        match end {
            End::Lost(why) => {
                self.ring();
                meter.note_lost(self.name(), why);
                self.span.lost(self, why);
                self.core.lines().vacate(self);
            }
            End::Released => self.span.close("released"),
            End::Unconfirmed => self.span.close("unconfirmed"),
            End::HandedOver => {
                meter.note_handed_over(self.name());
                self.span.close("handed_over");
            }
            End::Withdrawn => self.span.close("withdrawn"),
        }
        if matches!(end, End::Released | End::Unconfirmed | End::HandedOver) {
            meter.note_released(self.name(), self.held_for(now));
        }
    }

    /// Tells those who wait for its loss: one who comes later finds it.
    fn ring(&self) {
        let bell = self.bell.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(bell) = bell {
            bell.notify_waiters();
        }
    }

    /// Waits for its loss.
    ///
    /// The timer here needs no reply and nobody else; it is there for a locker whose runtime is
    /// gone. A machine that was suspended is noticed by whoever keeps leases.
    pub(super) async fn lost(&self) -> Loss {
        let bell = self
            .bell
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_default()
            .clone();
        loop {
            let mut told = std::pin::pin!(bell.notified());
            told.as_mut().enable();
            if let Some(loss) = self.loss() {
                #[cfg(test)]
                if crate::policy::mutants::Mutant::LossWaitsForTheServer.is_on() {
                    tokio::time::sleep(self.term.ttl() / 2).await;
                }
                return loss;
            }
            let _ = tokio::time::timeout(self.remaining(), told).await;
        }
    }
}

/// Every order in which those who share a lease can come: `scripts/loom.sh`.
#[cfg(all(test, leasehold_loom))]
mod interleavings {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, Ordering};
    use loom::thread::{self, JoinHandle};

    use super::{Duration, End, LeaseEvent, LeaseState, Life, Loss, Moment};

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(0).after(Duration::from_millis(ms))
    }

    fn happens(life: &Life, event: LeaseEvent, now: u64) -> Option<End> {
        life.happens(event, at(now), || Loss::Expired).1.end
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

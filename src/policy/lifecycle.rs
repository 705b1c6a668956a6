//! The life of one lease for its holder: every change of its state is here.
//!
//! ```text
//!                 Release
//!         Held ─────────────▶ Releasing ──────▶ Released
//!        │ ▲ │ ◀──────────────  │        Ended
//! Extended╰╯ │ Lost,   Stays    │Ended(Lost):
//!            │ or its time      │the key was
//!            │ is over          │not there
//!            ╰─────▶ Lost ◀─────╯
//! ```
//!
//! Three rules hold in every order of events. A lease that anybody was told is lost stays lost, for
//! the same reason (safety rule 7). Its end never moves to an earlier moment (safety rule 6). And of
//! a lease that was held, one transition and no other says how it [`End`]ed: the code that makes that
//! transition counts the end and tells of it.

use super::{Loss, Moment};

/// Where a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LeaseState {
    /// It is its holder's `until` then.
    Held { until: Moment },
    /// Its holder gives it back, and does not know yet what becomes of that.
    Releasing,
    /// It was given back, or handed on.
    Released,
    /// It ended before it was given back.
    Lost(Loss),
}

/// What happens to a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseEvent {
    /// A quorum extended it.
    Extended { until: Moment },
    /// Time went by.
    Passed,
    /// Servers, or the locker, ended it before its time.
    Lost(Loss),
    /// Its holder gives it back. Nothing that could take its locks again is sent after this.
    Release,
    /// Servers gave its holder nothing in its place: it is its holder's until then, as before.
    Stays { until: Moment },
    /// What became of giving it back.
    Ended(End),
}

/// How a lease ended that was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Given back: a quorum said so, or the release is queued and nobody waits for a word on it.
    Released,
    /// Given back, and too few servers said so.
    Unconfirmed,
    /// Handed over to the next one in this process.
    HandedOver,
    /// Given to a ticket, which another process may turn into a lease.
    Ticketed,
    Lost(Loss),
}

/// The state after an event, and how the lease ended if it was by this event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) next: LeaseState,
    pub(crate) end: Option<End>,
}

impl LeaseState {
    /// What `event` makes of it at `now`; `overdue` says why it is lost if its time is over, by the
    /// moment of its end.
    pub(crate) fn transition(
        self,
        event: LeaseEvent,
        now: Moment,
        overdue: impl FnOnce(Moment) -> Loss,
    ) -> Transition {
        let to = |next| Transition { next, end: None };
        let lost = |why| Transition { next: Self::Lost(why), end: Some(End::Lost(why)) };
        match (self, event) {
            (Self::Held { .. }, LeaseEvent::Lost(why)) => lost(why),
            (Self::Held { until }, _) if until <= now => lost(overdue(until)),
            (Self::Held { until: known }, LeaseEvent::Extended { until }) => {
                to(Self::Held { until: known.max(until) })
            }
            (Self::Held { .. }, LeaseEvent::Release) => to(Self::Releasing),
            (Self::Releasing, LeaseEvent::Stays { until }) if until <= now => lost(overdue(until)),
            (Self::Releasing, LeaseEvent::Stays { until }) => to(Self::Held { until }),
            (Self::Releasing, LeaseEvent::Ended(End::Lost(why))) => lost(why),
            (Self::Releasing, LeaseEvent::Ended(end)) => {
                Transition { next: Self::Released, end: Some(end) }
            }
            (state, _) => to(state),
        }
    }

    /// When it ends, as far as is known; none where it is not held.
    pub(crate) fn until(self) -> Option<Moment> {
        if let Self::Held { until } = self { Some(until) } else { None }
    }

    pub(crate) fn loss(self) -> Option<Loss> {
        if let Self::Lost(why) = self { Some(why) } else { None }
    }

    pub(crate) fn is_held(self) -> bool {
        self.until().is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(0).after(Duration::from_millis(ms))
    }

    fn step(state: LeaseState, event: LeaseEvent, now: u64) -> Transition {
        state.transition(event, at(now), |_| Loss::Expired)
    }

    const fn ended(end: End) -> LeaseEvent {
        LeaseEvent::Ended(end)
    }

    #[test]
    fn a_lease_is_lost_at_its_end_and_not_before() {
        let held = LeaseState::Held { until: at(10) };
        assert_eq!(step(held, LeaseEvent::Passed, 9), Transition { next: held, end: None });
        let lost = Transition {
            next: LeaseState::Lost(Loss::Expired),
            end: Some(End::Lost(Loss::Expired)),
        };
        for event in
            [LeaseEvent::Passed, LeaseEvent::Release, LeaseEvent::Extended { until: at(99) }]
        {
            assert_eq!(step(held, event, 10), lost, "{event:?}");
        }
    }

    #[test]
    fn a_release_that_finds_no_key_is_a_loss_and_a_renewal_behind_a_release_is_not() {
        let gone = LeaseEvent::Lost(Loss::Gone);
        assert_eq!(step(LeaseState::Releasing, gone, 5).next, LeaseState::Releasing);
        let found = step(LeaseState::Releasing, ended(End::Lost(Loss::Gone)), 5);
        assert_eq!(found.next, LeaseState::Lost(Loss::Gone));
        assert_eq!(found.end, Some(End::Lost(Loss::Gone)));
    }

    /// Each sequence of events up to a length, each at one of two moments of a clock that goes on.
    #[test]
    fn in_every_order_of_events_a_lease_ends_once_and_its_end_is_final() {
        let events = [
            LeaseEvent::Extended { until: at(5) },
            LeaseEvent::Extended { until: at(20) },
            LeaseEvent::Passed,
            LeaseEvent::Lost(Loss::Gone),
            LeaseEvent::Release,
            LeaseEvent::Stays { until: at(15) },
            ended(End::Released),
            ended(End::HandedOver),
            ended(End::Ticketed),
            ended(End::Lost(Loss::NoQuorum)),
        ];
        let life = Life { state: LeaseState::Held { until: at(10) }, ends: Vec::new() };
        let mut seen = Vec::new();
        life.explore(&events, 0, 6, &mut seen);
        let losses = [Loss::Gone, Loss::NoQuorum, Loss::Expired].map(End::Lost);
        for end in losses.into_iter().chain([End::Released, End::HandedOver, End::Ticketed]) {
            assert!(seen.contains(&end), "{end:?}");
        }
    }

    #[derive(Clone)]
    struct Life {
        state: LeaseState,
        ends: Vec<End>,
    }

    impl Life {
        fn explore(&self, events: &[LeaseEvent], now: u64, left: u32, seen: &mut Vec<End>) {
            seen.extend(&self.ends);
            if left == 0 {
                return;
            }
            for event in events {
                for now in [now, now + 8] {
                    let mut next = self.clone();
                    if next.happens(*event, now) {
                        next.explore(events, now, left - 1, seen);
                    }
                }
            }
        }

        /// Whether it changed anything, after the rules were checked.
        fn happens(&mut self, event: LeaseEvent, now: u64) -> bool {
            let (before, after) = (self.state, step(self.state, event, now));
            self.ends.extend(after.end);
            self.state = after.next;
            let told = format!("{before:?} {event:?} at {now}: {after:?}, {:?}", self.ends);
            assert!(self.ends.len() <= 1, "it ends once: {told}");
            match (before, after.next) {
                (LeaseState::Lost(_) | LeaseState::Released, next) => assert_eq!(before, next),
                (LeaseState::Held { until: before }, LeaseState::Held { until: after }) => {
                    assert!(at(now) < before && before <= after, "{told}");
                }
                (LeaseState::Held { .. }, LeaseState::Lost(why)) => {
                    assert_eq!(self.ends, [End::Lost(why)], "{told}");
                }
                (_, LeaseState::Held { until }) => {
                    assert!(before == LeaseState::Releasing && at(now) < until, "{told}");
                }
                (LeaseState::Releasing, LeaseState::Lost(_) | LeaseState::Released) => {
                    assert_eq!(self.ends.len(), 1, "{told}");
                }
                (LeaseState::Held { .. }, _) | (_, LeaseState::Releasing) => {}
            }
            before != after.next
        }
    }
}

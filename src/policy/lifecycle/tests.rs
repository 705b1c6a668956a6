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
    let lost =
        Transition { next: LeaseState::Lost(Loss::Expired), end: Some(End::Lost(Loss::Expired)) };
    for event in [LeaseEvent::Passed, LeaseEvent::Release, LeaseEvent::Extended { until: at(99) }] {
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

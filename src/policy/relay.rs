use std::time::Duration;

use super::Moment;

/// Maximum hand-overs in a row within a process.
const HANDS_MAX: u32 = 16;
/// And for no longer than this, so that others are not kept waiting by long holds.
const RELAY_MAX: Duration = Duration::from_secs(1);

/// A lock that goes from hand to hand within one process, unseen by all others.
///
/// Bounded in number and time, so that other processes get their turn: then it goes on only if none
/// of them waits, where that is known; else it is given back, and the next waiter in this process
/// asks for it as they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relay {
    hands: u32,
    /// When the first hand-over was.
    began_at: Option<Moment>,
}

impl Relay {
    /// The relay after one hand-over more at `now`; none where it is others' turn.
    pub(crate) fn next(self, now: Moment) -> Option<Self> {
        let began_at = self.began_at.unwrap_or(now);
        let may_go_on = self.hands < HANDS_MAX && now.since(began_at) <= RELAY_MAX;
        may_go_on.then_some(Self { hands: self.hands + 1, began_at: Some(began_at) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(0).after(Duration::from_millis(ms))
    }

    #[test]
    fn a_relay_ends_after_so_many_hands() {
        let mut relay = Relay::default();
        for _ in 0..HANDS_MAX {
            relay = relay.next(at(5)).unwrap();
        }
        assert_eq!(relay.next(at(5)), None);
    }

    #[test]
    fn a_relay_ends_in_time_but_a_long_first_hold_does_not_count() {
        let relay = Relay::default().next(at(60_000)).unwrap();
        assert!(relay.next(at(61_000)).is_some());
        assert_eq!(relay.next(at(61_001)), None);
    }
}

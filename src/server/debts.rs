//! What could not be told to a server yet.

use crate::net::owed::Owed;
use crate::policy::Moment;

/// A lane remembers at most this many. What is forgotten costs its lease's TTL, no more.
const DEBTS_MAX: usize = 4096;

/// What is owed to a server on one lane, in the order in which it came to be.
#[derive(Default)]
pub(super) struct Debts(Vec<Owed>);

impl Debts {
    /// Keeps these, as long as there is room; what is pointless by now makes room first.
    pub(super) fn remember(&mut self, more: impl IntoIterator<Item = Owed>, now: Moment) {
        for owed in more {
            if self.0.len() == DEBTS_MAX {
                self.0.retain(|debt| debt.pointless_at > now);
            }
            if self.0.len() < DEBTS_MAX {
                self.0.push(owed);
            }
        }
    }

    /// Takes out all that is still worth sending; what is pointless is forgotten.
    pub(super) fn take_due(&mut self, now: Moment) -> Vec<Owed> {
        let mut due = std::mem::take(&mut self.0);
        due.retain(|debt| debt.pointless_at > now);
        due
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn owed(pointless_at: u64) -> Owed {
        let pointless_at = Moment::from_nanos(pointless_at);
        Owed { command: Bytes::new(), slot: 0, pointless_at, tries: 0 }
    }

    #[test]
    fn what_is_pointless_is_not_sent_and_nothing_is_sent_twice() {
        let mut debts = Debts::default();
        debts.remember([owed(5), owed(9), owed(7)], Moment::from_nanos(0));
        assert_eq!(debts.take_due(Moment::from_nanos(5)), [owed(9), owed(7)]);
        assert_eq!(debts.take_due(Moment::from_nanos(0)), []);
    }

    #[test]
    fn a_full_table_forgets_the_pointless_first_and_then_the_newest() {
        let mut debts = Debts::default();
        debts.remember((0..DEBTS_MAX).map(|_| owed(5)), Moment::from_nanos(0));
        debts.remember([owed(9)], Moment::from_nanos(4));
        assert_eq!(debts.0.len(), DEBTS_MAX);
        assert!(!debts.0.contains(&owed(9)));
        debts.remember([owed(9)], Moment::from_nanos(5));
        assert_eq!(debts.0, [owed(9)]);
    }
}

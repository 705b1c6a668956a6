/// Maximum waiters before a waiter that keeps close.
const NEAR: u64 = 2;

/// How one waiter takes its turn among those of other processes.
///
/// All are told of a release at once, and the server would always tell them in the same order. So
/// who has waited for fewer releases than there are others looks first whether the lock is still
/// free, and takes it a round trip later, while who has waited longer takes it right away. Once
/// all have been served in some order, they are served in that order again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    /// The most others that were seen waiting.
    others: u64,
    /// Holders that were seen to come and go.
    passed: u64,
    /// The holder that refused last, as a number.
    holder: Option<u64>,
    /// Whether the present holder's server counts this waiter.
    is_counted: bool,
}

impl Turns {
    /// It was refused, with `others` waiting beside it; `is_counted` if it is one of the server's
    /// number now. Whether the holder is not the one that refused it before.
    pub(crate) fn refused(&mut self, holder: u64, others: u64, is_counted: bool) -> bool {
        self.others = self.others.max(others);
        let is_another = self.holder.is_some_and(|before| before != holder);
        self.passed += u64::from(is_another);
        // Whoever was granted the lock after waiting for it has taken the count away.
        self.is_counted = is_counted && !is_another;
        self.holder.replace(holder) != Some(holder)
    }

    /// The lock was free, and others wait for it.
    pub(crate) fn queued(&mut self, others: u64) {
        self.others = self.others.max(others);
    }

    /// Whether to look before taking.
    pub(crate) fn looks_first(&self) -> bool {
        self.passed < self.others
    }

    /// Whether it is so far from its turn that it had better keep out of the others' way: their
    /// questions keep the server, and the machine, from answering whose turn it is.
    pub(crate) fn is_far(&self) -> bool {
        self.passed + NEAR < self.others
    }

    /// Whether the next question has to count it.
    pub(crate) fn is_counted(&self) -> bool {
        self.is_counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_alone_takes_what_is_free() {
        let mut turns = Turns::default();
        turns.refused(1, 0, true);
        assert!(!turns.looks_first());
    }

    #[test]
    fn who_has_seen_as_many_pass_as_there_are_others_takes_its_turn() {
        let mut turns = Turns::default();
        turns.refused(1, 2, true);
        assert!(turns.looks_first());
        assert!(!turns.refused(1, 2, true), "the same holder again");
        assert!(turns.looks_first());
        turns.refused(2, 1, true);
        assert!(turns.looks_first());
        turns.refused(3, 2, true);
        assert!(!turns.looks_first());
        turns.refused(3, 9, true);
        assert!(turns.is_far());
        assert!((4..9).all(|holder| turns.refused(holder, 9, true)));
        assert!(!turns.is_far() && turns.looks_first());
    }

    #[test]
    fn a_waiter_is_counted_once_for_each_holder() {
        let mut turns = Turns::default();
        assert!(!turns.is_counted());
        turns.refused(1, 0, true);
        assert!(turns.is_counted());
        turns.refused(2, 0, true);
        assert!(!turns.is_counted(), "the number began anew");
        turns.queued(4);
        assert!(turns.looks_first());
    }
}

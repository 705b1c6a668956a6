//! Latches and barriers: a latch is a barrier with one generation.

use super::{At, Broken};

/// A party that arrived, as its caller knows.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub gate: usize,
    pub party: usize,
    /// None if the caller got no answer.
    pub generation: Option<u64>,
    /// Read before the call.
    pub asked: At,
    /// When the caller had the answer that the party is counted.
    pub told: Option<At>,
}

/// The state of a gate at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    pub gate: usize,
    pub generation: u64,
    /// All parties of the generation have arrived.
    pub is_open: bool,
    pub asked: At,
    pub told: At,
}

impl Look {
    /// The last generation that was let go.
    fn passed(&self) -> u64 {
        self.generation - u64::from(!self.is_open)
    }
}

/// No generation is let go before each party has come for it.
pub(super) fn opened_too_soon(arrivals: &[Arrival], looks: &[Look], parties: usize) -> Vec<Broken> {
    let has_come = |party, look: &Look| {
        arrivals.iter().any(|it| {
            let is_it = (it.gate, it.party) == (look.gate, party);
            let is_for = it.generation.is_none_or(|generation| generation == look.passed());
            is_it && is_for && it.asked <= look.told
        })
    };
    let opened = looks.iter().filter(|look| look.passed() > 0);
    let early = opened.filter(|look| !(0..parties).all(|party| has_come(party, look)));
    early.map(|look| ("opened too soon", format!("{look:?}"))).collect()
}

/// A generation that was let go stays so.
pub(super) fn closed_again(looks: &[Look]) -> Vec<Broken> {
    let is_undone = |look: &&Look| {
        let before = looks.iter().filter(|it| it.gate == look.gate && it.told < look.asked);
        !look.is_open && before.map(Look::passed).max() >= Some(look.generation)
    };
    let closed = looks.iter().filter(is_undone);
    closed.map(|look| ("closed again", format!("{look:?}"))).collect()
}

/// A generation is let go once each party is known to have arrived.
pub(super) fn kept_closed(arrivals: &[Arrival], looks: &[Look], parties: usize) -> Vec<Broken> {
    let is_known = |party, look: &Look| {
        arrivals.iter().any(|it| {
            let is_it = (it.gate, it.party) == (look.gate, party);
            let is_for = it.generation == Some(look.generation);
            is_it && is_for && it.told.is_some_and(|told| told < look.asked)
        })
    };
    let closed = looks.iter().filter(|look| !look.is_open);
    let kept = closed.filter(|look| (0..parties).all(|party| is_known(party, look)));
    kept.map(|look| ("kept closed", format!("{look:?}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> At {
        At::from_millis(millis)
    }

    fn arrival(party: usize, asked: u64, told: u64) -> Arrival {
        let (asked, told) = (at(asked), Some(at(told)));
        Arrival { gate: 0, party, generation: Some(1), asked, told }
    }

    fn look(generation: u64, is_open: bool, asked: u64) -> Look {
        Look { gate: 0, generation, is_open, asked: at(asked), told: at(asked + 5) }
    }

    #[test]
    fn a_gate_that_is_open_before_all_have_come_is_found() {
        let both = [arrival(0, 10, 15), arrival(1, 20, 25)];
        let early = |look: Look| opened_too_soon(&both, &[look], 2).len();
        assert_eq!([early(look(1, true, 14)), early(look(1, true, 16))], [1, 0]);
        assert_eq!(early(look(1, false, 10)), 0);
        assert_eq!(early(look(2, false, 14)), 1, "the one before it was let go");
        assert_eq!(early(look(2, true, 30)), 1, "for which nobody has come");
        assert_eq!(early(Look { gate: 1, ..look(1, true, 30) }), 1, "another gate");
        let unknown = Arrival { generation: None, ..arrival(1, 20, 25) };
        let perhaps = [arrival(0, 10, 15), unknown, arrival(0, 30, 35)];
        assert_eq!(opened_too_soon(&perhaps, &[look(1, true, 40)], 2).len(), 0);
    }

    #[test]
    fn a_gate_that_closes_again_or_never_opens_is_found() {
        let open = look(1, true, 10);
        let after = |look: Look| closed_again(&[open.clone(), look]).len();
        assert_eq!([after(look(1, false, 16)), after(look(1, false, 14))], [1, 0]);
        assert_eq!(after(look(2, false, 16)), 0);
        let both = [arrival(0, 10, 15), arrival(1, 20, 25)];
        let kept = |look: Look| kept_closed(&both, &[look], 2).len();
        assert_eq!([kept(look(1, false, 26)), kept(look(1, false, 24))], [1, 0]);
        assert_eq!([kept(look(2, false, 26)), kept(look(1, true, 26))], [0, 0]);
    }
}

//! Ids for owners, of which the kernel draws only some.
//!
//! To draw an id takes longer than all else that a pair does in its own thread. So the kernel draws one for
//! all attempts of a thread within a millisecond, and each attempt adds what no other has: its number and
//! the time.
//!
//! Two copies of a running machine, or of a process that forked, both have what was drawn before. They
//! give the same id only where both read the same nanosecond for the same number, within the millisecond in
//! which the copy was made. That copy was made of attempts in flight too, whose ids both copies have
//! whatever draws them. A machine that was copied while it rested has drawn nothing that would still serve.

use std::time::Duration;

use crate::policy::Moment;

/// Maximum age of what was drawn.
const FRESH: Duration = Duration::from_millis(1);

/// What one thread gives to its owners.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owners {
    drawn: u128,
    drawn_at: Moment,
    /// Ids made of what was drawn.
    given: u64,
}

impl Owners {
    /// Draws before it gives anything.
    pub(super) const NONE: Self = Self { drawn: 0, drawn_at: Moment::from_nanos(0), given: 0 };

    /// Another id, at `now`; what `draw` draws is random.
    #[inline]
    pub(super) fn next(&mut self, now: Moment, draw: impl FnOnce() -> u128) -> u128 {
        let is_fresh = self.drawn_at <= now && now.since(self.drawn_at) <= FRESH;
        if self.given == 0 || !is_fresh {
            *self = Self { drawn: draw(), drawn_at: now, given: 0 };
        }
        self.given += 1;
        let own = u128::from(now.as_nanos()) << 64 | u128::from(self.given);
        self.drawn.wrapping_add(own)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn at(micros: u64) -> Moment {
        Moment::from_nanos(micros * 1000)
    }

    #[test]
    fn ids_of_one_moment_differ_and_are_of_one_draw() {
        let (mut owners, mut draws) = (Owners::NONE, 0);
        let mut next = || {
            owners.next(at(5), || {
                draws += 1;
                u128::MAX - 7
            })
        };
        let ids: HashSet<u128> = (0..1000).map(|_| next()).collect();
        assert_eq!((ids.len(), draws), (1000, 1));
    }

    #[test]
    fn what_was_drawn_serves_for_a_millisecond_and_not_before_it_was_drawn() {
        let (mut owners, mut draws) = (Owners::NONE, 0);
        for (micros, expected) in
            [(9000, 1), (9001, 1), (10_000, 1), (10_001, 2), (11_001, 2), (8000, 3), (8001, 3)]
        {
            owners.next(at(micros), || {
                draws += 1;
                draws
            });
            assert_eq!(draws, expected, "at {micros} µs");
        }
    }

    /// As two copies of a machine do, from the moment of the copy on.
    #[test]
    fn copies_give_different_ids_where_their_clocks_or_their_numbers_differ() {
        let mut original = Owners::NONE;
        original.next(at(1000), || 1 << 100);
        let mut copy = original;
        let draw = || unreachable!("it is fresh");
        let ids = (1..100).map(|micros| original.next(at(1000 + 2 * micros), draw));
        let ids: HashSet<u128> = ids.collect();
        assert!((1..100).all(|micros| !ids.contains(&copy.next(at(1001 + 2 * micros), draw))));
        let mut late = original;
        let drawn_again = late.next(at(9000), || 1 << 90);
        assert_ne!(drawn_again, original.next(at(9000), || 1 << 91));
    }
}

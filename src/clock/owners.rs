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
mod tests;

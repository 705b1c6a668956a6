//! Ids of owners, few of which are read from the kernel.
//!
//! Reading random bits takes longer than all else that an acquire and its release do in their thread. So all attempts
//! of a thread within a millisecond share random bits, and each adds a unique part: its number and the time.
//!
//! Two copies of a running machine, or of a process that forked, share the bits that were read before. They make the
//! same id only if both read the same nanosecond for the same number, within the millisecond of the copy. Such a copy
//! would also share the ids of attempts in flight, however ids are made. A machine that was idle when it was copied has
//! no bits that are still fresh.

use std::time::Duration;

use crate::policy::Moment;

/// Maximum age of random bits.
const FRESH: Duration = Duration::from_millis(1);

/// The ids of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owners {
    drawn: u128,
    drawn_at: Moment,
    /// Number of ids made from these bits.
    given: u64,
}

impl Owners {
    /// Reads random bits before its first id.
    pub(super) const NONE: Self = Self { drawn: 0, drawn_at: Moment::from_nanos(0), given: 0 };

    /// A new id at `now`; `draw` reads random bits.
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

use std::time::Duration;

use super::{Backoff, Moment};

/// The pauses between tries of a release that a server refuses, or that no connection can take: a slot
/// takes milliseconds to move, a script that keeps a server busy seconds to end, and a fleet must not
/// ask a server that loads its data more than once a second for each release.
const TRIES: Backoff = Backoff { first: Duration::from_millis(4), longest: Duration::from_secs(1) };
/// From a release whose acquire may still arrive to its first repetition. Each later gap is twice
/// the one before.
const FIRST_GAP_MS: u32 = 500;

/// When a release without a final answer is sent again: safety rule 15.
///
/// The rules:
///
/// 1. A release that was refused, or that no connection could take, is sent again after a back-off; the caller may send it
///    sooner, once the server serves.
/// 2. A release whose connection ended before the answer is sent again on the next connection.
/// 3. A release whose acquire was not answered before its connection ended is *doubtful*: bytes of the
///    acquire may still be under way to the server, and an answer on another connection says nothing
///    of them. So the release is repeated, with gaps that double: an acquire that arrives late is undone
///    after at most about as much time again, and no release takes more than eight commands. Rules 1 and
///    2 apply to one command only until the repetition is due, which takes its place.
/// 4. Nothing is sent once the lease's longest possible life is over.
///
/// A release names an owner that is never used twice, so sending a release again can only do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redelivery {
    pub(super) pointless_at: Moment,
    /// How often the release was refused, or could not be sent.
    failed: u16,
    /// The gap until the next repetition, in milliseconds; 0 if the release is not doubtful.
    gap_ms: u32,
}

impl Redelivery {
    /// The schedule of a release that need not be sent from `pointless_at` on.
    pub fn new(pointless_at: Moment, is_doubtful: bool) -> Self {
        Self { pointless_at, failed: 0, gap_ms: if is_doubtful { FIRST_GAP_MS } else { 0 } }
    }

    /// When to send the release again after it was refused, or no connection could take it.
    pub(crate) fn after_failure(&mut self, now: Moment, random: u64) -> Moment {
        let due_at = now.after(TRIES.delay(self.failed.into(), random));
        self.failed = self.failed.saturating_add(1);
        due_at
    }

    /// The same after a refusal on the connection of its acquire, which proves that the acquire does
    /// not arrive later, or of a release that is not doubtful.
    pub(crate) fn after_refusal(&mut self, now: Moment, random: u64) -> Moment {
        self.gap_ms = 0;
        self.after_failure(now, random)
    }

    /// The same after a refusal on another connection than its acquire's: the doubtful release is still to be repeated,
    /// after the same gap.
    pub(crate) fn after_refusal_elsewhere(&mut self, now: Moment, random: u64) -> Moment {
        self.gap_ms = self.gap_ms.div_ceil(2);
        self.after_failure(now, random)
    }

    /// The release goes out on another connection than its acquire did. If it is doubtful, returns when
    /// to repeat it, and the repetition's schedule; this one ends once the repetition is due.
    pub(crate) fn was_sent(&mut self, now: Moment) -> Option<(Moment, Self)> {
        let gap_ms = std::mem::take(&mut self.gap_ms);
        let due_at = now.after(Duration::from_millis(gap_ms.into()));
        if gap_ms == 0 || due_at >= self.pointless_at {
            return None;
        }
        let again = Self { gap_ms: gap_ms.saturating_mul(2), ..*self };
        self.pointless_at = due_at;
        Some((due_at, again))
    }
}

#[cfg(test)]
mod tests;

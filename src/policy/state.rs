//! The state of a lock by the answers of several servers.

use std::time::Duration;

use super::Quorum;

/// The state of a lock, by the servers that answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockState {
    /// Nobody has it on any server that answered, and the others are fewer than a quorum.
    Free,
    /// One owner, or sharers together, have it on a quorum of the servers.
    Held,
    /// Somebody has it on some servers, and nobody on a quorum: an attempt that is under way, or
    /// the rest of a lease or of an attempt.
    Partial,
    /// Too few servers answered to tell.
    Unknown,
}

impl LockState {
    /// `most` is the largest number of servers on which one owner has the lock, or sharers have it.
    pub(crate) fn of(quorum: Quorum, most: usize, unanswered: usize) -> Self {
        if most >= quorum.needed() {
            Self::Held
        } else if most + unanswered >= quorum.needed() {
            Self::Unknown
        } else if most > 0 {
            Self::Partial
        } else {
            Self::Free
        }
    }
}

/// How much longer a lease lasts on a quorum of servers, or on any server if fewer than a quorum have it. `each` has
/// the time left on each server that has the lease. None: no end.
pub(crate) fn time_left(quorum: Quorum, each: &[Option<Duration>]) -> Option<Duration> {
    let mut each: Vec<Duration> = each.iter().map(|left| left.unwrap_or(Duration::MAX)).collect();
    each.sort_unstable_by(|one, other| other.cmp(one));
    let last_of_quorum = if each.len() < quorum.needed() { 0 } else { quorum.needed() - 1 };
    each.get(last_of_quorum).copied().filter(|left| *left < Duration::MAX)
}

#[cfg(test)]
mod tests;

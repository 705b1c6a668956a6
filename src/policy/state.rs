//! What servers that were looked at say of a lock together.

use std::time::Duration;

use super::Quorum;

/// Where a lock stands, as far as the servers that answered say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockState {
    /// Nobody has it on any server that answered, and the others are too few to make a holder.
    Free,
    /// One owner, or sharers together, have it on a quorum of the servers.
    Held,
    /// Somebody has it on some servers, and nobody on a quorum: an attempt that is under way, or
    /// what is left of a lease, or of an attempt.
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

/// How long a holder's lease is left on a quorum of servers, or on any server where it is on fewer than a quorum. `each` has
/// the time left on each server that has the lease. None: it has no end.
pub(crate) fn time_left(quorum: Quorum, each: &[Option<Duration>]) -> Option<Duration> {
    let mut each: Vec<Duration> = each.iter().map(|left| left.unwrap_or(Duration::MAX)).collect();
    each.sort_unstable_by(|one, other| other.cmp(one));
    let last_of_quorum = if each.len() < quorum.needed() { 0 } else { quorum.needed() - 1 };
    each.get(last_of_quorum).copied().filter(|left| *left < Duration::MAX)
}

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use super::Moment;

/// The keeper of leases looks at the clock at least this often while there is a lease.
pub(crate) const BEAT: Duration = Duration::from_millis(500);
/// A beat that is this late means that the process stood still.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// Why a lease ended before it was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The lease expired: it was not renewed, or could not be.
    Expired,
    /// The server reported that the key was deleted, or taken by another client.
    Gone,
    /// Servers reported that the key is gone, and those that did not are fewer than a quorum.
    NoQuorum,
    /// The lease expired while the process, its runtime or the machine stood still for more than a
    /// second: suspended, blocked, driven by nobody, or ended.
    Suspended,
    /// [`Locker::shutdown`](crate::Locker::shutdown) released the lease.
    ShutDown,
    /// The lease was held for as long as its request allows
    /// ([`LockRequest::hold_at_most`](crate::LockRequest::hold_at_most)).
    HeldLongest,
}

impl Loss {
    /// Every reason there is.
    pub(crate) const ALL: [Self; 6] = [
        Self::Expired,
        Self::Gone,
        Self::NoQuorum,
        Self::Suspended,
        Self::ShutDown,
        Self::HeldLongest,
    ];

    /// Why a lease whose deadline has passed at `now` was lost; the last beat of its keeper was
    /// at `beat`.
    pub(crate) fn at_deadline(beat: Moment, now: Moment) -> Self {
        if now.since(beat) > BEAT + STOOD_STILL { Self::Suspended } else { Self::Expired }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "it expired",
            Self::Gone => "its key was deleted, or taken by another client",
            Self::NoQuorum => "fewer servers than its quorum still hold it",
            Self::Suspended => "it expired while this process or its runtime stood still",
            Self::ShutDown => "the locker was shut down",
            Self::HeldLongest => "it was held for as long as its request allows",
        })
    }
}

#[cfg(test)]
mod tests;

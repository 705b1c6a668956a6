//! What became of all locks when a locker was shut down.

use std::fmt;

/// What [`Locker::shutdown`](crate::Locker::shutdown) released, and what it could not.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Shutdown {
    /// Names of the locks that are free now, stay locked until their
    /// [`hold_at_least`](crate::LockRequest::hold_at_least) is over, or were no longer held by this locker. What was
    /// kept for a request that still waited for others too is not among them.
    pub released: Vec<String>,
    /// The locks that may stay locked: also those whose guard or request was dropped before, and whose release no server
    /// has answered. One whose key must have ended by itself is not among them; a command whose fate
    /// is not known counts for a minute after its lease's end.
    pub unreleased: Vec<Unreleased>,
}

/// A lock that may stay locked until its TTL is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreleased {
    /// Its name; of several locks of one lease, all their names.
    pub name: String,
    /// Why, in words: what a server said, or that too few answered.
    pub reason: String,
}

/// In one line, for a log: `released 2 locks; job may stay locked until its TTL is over: ..`.
impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.released.len();
        write!(f, "released {count} lock{}", if count == 1 { "" } else { "s" })?;
        self.unreleased.iter().try_for_each(|Unreleased { name, reason }| {
            write!(f, "; {name} may stay locked until its TTL is over: {reason}")
        })
    }
}

use std::collections::HashSet;
use std::fmt;

/// Whether clients of two configurations exclude each other: whether any `quorum` of `servers`
/// shares a server with any `other_quorum` of `other_servers`.
///
/// That is so exactly if q1 + q2 > |S1 ∪ S2|. Use it before changing the servers of a running
/// system. To change them:
///
/// 1. Choose a next configuration that may coexist with the present one; if the one that you
///    want may not, go there in several steps (adding or removing one server at a time, with
///    majorities, is always safe).
/// 2. Give every client the next configuration, in any order. While both are in use, clients see
///    [`Holder::other_configuration`](crate::Holder::other_configuration) where they contend;
///    that is to be expected.
/// 3. When no client uses the old one any more, wait for the longest TTL in use: its leases have
///    ended then. Only now take the next step, or switch a server off for good.
///
/// A server that is new to the set has to be empty, or to have been up for the longest TTL, which
/// the restart quarantine ensures.
///
/// # Errors
///
/// [`CoexistenceError`] if two quorums may share no server; it has the numbers.
///
/// # Examples
///
/// ```
/// use leasehold::check_coexistence;
///
/// // From three servers to four, majorities of both: safe.
/// assert!(check_coexistence(&["a", "b", "c"], 2, &["a", "b", "c", "d"], 3).is_ok());
/// // From three to five in one step: two of the old and three of the new may be disjoint.
/// assert!(check_coexistence(&["a", "b", "c"], 2, &["a", "b", "c", "d", "e"], 3).is_err());
/// ```
pub fn check_coexistence<S: AsRef<str>>(
    servers: &[S],
    quorum: usize,
    other_servers: &[S],
    other_quorum: usize,
) -> Result<(), CoexistenceError> {
    let union: HashSet<&str> = servers.iter().chain(other_servers).map(AsRef::as_ref).collect();
    let grants = quorum + other_quorum;
    if grants > union.len() {
        return Ok(());
    }
    Err(CoexistenceError { servers: union.len(), grants })
}

/// Clients of the two configurations could hold the same lock at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoexistenceError {
    /// The number of different servers in both configurations.
    pub servers: usize,
    /// The sum of both quorums.
    pub grants: usize,
}

impl fmt::Display for CoexistenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { servers, grants } = self;
        write!(
            f,
            "clients of the two configurations could hold the same lock: their quorums have \
             {grants} servers together and fit side by side into {servers}; change one server at a \
             time, or raise a quorum"
        )
    }
}

impl std::error::Error for CoexistenceError {}

#[cfg(test)]
mod tests;

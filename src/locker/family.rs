//! What there is beside locks.

use std::sync::Arc;

use super::Locker;
use crate::error::Error;
use crate::family::limit::Limit;
use crate::family::rate::Rate;

impl Locker {
    /// A rate limit that all processes share which give this name and this rate.
    ///
    /// In any span of time it lets through at most the burst and the rate's share of the span, by the
    /// server's clock: [what ends that](crate::guide::family#limits). A token costs one command, or less
    /// with [`Limit::taken_ahead`]. [`Locker::lock`] says which names are valid.
    ///
    /// Several servers do not count together. Each gives its share of the rate, so the limit holds
    /// exactly, and a server that is down takes its share with it.
    ///
    /// # Errors
    ///
    /// [`Error::is_misuse`] for an invalid name; for a rate or burst of 0, a period below 1 ms, or a burst
    /// that takes longer than 366 days to come back; and, with several servers, for a burst that is
    /// smaller than their number.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::Rate;
    ///
    /// let limit = locker.limit("logins:alice", Rate::new(5, Duration::from_secs(60)))?;
    /// if !limit.take(1).await?.is_allowed() {
    ///     println!("too many tries");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn limit(&self, name: impl AsRef<[u8]>, rate: Rate) -> Result<Limit, Error> {
        Limit::new(Arc::clone(&self.engine), self.name(name.as_ref())?, rate)
    }
}

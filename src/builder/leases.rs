//! What leases are like unless a request says otherwise.

use std::sync::Arc;
use std::time::Duration;

use super::Builder;
use crate::policy::Retry;

impl Builder {
    /// Sets the TTL of leases whose requests set none: 10 ms to 24 h, by default
    /// [`Builder::DEFAULT_TTL`], 10 s.
    ///
    /// The guide says [how to choose it](crate::guide#the-ttl).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::Locker;
    ///
    /// let builder = Locker::builder().node("redis://127.0.0.1:6379");
    /// // A crashed holder blocks others for up to 3 s.
    /// let locker = builder.ttl(Duration::from_secs(3)).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = ttl;
        self
    }

    /// Does not renew leases: each ends at its TTL unless [`Guard::extend`](crate::Guard::extend) is
    /// called. By default leases are renewed while their guards live.
    pub fn no_renewal(mut self) -> Self {
        self.defaults.is_renewed = false;
        self
    }

    /// Sets when requests without a policy of their own try again: [`Retry::default`] by default.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::{Locker, Retry};
    ///
    /// let retry = Retry::exponential(Duration::from_millis(10), Duration::from_secs(1));
    /// let builder = Locker::builder().node("redis://127.0.0.1:6379").retry(retry);
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry(mut self, retry: Retry) -> Self {
        self.defaults.retry = retry;
        self
    }

    /// Sets the minimum validity that a granted lease must have left, for requests that set none: a
    /// tenth of the TTL by default. A grant with less left is given back.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::Locker;
    ///
    /// let builder = Locker::builder().node("redis://127.0.0.1:6379");
    /// // Work begins only with at least 8 of 10 s left.
    /// let locker = builder.min_validity(Duration::from_secs(8)).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.defaults.min_validity = Some(min_validity);
        self
    }

    /// Sets the label of leases whose requests set none; at most 256 bytes, none by default.
    ///
    /// Other clients see it in their errors, so it should name this process to people.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use leasehold::Locker;
    ///
    /// let label = format!("billing, process {}", std::process::id());
    /// let locker = Locker::builder().node("redis://127.0.0.1:6379").label(&label).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.defaults.label = Some(Arc::from(label.as_ref()));
        self
    }

    /// Sets the prefix of every lock's key, to which the name is appended; empty by default.
    ///
    /// With a prefix the server's user needs rights to the keys below it only (docs/acl.md). A prefix
    /// with a hash tag, such as `{billing}:`, puts all locks into one slot of a Cluster.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// let builder = leasehold::Locker::builder().node("redis://127.0.0.1:6379");
    /// let locker = builder.key_prefix("billing:").connect().await?;
    /// let guard = locker.lock("invoice:42").await?;
    /// assert_eq!(guard.name(), b"billing:invoice:42");
    /// # Ok(())
    /// # }
    /// ```
    pub fn key_prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.defaults.prefix = prefix.as_ref().to_vec();
        self
    }
}

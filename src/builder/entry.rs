//! From a locker's name to its settings.

use super::Builder;
use crate::error::Error;
use crate::locker::Locker;

impl Locker {
    /// Connects to one server, with the defaults of [`Locker::builder`].
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`].
    ///
    /// # Panics
    ///
    /// In a tokio runtime without I/O or time enabled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// let locker = leasehold::Locker::connect("redis://127.0.0.1:6379").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder().node(url).connect().await
    }

    /// A locker with settings of your own; it needs a [`Builder::node`] or several.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::Locker;
    ///
    /// let locker = Locker::builder()
    ///     .nodes(["redis://a", "redis://b", "redis://c"])
    ///     .ttl(Duration::from_secs(5))
    ///     .label("billing-7")
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }
}

//! How long a lock is to be held, whatever its TTL.

use std::time::Duration;

use super::LockRequest;
use crate::lock::guard::Fencing;

impl<F: Fencing> LockRequest<F> {
    /// Ends the lease this long after its grant, although it is renewed: for work that must have an
    /// end, whatever becomes of it.
    ///
    /// Renewal stops in time, and the guard is lost at that moment ([`Loss::HeldLongest`]), also to
    /// [`Guard::run`], which drops its work then. [`Guard::remaining`] knows of the limit,
    /// [`Guard::extend`] does not move it. The lock is free once the guard is dropped or released; a
    /// holder that does neither keeps it from others until the last TTL is over, which is at most one
    /// TTL after the limit.
    ///
    /// [`Loss::HeldLongest`]: crate::Loss::HeldLongest
    ///
    /// # Errors
    ///
    /// Awaiting the request is [`Error::is_misuse`] for a limit of zero.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let guard = locker.lock("import").hold_at_most(Duration::from_secs(600)).await?;
    /// match guard.run(import()).await {
    ///     Ok(()) => guard.release().await?,
    ///     Err(error) => eprintln!("the import was ended: {error}"),
    /// }
    /// # async fn import() {}
    /// # Ok(())
    /// # }
    /// ```
    pub fn hold_at_most(mut self, limit: Duration) -> Self {
        self.asked.bounds.at_most = Some(limit);
        self
    }
}

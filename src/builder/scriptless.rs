//! Locks on servers that run no scripts.

use super::Builder;
use crate::error::Error;

impl Builder {
    /// Acquires, renews and releases locks without scripts, on servers that have no Lua but compare in `SET`: Redis 8.4
    /// or later, Valkey 8.1 or later. On a server without `SET .. IFEQ` the first request is refused, and the error
    /// says so. By default scripts acquire locks.
    ///
    /// Exclusion, the end of a lease and fencing tokens are the same as with scripts, and clients of both kinds exclude
    /// one another. Off by default, because there is no queue: the server pushes to a waiter when the lock is free; the
    /// waiter requests it again, and may be overtaken. A lock with a token takes two round trips instead of one, the
    /// first of a connection three, and leases are renewed one by one.
    ///
    /// This is for [`Locker::lock`](crate::Locker::lock), [`try_lock`](crate::Locker::try_lock) and `lock_any`, with or
    /// without fencing, and for a guard's renewal, `extend`, `release` and `replicated`. All other requests, and
    /// [`fair`](crate::LockRequest::fair) ones, still need scripts, and say so if the server has none. Not for a Cluster,
    /// and not with a failover grace.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// let builder = leasehold::Locker::builder().node("redis://cache.internal:6379");
    /// let locker = builder.scriptless().connect().await?;
    /// let guard = locker.lock("nightly").await?;
    /// println!("token {}", guard.fence());
    /// # Ok(())
    /// # }
    /// ```
    pub fn scriptless(mut self) -> Self {
        self.is_scriptless = true;
        self
    }

    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) for settings that need scripts, if scripts are off.
    pub(super) fn check_scriptless(
        &self,
        is_cluster: bool,
        examines_uses: bool,
    ) -> Result<(), Error> {
        let taking = [
            (is_cluster, "a Cluster takes scripts: leave Builder::scriptless (--scriptless) out"),
            #[cfg(any(test, feature = "grace"))]
            (
                self.failover_grace,
                "a failover grace takes scripts: leave it or Builder::scriptless (--scriptless) out",
            ),
            (
                examines_uses,
                "all that is beside locks takes scripts: leave it or Builder::scriptless (--scriptless) out",
            ),
        ];
        match taking.into_iter().find(|(is_wished, _)| *is_wished && self.is_scriptless) {
            Some((_, what)) => Err(Error::misuse(what)),
            None => Ok(()),
        }
    }
}

//! Requests for a lock that is another's.

use super::LockRequest;
use crate::error::Error;
use crate::fencing::Fencing;
use crate::request::order::Seize;
#[cfg(doc)]
use crate::{Event, Guard, Loss, Report};

impl<F: Fencing> LockRequest<F> {
    /// Takes the lock at once from its holder: breaks the lease and grants the lock in one step at each
    /// server, so that no other client can come between.
    ///
    /// This breaks exclusion on purpose, for a holder that is known to be dead or stuck. A holder that still
    /// runs learns of its loss ([`Loss::Gone`]) as it learns of a deleted key: within a round trip where its
    /// lease is watched, and otherwise at its next renewal. Until then both work, and only a resource that
    /// checks fencing tokens refuses the former holder's writes: the new lease has the larger token. A waiting
    /// request goes on waiting, now for the new holder.
    ///
    /// [`Report::taken_from`] of [`Guard::report`] names the former holder, as do [`Event::Stolen`], a warning
    /// with the feature `tracing`, and `Stats::stolen`. A lock that is free is acquired as usual, before its
    /// waiters.
    ///
    /// A request that steals makes one attempt and does not wait. Several servers vote as usual: the lock is
    /// stolen if a quorum grants it. If fewer do, what they granted is given back, and the lock is free on
    /// those servers: the former holder keeps its lease if it still has a quorum without them, and otherwise
    /// loses it. So a steal that fails may end a lease anyway; nobody holds the lock then.
    ///
    /// # Errors
    ///
    /// Awaiting the request is [`Misuse`](crate::ErrorKind::Misuse) for `lock_all` with several names, for
    /// `lock_any`, for readers, writers and permits, and for a ticket's request ([`Locker::adopt`](crate::Locker::adopt)). In a Cluster slot that is
    /// moving it is [`Unavailable`](crate::ErrorKind::Unavailable).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// // After a person has confirmed that the holder is dead:
    /// let guard = locker.lock("nightly").steal().await?;
    /// if let Some(former) = guard.report().taken_from().next() {
    ///     eprintln!("stolen from {former}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn steal(mut self) -> Self {
        if let Some(Seize::From(_)) = self.asked.wish.order.seize {
            self.asked.wrong = Some(Error::misuse("a ticket is adopted, and not stolen"));
        }
        self.asked.wish.order.seize = Some(Seize::FromAnybody);
        self
    }

    pub(crate) fn adopt_from(mut self, seize: Seize) -> Self {
        self.asked.wish.order.seize = Some(seize);
        self
    }
}

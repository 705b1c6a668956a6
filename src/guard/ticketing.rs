//! Guards that leave their locks to a ticket.

use std::time::Duration;

use super::{Fencing, Guard};
use crate::error::Error;
use crate::ticket::Ticket;

impl<F: Fencing> Guard<F> {
    /// Leaves the lock to a ticket, which another process turns into a guard of its own
    /// ([`Locker::adopt`](crate::Locker::adopt)) within this time: for work that another process finishes.
    ///
    /// The guard is gone, its lease is renewed no longer, and nobody but the ticket's adopter can acquire the
    /// lock until `within` is over; `within` counts from now and does not depend on the TTL. It is at least what
    /// is left of [`hold_at_least`](crate::LockRequest::hold_at_least).
    /// [`hold_at_most`](crate::LockRequest::hold_at_most) and
    /// [`lock_delay`](crate::LockRequest::lock_delay) end with the guard: the adopter's request sets its own. A
    /// ticket that nobody adopts in time is worth nothing, and the lock is free. Until then
    /// [`Locker::inspect`](crate::Locker::inspect) shows the guard's label under another owner.
    ///
    /// Of several servers, those that restart without their data vote again after
    /// [`Builder::max_ttl`](crate::Builder::max_ttl), and have forgotten a ticket with a longer time:
    /// other clients may acquire the lock then, and the ticket is spent.
    ///
    /// The text of a ticket is a secret: see [`Ticket`].
    ///
    /// # Errors
    ///
    /// The lock is released in each case. [`Lost`](crate::ErrorKind::Lost) if the lease had ended;
    /// [`Misuse`](crate::ErrorKind::Misuse) for several locks (`lock_all`), for readers, writers and
    /// permits, without scripts, and unless `within` is in [`Ticket::GOOD_FOR`]; else as [`Guard::release`], if no quorum confirmed it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the lock back, without blocking.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// # fn enqueue(job: &str, ticket: String) {}
    /// use std::time::Duration;
    ///
    /// let guard = locker.lock("invoice:42").await?;
    /// // Nobody else works on this invoice until a worker has adopted it, or for an hour.
    /// let ticket = guard.into_ticket(Duration::from_secs(3600)).await?;
    /// enqueue("invoice:42", ticket.to_string());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn into_ticket(self, within: Duration) -> Result<Ticket, Error> {
        self.into_lease().into_ticket(within).await
    }
}

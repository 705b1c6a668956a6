//! How long a lock is to be held, whatever its TTL; and whether it is one that is held here already.

use std::time::Duration;

use super::LockRequest;
use crate::fencing::Fencing;
#[cfg(doc)]
use crate::{Error, Guard};

impl<F: Fencing> LockRequest<F> {
    /// For a candidate of an election, with this priority in the queue.
    #[cfg(any(test, feature = "election"))]
    pub(crate) fn candidacy(mut self, priority: u8) -> Self {
        self.asked.wish.order.priority = Some(priority);
        self
    }

    /// Keeps the lock from others until this long after its grant, even if it is released sooner.
    ///
    /// Many processes that want to do the same short work at the same moment then do it once: a process
    /// that comes late by less than this time finds the lock held. A release, a dropped guard and
    /// [`Locker::shutdown`](crate::Locker::shutdown) end the lease as usual and leave its key until then;
    /// the process need not wait for that, nor live that long. Others see a holder with the label of this
    /// request. The lock is not handed over before then;
    /// [`Locker::break_lease`](crate::Locker::break_lease) can free it.
    ///
    /// A server that loses its data, and a guard that is lost, end this time too. A killed process releases
    /// nothing: its lock is free when its TTL is over, so choose a TTL as long as this time if that
    /// matters. If a release reaches a server late, the lock stays locked there for as much longer, at
    /// most for one TTL. At most 24 hours.
    ///
    /// # Errors
    ///
    /// Awaiting the request is [`Misuse`](crate::ErrorKind::Misuse) for more than 24 hours, and for more
    /// than [`LockRequest::hold_at_most`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::ErrorKind;
    ///
    /// // On each of many hosts, at two in the morning by its own clock.
    /// match locker.try_lock("nightly").hold_at_least(Duration::from_secs(50)).await {
    ///     Ok(guard) => {
    ///         report().await;
    ///         guard.release().await?;
    ///     }
    ///     Err(error) if error.kind() == ErrorKind::Contended => {}
    ///     Err(error) => return Err(error),
    /// }
    /// # async fn report() {}
    /// # Ok(())
    /// # }
    /// ```
    pub fn hold_at_least(mut self, time: Duration) -> Self {
        self.asked.wish.order.bounds.at_least = Some(time);
        self
    }

    /// Ends the lease this long after its grant, although it is renewed: for work that must end.
    ///
    /// Renewal stops in time, and the guard is lost at that moment ([`Loss::HeldLongest`]);
    /// [`Guard::run`] cancels its work then. [`Guard::remaining`] includes the limit, and
    /// [`Guard::extend`] does not move it. The lock is free once the guard is dropped or released; a
    /// holder that does neither blocks others until the last TTL is over, at most one TTL after the
    /// limit.
    ///
    /// [`Loss::HeldLongest`]: crate::Loss::HeldLongest
    ///
    /// # Errors
    ///
    /// Awaiting the request is [`Misuse`](crate::ErrorKind::Misuse) for a limit of zero.
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
        self.asked.wish.order.bounds.at_most = Some(limit);
        self
    }

    /// Keeps the lock from others for this long after the lease, unless the guard is released or dropped while
    /// the lease holds.
    ///
    /// This is for a resource that checks no fencing tokens: when a holder crashes, hangs or is cut off, what
    /// it sent last may still be under way, and has this time to arrive before another client can acquire the
    /// lock. Chubby and Consul call this lock-delay. A guard that is released, dropped or ended by
    /// [`Locker::shutdown`](crate::Locker::shutdown) frees the lock at once. A guard that is lost
    /// ([`Guard::is_lost`]) does not: dropping it leaves the key to its expiry.
    ///
    /// On the servers the key lives for TTL and lock-delay together, and is renewed to both, so clients of
    /// other versions and libraries respect the delay. The holder counts on the TTL alone. Errors and
    /// [`Locker::inspect`](crate::Locker::inspect) say when a lock is in its delay ([`Holder::is_delay`]).
    ///
    /// The delay ends early if the servers lose the key, or by
    /// [`Locker::break_lease`](crate::Locker::break_lease). With a restart quarantine, TTL and delay together are
    /// at most [`Builder::max_ttl`](crate::Builder::max_ttl), so that a restart does not shorten it.
    /// At most 24 hours; fractions of a millisecond count as a whole one.
    ///
    /// [`Holder::is_delay`]: crate::Holder::is_delay
    ///
    /// # Errors
    ///
    /// Awaiting the request is [`Misuse`](crate::ErrorKind::Misuse) for more than 24 hours, and for more than the
    /// restart quarantine allows.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// // A printer that prints whatever it is sent: 15 s after a crash nothing more will come.
    /// let request = locker.lock("printer").lock_delay(Duration::from_secs(15));
    /// let guard = request.await?;
    /// guard.release().await?; // free at once
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        let whole_ms = delay.as_nanos().div_ceil(1_000_000);
        let whole = Duration::from_millis(u64::try_from(whole_ms).unwrap_or(u64::MAX));
        self.asked.wish.order.bounds.lock_delay = Some(whole).filter(|delay| !delay.is_zero());
        self
    }

    /// Refuses the request at once, without asking a server, if a guard of the same locker or of a clone
    /// holds the lock.
    ///
    /// Locks are not re-entrant ([`Locker::lock`](crate::Locker::lock) says why, and what to do instead):
    /// a task that waits for a lock that it holds itself waits until its limit, or for ever. The locker
    /// does not know which task holds a guard, so this is for locks that no two tasks of the process
    /// should want at the same time. It looks through all leases of the locker, which takes a time in
    /// proportion to their number.
    ///
    /// # Errors
    ///
    /// Awaiting the request is [`Error::is_held_here`](crate::Error::is_held_here), of the kind
    /// [`ErrorKind::Contended`](crate::ErrorKind::Contended), because the lock is free once the guard is
    /// gone.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let guard = locker.lock("invoice:42").await?;
    /// let error = locker.lock("invoice:42").reject_reentrant().await.map(|_| ()).unwrap_err();
    /// assert!(error.is_held_here());
    /// # Ok(())
    /// # }
    /// ```
    pub fn reject_reentrant(mut self) -> Self {
        self.asked.wish.refuses_own = true;
        self
    }
}

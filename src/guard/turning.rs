//! A reader's guard that becomes a writer's, and the other way round.

#[cfg(feature = "tokio-util")]
use super::cancelling::Cancelling;
use super::{Fencing, Guard};
use crate::error::Error;
use crate::extra::sharing::Sharing;

impl<F: Fencing> Guard<F> {
    /// Makes a reader's guard ([`Locker::read`](crate::Locker::read)) a writer's, if there is no other reader.
    /// It never waits: two readers that waited for each other would wait for ever.
    ///
    /// The lease has another owner and a new [fencing token](crate::FencingToken) from here on, and its whole
    /// TTL; nobody writes between the two. It goes before writers that wait: those wait for the reader anyway.
    /// [`hold_at_most`](crate::LockRequest::hold_at_most) counts on from the first grant.
    ///
    /// # Errors
    ///
    /// [`Contended`](crate::ErrorKind::Contended) if there are other readers: the guard stays a reader's. Of two
    /// readers that want to write, release one and have it ask for [`Locker::write`](crate::Locker::write).
    /// [`Unavailable`](crate::ErrorKind::Unavailable) if the server could not be asked, and
    /// [`Misuse`](crate::ErrorKind::Misuse) for a guard of another request and over several servers, some of which
    /// could have the writer and others the reader: the guard stays as it was. After any other error the guard is
    /// lost and given back: [`Lost`](crate::ErrorKind::Lost), or [`Error::is_unknown`] if no answer came.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the lease back, and the guard is lost.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use leasehold::ErrorKind;
    ///
    /// # fn is_stale() -> bool { true }
    /// let mut guard = locker.read("catalog").await?;
    /// if is_stale() {
    ///     match guard.upgrade().await {
    ///         Ok(()) => println!("writes with token {}", guard.fence()),
    ///         Err(error) if error.kind() == ErrorKind::Contended => {
    ///             guard.release().await?;
    ///             guard = locker.write("catalog").await?; // and look whether it is stale still
    ///         }
    ///         Err(error) => return Err(error),
    ///     }
    /// }
    /// guard.release().await
    /// # }
    /// ```
    pub async fn upgrade(&mut self) -> Result<(), Error> {
        self.turn(Sharing::WHOLE).await
    }

    /// Makes a writer's guard ([`Locker::write`](crate::Locker::write), [`Guard::upgrade`]) a reader's, in one
    /// step: nobody writes between the two. Readers that wait first in the queue are let in at once.
    ///
    /// The lease has another owner from here on, and its whole TTL; its [fencing token](crate::FencingToken) is a
    /// new one, and over several servers the one that it wrote with, or a later one that nobody was given.
    ///
    /// # Errors
    ///
    /// As [`Guard::upgrade`], but never [`Contended`](crate::ErrorKind::Contended).
    ///
    /// # Cancel safety
    ///
    /// As [`Guard::upgrade`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let mut guard = locker.write("catalog").await?;
    /// // Written. Now others may read too, and nobody may write until this one has read.
    /// guard.downgrade().await?;
    /// guard.release().await
    /// # }
    /// ```
    pub async fn downgrade(&mut self) -> Result<(), Error> {
        self.turn(Sharing::ANY).await
    }

    async fn turn(&mut self, to: Sharing) -> Result<(), Error> {
        #[cfg(feature = "tokio-util")]
        let suspended = self.cancelling.take().map(|it| it.suspend());
        let turned = self.lease.turn(to).await;
        #[cfg(feature = "tokio-util")]
        if let Some(suspended) = suspended {
            self.cancelling = Box::new(Cancelling::resume(&self.lease, suspended)).into();
        }
        turned
    }
}

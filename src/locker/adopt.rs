//! Locks that another process has left to a ticket.

use super::Locker;
use crate::error::Error;
use crate::names::Names;
use crate::policy::Wait;
use crate::request::LockRequest;
use crate::request::order::Seize;
use crate::ticket::Ticket;
#[cfg(doc)]
use crate::{Guard, Report};

impl Locker {
    /// A request for the lease of a ticket ([`Guard::into_ticket`]): it becomes the lock's owner, with a new
    /// owner id and a new fencing token, in one step at each server. No other client can hold the lock
    /// between the former guard and this one.
    ///
    /// A ticket is adopted once, however many processes try. The request has the options of any other (its own
    /// TTL, label, [`LockRequest::hold_at_most`]), makes one attempt, and does not wait. Several servers vote as
    /// usual, and a server that has lost the ticket's lease does not grant it. If too few servers serve, what
    /// was granted is given back, which may spend the ticket.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if the ticket was adopted before, its time is over, or the lock was stolen,
    /// broken or deleted. [`Misuse`](crate::ErrorKind::Misuse) if the ticket's lock is not below this locker's
    /// [`key_prefix`](crate::Builder::key_prefix), or its servers or quorum are not this locker's. In a Cluster
    /// slot that is moving [`Unavailable`](crate::ErrorKind::Unavailable): the ticket stays good.
    ///
    /// # Cancel safety
    ///
    /// As [`LockRequest`]: whatever servers may have granted is given back, so the ticket may be spent.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker, job: String) -> Result<(), leasehold::Error> {
    /// use leasehold::ErrorKind;
    ///
    /// let ticket: leasehold::Ticket = job.parse()?; // as it came with the job
    /// match locker.adopt(&ticket).await {
    ///     Ok(guard) => guard.release().await?,
    ///     Err(error) if error.kind() == ErrorKind::Lost => eprintln!("too late, or done by another: {error}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn adopt(&self, ticket: &Ticket) -> LockRequest {
        let from = Seize::From(Box::new(*ticket.id()));
        self.request(self.names_of(ticket), Wait::Never).adopt_from(from)
    }

    fn names_of(&self, ticket: &Ticket) -> Result<Names, Error> {
        if ticket.fingerprint() != self.engine.fingerprint() {
            return Err(Error::misuse(
                "the ticket is of a locker with other servers or another quorum than this one",
            ));
        }
        let Some(name) = ticket.name().strip_prefix(&self.defaults.prefix[..]) else {
            return Err(Error::misuse("the ticket's lock is not below this locker's key prefix"));
        };
        self.name(name)
    }
}

//! What a machine wants to be done; and what has happened: as numbers, which a driver adds to its own, and as events, for those
//! that want to be told.

use std::task::Waker;
use std::time::Duration;

#[cfg(any(test, feature = "credentials"))]
use bytes::Bytes;

use super::ids::LeaseId;
use super::session::Fault;
use crate::names::Names;
use crate::policy::Loss;

/// What a driver has to do beside sending.
#[derive(Debug)]
#[allow(dead_code, reason = "what it is about is said, though not every driver asks")]
pub(crate) enum Effect {
    /// Get credentials, dial and make the handshake, all within this time: [`Machine::connected`] or
    /// [`Machine::disconnected`].
    Dial(usize, Duration),
    Close(usize, Fault),
    /// Another server may have taken the place of this one: it says that it is a replica, or has a slot no more, or its
    /// connection has ended where each has slots.
    Demoted(usize),
    /// Get credentials: [`Machine::log_in`].
    #[cfg(any(test, feature = "credentials"))]
    Login(usize),
    Wake(Waker),
    /// Nobody waits by it any more: it may own what calls the machine, so it is not dropped in here.
    Drop(Waker),
    Tell(Event),
}

/// What has happened since it was taken last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Attempts that were put to servers; an entry in a queue is one.
    pub(crate) attempts: u32,
    /// Attempts that were sent, of which some server may or may not have carried out its part.
    pub(crate) unknown: u32,
    /// Servers that had lost a lease and have it again.
    pub(crate) repaired: u32,
    /// Requests that went on because a server told something.
    pub(crate) woken: u32,
    /// Leases more, or less, that are held.
    pub(crate) held: i32,
    /// Requests more, or less, that wait.
    pub(crate) waiting: i32,
}

/// What happened to a lease, a request or a login.
#[derive(Debug)]
pub(crate) enum Event {
    /// An attempt was refused, since another holds the lock.
    Contended(Names),
    /// A renewal begins: only told where somebody wants to know.
    Renews(LeaseId),
    /// With the time from the question to the verdict.
    Renewed(LeaseId, Names, Duration),
    RenewalFailed(LeaseId, Names),
    /// A renewal goes on as another, or as its holder's extension: only told where somebody wants to know.
    Overtaken(LeaseId),
    Lost(LeaseId, Names, Loss),
    /// A connection has logged in again.
    #[cfg(any(test, feature = "credentials"))]
    LoginRenewed(usize),
    /// The server refused that.
    #[cfg(any(test, feature = "credentials"))]
    LoginFailed(usize, Bytes),
    /// A primary reigns for this time, and grants nothing new for so much longer.
    #[cfg(any(test, feature = "grace"))]
    Reigns {
        server: usize,
        since: Duration,
        left: Duration,
    },
    /// A server is left out of attempts, or not any more.
    Breaker {
        server: usize,
        is_open: bool,
    },
}

#[cfg(test)]
mod tests;

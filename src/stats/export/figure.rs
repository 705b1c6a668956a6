//! The figures that are exported.

use std::time::Duration;

use crate::policy::Loss;
#[cfg(any(test, feature = "election", feature = "family"))]
use crate::stats::Primitive;

/// Events that are only counted.
#[derive(Clone, Copy)]
pub(crate) enum Counter {
    /// An attempt was sent to the servers.
    Attempt,
    /// An attempt was refused, because another client holds the lock.
    Contended,
    /// A request's wait ran out while another client held the lock.
    TimedOut,
    /// An attempt was sent, and its outcome is unknown.
    Unknown,
    /// A request failed for a reason other than contention.
    Failed,
    /// A renewal failed; there may be time for another.
    RenewalFailed,
    /// Repair gave a lease back to a server that had lost it.
    Repaired,
    /// A lease was passed on to a waiter of this locker.
    HandedOver,
    /// A lease was left to a ticket.
    #[cfg(any(test, feature = "takeover"))]
    Ticketed,
    /// A request adopted a ticket's lease.
    #[cfg(any(test, feature = "takeover"))]
    Adopted,
    /// A request took a lock from another holder.
    #[cfg(any(test, feature = "takeover"))]
    Stolen,
    /// A server's push woke a waiter.
    Woken,
}

/// What is added to a counter, a gauge or a histogram.
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "nobody is told"))]
#[derive(Clone, Copy)]
pub(in crate::stats) enum Figure {
    Counted(Counter),
    Granted(Duration),
    Refused,
    Cancelled,
    Released(Duration),
    Renewed(Duration),
    #[cfg(any(test, feature = "credentials"))]
    LoginRenewed,
    #[cfg(any(test, feature = "credentials"))]
    LoginFailed,
    Lost(Loss),
    /// A change of the number; likewise below.
    Waiting(i32),
    Held(i32),
    #[cfg(any(test, feature = "election", feature = "family"))]
    Answered(Primitive, &'static str),
}

//! What is told.

use std::time::Duration;

use crate::policy::Loss;
#[cfg(any(test, feature = "election", feature = "family"))]
use crate::stats::Primitive;

/// What is only counted.
#[derive(Clone, Copy)]
pub(crate) enum Counter {
    /// An attempt was put to the servers.
    Attempt,
    /// An attempt was refused, since another holds the lock.
    Contended,
    /// A request's wait ran out while another held the lock.
    TimedOut,
    /// An attempt was sent, and whether it was carried out is not known.
    Unknown,
    /// A request failed for another reason than a holder.
    Failed,
    /// A renewal came to nothing; there may be time for another.
    RenewalFailed,
    /// A server that had lost a lease has it again.
    Repaired,
    /// A lease went straight to a waiter of this locker.
    HandedOver,
    /// A lease went to a ticket.
    Ticketed,
    /// A request was granted the lease of a ticket.
    Adopted,
    /// A request was granted a lock that was another holder's.
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
    LoginRenewed,
    LoginFailed,
    Lost(Loss),
    /// This number more, or less; so with the next.
    Waiting(i32),
    Held(i32),
    #[cfg(any(test, feature = "election", feature = "family"))]
    Answered(Primitive, &'static str),
}

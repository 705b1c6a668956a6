//! Events of leases, reported as they happen.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

#[cfg(any(test, feature = "election", feature = "family"))]
use super::primitive::Primitive;
use crate::policy::Loss;

/// Receives the events of a locker's leases: for logs, traces and metrics of your own.
///
/// Every closure `Fn(&Event<'_>)` that is `Send + Sync + 'static` is an observer.
///
/// It is called on the task that caused the event, also from the `Drop` of a guard, and then outside a runtime: it must
/// not block, because that delays the lock's own work. Hand slow work to a channel or a task. It must not panic; if it
/// does, the panic is caught and dropped, and the lock goes on. (A program that is built to abort at panics aborts.)
///
/// ```
/// use leasehold::{Event, Observer};
///
/// fn log_losses() -> impl Observer {
///     |event: &Event<'_>| {
///         if let Event::Lost { name, reason, .. } = event {
///             println!("lost {}: {reason}", String::from_utf8_lossy(name));
///         }
///     }
/// }
/// # let _ = log_losses();
/// ```
pub trait Observer: Send + Sync + 'static {
    /// Receives an event, on the task that caused it.
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

/// An event of a lease, or of a request for one.
///
/// `name` is the lock's name as the servers know it, with the locker's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A request was granted its lease: always before other events of the lease.
    #[non_exhaustive]
    Granted {
        /// The lock.
        name: &'a [u8],
        /// From the request to the grant.
        waited: Duration,
    },
    /// An attempt was refused, because another client holds the lock; the request may go on waiting.
    #[non_exhaustive]
    Contended {
        /// The lock.
        name: &'a [u8],
    },
    /// A lease was released.
    #[non_exhaustive]
    Released {
        /// The lock.
        name: &'a [u8],
        /// From the grant to the release.
        held_for: Duration,
    },
    /// A lease was passed on to a waiter of this process.
    #[non_exhaustive]
    HandedOver {
        /// The lock.
        name: &'a [u8],
    },
    /// A lease was released to a ticket ([`Guard::into_ticket`](crate::Guard::into_ticket)).
    #[cfg(any(test, feature = "takeover"))]
    #[non_exhaustive]
    Ticketed {
        /// The lock.
        name: &'a [u8],
    },
    /// A request was granted a ticket's lease ([`Locker::adopt`](crate::Locker::adopt)).
    #[cfg(any(test, feature = "takeover"))]
    #[non_exhaustive]
    Adopted {
        /// The lock.
        name: &'a [u8],
    },
    /// A request was granted a lock that another client held
    /// ([`LockRequest::steal`](crate::LockRequest::steal)).
    #[cfg(any(test, feature = "takeover"))]
    #[non_exhaustive]
    Stolen {
        /// The lock.
        name: &'a [u8],
        /// The former holder's id, as the first server names it that names one; another library's whole
        /// value.
        owner: &'a str,
        /// The label that the former holder gave itself.
        label: Option<&'a str>,
    },
    /// A lease was renewed.
    #[non_exhaustive]
    Renewed {
        /// The lock.
        name: &'a [u8],
    },
    /// A renewal failed; it is tried again while there is time.
    #[non_exhaustive]
    RenewalFailed {
        /// The lock.
        name: &'a [u8],
    },
    /// A lease was lost before its release.
    #[non_exhaustive]
    Lost {
        /// The lock.
        name: &'a [u8],
        /// Why.
        reason: Loss,
    },
    /// A request's wait ran out while another client held the lock.
    #[non_exhaustive]
    TimedOut {
        /// The lock.
        name: &'a [u8],
        /// How long it waited.
        waited: Duration,
    },
    /// A request failed for a reason other than contention: too few servers served, for example.
    #[non_exhaustive]
    Failed {
        /// The lock.
        name: &'a [u8],
    },
    /// A server that became the primary a short time ago grants no lock that it does not have
    /// ([`Builder::failover_grace`](crate::Builder::failover_grace)).
    #[cfg(feature = "grace")]
    #[non_exhaustive]
    PrimaryChanged {
        /// The server's address.
        server: &'a str,
        /// For how long it has been the primary.
        since: Duration,
        /// How much longer it grants nothing new.
        left: Duration,
    },
    /// A primitive beside locks answered; for a limit with `RateLimit::prefetch`, a server did.
    #[cfg(any(test, feature = "election", feature = "family"))]
    #[non_exhaustive]
    Answered {
        /// Which primitive.
        primitive: Primitive,
        /// Its name, with the locker's prefix.
        name: &'a [u8],
        /// The answer in a word: of a limit `allowed` or `refused`; of a job that runs once `claimed`, `taken`,
        /// `running` or `early`; of an idempotency key `started`, `done`, `running` or `other`; of a latch `counted`,
        /// `open` or `closed`; of a barrier `arrived`, `open` or `closed`; of a nomination `nominated` or `absent`; and
        /// of any `failed` without a usable answer.
        outcome: &'static str,
        /// From the command to the answer.
        took: Duration,
    },
}

impl<'a> Event<'a> {
    /// The lock's name as the servers know it, with the locker's prefix; for `PrimaryChanged` the server's address.
    #[must_use]
    pub fn name(&self) -> &'a [u8] {
        match self {
            Self::Granted { name, .. }
            | Self::Contended { name }
            | Self::Released { name, .. }
            | Self::HandedOver { name }
            | Self::Renewed { name }
            | Self::RenewalFailed { name }
            | Self::Lost { name, .. }
            | Self::TimedOut { name, .. }
            | Self::Failed { name } => name,
            #[cfg(any(test, feature = "takeover"))]
            Self::Ticketed { name } | Self::Adopted { name } | Self::Stolen { name, .. } => name,
            #[cfg(any(test, feature = "election", feature = "family"))]
            Self::Answered { name, .. } => name,
            #[cfg(feature = "grace")]
            Self::PrimaryChanged { server, .. } => server.as_bytes(),
        }
    }
}

/// Calls an observer, the only place that runs its code. Catches its panic, which would else unwind through a
/// half-changed lease.
pub(super) fn tell(observer: &dyn Observer, event: &Event<'_>) {
    let told = catch_unwind(AssertUnwindSafe(|| observer.observe(event)));
    let Err(payload) = told else { return };
    // Dropping a payload can panic; that second payload is leaked.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    dropped.unwrap_or_else(std::mem::forget);
}

#[cfg(test)]
mod tests;

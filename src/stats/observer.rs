//! What happens to leases, told while it happens.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

#[cfg(any(test, feature = "election", feature = "family"))]
use super::primitive::Primitive;
use crate::policy::Loss;

/// Is told what happens to the leases of a locker: for logs, traces and metrics of your own.
///
/// Every closure `Fn(&Event<'_>)` that is `Send + Sync + 'static` is one.
///
/// It is called on the task that caused the event, also from the `Drop` of a guard, and outside a
/// runtime then: it must not block, as whatever it waits for waits on the lock's hot path. Hand over
/// what takes time to a channel or a task. It must not panic; where it does, the panic is caught and
/// dropped, and the lock goes on as if it had returned. (A program that is built to abort at panics
/// aborts.)
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
    /// Takes note of an event; called on the task that caused it.
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

/// What happened to a lease, or to a request for one.
///
/// `name` is the lock's name as the servers know it, with the locker's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A request was granted its lease: told before what happens to the lease.
    #[non_exhaustive]
    Granted {
        /// The lock.
        name: &'a [u8],
        /// From the request to the grant.
        waited: Duration,
    },
    /// An attempt was refused, since another holds the lock; the request may go on waiting.
    #[non_exhaustive]
    Contended {
        /// The lock.
        name: &'a [u8],
    },
    /// A lease was given back.
    #[non_exhaustive]
    Released {
        /// The lock.
        name: &'a [u8],
        /// From the grant to the release.
        held_for: Duration,
    },
    /// A lease went straight to a waiter of this process.
    #[non_exhaustive]
    HandedOver {
        /// The lock.
        name: &'a [u8],
    },
    /// A lease was released to a ticket ([`Guard::into_ticket`](crate::Guard::into_ticket)).
    #[non_exhaustive]
    Ticketed {
        /// The lock.
        name: &'a [u8],
    },
    /// A request was granted a ticket's lease ([`Locker::adopt`](crate::Locker::adopt)).
    #[non_exhaustive]
    Adopted {
        /// The lock.
        name: &'a [u8],
    },
    /// A request was granted a lock that another client held
    /// ([`LockRequest::steal`](crate::LockRequest::steal)).
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
    /// A renewal came to nothing; it is tried again while there is time.
    #[non_exhaustive]
    RenewalFailed {
        /// The lock.
        name: &'a [u8],
    },
    /// A lease ended before it was given back.
    #[non_exhaustive]
    Lost {
        /// The lock.
        name: &'a [u8],
        /// Why.
        reason: Loss,
    },
    /// A request's wait ran out while another held the lock.
    #[non_exhaustive]
    TimedOut {
        /// The lock.
        name: &'a [u8],
        /// How long it waited.
        waited: Duration,
    },
    /// A request failed for another reason than a holder: too few servers served, for one.
    #[non_exhaustive]
    Failed {
        /// The lock.
        name: &'a [u8],
    },
    /// A server that became the primary a short time ago grants no lock that it does not know of
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
    /// A limit, or another primitive beside locks, has answered; of a limit with `RateLimit::prefetch`, a server has.
    #[cfg(any(test, feature = "election", feature = "family"))]
    #[non_exhaustive]
    Answered {
        /// Which primitive.
        primitive: Primitive,
        /// Its name, with the locker's prefix.
        name: &'a [u8],
        /// What it answered, in a word: of a limit `allowed` or `refused`; of a job that runs once
        /// `claimed`, `taken`, `running` or `early`; of an idempotency key `started`, `done`, `running` or
        /// `other`; of a latch `counted`, `open` or `closed`; of a barrier
        /// `arrived`, `open` or `closed`; of a
        /// nomination `nominated` or `absent`; and `failed` of any without a usable answer.
        outcome: &'static str,
        /// From the question to the answer.
        took: Duration,
    },
}

impl<'a> Event<'a> {
    /// The lock's name as the servers know it, with the locker's prefix; of `PrimaryChanged` the server's address.
    #[must_use]
    pub fn name(&self) -> &'a [u8] {
        match self {
            Self::Granted { name, .. }
            | Self::Contended { name }
            | Self::Released { name, .. }
            | Self::HandedOver { name }
            | Self::Ticketed { name }
            | Self::Adopted { name }
            | Self::Stolen { name, .. }
            | Self::Renewed { name }
            | Self::RenewalFailed { name }
            | Self::Lost { name, .. }
            | Self::TimedOut { name, .. }
            | Self::Failed { name } => name,
            #[cfg(any(test, feature = "election", feature = "family"))]
            Self::Answered { name, .. } => name,
            #[cfg(feature = "grace")]
            Self::PrimaryChanged { server, .. } => server.as_bytes(),
        }
    }
}

/// Tells an observer; the one place where its code is run. Its panic ends here: what it would
/// unwind through next is a lease in the middle of a change.
pub(super) fn tell(observer: &dyn Observer, event: &Event<'_>) {
    let told = catch_unwind(AssertUnwindSafe(|| observer.observe(event)));
    let Err(payload) = told else { return };
    // A payload can panic when it is dropped, and what that panics with is not dropped any more.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    dropped.unwrap_or_else(std::mem::forget);
}

#[cfg(test)]
mod tests;

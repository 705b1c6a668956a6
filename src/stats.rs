//! Counts what one locker has done: always, cheaply, and read now and then.
//!
//! The lock layer notes what happens; this layer counts it and calls the observer, if there is one. It reads no clock:
//! callers pass durations.

mod export;
mod histogram;
#[cfg(any(test, feature = "credentials"))]
mod logins;
mod observer;
#[cfg(any(test, feature = "election", feature = "family"))]
mod primitive;
mod snapshot;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[cfg(feature = "metrics")]
pub use export::SECONDS_BUCKETS;
pub(crate) use export::{AtServer, Counter};
use export::{Figure, export};
use histogram::Histogram;
pub use histogram::Latencies;
#[cfg(any(test, feature = "credentials"))]
pub(crate) use logins::Logins;
pub use observer::{Event, Observer};
#[cfg(any(test, feature = "election", feature = "family"))]
pub use primitive::Primitive;
pub use snapshot::{BreakerState, ServerStats, Stats};

use crate::policy::Loss;

/// Counts the events of one locker.
///
/// All counters are relaxed atomics.
///
/// Each request ends in one [`note_granted`](Self::note_granted), or in one of [`Counter::TimedOut`],
/// [`Counter::Failed`], [`note_refused`](Self::note_refused) without waiting and
/// [`note_cancelled`](Self::note_cancelled); each of its attempts is a [`Counter::Attempt`].
/// [`note_held`](Self::note_held) counts a lease up at its grant, and down at its end. A hand-over is also a release by
/// one holder and a grant to the other.
#[derive(Default)]
pub(crate) struct Meter {
    counters: [AtomicU64; Counter::Woken as usize + 1],
    losses: [AtomicU64; Loss::ALL.len()],
    /// Signed, so that an end that is counted twice reads as 0 and not as 2^64.
    waiting: AtomicI64,
    held: AtomicI64,
    /// The histogram's count is the number of grants; likewise for the two below.
    wait: Histogram,
    hold: Histogram,
    renewal_round_trip: Histogram,
    #[cfg(any(test, feature = "credentials"))]
    logins: Arc<Logins>,
    observer: Option<Arc<dyn Observer>>,
}

impl Meter {
    pub(crate) fn new(observer: Option<Arc<dyn Observer>>) -> Self {
        export::describe();
        Self { observer, ..Self::default() }
    }

    /// Adds one.
    pub(crate) fn count(&self, counter: Counter) {
        self.counters[counter as usize].fetch_add(1, Relaxed);
        export(Figure::Counted(counter));
    }

    /// Adds one, and calls the observer.
    pub(crate) fn count_and_tell(&self, counter: Counter, event: Event<'_>) {
        self.count(counter);
        self.tell(event);
    }

    /// A request was granted its lease, this long after it was made.
    pub(crate) fn note_granted(&self, name: &[u8], waited: Duration) {
        self.wait.record(waited);
        export(Figure::Granted(waited));
        self.tell(Event::Granted { name, waited });
    }

    /// A request that was not to wait was refused, because another client holds the lock.
    pub(crate) fn note_refused(&self) {
        export(Figure::Refused);
    }

    /// A request was dropped before it was answered.
    pub(crate) fn note_cancelled(&self) {
        export(Figure::Cancelled);
    }

    /// The holder released a lease, this long after the grant.
    pub(crate) fn note_released(&self, name: &[u8], held_for: Duration) {
        self.hold.record(held_for);
        export(Figure::Released(held_for));
        self.tell(Event::Released { name, held_for });
    }

    /// A lease was renewed, this long after the command was sent.
    pub(crate) fn note_renewed(&self, name: &[u8], round_trip: Duration) {
        self.renewal_round_trip.record(round_trip);
        export(Figure::Renewed(round_trip));
        self.tell(Event::Renewed { name });
    }

    /// A server became the primary a short time ago.
    #[cfg(any(test, feature = "grace"))]
    pub(crate) fn note_primary_changed(&self, server: &str, since: Duration, left: Duration) {
        #[cfg(feature = "grace")]
        self.tell(Event::PrimaryChanged { server, since, left });
        #[cfg(not(feature = "grace"))]
        let _ = (server, since, left);
    }

    /// A lease was lost before its release.
    pub(crate) fn note_lost(&self, name: &[u8], reason: Loss) {
        self.losses[reason as usize].fetch_add(1, Relaxed);
        export(Figure::Lost(reason));
        self.tell(Event::Lost { name, reason });
    }

    /// Changes the number of waiting requests of this process by `more`.
    pub(crate) fn note_waiting(&self, more: i32) {
        self.waiting.fetch_add(more.into(), Relaxed);
        export(Figure::Waiting(more));
    }

    /// Changes the number of held leases by `more`.
    pub(crate) fn note_held(&self, more: i32) {
        self.held.fetch_add(more.into(), Relaxed);
        export(Figure::Held(more));
    }

    /// The counters of repeated logins.
    #[cfg(any(test, feature = "credentials"))]
    pub(crate) fn logins(&self) -> &Arc<Logins> {
        &self.logins
    }

    /// All figures now, with the caller's on servers.
    pub(crate) fn snapshot(&self, servers: Vec<ServerStats>) -> Stats {
        let (wait, hold) = (self.wait.snapshot(), self.hold.snapshot());
        let renewal_round_trip = self.renewal_round_trip.snapshot();
        let counted = |counter| self.counters[counter as usize].load(Relaxed);
        Stats {
            held: level(&self.held),
            waiting: level(&self.waiting),
            attempts: counted(Counter::Attempt),
            granted: wait.count(),
            contended: counted(Counter::Contended),
            timed_out: counted(Counter::TimedOut),
            unknown: counted(Counter::Unknown),
            failed: counted(Counter::Failed),
            released: hold.count(),
            handed_over: counted(Counter::HandedOver),
            #[cfg(any(test, feature = "takeover"))]
            ticketed: counted(Counter::Ticketed),
            #[cfg(any(test, feature = "takeover"))]
            adopted: counted(Counter::Adopted),
            #[cfg(any(test, feature = "takeover"))]
            stolen: counted(Counter::Stolen),
            woken: counted(Counter::Woken),
            renewed: renewal_round_trip.count(),
            renewals_failed: counted(Counter::RenewalFailed),
            repaired: counted(Counter::Repaired),
            #[cfg(any(test, feature = "credentials"))]
            logins_renewed: self.logins.renewed(),
            #[cfg(any(test, feature = "credentials"))]
            logins_failed: self.logins.failed(),
            losses: self.losses.each_ref().map(|losses| losses.load(Relaxed)),
            wait,
            hold,
            renewal_round_trip,
            servers,
        }
    }

    fn tell(&self, event: Event<'_>) {
        if let Some(observer) = &self.observer {
            observer::tell(&**observer, &event);
        }
    }
}

#[cfg(any(test, feature = "election", feature = "family"))]
impl Meter {
    /// A primitive beside locks was answered, or has failed.
    pub(crate) fn note_answered(
        &self,
        primitive: Primitive,
        name: &[u8],
        outcome: &'static str,
        took: Duration,
    ) {
        export(Figure::Answered(primitive, outcome));
        self.tell(Event::Answered { primitive, name, outcome, took });
    }
}

fn level(gauge: &AtomicI64) -> u64 {
    u64::try_from(gauge.load(Relaxed)).unwrap_or(0)
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meter").field(&self.snapshot(Vec::new())).finish()
    }
}

#[cfg(test)]
mod tests;

//! What one locker has done: always counted, cheaply, and read now and then.
//!
//! The lock layer notes what happens; this layer counts it and tells the observer, if there is one.
//! It must never know how any of it came about, and it reads no clock: durations come in.

mod counters;
mod export;
mod histogram;
#[cfg_attr(not(any(test, feature = "credentials")), path = "stats/logins/off.rs")]
mod logins;
mod observer;
mod primitive;
mod snapshot;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use counters::{LOSSES, count, index_of};
pub(crate) use export::AtServer;
#[cfg(feature = "metrics")]
pub use export::SECONDS_BUCKETS;
use export::{Figure, export};
use histogram::Histogram;
pub use histogram::Latencies;
pub(crate) use logins::Logins;
pub use observer::{Event, Observer};
pub use primitive::Primitive;
pub use snapshot::{BreakerState, ServerStats, Stats};

use crate::policy::Loss;

/// Counts what happens in one locker.
///
/// Everything is a relaxed atomic. To take a lock and give it back adds to seven of them, which came
/// to 40 ns where it was measured; two threads that did nothing else came to 200 ns each. Padding
/// them to lines of memory of their own made that no better, as all threads write to the same ones.
///
/// Which calls belong together: a request is one [`note_granted`](Self::note_granted), or one of
/// [`note_timed_out`](Self::note_timed_out), [`note_failed`](Self::note_failed),
/// [`note_refused`](Self::note_refused) without waiting and [`note_cancelled`](Self::note_cancelled);
/// each of its attempts is a [`note_attempt`](Self::note_attempt). A lease is
/// between [`note_lease_began`](Self::note_lease_began) and
/// [`note_lease_ended`](Self::note_lease_ended), however it ends. One that is handed over is a
/// release by the one and a grant to the other as well.
pub(crate) struct Meter {
    attempts: AtomicU64,
    contended: AtomicU64,
    timed_out: AtomicU64,
    unknown: AtomicU64,
    failed: AtomicU64,
    renewals_failed: AtomicU64,
    repaired: AtomicU64,
    handed_over: AtomicU64,
    ticketed: AtomicU64,
    adopted: AtomicU64,
    stolen: AtomicU64,
    woken: AtomicU64,
    losses: [AtomicU64; LOSSES],
    /// Signed, so that an end that is noted twice reads as none and not as 2^64.
    waiting: AtomicI64,
    held: AtomicI64,
    /// Its count is that of the grants, so that those need no counter; so with the two below.
    wait: Histogram,
    hold: Histogram,
    renewal_round_trip: Histogram,
    logins: Arc<Logins>,
    observer: Option<Arc<dyn Observer>>,
}

impl Meter {
    pub(crate) fn new(observer: Option<Arc<dyn Observer>>) -> Self {
        export::describe();
        Self {
            attempts: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            renewals_failed: AtomicU64::new(0),
            repaired: AtomicU64::new(0),
            handed_over: AtomicU64::new(0),
            ticketed: AtomicU64::new(0),
            adopted: AtomicU64::new(0),
            stolen: AtomicU64::new(0),
            woken: AtomicU64::new(0),
            losses: [const { AtomicU64::new(0) }; LOSSES],
            waiting: AtomicI64::new(0),
            held: AtomicI64::new(0),
            wait: Histogram::new(),
            hold: Histogram::new(),
            renewal_round_trip: Histogram::new(),
            logins: Arc::default(),
            observer,
        }
    }

    /// One attempt was put to the servers.
    pub(crate) fn note_attempt(&self) {
        count(&self.attempts);
        export(Figure::Attempt);
    }

    /// A request was granted its lease, this long after it was made.
    pub(crate) fn note_granted(&self, name: &[u8], waited: Duration) {
        self.wait.record(waited);
        export(Figure::Granted(waited));
        self.tell(Event::Granted { name, waited });
    }

    /// An attempt was refused, since another holds the lock.
    pub(crate) fn note_contended(&self, name: &[u8]) {
        count(&self.contended);
        export(Figure::Contended);
        self.tell(Event::Contended { name });
    }

    /// A request's wait ran out while another held the lock.
    pub(crate) fn note_timed_out(&self, name: &[u8], waited: Duration) {
        count(&self.timed_out);
        export(Figure::TimedOut);
        self.tell(Event::TimedOut { name, waited });
    }

    /// An attempt was sent, and whether it was carried out is not known.
    pub(crate) fn note_unknown(&self) {
        count(&self.unknown);
        export(Figure::Unknown);
    }

    /// A request was refused, since another holds the lock and it was not to wait.
    pub(crate) fn note_refused(&self) {
        export(Figure::Refused);
    }

    /// A request was dropped before it had its answer.
    pub(crate) fn note_cancelled(&self) {
        export(Figure::Cancelled);
    }

    /// A request failed for another reason than a holder.
    pub(crate) fn note_failed(&self, name: &[u8]) {
        count(&self.failed);
        export(Figure::Failed);
        self.tell(Event::Failed { name });
    }

    /// A lease was given back by its holder, this long after it was granted.
    pub(crate) fn note_released(&self, name: &[u8], held_for: Duration) {
        self.hold.record(held_for);
        export(Figure::Released(held_for));
        self.tell(Event::Released { name, held_for });
    }

    /// A lease was renewed, with this between question and verdict.
    pub(crate) fn note_renewed(&self, name: &[u8], round_trip: Duration) {
        self.renewal_round_trip.record(round_trip);
        export(Figure::Renewed(round_trip));
        self.tell(Event::Renewed { name });
    }

    /// A renewal came to nothing; there may be time for another.
    pub(crate) fn note_renewal_failed(&self, name: &[u8]) {
        count(&self.renewals_failed);
        export(Figure::RenewalFailed);
        self.tell(Event::RenewalFailed { name });
    }

    /// A server that had lost a lease has it again.
    pub(crate) fn note_repaired(&self) {
        count(&self.repaired);
        export(Figure::Repaired);
    }

    /// A server became the primary a short time ago.
    #[cfg(any(test, feature = "grace"))]
    pub(crate) fn note_primary_changed(&self, server: &str, since: Duration, left: Duration) {
        #[cfg(feature = "grace")]
        self.tell(Event::PrimaryChanged { server, since, left });
        #[cfg(not(feature = "grace"))]
        let _ = (server, since, left);
    }

    /// A lease ended before it was given back.
    pub(crate) fn note_lost(&self, name: &[u8], reason: Loss) {
        count(&self.losses[index_of(reason)]);
        export(Figure::Lost(reason));
        self.tell(Event::Lost { name, reason });
    }

    /// A lease went straight to a waiter of this locker.
    pub(crate) fn note_handed_over(&self, name: &[u8]) {
        count(&self.handed_over);
        export(Figure::HandedOver);
        self.tell(Event::HandedOver { name });
    }

    /// A server's push woke a waiter.
    pub(crate) fn note_woken(&self) {
        count(&self.woken);
        export(Figure::Woken);
    }

    /// A request waits for its turn in this process.
    pub(crate) fn note_waiter_joined(&self) {
        self.waiting.fetch_add(1, Relaxed);
        export(Figure::WaiterJoined);
    }

    /// A request that waited does not any more, whatever came of it.
    pub(crate) fn note_waiter_left(&self) {
        self.waiting.fetch_sub(1, Relaxed);
        export(Figure::WaiterLeft);
    }

    /// There is a lease more.
    pub(crate) fn note_lease_began(&self) {
        self.held.fetch_add(1, Relaxed);
        export(Figure::LeaseBegan);
    }

    /// There is a lease less: it was given back, dropped, handed over or lost.
    pub(crate) fn note_lease_ended(&self) {
        self.held.fetch_sub(1, Relaxed);
        export(Figure::LeaseEnded);
    }

    /// How logins that end were renewed.
    pub(crate) fn logins(&self) -> &Arc<Logins> {
        &self.logins
    }

    /// All of it as it stands, with what the caller knows of the servers and of releases to them.
    pub(crate) fn snapshot(&self, servers: Vec<ServerStats>, releases_dropped: u64) -> Stats {
        let (wait, hold) = (self.wait.snapshot(), self.hold.snapshot());
        let renewal_round_trip = self.renewal_round_trip.snapshot();
        Stats {
            held: level(&self.held),
            waiting: level(&self.waiting),
            attempts: self.attempts.load(Relaxed),
            granted: wait.count(),
            contended: self.contended.load(Relaxed),
            timed_out: self.timed_out.load(Relaxed),
            unknown: self.unknown.load(Relaxed),
            failed: self.failed.load(Relaxed),
            released: hold.count(),
            handed_over: self.handed_over.load(Relaxed),
            ticketed: self.ticketed.load(Relaxed),
            adopted: self.adopted.load(Relaxed),
            stolen: self.stolen.load(Relaxed),
            woken: self.woken.load(Relaxed),
            releases_dropped,
            renewed: renewal_round_trip.count(),
            renewals_failed: self.renewals_failed.load(Relaxed),
            repaired: self.repaired.load(Relaxed),
            logins_renewed: self.logins.renewed(),
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
    /// A primitive beside locks has its answer, or has none.
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

#[cfg(any(test, feature = "takeover"))]
impl Meter {
    /// A lease went to a ticket.
    pub(crate) fn note_ticketed(&self, name: &[u8]) {
        count(&self.ticketed);
        export(Figure::Ticketed);
        self.tell(Event::Ticketed { name });
    }

    /// A request was granted the lease of a ticket.
    pub(crate) fn note_adopted(&self, name: &[u8]) {
        count(&self.adopted);
        export(Figure::Adopted);
        self.tell(Event::Adopted { name });
    }

    /// A request was granted a lock that was another holder's.
    pub(crate) fn note_stolen(&self, name: &[u8], owner: &str, label: Option<&str>) {
        count(&self.stolen);
        export(Figure::Stolen);
        self.tell(Event::Stolen { name, owner, label });
    }
}

fn level(gauge: &AtomicI64) -> u64 {
    u64::try_from(gauge.load(Relaxed)).unwrap_or(0)
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meter").field(&self.snapshot(Vec::new(), 0)).finish()
    }
}

#[cfg(test)]
mod tests;

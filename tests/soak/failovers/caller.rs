//! Clients that take one lock each, in all the ways in which a token comes about.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold::{Guard, LockRequest, Locker};
use leasehold_testing::leases::Part;
use tokio::time::sleep;

use super::PROCESSES;
use super::course::Lost;
use super::issued::{PERMITS, SHARED, Stage, WANTED};
use crate::history::{At, Lease};
use crate::prng::Prng;

/// Permits of the semaphore.
pub(crate) const LIMIT: u32 = 3;
/// Each caller has a TTL of its own: so no lease is passed on within a process, where a token may be below
/// that of an owner that came in because servers had lost it (docs/guarantees.md).
const TTL: Duration = Duration::from_millis(700);
/// Where leases are to outlive a failover.
pub(crate) const TTL_LONG: Duration = Duration::from_millis(4500);
/// No lease lasts longer.
pub(crate) const LONGEST: Duration = Duration::from_secs(5);
/// How often a holder looks whether it holds.
const LOOKS: Duration = Duration::from_millis(20);

pub(crate) struct Caller {
    pub(crate) number: usize,
    /// The lock that it takes.
    pub(crate) name: usize,
    pub(crate) process: usize,
    pub(crate) locker: Locker,
    pub(crate) stage: Arc<Stage>,
    pub(crate) prng: Prng,
    /// The number of the lease that it was granted last.
    pub(crate) lease: usize,
}

/// All in one slot, of the first of three masters.
pub(crate) fn key(name: usize) -> String {
    format!("{{failovers:2}}:{name}")
}

impl Caller {
    pub(crate) async fn run(mut self) {
        while !self.stage.is_over.load(Ordering::Relaxed) {
            match self.name {
                WANTED => self.want().await,
                SHARED => self.share().await,
                PERMITS => self.permit().await,
                _ => self.repeat().await,
            }
            sleep(self.prng.millis(1..15)).await;
        }
    }

    /// Takes a lock that nobody else wants, but for a thief, several times in a row: so without the script.
    async fn repeat(&mut self) {
        for _ in 0..self.prng.within(1..20) {
            let request = self.locker.try_lock(key(self.name));
            if let Some(guard) = self.take(Part::Whole, request, "taken again").await {
                self.end(guard).await;
            }
        }
        while self.stage.is_night.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(1)).await;
        }
        let is_long = self.stage.is_long;
        if self.prng.percent(if is_long { 30 } else { 5 }) {
            let victim = (self.process + 1) % PROCESSES;
            let (request, how) = match is_long {
                true => (self.locker.try_lock(key(victim)), "taken from beside"),
                false => (self.locker.lock(key(victim)).steal(), "stolen"),
            };
            let own = std::mem::replace(&mut self.name, victim);
            if let Some(guard) = self.take(Part::Whole, request, how).await {
                self.end(guard).await;
            }
            self.name = own;
        }
    }

    /// Takes a lock that the others want too.
    async fn want(&mut self) {
        let (locker, key) = (&self.locker, key(WANTED));
        let (request, how) = match self.prng.within(0..20) {
            0..=2 => (locker.try_lock(key), "taken"),
            3..=4 if !self.stage.is_long => (locker.lock(key).steal(), "stolen"),
            _ => (locker.lock(key).wait_at_most(self.prng.millis(50..1500)), "waited for"),
        };
        if let Some(guard) = self.take(Part::Whole, request, how).await {
            self.end(guard).await;
        }
    }

    /// Reads, writes, and turns the one into the other.
    async fn share(&mut self) {
        let (locker, key, limit) = (&self.locker, key(SHARED), self.prng.millis(50..1500));
        let (part, request, how) = match self.prng.within(0..20) {
            0..=2 => (Part::Reader, locker.try_read(key), "read"),
            3..=10 => (Part::Reader, locker.read(key).wait_at_most(limit), "read"),
            11..=12 => (Part::Whole, locker.try_write(key), "written"),
            13..=17 => (Part::Whole, locker.write(key).wait_at_most(limit), "written"),
            _ => (Part::Whole, locker.lock(key).wait_at_most(limit), "locked beside readers"),
        };
        let Some(mut guard) = self.take(part, request, how).await else { return };
        let mut is_reader = part == Part::Reader;
        while self.prng.percent(35) && how != "locked beside readers" {
            sleep(self.prng.millis(0..4)).await;
            let begun = self.now();
            let (call, outcome) = match is_reader {
                true => ("upgraded", guard.upgrade().await),
                false => ("downgraded", guard.downgrade().await),
            };
            match outcome {
                Ok(()) => is_reader = !is_reader,
                Err(error) => {
                    self.stage.refused(call, &error);
                    break;
                }
            }
            let part = if is_reader { Part::Reader } else { Part::Whole };
            self.lease = self.note(&guard, self.stage.label(), part, begun, call);
        }
        self.end(guard).await;
    }

    async fn permit(&mut self) {
        let semaphore = self.locker.semaphore(key(PERMITS), LIMIT);
        let weight = 1 + u32::from(self.prng.percent(20));
        let request = match self.prng.percent(30) {
            true => semaphore.try_acquire(weight),
            false => semaphore.acquire(weight).wait_at_most(self.prng.millis(50..1500)),
        };
        if let Some(guard) = self.take(Part::Permit(weight), request, "permitted").await {
            self.end(guard).await;
        }
    }

    async fn take(&mut self, part: Part, request: LockRequest, how: &'static str) -> Option<Guard> {
        let (label, number) =
            (self.stage.label(), u64::try_from(self.number).expect("it is small"));
        let shortest = if self.stage.is_long { TTL_LONG } else { TTL };
        let ttl = shortest + Duration::from_millis(10 * number);
        let request = request.ttl(ttl).label(label.to_string()).into_future();
        let begun = self.now();
        match request.await {
            Ok(guard) => {
                self.lease = self.note(&guard, label, part, begun, how);
                Some(guard)
            }
            Err(error) => {
                self.stage.refused("an acquire", &error);
                sleep(self.prng.millis(1..30)).await;
                None
            }
        }
    }

    fn note(&self, guard: &Guard, label: u64, part: Part, begun: At, how: &'static str) -> usize {
        let (token, granted) = (guard.fence().get(), self.now());
        let Self { name, number: client, .. } = *self;
        let (until, extended) = (granted, 0);
        let lease = Lease { name, client, part, token, begun, granted, until, extended, end: how };
        self.stage.note(guard, label, lease)
    }

    fn now(&self) -> At {
        self.stage.now()
    }

    /// Whether it still holds what it was granted last.
    fn looks(&self, guard: &Guard) -> bool {
        let now = self.now();
        let is_held = !guard.is_lost();
        if is_held {
            self.stage.is_held(self.lease, now);
        }
        is_held
    }

    async fn hold(&self, guard: &Guard, time: Duration) {
        let end = self.now() + time;
        let mut ends = self.now() + guard.remaining();
        while self.looks(guard) && self.now() < end {
            ends = ends.max(self.now() + guard.remaining());
            sleep(LOOKS.min(time)).await;
        }
        if let Some(why) = guard.loss() {
            let lost = Lost { at: self.now(), ends, why };
            self.stage.course().lost.insert(self.lease, lost);
        }
    }

    /// Holds for a while, and gives back.
    async fn end(&mut self, guard: Guard) {
        let time = match self.prng.within(0..40) {
            0 => self.prng.millis(100..900),
            1..=6 if self.stage.is_long => self.prng.millis(500..4000),
            _ => self.prng.millis(0..4),
        };
        self.hold(&guard, time).await;
        self.looks(&guard);
        if self.prng.percent(15) {
            return drop(guard);
        }
        if let Err(error) = guard.release().await {
            self.stage.refused("a release", &error);
        }
    }
}

//! What there is beside locks.

use std::time::Duration;

use super::Locker;
use crate::error::Error;
use crate::family::barrier::Barrier;
use crate::family::idempotency::Idempotent;
use crate::family::latch::Latch;
use crate::family::limit::Limit;
use crate::family::once::{Once, Slot};
use crate::family::rate::Rate;

impl Locker {
    /// A rate limit that all processes share which give this name and this rate.
    ///
    /// In any span of time it lets through at most the burst and the rate's share of the span, by the
    /// server's clock: [what ends that](crate::guide::family#limits). A token costs one command, or less
    /// with [`Limit::taken_ahead`]. [`Locker::lock`] says which names are valid.
    ///
    /// Several servers do not count together. Each gives its share of the rate, so the limit holds
    /// exactly, and a server that is down takes its share with it.
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) for an invalid name; for a rate or burst of 0, a period below 1 ms, or a
    /// burst that takes longer than 366 days to come back; and, with several servers, for a burst that is smaller
    /// than their number.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::Rate;
    ///
    /// let limit = locker.limit("logins:alice", Rate::new(5, Duration::from_secs(60)))?;
    /// if !limit.take(1).await?.is_allowed() {
    ///     println!("too many tries");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn limit(&self, name: impl AsRef<[u8]>, rate: Rate) -> Result<Limit, Error> {
        Limit::new(self.engine.clone(), self.name(name.as_ref())?, rate)
    }

    /// A scheduled job that every process may ask to run, and one of them does: at most once in each slot, or
    /// at least once, as [`Once::at_least_once`] chooses.
    ///
    /// The server's clock says which slot is due, so it does not matter which clocks are late. Nothing has to
    /// be held until the slot is over, and a job has one key however many slots it has:
    /// [what is promised](crate::guide::family#jobs). Several servers agree on the last slot, at most once:
    /// [how](crate::guide::family#on-several-servers). [`Locker::lock`] says which names are valid.
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) for an invalid name, or for a slot before 1970; for the slots of a period
    /// below 1 ms or above 7 days.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::convert::Infallible;
    /// use std::time::Duration;
    /// use leasehold::{Slot, Turn};
    ///
    /// let minutely = locker.once("clean-up", Slot::every(Duration::from_secs(60)))?;
    /// loop {
    ///     let turn = minutely.run(async |_| Ok::<_, Infallible>(println!("cleaning up"))).await?;
    ///     let (Turn::Ran { next_in, .. } | Turn::Taken { next_in, .. }) = turn else { continue };
    ///     tokio::time::sleep(next_in.unwrap_or_default()).await;
    /// }
    /// # }
    /// ```
    pub fn once(&self, job: impl AsRef<[u8]>, slot: Slot) -> Result<Once, Error> {
        Once::new(self.engine.clone(), self.name(job.as_ref())?, slot)
    }

    /// A request that is carried out once for its `key`: a retry of it is answered with the result, for as long
    /// as `keep` says.
    ///
    /// `fingerprint` is what two requests of one key have to have in common, a digest of the body for one: at
    /// most 256 bytes. The result is kept for `keep` from the end of the work, 1 s to 366 days:
    /// [what is promised](crate::guide::family#idempotency-keys). Several servers agree on the result without a
    /// clock: [how](crate::guide::family#on-several-servers). [`Locker::lock`] says which names are valid.
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) for an invalid name, a fingerprint that is too long, or a time outside
    /// these bounds.
    pub fn idempotent(
        &self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        keep: Duration,
    ) -> Result<Idempotent, Error> {
        let names = self.name(key.as_ref())?;
        Idempotent::new(self.engine.clone(), names, fingerprint.as_ref(), keep)
    }

    /// A latch that all processes share: it opens when `parties` of them have counted down, 1 to 10,000, and stays
    /// open. A party counts once, however often it is repeated, and the server tells waiters of the opening:
    /// [what is promised](crate::guide::family#latches). [`Locker::lock`] says which names are valid.
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) for an invalid name or another number of parties, and with several
    /// servers.
    pub fn latch(&self, name: impl AsRef<[u8]>, parties: u32) -> Result<Latch, Error> {
        Latch::new(self.engine.clone(), self.name(name.as_ref())?, parties)
    }

    /// A barrier that all processes share: it lets `parties` of them go, 1 to 10,000, when all have arrived, and then
    /// begins with the next generation. A party counts once in a generation, however often it is repeated, and the
    /// server tells waiters when all are let go: [what is promised](crate::guide::family#barriers).
    /// [`Locker::lock`] says which names are valid.
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) for an invalid name or another number of parties, and with several
    /// servers.
    pub fn barrier(&self, name: impl AsRef<[u8]>, parties: u32) -> Result<Barrier, Error> {
        Barrier::new(self.engine.clone(), self.name(name.as_ref())?, parties)
    }
}

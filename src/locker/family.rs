//! Limits, jobs, idempotency keys, latches and barriers.

use std::time::Duration;

use super::Locker;
use crate::family::barrier::Barrier;
use crate::family::idempotency::IdempotentRequest;
use crate::family::latch::Latch;
use crate::family::limit::RateLimit;
use crate::family::once::{Job, Slot};
use crate::family::rate::Rate;
use crate::family::site::Site;
use crate::stats::Primitive;

impl Locker {
    /// A rate limit, shared by all processes that give this name and this rate.
    ///
    /// In any span of time it lets through at most the burst and the rate's share of the span, by the
    /// server's clock: [what ends that](crate::guide::family#limits). A token costs one command, or less
    /// with [`RateLimit::prefetch`]. [`Locker::lock`] says which names are valid.
    ///
    /// Several servers do not count together. Each gives its share of the rate, so the limit holds
    /// exactly, and a server that is down takes its share with it.
    ///
    /// A call is [`Misuse`](crate::ErrorKind::Misuse) for an invalid name; for a rate or burst of 0, a period below 1 ms,
    /// or a burst that takes longer than 366 days to come back; and, with several servers, for a burst that is smaller
    /// than their number.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::limits::Rate;
    ///
    /// let limit = locker.limit("logins:alice", Rate::new(5, Duration::from_secs(60)));
    /// if !limit.take(1).await?.is_allowed() {
    ///     println!("too many tries");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn limit(&self, name: impl AsRef<[u8]>, rate: Rate) -> RateLimit {
        RateLimit::new(self.site(name.as_ref(), Primitive::Limit), rate)
    }

    /// A scheduled job that every process may ask to run, and that one of them runs: at most once in each slot, or
    /// at least once, as [`Job::at_least_once`] chooses.
    ///
    /// The server's clock says which slot is due, so it does not matter which clocks are late. Nothing has to
    /// be held until the slot is over, and a job has one key however many slots it has:
    /// [what is promised](crate::guide::family#jobs). Several servers agree on the last slot, at most once:
    /// [how](crate::guide::family#on-several-servers). [`Locker::lock`] says which names are valid.
    ///
    /// [`Job::run`] is [`Misuse`](crate::ErrorKind::Misuse) for an invalid name, or for a slot before 1970; for the slots
    /// of a period below 1 ms or above 7 days.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::convert::Infallible;
    /// use std::time::Duration;
    /// use leasehold::once::{JobOutcome, Slot};
    ///
    /// let minutely = locker.once("clean-up", Slot::every(Duration::from_secs(60)));
    /// loop {
    ///     let turn = minutely.run(async |_| Ok::<_, Infallible>(println!("cleaning up"))).await?;
    ///     let next_in = match turn {
    ///         JobOutcome::Ran { next_in, .. } | JobOutcome::Taken { next_in, .. } => next_in,
    ///         _ => None,
    ///     };
    ///     tokio::time::sleep(next_in.unwrap_or(Duration::from_secs(1))).await;
    /// }
    /// # }
    /// ```
    pub fn once(&self, job: impl AsRef<[u8]>, slot: Slot) -> Job {
        Job::new(self.site(job.as_ref(), Primitive::Once), slot)
    }

    /// A request that is carried out once for its `key`: a retry of it is answered with the result, for as long
    /// as `keep` says.
    ///
    /// `fingerprint` is what all requests of one key have in common, such as a digest of the body: at most
    /// 256 bytes. The result is kept for `keep` from the end of the work, 1 s to 366 days:
    /// [what is promised](crate::guide::family#idempotency-keys). Several servers agree on the result without a
    /// clock: [how](crate::guide::family#on-several-servers). [`Locker::lock`] says which names are valid.
    ///
    /// [`IdempotentRequest::run`] is [`Misuse`](crate::ErrorKind::Misuse) for an invalid name, a fingerprint that is too
    /// long, or a time outside these bounds.
    pub fn idempotent(
        &self,
        key: impl AsRef<[u8]>,
        fingerprint: impl AsRef<[u8]>,
        keep: Duration,
    ) -> IdempotentRequest {
        let site = self.site(key.as_ref(), Primitive::Idempotency);
        IdempotentRequest::new(site, fingerprint.as_ref(), keep)
    }

    /// A latch that all processes share: it opens when `parties` of them have counted down, 1 to 10,000, and stays
    /// open. A party counts once, however often it is repeated, and the server tells waiters of the opening:
    /// [what is promised](crate::guide::family#latches). [`Locker::lock`] says which names are valid.
    ///
    /// A call is [`Misuse`](crate::ErrorKind::Misuse) for an invalid name or another number of parties, and with several
    /// servers.
    #[must_use]
    pub fn latch(&self, name: impl AsRef<[u8]>, parties: u32) -> Latch {
        Latch::new(self.site(name.as_ref(), Primitive::Latch), parties)
    }

    /// A barrier that all processes share: it lets `parties` of them go, 1 to 10,000, when all have arrived, and then
    /// begins with the next generation. A party counts once in a generation, however often it is repeated, and the
    /// server tells waiters when all are let go: [what is promised](crate::guide::family#barriers).
    /// [`Locker::lock`] says which names are valid.
    ///
    /// A call is [`Misuse`](crate::ErrorKind::Misuse) for an invalid name or another number of parties, and with several
    /// servers.
    #[must_use]
    pub fn barrier(&self, name: impl AsRef<[u8]>, parties: u32) -> Barrier {
        Barrier::new(self.site(name.as_ref(), Primitive::Barrier), parties)
    }

    fn site(&self, name: &[u8], primitive: Primitive) -> Site {
        Site::new(self.engine.clone(), self.names(name), primitive)
    }
}

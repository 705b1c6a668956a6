//! The guard of a held lease.

#[cfg(feature = "tokio-util")]
mod cancelling;
#[cfg(any(test, feature = "takeover"))]
mod ticketing;
#[cfg(any(test, feature = "sharing"))]
mod turning;

use std::fmt;
use std::marker::PhantomData;
#[cfg(feature = "tokio-util")]
use std::sync::OnceLock;
use std::time::Duration;

use super::fencing::{Fenced, Fencing, FencingToken};
use crate::api::Lease;
use crate::error::{Error, Report};
use crate::policy::Loss;

/// A held lease, until it is released, lost, or dropped.
///
/// The library renews the lease in the background (unless
/// [`LockRequest::no_renewal`](crate::LockRequest::no_renewal) was called). If renewal fails, the
/// lease is lost at its deadline: [`Guard::run`] cancels work then, [`Guard::lost`] resolves, and
/// [`Guard::is_lost`] turns true; call it before each step that only the holder may take. For work
/// that must never happen twice, pass [`Guard::fence`] to the resource and have it refuse older
/// tokens. No lock service makes this unnecessary, because any process can be paused right after any
/// check.
///
/// Dropping a guard queues its release, which neither blocks nor panics and needs no runtime. If the
/// connection ends first, the release is sent again on the next one; at the latest the lock is free
/// when its TTL is over. If other tasks of this process wait for the lock, the first of them gets
/// it instead: at once and without a command, or in one round trip.
#[must_use = "a guard that is dropped gives its lock back"]
pub struct Guard<F: Fencing = Fenced> {
    /// Dropped before the lease.
    #[cfg(feature = "tokio-util")]
    cancelling: OnceLock<Box<cancelling::Cancelling>>,
    lease: Lease,
    fencing: PhantomData<F>,
}

impl<F: Fencing> Guard<F> {
    pub(crate) const FENCED: bool = F::FENCED;

    pub(crate) fn new(lease: Lease) -> Self {
        Self {
            #[cfg(feature = "tokio-util")]
            cancelling: OnceLock::new(),
            lease,
            fencing: PhantomData,
        }
    }

    /// The value under the lock's key.
    #[cfg(test)]
    pub(crate) fn owner(&self) -> Option<Vec<u8>> {
        self.lease.owner()
    }

    fn fencing(&self) -> F {
        F::from_token(self.lease.token())
    }

    /// The lease alone, which may end from here on.
    fn into_lease(self) -> Lease {
        self.lease
    }

    /// The lock's key: the configured prefix and the name. Of several locks, the first in byte order.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.lease.name()
    }

    /// The keys of all locks that this guard holds: several only from
    /// [`Locker::lock_all`](crate::Locker::lock_all).
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.lease.names()
    }

    /// What each server answered when the lease was granted, with its round trip. If another task of this
    /// process passed the lease on, these are the last answers to that task.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: leasehold::Guard) {
    /// for server in guard.report().servers() {
    ///     println!("{server}"); // 10.0.0.1:6379: granted (210 µs)
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn report(&self) -> Report {
        self.lease.report()
    }

    /// The time left of the lease, on the safe side; zero once it is lost.
    ///
    /// The lease counts from before the acquire was sent, less the allowed clock drift, by a clock that
    /// counts while the machine sleeps.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: leasehold::Guard) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// if guard.remaining() < Duration::from_secs(1) {
    ///     guard.extend().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.lease.remaining()
    }

    /// Whether the lease has ended. Once true, it stays true.
    ///
    /// This asks no server: it is true from the lease's end on, or once a renewal or a push has shown
    /// that the lease is gone: see [`Guard::lost`].
    ///
    /// # Examples
    ///
    /// In work that computes for long without an `.await`, which [`Guard::run`] cannot cancel:
    ///
    /// ```no_run
    /// # fn example(guard: leasehold::Guard, parts: Vec<u32>) {
    /// # fn rebuild(part: u32, token: leasehold::FencingToken) {}
    /// for part in parts {
    ///     if guard.is_lost() {
    ///         return;
    ///     }
    ///     rebuild(part, guard.fence());
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.loss().is_some()
    }

    /// Why the lease was lost, once it is.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(guard: leasehold::Guard) {
    /// use leasehold::Loss;
    ///
    /// match guard.loss() {
    ///     None => println!("held for another {:?}", guard.remaining()),
    ///     Some(Loss::Gone) => eprintln!("the key was deleted, or taken by another client"),
    ///     Some(reason) => eprintln!("{reason}"),
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.lease.loss()
    }

    /// Waits until the lease is lost, and returns the reason.
    ///
    /// It resolves at the lease's deadline at the latest, by a timer that needs no reply, and at once
    /// when no quorum of servers can hold the lease any more. If the servers allow it (RESP3 and client
    /// tracking), the key is watched from the first renewal on, or from some 40 ms after a task began to
    /// wait here or in [`Guard::run`]. Then a deleted key is known within a round trip (within 200 ms if
    /// that key changes again and again); otherwise at the next renewal or the deadline. Most leases end
    /// before their first renewal, and cost the server no tracking.
    ///
    /// # Panics
    ///
    /// In a tokio runtime without time enabled.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: leasehold::Guard) -> Result<(), leasehold::Error> {
    /// tokio::select! {
    ///     reason = guard.lost() => eprintln!("stopping: {reason}"),
    ///     () = serve() => {}
    /// }
    /// # async fn serve() {}
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> Loss {
        self.lease.lost().await
    }

    /// A token that is cancelled when the lease is lost, and when the guard is released or dropped: for tasks, threads and
    /// requests to other services, which [`Guard::run`] cannot end. Each call returns a clone of the same token.
    ///
    /// The token is cancelled before the release is sent. A task of the locker's runtime waits for the loss, as in
    /// [`Guard::lost`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: leasehold::Guard, parts: Vec<u32>) -> Result<(), leasehold::Error> {
    /// # async fn rebuild(part: u32) {}
    /// let mut tasks = tokio::task::JoinSet::new();
    /// for part in parts {
    ///     let lost = guard.cancellation_token();
    ///     tasks.spawn(async move { lost.run_until_cancelled(rebuild(part)).await });
    /// }
    /// tasks.join_all().await;
    /// guard.release().await
    /// # }
    /// ```
    #[cfg(feature = "tokio-util")]
    #[must_use]
    pub fn cancellation_token(&self) -> tokio_util::sync::CancellationToken {
        self.cancelling.get_or_init(|| Box::new(cancelling::Cancelling::of(&self.lease))).token()
    }

    /// Does `work` while the lease holds; cancels `work` if the lease is lost.
    ///
    /// To cancel means to drop the future, so `work` ends at its next `.await`. A task from
    /// `tokio::spawn` or `spawn_blocking` that `work` waits for runs on: the guide says
    /// [what `run` can end](crate::guide#holding), and the feature `tokio-util` has a token for the rest,
    /// `Guard::cancellation_token`.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost), or [`ShutDown`](crate::ErrorKind::ShutDown) by
    /// [`Locker::shutdown`](crate::Locker::shutdown), with the reason in [`Error::loss`]. What `work` had begun
    /// elsewhere is not undone.
    ///
    /// # Panics
    ///
    /// As [`Guard::lost`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`; the lease stays.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: leasehold::Guard) -> Result<(), leasehold::Error> {
    /// match guard.run(rebuild()).await {
    ///     Ok(()) => guard.release().await?,
    ///     Err(error) => eprintln!("stopped: {error}"),
    /// }
    /// # async fn rebuild() {}
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        self.lease.run(work).await
    }

    /// Extends the lease to its TTL from now. It never shortens a lease, and never acquires a lost
    /// lock again.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if the lease has ended, or its key was deleted or taken by another client:
    /// from then on the guard is lost. Any other error leaves the lease to its old end: [`Error::is_unknown`],
    /// [`Unavailable`](crate::ErrorKind::Unavailable), [`Auth`](crate::ErrorKind::Auth);
    /// [`Misuse`](crate::ErrorKind::Misuse) if the locker's runtime has ended, or is a `current_thread` one and the call
    /// is on no tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancelling leaves the lease to its old end as far as the guard knows; on the server it may
    /// last longer.
    pub async fn extend(&self) -> Result<(), Error> {
        self.lease.extend().await
    }

    /// Extends the lease, and returns how many replicas have acknowledged it: the server waits until `replicas`
    /// have, for at most `within` (Redis's `WAIT`).
    ///
    /// Fewer than `replicas` are no error, and the lease stays: compare the number. The number is best effort, and proves
    /// nothing at a failover: the replica that is promoted may be one that has not acknowledged, and a replica that
    /// restarts without its data forgets what it acknowledged. It does not cover later renewals. Against the loss of a
    /// server use [several independent servers](crate::Builder::nodes), and a [fencing token](Guard::fence).
    ///
    /// A `WAIT` delays all later commands of the same connection, also those of other locks. So `within` is at most
    /// a third of the TTL and half of [`Builder::command_timeout`](crate::Builder::command_timeout), and at least
    /// 1 ms. Each connection has one `WAIT` at a time, and other commands go in between; if `within` is over when a caller's
    /// turn comes, its `WAIT` lasts 1 ms.
    ///
    /// Several servers, each with replicas of its own, are asked together. The number is the largest
    /// that a quorum of the servers reaches; for locks on different nodes of a Cluster, that every node reaches.
    ///
    /// The user needs the right `+wait`.
    ///
    /// # Errors
    ///
    /// As [`Guard::extend`]. [`Auth`](crate::ErrorKind::Auth) also if the user lacks the right to `WAIT`,
    /// [`Misuse`](crate::ErrorKind::Misuse) if the server does not know the command, and
    /// [`Unavailable`](crate::ErrorKind::Unavailable) while the key moves to another server. In these cases the lease
    /// stays.
    ///
    /// # Cancel safety
    ///
    /// The lease stays when the future is dropped, and may have been extended. A `WAIT` that was sent holds up its
    /// connection until its time is over.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: leasehold::Guard) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// if guard.replicated(1, Duration::from_millis(50)).await? < 1 {
    ///     eprintln!("no replica has the lease yet: a failover now would lose it");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(any(test, feature = "replicas"))]
    pub async fn replicated(&self, replicas: u32, within: Duration) -> Result<u32, Error> {
        self.lease.replicated(replicas, within).await
    }

    /// Releases the lock and waits for the servers' confirmation.
    ///
    /// If other tasks of this process wait for the lock, the first of them gets it, and this returns without an
    /// answer from a server: if the key is gone, the next holder finds out.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if the lease ended before: the work under it may not have been
    /// exclusive. Any other error means that no quorum confirmed the release: it has been queued
    /// once more, and at the latest the lock is free when its TTL is over. [`Misuse`](crate::ErrorKind::Misuse)
    /// as for [`Guard::extend`].
    ///
    /// # Cancel safety
    ///
    /// Cancelling drops the guard, which queues the release once more.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: leasehold::Guard) -> Result<(), leasehold::Error> {
    /// if let Err(error) = guard.release().await {
    ///     // If the lease was lost before the work ended, another client may have done the work too.
    ///     eprintln!("lost: {:?}; {error}", error.loss());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<(), Error> {
        self.into_lease().release().await
    }

    /// Releases the lock without waiting for the servers' confirmation, so that only the acquire costs the
    /// caller a round trip.
    ///
    /// Dropping the guard does the same: the release is sent, and repeated until the server answers;
    /// or the first waiting task of this process gets the lock. Only [`Guard::release`] tells whether
    /// the key was still there.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if the lease ended before: the work under it may not have been
    /// exclusive.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// # async fn warm_cache() {}
    /// let guard = locker.lock("cache:warm").await?;
    /// warm_cache().await;
    /// guard.release_in_background()?; // sent by now, or kept until the server can be reached
    /// # Ok(())
    /// # }
    /// ```
    pub fn release_in_background(self) -> Result<(), Error> {
        self.into_lease().release_in_background()
    }
}

impl Guard<Fenced> {
    /// The fencing token of this lease.
    ///
    /// The statement that reads stores the token, and the statement that writes checks it. A check in the last
    /// write alone lets a former holder write between this holder's read and its write: then one of the two
    /// writes is lost. The repository's `docs/fencing.md` has both statements for PostgreSQL, Redis and S3.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # struct Database;
    /// # impl Database {
    /// #     async fn row(&self, _: &str, _: &[i64]) -> Option<i64> { None }
    /// #     async fn execute(&self, _: &str, _: &[i64]) -> u64 { 0 }
    /// # }
    /// # async fn example(guard: leasehold::Guard, database: Database, id: i64) -> Result<(), &'static str> {
    /// let token = i64::from(guard.fence());
    /// let read = "UPDATE account SET fence = $1 WHERE id = $2 AND fence <= $1 RETURNING balance";
    /// let Some(balance) = database.row(read, &[token, id]).await else {
    ///     return Err("a later holder has begun: stop");
    /// };
    /// let write = "UPDATE account SET balance = $3 WHERE id = $2 AND fence = $1";
    /// if database.execute(write, &[token, id, balance - 10]).await == 0 {
    ///     return Err("a later holder has begun, and nothing was written: stop");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fence(&self) -> FencingToken {
        self.fencing().0
    }
}

impl<F: Fencing + fmt::Debug> fmt::Debug for Guard<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name().escape_ascii().to_string())
            .field("remaining", &self.remaining())
            .field("fencing", &self.fencing())
            .finish()
    }
}

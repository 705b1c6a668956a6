//! What a caller holds.

use std::fmt;
use std::time::Duration;

use super::lease::Lease;
use crate::error::{Error, Report};
use crate::policy::Loss;

/// A number that rises with every lease on a lock: give it to whatever the lock protects, and let
/// that refuse a smaller one than the largest it has seen.
///
/// Tokens of one lock are unique and follow the order in which its leases were granted; they are
/// not consecutive, and stay below 2^53. That holds whatever clocks do, for as long as the server
/// keeps the lock's counter. Where it forgets one (it lost its memory, evicted the key, or nobody
/// took the lock for seven days), tokens still rise if the callers' wall clocks have moved on from
/// the last proposal: proposals are microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

mod sealed {
    pub trait Sealed: Sized + Send + Sync + Unpin + 'static {
        const FENCED: bool;
        fn from_token(token: Option<u64>) -> Self;
    }
}

/// Whether a guard has a fencing token: [`Fenced`] or [`Unfenced`].
pub trait Fencing: sealed::Sealed {}

/// A guard with a fencing token.
#[derive(Clone, Copy, Debug)]
pub struct Fenced(FencingToken);

/// A guard without one.
#[derive(Clone, Copy, Debug)]
pub struct Unfenced(());

impl Fencing for Fenced {}
impl Fencing for Unfenced {}

impl sealed::Sealed for Fenced {
    const FENCED: bool = true;

    fn from_token(token: Option<u64>) -> Self {
        Self(FencingToken(token.expect("a fenced lease is granted with its token")))
    }
}

impl sealed::Sealed for Unfenced {
    const FENCED: bool = false;

    fn from_token(_: Option<u64>) -> Self {
        Self(())
    }
}

/// A lease that is held, until it is released, lost, or dropped.
///
/// It is renewed in the background until it is released or dropped (unless
/// [`LockRequest::no_renewal`](crate::LockRequest::no_renewal) was asked for), and lost when that
/// comes to nothing: [`Guard::run`] ends work then, [`Guard::lost`] waits for it, and
/// [`Guard::is_lost`] is to be checked before each step that only the holder may take. For what
/// must never happen twice, give [`Guard::fence`] to the resource and let the resource refuse older
/// tokens. No lock service can do without that, because any process can be paused right after any
/// check.
///
/// Dropping a guard queues its release: that neither blocks nor panics, and needs no runtime. The
/// release may be lost with the connection; then the lock is free when its TTL is over. Where
/// another task of this process waits for the lock, it is handed over to the first of them
/// instead, in one round trip.
#[must_use = "a guard that is dropped gives its lock back"]
pub struct Guard<F: Fencing = Fenced> {
    lease: Lease,
    fencing: F,
}

impl<F: Fencing> Guard<F> {
    pub(crate) const FENCED: bool = F::FENCED;

    pub(crate) fn new(lease: Lease) -> Self {
        let fencing = F::from_token(lease.token());
        Self { lease, fencing }
    }

    /// The lock key: the configured prefix and the name. Of several locks, the first by order of
    /// their bytes.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.lease.name()
    }

    /// The keys of all locks that are held: several only for
    /// [`Locker::lock_all`](crate::Locker::lock_all).
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.lease.names()
    }

    /// What each server said when the lease was granted.
    #[must_use]
    pub fn report(&self) -> Report {
        self.lease.report()
    }

    /// How long the lease still holds, on the safe side; zero once it is lost.
    ///
    /// It is counted from before the acquire was sent, less the drift that clocks are allowed,
    /// on a clock that goes on while the machine sleeps.
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
    /// It asks no server: it is true at the lease's end, and once a renewal or a watch has found the
    /// lease gone. Before its first renewal a lease is watched only while somebody waits in
    /// [`Guard::lost`] or [`Guard::run`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.loss().is_some()
    }

    /// Why the lease has ended, once it has.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.lease.loss()
    }

    /// Waits until the lease is lost, and says why.
    ///
    /// At the latest that is its deadline, by a timer that needs no reply. It is at once when so
    /// many servers say that the lease is gone that no quorum can hold it. A lease that is renewed in
    /// the background is watched, where the servers allow it (RESP3 and client tracking), from its
    /// first renewal on (a third of its TTL after the grant), and from some 40 ms after somebody began
    /// to wait here or in [`Guard::run`]: then a key that is deleted is known within a round trip
    /// (within 200 ms, where that key changes again and again), and else at the next renewal. A guard
    /// that is only asked ([`Guard::is_lost`]) is not watched before its first renewal: most leases are
    /// over by then, and cost the server nothing.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time enabled.
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

    /// Does `work` while the lease holds; drops it when the lease is lost.
    ///
    /// # Errors
    ///
    /// [`Error::is_lost`], with its reason in [`Error::loss`]. What `work` had begun elsewhere is
    /// not taken back.
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
    ///     Err(error) => eprintln!("the rest is another's: {error}"),
    /// }
    /// # async fn rebuild() {}
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        self.lease.run(work).await
    }

    /// Makes the lease last for its TTL from now. It never shortens a lease, and never takes a
    /// lock again that was lost.
    ///
    /// # Errors
    ///
    /// [`Error::is_lost`] when the lease has ended, or its key is gone or another's: from then on
    /// the guard is lost. Any other error leaves the lease as it was, to its old end:
    /// [`Error::is_unknown`], [`Error::is_unavailable`], [`Error::is_auth`]; [`Error::is_misuse`]
    /// where the locker's runtime has ended.
    ///
    /// # Cancel safety
    ///
    /// Cancelling leaves the lease to its old end as far as the guard knows; on the server it may
    /// last longer.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: leasehold::Guard) -> Result<(), leasehold::Error> {
    /// guard.extend().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn extend(&self) -> Result<(), Error> {
        self.lease.extend().await
    }

    /// Gives the lock back and waits for the server's word.
    ///
    /// Where another task of this process waits for the lock, it is handed over to the first of
    /// them, and this returns when that is on its way: should the key be gone, the next one finds
    /// out.
    ///
    /// # Errors
    ///
    /// [`Error::is_lost`] when the lease ended before: the work under it may not have been
    /// exclusive. Otherwise the server did not say that it is free: the release has been queued
    /// once more, and at the latest the lock is free when its TTL is over.
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
    ///     // The work may have been done by another too, if the lease was lost before its end.
    ///     assert!(error.is_lost() || error.is_unknown() || error.is_unavailable());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<(), Error> {
        self.lease.release().await
    }

    /// Gives the lock back without waiting for the server's word: so a lock costs its caller one
    /// round trip.
    ///
    /// It is what dropping the guard does: the release is sent, or owed to the server until it is
    /// answered, and a lock that another task of this process waits for is handed over. What is
    /// not found out is whether the key was still there: [`Guard::release`] tells.
    ///
    /// # Errors
    ///
    /// [`Error::is_lost`] when the lease ended before: the work under it may not have been
    /// exclusive.
    pub fn release_later(self) -> Result<(), Error> {
        self.lease.release_later()
    }
}

impl Guard<Fenced> {
    /// The fencing token of this lease.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: leasehold::Guard) -> Result<(), leasehold::Error> {
    /// let statement = "UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2";
    /// let parameter = guard.fence().get();
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fence(&self) -> FencingToken {
        self.fencing.0
    }
}

impl<F: Fencing + fmt::Debug> fmt::Debug for Guard<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name().escape_ascii().to_string())
            .field("remaining", &self.remaining())
            .field("fencing", &self.fencing)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Locker;
    use crate::support::{RedisServer, eventually, soon};

    fn travels<T: Send + Sync + Unpin + 'static>() {}

    #[test]
    fn guards_travel_between_threads() {
        travels::<Guard<Fenced>>();
        travels::<Guard<Unfenced>>();
    }

    #[tokio::test]
    async fn servers_tell_of_a_lease_that_was_renewed_and_of_none_that_has_ended() {
        const SHORT: Duration = Duration::from_millis(900);
        let server = RedisServer::start();
        let locker = Locker::builder().node(server.url()).ttl(SHORT).connect().await.unwrap();
        let released = locker.lock("a").await.unwrap();
        let dropped = locker.lock_all(["b", "c"]).await.unwrap();
        let lost = locker.lock("d").await.unwrap();
        let core = Arc::clone(&released.lease.hold().core);
        let told = || core.watchers().kept().len();
        assert_eq!(told(), 0, "none has been renewed");
        eventually("each key is told of", || told() == 4).await;
        released.release().await.unwrap();
        eventually("its key is not", || told() == 3).await;
        drop(dropped);
        eventually("nor are those", || told() == 1).await;
        server.cli(&["DEL", "d"]);
        assert_eq!(soon("its loss", lost.lost()).await, Loss::Gone);
        drop(lost);
        eventually("nothing is left of it", || told() == 0).await;
    }
}

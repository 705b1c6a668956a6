//! The front door: servers, the defaults for locks on them, and requests for such locks.

#[cfg(any(test, feature = "takeover"))]
mod adopt;
#[cfg(any(test, feature = "election"))]
pub(crate) mod elect;
#[cfg(any(test, feature = "family"))]
mod family;
#[cfg(any(test, feature = "groups"))]
mod groups;
#[cfg(feature = "inspect")]
pub(crate) mod inspect;
#[cfg(feature = "inspect")]
pub(crate) mod list;
#[cfg(feature = "inspect")]
mod look;
#[cfg(feature = "inspect")]
mod onlooker;
#[cfg(all(feature = "inspect", any(test, feature = "family")))]
pub(crate) mod primitives;
#[cfg(all(feature = "inspect", any(test, feature = "election")))]
pub(crate) mod seat;
#[cfg(any(test, feature = "sharing"))]
pub(crate) mod sharing;
#[cfg(feature = "inspect")]
mod spot;
#[cfg(feature = "inspect")]
pub(crate) mod view;
#[cfg(feature = "inspect")]
mod walk;
#[cfg(feature = "inspect")]
pub(crate) mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::api::Locker as Front;
use crate::defaults::Defaults;
use crate::error::Error;
use crate::guard::Guard;
use crate::names::{InvalidName, Names};
use crate::policy::{Tolerance, Wait};
use crate::request::LockRequest;
use crate::shutdown::Shutdown;
use crate::stats::Stats;

/// Acquires locks on one server, or on a quorum of several. Clones are cheap and share the
/// connections.
///
/// The connections close when the last clone and the last guard are gone.
#[derive(Clone)]
pub struct Locker {
    engine: Front,
    defaults: Arc<Defaults>,
}

impl Locker {
    pub(crate) fn new(engine: Front, defaults: Defaults) -> Self {
        Self { engine, defaults: Arc::new(defaults) }
    }

    /// A request for the lock `name`, which waits while another client holds it.
    ///
    /// # Names
    ///
    /// A name is any bytes, 1 to 16,384 of them together with [`Builder::key_prefix`](crate::Builder::key_prefix).
    /// The lock's key is the prefix and the name, byte for byte. A name must not end in `:fence`, `:queue` or
    /// `:shares`, which are the keys of other locks' counters, queues and shares. A name with a hash tag, as in
    /// `{user:7}:cart`, must not end in `:limit`, `:once`, `:idempotent`, `:latch`, `:open`, `:barrier`, `:passed`, `:reign`
    /// or `:permit` either. A name with a `}` needs a hash tag, so that its counters are in the same slot of a Cluster. A
    /// name that breaks these rules is [`Misuse`](crate::ErrorKind::Misuse) when the request is awaited.
    ///
    /// # No re-entrancy
    ///
    /// A lock belongs to its guard, not to a task or a thread: a task that holds a lock and requests it
    /// again waits for itself. An async task has no identity that this crate could compare, the guard
    /// may come from another task, and with a second fencing token the resource would refuse writes
    /// under the first. Pass `&Guard` to functions that need the lock, so that the compiler checks that
    /// their callers hold it. [`LockRequest::reject_reentrant`] refuses such a wait at once; otherwise the error of
    /// [`Locker::try_lock`], or of a wait that ran out, says so ([`Error::is_held_here`](crate::Error::is_held_here)).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let guard = locker.lock("invoice:42").wait_at_most(Duration::from_secs(3)).await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self, name: impl AsRef<[u8]>) -> LockRequest {
        self.request(self.name(name.as_ref()), Wait::Forever)
    }

    /// A request for the lock `name`, which does not wait: it returns within one
    /// [`Builder::command_timeout`](crate::Builder::command_timeout) and an eighth of that, whatever the
    /// server does, and at once if the last dial to a single server failed: the next
    /// dial goes on in the background. It acquires a free lock even if others wait for that, unless it is
    /// [fair](LockRequest::fair). [`Locker::lock`] says which names are valid.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use leasehold::ErrorKind;
    ///
    /// match locker.try_lock("nightly").await {
    ///     Ok(guard) => guard.release().await?,
    ///     Err(error) if error.kind() == ErrorKind::Contended => println!("{error}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock(&self, name: impl AsRef<[u8]>) -> LockRequest {
        self.request(self.name(name.as_ref()), Wait::Never)
    }

    /// Acquires the lock `name`, does `work` while the lease holds, and releases the lock: see
    /// [`LockRequest::with`].
    ///
    /// # Errors
    ///
    /// As [`LockRequest::with`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockRequest::with`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let pages = locker.with_lock("report", async |lease| lease.fence().get() % 7).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn with_lock<T>(
        &self,
        name: impl AsRef<[u8]>,
        work: impl AsyncFnOnce(&Guard) -> T,
    ) -> Result<T, Error> {
        self.lock(name).with(work).await
    }

    /// Ends this locker and all its clones, and releases all locks.
    ///
    /// New and waiting requests fail ([`ShutDown`](crate::ErrorKind::ShutDown)), every lease is lost
    /// ([`Loss::ShutDown`](crate::Loss)), and all leases are released, in one write per server. A release that a
    /// server refuses or leaves unanswered is sent again, and a connection that was lost is dialled again, until
    /// all locks are free or `within` is over. That includes the releases of guards that were dropped and of
    /// requests that were cancelled before. It does not wait for a server that is away if a quorum of the
    /// others has answered.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the locker admits no request, and every lease is lost. Dropping the future queues
    /// the releases that no server has confirmed, without blocking.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let ended = locker.shutdown(Duration::from_secs(2)).await;
    /// println!("{ended}"); // released 3 locks
    /// for left in ended.unreleased {
    ///     eprintln!("{} stays locked until its TTL is over: {}", left.name, left.reason);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shutdown(&self, within: Duration) -> Shutdown {
        self.engine.driver.shut_down(within).await
    }

    /// Counters, latencies and the servers' state, of this locker and its clones.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// println!("{}", locker.stats());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        let driver = &self.engine.driver;
        driver.meter().snapshot(driver.stats_of_servers())
    }

    /// How many servers may be down, and how many may lose their memory, with this quorum.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let tolerance = locker.tolerance();
    /// println!("{} may be down, {} may forget", tolerance.outages, tolerance.memory_losses);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn tolerance(&self) -> Tolerance {
        self.engine.quorum().tolerance()
    }

    /// Problems of servers that are used anyway, one line each, with the server's address:
    ///
    /// - a server that may evict keys, and with them locks (if its user may call `INFO memory`);
    /// - a single server without an append-only file, whose restart may free held locks, unless the
    ///   [restart quarantine](crate::Builder::restart_quarantine) is on (if its user may call `INFO persistence`);
    /// - a right that the user lacks, or a command that no script may call, in the background: `INFO server` (a name
    ///   that moves goes unnoticed), client tracking or a channel (waiters poll), a renewal, the release of a dropped guard;
    /// - a Sentinel that refuses the login: if each does, no successor of the master is found;
    /// - a connection that could not log in again before its credentials expire
    ///   ([`Builder::credentials`](crate::Builder::credentials)).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) {
    /// for warning in locker.warnings() {
    ///     eprintln!("{warning}"); // 10.0.0.1:6379: may evict locks (..): set noeviction
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.engine.driver.warnings()
    }

    fn name(&self, name: &[u8]) -> Result<Names, Error> {
        self.names(name).map_err(Error::misuse)
    }

    fn names(&self, name: &[u8]) -> Result<Names, InvalidName> {
        Names::new(&self.defaults.prefix, name)
    }

    fn request(&self, names: Result<Names, Error>, wait: Wait) -> LockRequest {
        LockRequest::new(self.engine.clone(), Arc::clone(&self.defaults), names, wait)
    }

    /// A request for all or one of these locks, at least one.
    #[cfg(any(test, feature = "groups", feature = "sharing"))]
    fn of_several(&self, names: Result<Vec<Names>, Error>, wait: Wait) -> LockRequest {
        match names {
            Ok(names) => self.request(Ok(names[0].clone()), wait).of(names),
            Err(wrong) => self.request(Err(wrong), wait),
        }
    }
}

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.engine.fmt(f)
    }
}

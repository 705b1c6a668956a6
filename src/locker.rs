//! The front door: servers, the defaults for locks on them, and requests for such locks.

mod adopt;
pub(crate) mod elect;
mod family;
#[cfg(feature = "inspect")]
pub(crate) mod inspect;
#[cfg(feature = "inspect")]
pub(crate) mod list;
#[cfg(feature = "inspect")]
pub(crate) mod primitives;
#[cfg(feature = "inspect")]
pub(crate) mod seat;
pub(crate) mod sharing;
#[cfg(feature = "inspect")]
pub(crate) mod view;
#[cfg(feature = "inspect")]
mod walk;
#[cfg(feature = "inspect")]
pub(crate) mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::defaults::Defaults;
use crate::error::Error;
use crate::lock::core::Core;
use crate::lock::engine::Engine;
use crate::lock::guard::Guard;
use crate::lock::names::Names;
use crate::lock::one_or_many::OneOrMany;
use crate::lock::renewer::keep;
use crate::lock::scripts;
use crate::lock::shutdown::{Shutdown, shut_down};
use crate::policy::{Tolerance, Wait};
use crate::request::LockRequest;
use crate::server::node::Node;
use crate::server::place::{Directory, Place};
use crate::stats::{BreakerState, ServerStats, Stats};

/// Acquires locks on one server, or on a quorum of several. Clones are cheap and share their
/// connections.
///
/// The connections close when the last clone and the last guard are gone.
#[derive(Clone)]
pub struct Locker {
    engine: Arc<Engine>,
    defaults: Arc<Defaults>,
}

impl Locker {
    /// On the current runtime, which the keeper of its leases runs on.
    pub(crate) fn new(core: Core, defaults: Defaults) -> Self {
        let engine = Arc::new(Engine::new(core, &defaults.prefix));
        clock::spawn(keep(Arc::downgrade(&engine)));
        Self { engine, defaults: Arc::new(defaults) }
    }

    #[cfg(leasehold_machine)]
    pub(crate) fn set_machine(&self, driver: Arc<crate::driver::Shared>) {
        self.engine.set_machine(driver);
    }

    /// A request for the lock `name`, which waits while another client holds it.
    ///
    /// # Names
    ///
    /// A name is any bytes, 1 to 16,384 of them together with
    /// [`Builder::key_prefix`](crate::Builder::key_prefix). The lock's key is the prefix and the name,
    /// byte for byte. A name must not end in `:fence`, `:queue` or `:shares`, which are the keys of other locks'
    /// counters, queues and shares; and a name with a `}` needs a hash tag, as in `{user:7}:cart`, so that its counters
    /// are in the same slot of a Cluster. A name that breaks these rules is
    /// [`Error::is_misuse`](crate::Error::is_misuse) when the request is awaited.
    ///
    /// # No re-entrancy
    ///
    /// A lock belongs to its guard, not to a task or a thread: a task that holds a lock and requests it
    /// again waits for itself. An async task has no identity that this crate could compare, the guard
    /// may come from another task, and with a second fencing token the resource would refuse writes
    /// under the first. Pass `&Guard` to functions that need the lock, so that the compiler checks that
    /// their callers hold it. [`LockRequest::unless_held_here`] finds such a wait at once, and the error of a wait
    /// that ran out tells ([`Error::is_held_here`](crate::Error::is_held_here)).
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
        self.request(self.one(name.as_ref()), Wait::Forever)
    }

    /// A request for the lock `name`, which does not wait: it returns within one
    /// [`Builder::command_timeout`](crate::Builder::command_timeout) and an eighth of that, whatever the
    /// server does, and at once where a single server could not be connected to at the last dial: the next
    /// dial goes on behind it. It acquires a free lock even if others wait for it, unless it is
    /// [fair](LockRequest::fair). [`Locker::lock`] says which names are valid.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// match locker.try_lock("nightly").await {
    ///     Ok(guard) => guard.release().await?,
    ///     Err(error) if error.is_contended() => println!("{error}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_lock(&self, name: impl AsRef<[u8]>) -> LockRequest {
        self.request(self.one(name.as_ref()), Wait::Never)
    }

    /// A request for all of these locks at once, which waits while another client holds any of them.
    /// It acquires all, or none.
    ///
    /// Each server grants them in one script, so callers that want the same locks in another order
    /// cannot block each other. The guard has one fencing token, which is good for each lock.
    ///
    /// The request waits until all locks are free at the same moment, or until its turn comes. In its turn it waits
    /// in the queues of all the locks at once, before all requests for one, and keeps from others what it gets until it
    /// has all of them, for at most 250 ms. If that is too short, it gives back what it has, waits for as long with no
    /// lock, and has another turn with twice the time, up to 8 seconds. So it is served although others want single
    /// locks. There is one turn at a time among all requests for several locks with one key prefix: its holder has the
    /// lock `leasehold:turn`. In a Cluster there are turns only for locks of one hash slot.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let guard = locker.lock_all(["account:1", "account:2"]).await?;
    /// assert_eq!(guard.names().count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_all<N: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = N>) -> LockRequest {
        let made = names.into_iter().map(|name| self.name(name.as_ref()));
        let names = made.collect::<Result<Vec<Names>, Error>>().and_then(|mut names| {
            self.engine.arrange(&mut names);
            if names.is_empty() {
                return Err(Error::misuse("lock_all needs at least one name"));
            }
            Ok(names.into_iter().collect())
        });
        self.request(names, Wait::Forever).all()
    }

    /// A request for one of these locks: the first that is free, in the order given. [`Guard::name`] says
    /// which it is.
    ///
    /// The request tries the locks one by one, a round trip each, and leaves those alone that others wait
    /// for. Those that are left after an eighth of a command's timeout, it tries at once. If none is free, it
    /// waits in the line of each of them, and keeps the first that is granted; if another is granted at the same
    /// moment, the request gives it back. Statistics count a request for each lock. With
    /// [`wait_at_most`](LockRequest::wait_at_most) of zero the request only tries.
    ///
    /// # Errors
    ///
    /// As [`LockRequest`], if none of the locks can be acquired: of their errors the first that is not
    /// contention, or else the first of all.
    ///
    /// # Cancel safety
    ///
    /// A request that is dropped while it waits holds none of the locks: whatever servers may have granted
    /// is given back, without blocking.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let printer = locker.lock_any(["printer:1", "printer:2", "printer:3"]).await?;
    /// println!("printing on {}", String::from_utf8_lossy(printer.name()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_any<N: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = N>) -> LockRequest {
        let mut wanted: Vec<Names> = Vec::new();
        let made = names.into_iter().try_for_each(|name| {
            let name = self.name(name.as_ref())?;
            if !wanted.contains(&name) {
                wanted.push(name);
            }
            Ok(())
        });
        let names = match made {
            Ok(()) if wanted.is_empty() => Err(Error::misuse("lock_any needs at least one name")),
            Ok(()) => Ok(wanted.into_iter().collect()),
            Err(error) => Err(error),
        };
        self.request(names, Wait::Forever).any()
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
    /// New and waiting requests fail ([`Error::is_shut_down`]), every lease is lost
    /// ([`Loss::ShutDown`](crate::Loss)), and all leases are released, in one write per server. A release that a
    /// server refuses or leaves unanswered is sent again, and a connection that was lost is dialled again, until
    /// all locks are free or `within` is over: also what guards that were dropped before, and requests that
    /// were cancelled, still owe a server. A server that is away is not waited for where a quorum of the
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
    /// for (name, reason) in ended.unreleased {
    ///     eprintln!("{name} stays locked until its TTL is over: {reason}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shutdown(&self, within: Duration) -> Shutdown {
        #[cfg(leasehold_machine)]
        if let Some(machine) = self.engine.machine() {
            let ended = machine.driver.shut_down(within).await;
            let mut all = shut_down(&self.engine, within).await;
            all.released.extend(ended.released);
            all.unreleased.extend(ended.unreleased);
            return all;
        }
        shut_down(&self.engine, within).await
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
        let now = clock::now();
        let server = |node: &Arc<Node>| ServerStats {
            server: node.endpoint().address.to_string(),
            breaker: match node.gate().opens_in(now) {
                None => BreakerState::Closed,
                Some(Duration::ZERO) => BreakerState::HalfOpen,
                Some(_) => BreakerState::Open,
            },
            connected: node.connection_now(0).is_ok(),
        };
        let servers = self.engine.nodes().iter().map(server).collect();
        self.engine.meter().snapshot(servers, self.engine.backlog().dropped())
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
    /// - a single server without an append-only file, of which a restart may free held locks, unless the
    ///   [restart guard](crate::Builder::restart_guard) is on (if its user may call `INFO persistence`);
    /// - an address that has led to another server while connections to the one before were open: a name that
    ///   has moved, or a balancer over several servers;
    /// - a right that the user lacks for a command whose answer no caller waits for: `INFO server` (without it
    ///   a name that moves goes unnoticed), client tracking or a channel (without them waiters poll), a
    ///   renewal, the release of a dropped guard;
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
        let of_node = |node: &Arc<Node>| {
            let address = &node.endpoint().address;
            let unfit = node.warnings().into_iter().map(|warning| warning.to_string());
            let refused = node.connections().filter_map(|connection| connection.refused().cloned());
            // What was refused of a script without its text was a release.
            let named =
                refused.map(|error| error.about(scripts::release().text(), &[]).to_string());
            let lines = unfit.chain(named);
            let mut lines: Vec<_> = lines.map(|line| format!("{address}: {line}")).collect();
            // Each connection may have been refused the same.
            lines.dedup();
            lines
        };
        let directories = self.engine.places().iter().filter_map(Place::directory);
        let listed = directories.flat_map(Directory::refused);
        let listed = listed.map(|(address, error)| format!("{address}: {error}"));
        let overdue = self.engine.meter().logins().overdue().into_iter();
        let overdue = overdue
            .map(|(server, why)| format!("{server}: a connection could not log in anew: {why}"));
        self.engine.nodes().iter().flat_map(of_node).chain(listed).chain(overdue).collect()
    }

    fn name(&self, name: &[u8]) -> Result<Names, Error> {
        Names::new(&self.defaults.prefix, name).map_err(Error::misuse)
    }

    fn one(&self, name: &[u8]) -> Result<OneOrMany<Names>, Error> {
        self.name(name).map(|names| OneOrMany::One([names]))
    }

    fn request(&self, names: Result<OneOrMany<Names>, Error>, wait: Wait) -> LockRequest {
        LockRequest::new(Arc::clone(&self.engine), Arc::clone(&self.defaults), names, wait)
    }
}

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.engine.nodes().iter().map(|node| node.endpoint().to_string()))
            .finish()
    }
}

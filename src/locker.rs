//! The front door: servers, the defaults for locks on them, and requests for such locks.

#[cfg(feature = "inspect")]
pub(crate) mod inspect;
#[cfg(feature = "inspect")]
pub(crate) mod list;
#[cfg(feature = "inspect")]
pub(crate) mod view;

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

/// Takes locks on a server, or on a quorum of several. Cloning it is cheap; all clones share its
/// connections.
///
/// Its connections close when the last clone and the last guard are gone.
#[derive(Clone)]
pub struct Locker {
    engine: Arc<Engine>,
    defaults: Arc<Defaults>,
}

impl Locker {
    /// On the current runtime, which the keeper of its leases runs on.
    pub(crate) fn new(core: Core, defaults: Defaults) -> Self {
        let engine = Arc::new(Engine::new(core));
        clock::spawn(keep(Arc::downgrade(&engine)));
        Self { engine, defaults: Arc::new(defaults) }
    }

    /// A request for the lock `name`, which waits while another holds it.
    ///
    /// # Re-entrancy
    ///
    /// Locks are not re-entrant: a task that asks again for a lock that it holds waits for itself. An
    /// async task has no identity that this crate could compare, it may hold a guard that another task
    /// made, and a second fencing token would have the resource refuse writes under the first. Pass
    /// `&Guard` to functions that need the lock, so that the compiler sees who holds it.
    /// [`LockRequest::unless_held_here`] finds out who waits for itself, and the error of a wait that ran
    /// out says so ([`Error::is_held_here`](crate::Error::is_held_here)).
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

    /// A request for the lock `name`, which does not wait: it is answered within the time of one
    /// command ([`Builder::command_timeout`](crate::Builder::command_timeout), noticed within an eighth of that), whatever the server
    /// does. It takes a lock that is free also where others wait for it, unless it is
    /// [fair](LockRequest::fair).
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

    /// A request for all of these locks at once, which waits while another holds any of them: all
    /// are taken, or none.
    ///
    /// Each server takes them in one script, so callers who want the same locks in another order
    /// cannot block each other. The guard has one fencing token, which is good for each of them.
    ///
    /// Who asks for several waits until all are free at the same moment, and keeps none of them from
    /// anybody meanwhile. Where that does not come within two seconds, its turn does: it takes them
    /// one after the other, in the order of their bytes, each in the line of that lock, and keeps those
    /// that it has for at most two seconds while it waits for the next (then twice as long at each turn,
    /// up to 32 seconds, with as long a pause between two turns in which it keeps none). So it is served
    /// beside callers who want single ones of them. In a Cluster there is such a turn only for locks of
    /// one hash slot.
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
        self.request(names, Wait::Forever)
    }

    /// Takes the lock `name`, does `work` while the lease holds, and gives the lock back: see
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

    /// Ends this locker and all its clones: requests are refused from now on and those that wait
    /// end ([`Error::is_shut_down`]), every lease is lost ([`Loss::ShutDown`](crate::Loss)), and
    /// all of them are given back, to each server in one write. Waits for the servers' word for at
    /// most `within`.
    ///
    /// # Cancel safety
    ///
    /// Once polled, nothing is admitted any more, and every lease is lost; what no server has said
    /// to be free when the future is dropped is given back then, without blocking.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let ended = locker.shutdown(Duration::from_secs(2)).await;
    /// for (name, reason) in ended.unreleased {
    ///     eprintln!("{name} stays taken until its TTL is over: {reason}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn shutdown(&self, within: Duration) -> Shutdown {
        shut_down(&self.engine, within).await
    }

    /// What this locker and its clones have done so far, and how its servers are.
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

    /// What this set of servers and its quorum withstand.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(locker: leasehold::Locker) -> Result<(), leasehold::Error> {
    /// let withstands = locker.tolerance();
    /// println!("{} may be down, {} may forget", withstands.outages, withstands.memory_losses);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn tolerance(&self) -> Tolerance {
        self.engine.quorum().tolerance()
    }

    /// What is wrong with servers that take part all the same: one line each, with its address.
    ///
    /// A server that may evict keys is one, where its user may ask for `INFO memory`: a lock that is
    /// evicted is lost before its time. So is
    /// one that has refused, for want of a right, what nobody waited for: client tracking (whoever
    /// waits has to poll), a renewal, the release of a dropped guard. And one with a connection that
    /// could not log in anew before its credentials end ([`Builder::credentials`](crate::Builder::credentials)).
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let of_node = |node: &Arc<Node>| {
            let address = &node.endpoint().address;
            let unfit = node.warning().map(|warning| warning.to_string());
            let refused = node.connections().filter_map(|connection| connection.refused().cloned());
            // What was refused of a script without its text was a release.
            let named =
                refused.map(|error| error.about(scripts::release().text(), &[]).to_string());
            let lines = unfit.into_iter().chain(named);
            lines.map(|line| format!("{address}: {line}")).collect::<Vec<_>>()
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

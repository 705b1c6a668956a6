//! One of several processes, for tests to cut off or crash.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::machine::Machine;
use super::server::Server;
use crate::builder::Builder;
use crate::error::Error;
use crate::locker::Locker;

/// One of several processes, as servers see it: all lockers that connect by its URLs.
///
/// # Examples
///
/// A process that is cut off loses its lease, and only then another is granted the lock:
///
/// ```
/// use leasehold::testing::{Process, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # tokio::time::pause();
/// let server = Server::new();
/// let (ours, theirs) = (Process::new(), Process::new());
/// let guard = ours.locker(&server).await?.lock("leader").await?;
/// ours.cut_off(&server);
/// let next = theirs.locker(&server).await?.lock("leader").await?;
/// assert!(guard.is_lost());
/// assert!(next.fence() > guard.fence());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Process {
    name: String,
    /// The servers to which it may have connections.
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    servers: Vec<Weak<Machine>>,
    has_crashed: bool,
}

impl Process {
    /// A process without connections.
    #[must_use]
    pub fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(1);
        let name = format!("process-{}", MADE.fetch_add(1, Ordering::Relaxed));
        Self { name, known: Mutex::default() }
    }

    /// The URL of a server for this process.
    #[must_use]
    pub fn url(&self, server: &Server) -> String {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let machine = Arc::downgrade(&server.0);
        if known.has_crashed {
            server.0.crash(&self.name);
        } else if !known.servers.iter().any(|known| Weak::ptr_eq(known, &machine)) {
            known.servers.push(machine);
        }
        server.0.url(Some(&self.name))
    }

    /// A builder of lockers of this process, on one server (`&server`) or a quorum of several
    /// (`&servers`).
    pub fn builder(&self, servers: &(impl AsRef<[Server]> + ?Sized)) -> Builder {
        Locker::builder().nodes(servers.as_ref().iter().map(|server| self.url(server)))
    }

    /// A locker of this process, with the default settings.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`]: too few of the servers are up and reachable.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time enabled.
    ///
    /// # Cancel safety
    ///
    /// As [`Builder::connect`].
    pub async fn locker(&self, servers: &(impl AsRef<[Server]> + ?Sized)) -> Result<Locker, Error> {
        self.builder(servers).connect().await
    }

    /// Cuts this process off from these servers. Neither side notices: what is sent waits for [`Process::rejoin`].
    pub fn cut_off(&self, servers: &(impl AsRef<[Server]> + ?Sized)) {
        servers.as_ref().iter().for_each(|server| server.0.cut_off(&self.name));
    }

    /// Delivers what has waited since [`Process::cut_off`], and ends the cut.
    pub fn rejoin(&self, servers: &(impl AsRef<[Server]> + ?Sized)) {
        servers.as_ref().iter().for_each(|server| server.0.let_through(&self.name));
    }

    /// Ends all connections of this process for good, as the kernel does for a killed process.
    ///
    /// Its guards and lockers are left to the test to drop: they reach no server any more, so a lease ends by its TTL.
    pub fn crash(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.has_crashed = true;
        let servers = std::mem::take(&mut known.servers);
        servers.iter().filter_map(Weak::upgrade).for_each(|server| server.crash(&self.name));
    }
}

impl Default for Process {
    fn default() -> Self {
        Self::new()
    }
}

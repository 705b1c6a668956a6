//! A server in memory, for tests to stop, hang or restart.

use std::fmt;
use std::sync::Arc;

use super::machine::Machine;
use crate::error::Error;
use crate::locker::Locker;

/// A server in memory. Clones are handles of the same server, which lives as long as a handle or a
/// connection does.
///
/// # Examples
///
/// Several servers, of which one is down:
///
/// ```
/// use leasehold::{ErrorKind, Locker};
/// use leasehold::testing::Server;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// let servers @ [down, ..] = &Server::several::<3>();
/// let locker = Locker::builder().nodes(servers.each_ref().map(Server::url)).connect().await?;
/// down.stop();
/// let guard = locker.lock("invoice:42").await?;
/// servers[1].stop();
/// assert!(locker.try_lock("other").await.unwrap_err().kind() == ErrorKind::Unavailable);
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Server(pub(super) Arc<Machine>);

impl Server {
    /// Starts a server with an uptime of a month. From here on the program's lockers use tokio's clock.
    #[must_use]
    pub fn new() -> Self {
        Self(Machine::start())
    }

    /// Starts `N` servers.
    #[must_use]
    pub fn several<const N: usize>() -> [Self; N] {
        std::array::from_fn(|_| Self::new())
    }

    /// Its URL, for [`Locker::connect`], [`Builder::nodes`](crate::Builder::nodes), or the configuration
    /// of the code under test.
    ///
    /// Only this program can connect by it. No test can cut its users off: see [`Process`](super::Process) for that.
    #[must_use]
    pub fn url(&self) -> String {
        self.0.url(None)
    }

    /// A locker on this server alone, with the default settings.
    ///
    /// # Errors
    ///
    /// As [`Locker::connect`]: the server is stopped or hangs.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with time enabled.
    ///
    /// # Cancel safety
    ///
    /// As [`Locker::connect`].
    pub async fn locker(&self) -> Result<Locker, Error> {
        Locker::connect(&self.url()).await
    }

    /// Whether `key` exists. A lock's key is [`Builder::key_prefix`](crate::Builder::key_prefix) and its name.
    #[must_use]
    pub fn has(&self, key: impl AsRef<[u8]>) -> bool {
        self.0.has(key.as_ref())
    }

    /// Deletes a key, as `DEL` by hand or an eviction would: a lease on it is lost.
    ///
    /// Its holder notices as with a real server: within a round trip if a task waits in
    /// [`Guard::lost`](crate::Guard::lost) or [`Guard::run`](crate::Guard::run), or else at the next renewal.
    pub fn lose(&self, key: impl AsRef<[u8]>) {
        self.0.lose(key.as_ref());
    }

    /// The server accepts commands and connections but sends no replies, until [`Server::resume`].
    pub fn hang(&self) {
        self.0.hang(true);
    }

    /// The server carries out the commands that it received since it began to hang, and goes on.
    pub fn resume(&self) {
        self.0.hang(false);
    }

    /// Ends the server and all its connections; it refuses others until [`Server::start`].
    pub fn stop(&self) {
        self.0.stop(true);
    }

    /// Starts a stopped server again, with the keys that it had; its uptime begins again.
    pub fn start(&self) {
        self.0.run();
    }

    /// Stops the server and starts it again, with the keys that it had.
    pub fn restart(&self) {
        self.stop();
        self.start();
    }

    /// Stops the server and starts it again without any key: all leases on it are lost.
    pub fn restart_empty(&self) {
        self.0.stop(false);
        self.start();
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

/// So that one server can be given instead of several.
impl AsRef<[Server]> for Server {
    fn as_ref(&self) -> &[Server] {
        std::slice::from_ref(self)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.url()).finish()
    }
}

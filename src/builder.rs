//! The settings of a locker.

mod assembly;
#[cfg(feature = "examine")]
mod examine;
mod front;
mod machine;
#[cfg(any(test, feature = "scriptless"))]
mod scriptless;
mod security;
mod servers;
#[cfg(feature = "streams")]
mod streams;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::api::Locker as Front;
use crate::box_future::BoxFuture;
use crate::defaults::Defaults;
#[cfg(any(feature = "cluster", feature = "sentinel"))]
use crate::endpoint::Mapped;
#[cfg(feature = "sentinel")]
use crate::endpoint::credentials::Login;
#[cfg(any(test, feature = "credentials"))]
use crate::endpoint::credentials::provider::Provider;
use crate::error::Error;
use crate::locker::Locker;
use crate::net::streams::Connector;
#[cfg(feature = "tls")]
use crate::net::tls::Tls;
use crate::policy::{Quorum, Retry, Term};
use crate::stats::Observer;

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The settings of a [`Locker`], before it connects.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
/// use leasehold::Locker;
///
/// let locker = Locker::builder()
///     .nodes(["redis://a", "redis://b", "redis://c", "redis://d", "redis://e"])
///     .quorum(4) // two servers may lose their memory, one may be down
///     .key_prefix("billing:")
///     .ttl(Duration::from_secs(5))
///     .max_ttl(Duration::from_secs(60)) // some requests ask for more than 5 s
///     .refuse_evicting() // refuse servers that may evict locks
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it connects"]
pub struct Builder {
    urls: Vec<String>,
    quorum: Option<usize>,
    defaults: Defaults,
    max_ttl: Option<Duration>,
    restart_quarantine: Option<bool>,
    #[cfg(any(test, feature = "grace"))]
    failover_grace: bool,
    #[cfg(any(test, feature = "scriptless"))]
    is_scriptless: bool,
    refuse_evicting: bool,
    command_timeout: Option<Duration>,
    connect_timeout: Duration,
    observer: Option<Arc<dyn Observer>>,
    connector: Option<Connector>,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
    #[cfg(any(test, feature = "credentials"))]
    credentials: Option<Provider>,
    #[cfg(feature = "sentinel")]
    sentinel_login: Option<Login>,
    #[cfg(any(feature = "cluster", feature = "sentinel"))]
    mapped: Mapped,
}

impl Builder {
    /// The TTL of leases for which neither [`Builder::ttl`] nor a request sets another: 10 s.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(10);

    pub(crate) fn new() -> Self {
        let defaults = Defaults {
            prefix: Vec::new(),
            ttl: Builder::DEFAULT_TTL,
            guarded_ttl: None,
            term: Term::DEFAULT,
            min_validity: None,
            label: None,
            retry: Retry::default(),
            is_renewed: true,
        };
        Self {
            urls: Vec::new(),
            quorum: None,
            defaults,
            max_ttl: None,
            restart_quarantine: None,
            #[cfg(any(test, feature = "grace"))]
            failover_grace: false,
            #[cfg(any(test, feature = "scriptless"))]
            is_scriptless: false,
            refuse_evicting: false,
            command_timeout: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            observer: None,
            connector: None,
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(any(test, feature = "credentials"))]
            credentials: None,
            #[cfg(feature = "sentinel")]
            sentinel_login: None,
            #[cfg(any(feature = "cluster", feature = "sentinel"))]
            mapped: Mapped::default(),
        }
    }

    /// Sets how long a command waits for its reply; a timeout is noticed at most an eighth of that later.
    ///
    /// From 10 ms to 1 h; by default 500 ms, and with several servers a twentieth of the TTL, from 50 ms to 500 ms. It
    /// has to be longer than a round trip to the server: else the locker connects, and no request is granted. It also
    /// limits a request that does not wait. A connection that receives nothing for two timeouts while commands wait is
    /// replaced.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::Locker;
    ///
    /// let builder = Locker::builder().node("redis://127.0.0.1:6379");
    /// // The server is on another continent.
    /// let locker = builder.command_timeout(Duration::from_secs(2)).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = Some(timeout);
        self
    }

    /// Sets how long connecting may take, from the dial to the end of the handshake: 10 ms to 1 h, 2 s
    /// by default.
    ///
    /// Over TLS, a connection that replaces another has 15 times as long once the server has accepted it: when all
    /// clients come back to a server at once, their handshakes take long, and each one that a client gives up costs
    /// the server another.
    ///
    /// The dial also ends if a server answers `HELLO`, but no `SCRIPT LOAD` within 1 s, or half of this
    /// timeout if that is less.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Reports every event to `observer`: see [`Observer`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use leasehold::{Event, Locker};
    ///
    /// let builder = Locker::builder().node("redis://127.0.0.1:6379");
    /// let locker = builder
    ///     .observer(|event: &Event<'_>| {
    ///         if let Event::Lost { reason, .. } = event {
    ///             eprintln!("a lease was lost: {reason}");
    ///         }
    ///     })
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Connects to a quorum of the servers, once each has answered or [`Builder::connect_timeout`] is over; the others join
    /// later.
    ///
    /// # Errors
    ///
    /// - [`Misuse`](crate::ErrorKind::Misuse) for a wrong URL, quorum, TTL, label or timeout; for a CA or a
    ///   certificate that cannot be read; for a server given twice, or not independent; and outside of a tokio runtime.
    /// - [`Auth`](crate::ErrorKind::Auth) if a server refuses the credentials or a right, or either side refuses the
    ///   other's certificate.
    /// - [`Unavailable`](crate::ErrorKind::Unavailable) if too few servers can be reached or serve now. Also for `rediss://` to
    ///   a port without TLS, or the other way round, if the server ends the connection: the text names that, too.
    ///
    /// No error shows a password or a key.
    ///
    /// # Panics
    ///
    /// In a tokio runtime without I/O or time enabled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use leasehold::{ErrorKind, Locker};
    ///
    /// match Locker::builder().node("redis://127.0.0.1:6379").connect().await {
    ///     Ok(locker) => println!("{:?}", locker.warnings()),
    ///     Err(error) if error.kind() == ErrorKind::Unavailable => eprintln!("try again later: {error}"),
    ///     Err(error) => return Err(error), // a wrong URL, password or setting
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(self) -> Result<Locker, Error> {
        self.connect_to(Quorum::needed).await
    }

    /// Returns a locker at once, which connects in the background: for a service that starts before its Redis does.
    ///
    /// Until a quorum of the servers can be reached, a request that does not wait is
    /// [`Unavailable`](crate::ErrorKind::Unavailable), and a request with a limit waits for them. Wrong credentials and
    /// unfit servers are errors of the first request, at once: [`Auth`](crate::ErrorKind::Auth) or
    /// [`Misuse`](crate::ErrorKind::Misuse).
    ///
    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) as [`Builder::connect`], if the mistake shows without a server; and for a
    /// Cluster and Sentinels, which first have to say where the servers are.
    ///
    /// # Panics
    ///
    /// As [`Builder::connect`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::Locker;
    ///
    /// let locker = Locker::builder().node("redis://127.0.0.1:6379").connect_lazily()?;
    /// // Waits for the server too.
    /// let guard = locker.lock("nightly").wait_at_most(Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_lazily(self) -> Result<Locker, Error> {
        on_a_runtime()?;
        let front = self.front_at_once()?;
        self.locker(front)
    }

    /// Connects as [`Builder::connect`] does, but one reachable server is enough: for inspecting locks, not for
    /// acquiring them.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`], if no server can be reached.
    ///
    /// # Panics
    ///
    /// As [`Builder::connect`].
    ///
    /// # Cancel safety
    ///
    /// As [`Builder::connect`].
    #[cfg(feature = "inspect")]
    pub async fn connect_for_inspection(self) -> Result<Locker, Error> {
        self.connect_to(|_| 1).await
    }

    fn connect_to(self, least: fn(Quorum) -> usize) -> BoxFuture<'static, Result<Locker, Error>> {
        Box::pin(self.met(least))
    }

    async fn met(self, least: fn(Quorum) -> usize) -> Result<Locker, Error> {
        on_a_runtime()?;
        let front = self.front(least).await?;
        self.locker(front)
    }

    fn locker(self, front: Front) -> Result<Locker, Error> {
        Ok(Locker::new(front, self.checked_defaults()?))
    }

    fn checked_defaults(mut self) -> Result<Defaults, Error> {
        let Defaults { ttl, min_validity, .. } = self.defaults;
        self.defaults.term = Term::new(ttl, min_validity).map_err(Error::misuse)?;
        self.defaults.guarded_ttl = self.ttl_in_force();
        Ok(self.defaults)
    }
}

/// # Errors
///
/// The caller is outside of a tokio runtime.
fn on_a_runtime() -> Result<(), Error> {
    Handle::try_current().map(drop).map_err(|_| {
        Error::misuse(
            "connecting needs a tokio runtime, on which the locker lives, and this call is on none: call it in \
             #[tokio::main] or in block_on of a runtime; the feature `blocking` has locks without one",
        )
    })
}

impl Locker {
    /// Connects to one server, with the defaults of [`Locker::builder`].
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`].
    ///
    /// # Panics
    ///
    /// In a tokio runtime without I/O or time enabled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// let locker = leasehold::Locker::connect("redis://127.0.0.1:6379").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder().node(url).connect().await
    }

    /// The settings of a locker, as in the example of [`Builder`]; they need at least one [`Builder::node`].
    pub fn builder() -> Builder {
        Builder::new()
    }
}

/// Without the URLs, which may hold passwords.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("servers", &self.urls.len())
            .field("quorum", &self.quorum)
            .field("ttl", &self.defaults.ttl)
            .finish_non_exhaustive()
    }
}

//! How a locker is made: which servers, how many of them have to agree, and within what limits.

mod assembly;
mod entry;
#[cfg(feature = "examine")]
mod examine;
mod meet;
mod security;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::box_future::BoxFuture;
use crate::defaults::Defaults;
use crate::error::Error;
use crate::lock::adaptive::AdaptiveTtl;
use crate::lock::order::Replicas;
use crate::locker::Locker;
#[cfg(feature = "tls")]
use crate::net::tls::Tls;
use crate::policy::{Adaptive, Quorum, Retry};
use crate::server::credentials::{Credentials, Login, Provider};
use crate::stats::Observer;

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How a [`Locker`] is made.
#[must_use = "a builder does nothing until it connects"]
pub struct Builder {
    urls: Vec<String>,
    quorum: Option<usize>,
    defaults: Defaults,
    longest_ttl: Option<Duration>,
    restart_guard: Option<bool>,
    strict: bool,
    command_timeout: Option<Duration>,
    connect_timeout: Duration,
    connections: usize,
    adaptive: Option<(Duration, Duration)>,
    observer: Option<Arc<dyn Observer>>,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
    credentials: Option<Provider>,
    sentinel_login: Option<Login>,
}

impl Builder {
    /// The TTL of leases where neither [`Builder::ttl`] nor a request says another.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(10);

    pub(crate) fn new() -> Self {
        let defaults = Defaults {
            prefix: Vec::new(),
            ttl: Builder::DEFAULT_TTL,
            adaptive: None,
            min_validity: None,
            label: None,
            retry: Retry::default(),
            is_renewed: true,
            replicas: None,
        };
        Self {
            urls: Vec::new(),
            quorum: None,
            defaults,
            longest_ttl: None,
            restart_guard: None,
            strict: false,
            command_timeout: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            connections: 1,
            adaptive: None,
            observer: None,
            #[cfg(feature = "tls")]
            tls: None,
            credentials: None,
            sentinel_login: None,
        }
    }

    /// A server to take locks on:
    ///
    /// - `redis://[[user]:password@]host[:port][/database]`
    /// - `rediss://`, and as before: over TLS, with the feature `tls`
    /// - `redis+unix://[[user]:password@]/path/to/socket[?db=database]`
    /// - `redis-cluster://[[user]:password@]host[:port][,host[:port]..][/database]`: nodes of a Redis
    ///   Cluster, by which the others are found; it has no database but 0, unless it is Valkey's and
    ///   has `cluster-databases`
    /// - `redis-sentinel://[[user]:password@]host[:port][,host[:port]..]/service[?db=database]`:
    ///   Sentinels, by which the master of the service is found
    ///
    /// `valkey` may stand for `redis`, and `valkeys` for `rediss`: `valkey://`, `valkeys-cluster://`
    /// and so on. User, password, path and service are percent-encoded; an IPv6 address stands in brackets. A
    /// Cluster, or a service, is one server that moves: its failovers promote replicas that may lack
    /// the last writes, and with them a lease.
    ///
    /// With more than one, a lock is a lease that a quorum of them granted (Redlock). They have to
    /// be independent masters: no replicas of one another, no nodes of a Cluster. All clients have
    /// to be given the same servers, by the same addresses.
    pub fn node(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// Several servers: see [`Builder::node`].
    pub fn nodes<U: Into<String>>(mut self, urls: impl IntoIterator<Item = U>) -> Self {
        self.urls.extend(urls.into_iter().map(Into::into));
        self
    }

    /// How to log in to the Sentinels of a `redis-sentinel://` URL, whose own credentials are for
    /// the servers; without a user, as the default one. None by default.
    pub fn sentinel_credentials(
        mut self,
        user: Option<impl Into<String>>,
        password: impl Into<String>,
    ) -> Self {
        let user = user.map(Into::into);
        let credentials = Credentials { user, ..Credentials::password(password) };
        self.sentinel_login = Some(Login::Fixed(credentials));
        self
    }

    /// Asks `provide` how to log in, for URLs without a user and a password: a token that lives for
    /// some minutes, a password that is rotated.
    ///
    /// It is asked at each connection, with the server's address, `host:port` or the path of a
    /// socket: for servers, nodes of a Cluster, and the servers of a service, whose Sentinels have
    /// [`Builder::sentinel_credentials_from`]. A locker has up to three connections to a server
    /// beside those of [`Builder::connections`], so a provider that is dear remembers its answer for
    /// a while. Where credentials end ([`Credentials::valid_for`]) it is asked again in time, and live
    /// connections log in anew by `AUTH`, between other commands; leases are not touched by that.
    ///
    /// The provider has to answer within nine tenths of [`Builder::connect_timeout`], and must not
    /// block the thread. One that fails, panics or takes longer makes the server unavailable
    /// ([`Error::is_unavailable`]) with an error that says so and has the provider's text; credentials
    /// that the server refuses are [`Error::is_auth`]. Both are tried again like any connection. On a
    /// live connection both are counted ([`Stats::logins_failed`](crate::Stats::logins_failed)), told
    /// by [`Locker::warnings`], and tried again with a pause; the connection stays as it is until the
    /// server ends it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn sign(server: &str) -> std::io::Result<String> { Ok(String::new()) }
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::{Credentials, Locker};
    ///
    /// let locker = Locker::builder()
    ///     .node("rediss://cache.internal")
    ///     .credentials(async |server: String| {
    ///         let token = sign(&server).await?;
    ///         let credentials = Credentials::new("billing", token);
    ///         Ok::<_, std::io::Error>(credentials.valid_for(Duration::from_secs(15 * 60)))
    ///     })
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn credentials<A, E>(
        mut self,
        provide: impl Fn(String) -> A + Send + Sync + 'static,
    ) -> Self
    where
        A: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: fmt::Display,
    {
        self.credentials = Some(Provider::new(provide));
        self
    }

    /// As [`Builder::credentials`], for the Sentinels of a `redis-sentinel://` URL.
    pub fn sentinel_credentials_from<A, E>(
        mut self,
        provide: impl Fn(String) -> A + Send + Sync + 'static,
    ) -> Self
    where
        A: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: fmt::Display,
    {
        self.sentinel_login = Some(Login::Provided(Provider::new(provide)));
        self
    }

    /// How many servers have to grant a lease: more than half, which is the default; fewer are
    /// refused, because two callers could then hold the same lock. All clients have to use the
    /// same number. See [`Locker::tolerance`] for what it means: a larger quorum withstands more
    /// servers that forget, and fewer that are down. An even number of servers works: 3 of 4
    /// withstands the loss of one server's memory, and one outage.
    pub fn quorum(mut self, servers: usize) -> Self {
        self.quorum = Some(servers);
        self
    }

    /// The TTL of leases that name none: [`Builder::DEFAULT_TTL`], 10 s, by default.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = ttl;
        self
    }

    /// Lets the TTL of leases that name none follow how long leases are held and how long renewals
    /// take, within these bounds; until enough is known it is the longest. Off by default. See
    /// [`LockRequest::expect`](crate::LockRequest::expect) for locks of which more is known.
    pub fn adaptive_ttl(mut self, shortest: Duration, longest: Duration) -> Self {
        self.adaptive = Some((shortest, longest));
        self
    }

    /// Leaves leases to end at their TTL, unless they are extended by hand. By default they are
    /// renewed while their guard lives.
    pub fn no_renewal(mut self) -> Self {
        self.defaults.is_renewed = false;
        self
    }

    /// When requests that name no other policy try again: [`Retry::default`] by default.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.defaults.retry = retry;
        self
    }

    /// Who is told of every event.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// The longest TTL that any client of these servers uses; the default TTL, or the longest
    /// adaptive one, by default. It is
    /// what the restart guard waits for, so longer ones are refused where it is on.
    pub fn longest_ttl(mut self, ttl: Duration) -> Self {
        self.longest_ttl = Some(ttl);
        self
    }

    /// Whether a server that has restarted is kept from voting until every lease that it may have
    /// forgotten has ended. On by default with several servers.
    ///
    /// With one server it is off by default: there, a restart that forgets leases would stop all
    /// locking for the longest TTL. Turn it on where that is better than two holders, unless the
    /// server writes every command to disk (`appendfsync always`).
    pub fn restart_guard(mut self, on: bool) -> Self {
        self.restart_guard = Some(on);
        self
    }

    /// Refuses servers that may evict keys, rather than to warn of them
    /// ([`Locker::warnings`]).
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// The least validity of leases that name none: a tenth of the TTL by default.
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.defaults.min_validity = Some(min_validity);
        self
    }

    /// How many replicas are to acknowledge leases whose requests do not say, and within what time:
    /// see [`LockRequest::replicas`](crate::LockRequest::replicas). None by default.
    pub fn replicas(mut self, count: u32, within: Duration) -> Self {
        self.defaults.replicas = Some(Replicas { count, within });
        self
    }

    /// The label of leases that name none; none by default.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.defaults.label = Some(label.into());
        self
    }

    /// What is put before every name to make its key; nothing by default.
    pub fn key_prefix(mut self, prefix: impl Into<Vec<u8>>) -> Self {
        self.defaults.prefix = prefix.into();
        self
    }

    /// How long a command may wait for its reply, noticed within an eighth of that. By default
    /// 500 ms; with several servers a twentieth of the TTL, from 50 ms to 500 ms. A connection
    /// that is silent for two of them with commands waiting is replaced. It is also how long a
    /// request may take that does not wait.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = Some(timeout);
        self
    }

    /// How long connecting may take, from the dial to the end of the handshake: 2 s by default. A
    /// server that answers `HELLO`, and for 1 s (or half of this timeout, if that is less) no
    /// `SCRIPT LOAD`, is given up then.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How many connections to keep per server: 1 by default, which many callers share well. A
    /// lease stays on the connections that it began on.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// How servers with `rediss://` URLs are met: [`Tls::new`] by default. A URL without TLS beside
    /// this is refused.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Connects to a quorum of the servers; the others join when they can be reached.
    ///
    /// # Errors
    ///
    /// [`Error::is_misuse`] for a URL, quorum, TTL, label or timeout that cannot be, for a CA or a
    /// certificate that cannot be read, for a server that is met with TLS and speaks none or the
    /// other way round, for a server given twice, and for one that is no independent server;
    /// [`Error::is_auth`] when a server refuses the credentials, or a right that is needed, and
    /// when either side refuses the other's certificate; [`Error::is_unavailable`] when too few can
    /// be reached or serve now. No error shows a password or a key.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    pub async fn connect(self) -> Result<Locker, Error> {
        self.connect_to(Quorum::needed).await
    }

    /// Connects to as many of the servers as there are, to look at locks rather than to take them:
    /// as [`Builder::connect`], but one that can be reached is enough.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`], where none can be reached.
    ///
    /// # Panics
    ///
    /// As [`Builder::connect`].
    ///
    /// # Cancel safety
    ///
    /// As [`Builder::connect`].
    #[cfg(feature = "inspect")]
    pub async fn connect_to_any(self) -> Result<Locker, Error> {
        self.connect_to(|_| 1).await
    }

    fn connect_to(self, least: fn(Quorum) -> usize) -> BoxFuture<'static, Result<Locker, Error>> {
        Box::pin(self.met(least))
    }

    async fn met(mut self, least: fn(Quorum) -> usize) -> Result<Locker, Error> {
        let servers = self.servers()?;
        let quorum = Quorum::new(servers.places(), self.quorum).map_err(Error::misuse)?;
        self.check()?;
        if let Some((shortest, longest)) = self.adaptive {
            let policy = Adaptive::new(shortest, longest).map_err(Error::misuse)?;
            self.defaults.adaptive = Some(AdaptiveTtl::new(policy));
        }
        let tls = self.tls_client(&servers)?;
        let core = self.start(servers, quorum, tls).await?;
        meet::all(&core, self.connections, least(quorum)).await?;
        Ok(Locker::new(core, self.defaults))
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

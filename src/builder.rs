//! How a locker is made: which servers, how many of them have to agree, and within what limits.

mod meet;
mod security;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::error::Error;
use crate::lock::adaptive::AdaptiveTtl;
use crate::lock::core::{Configuration, Core};
use crate::lock::fingerprint::fingerprint;
use crate::lock::owner::check_label;
use crate::lock::scripts;
use crate::locker::{Defaults, Locker};
use crate::net::connection::Settings;
use crate::net::tls::Client;
#[cfg(feature = "tls")]
use crate::net::tls::Tls;
use crate::policy::{Adaptive, Quorum, Retry, Term};
use crate::server::endpoint::{Endpoint, Target};
use crate::server::fitness::Rules;
use crate::server::node::{Node, NodeSettings};
use crate::server::registry::Registry;
use crate::server::watch::Watchers;
use crate::stats::{Meter, Observer};

const DEFAULT_TTL: Duration = Duration::from_secs(10);
const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_millis(500);
/// Of several servers, each may take this part of the TTL: one that is slow should cost a vote and
/// not the lease's validity.
const TTL_SHARE: u32 = 20;
/// But not less than this, which a healthy server needs on a busy day.
const COMMAND_TIMEOUT_FLOOR: Duration = Duration::from_millis(50);
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Shorter than this, a busy machine's scheduling alone breaks connections.
const TIMEOUT_MIN: Duration = Duration::from_millis(10);
/// Longer than this, a dead server is not noticed within any lease.
const TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);
/// One connection carries some hundred thousand commands a second; more only cost the server.
const LANES_MAX: usize = 64;

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
}

impl Builder {
    pub(crate) fn new() -> Self {
        let defaults = Defaults {
            prefix: Vec::new(),
            ttl: DEFAULT_TTL,
            adaptive: None,
            min_validity: None,
            label: None,
            retry: Retry::default(),
            is_renewed: true,
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
        }
    }

    /// A server to take locks on:
    ///
    /// - `redis://[[user]:password@]host[:port][/database]`
    /// - `rediss://`, and as before: over TLS, with the feature `tls`
    /// - `redis+unix://[[user]:password@]/path/to/socket[?db=database]`
    ///
    /// User, password and path are percent-encoded; an IPv6 address stands in brackets.
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

    /// How many servers have to grant a lease: more than half, which is the default; fewer are
    /// refused, because two callers could then hold the same lock. All clients have to use the
    /// same number. See [`Locker::tolerance`] for what it means: a larger quorum withstands more
    /// servers that forget, and fewer that are down. An even number of servers works: 3 of 4
    /// withstands the loss of one server's memory, and one outage.
    pub fn quorum(mut self, servers: usize) -> Self {
        self.quorum = Some(servers);
        self
    }

    /// The TTL of leases that name none: 10 s by default.
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
    /// that is silent for two of them with commands waiting is replaced.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = Some(timeout);
        self
    }

    /// How long connecting may take, from the dial to the end of the handshake: 2 s by default.
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
    pub async fn connect(mut self) -> Result<Locker, Error> {
        let endpoints = self.endpoints()?;
        let quorum = Quorum::new(endpoints.len(), self.quorum).map_err(Error::misuse)?;
        self.check()?;
        if let Some((shortest, longest)) = self.adaptive {
            let policy = Adaptive::new(shortest, longest).map_err(Error::misuse)?;
            self.defaults.adaptive = Some(AdaptiveTtl::new(policy));
        }
        #[cfg(feature = "tls")]
        let tls = security::client(self.tls.as_ref(), &endpoints)?;
        #[cfg(not(feature = "tls"))]
        let tls = security::client(&endpoints)?;
        let core = self.start(endpoints, quorum, tls);
        meet::all(&core, self.connections).await?;
        Ok(Locker::new(core, self.defaults))
    }

    fn endpoints(&self) -> Result<Vec<Endpoint>, Error> {
        let parsed = self.urls.iter().map(|url| parse_server(url));
        let endpoints = parsed.collect::<Result<Vec<_>, _>>()?;
        for (index, endpoint) in endpoints.iter().enumerate() {
            if endpoints[..index].iter().any(|other| other.address == endpoint.address) {
                let address = &endpoint.address;
                return Err(Error::misuse(format_args!("the server {address} is given twice")));
            }
        }
        Ok(endpoints)
    }

    /// The longest TTL that the restart guard has to wait for, where it is on.
    fn guarded_ttl(&self) -> Option<Duration> {
        let is_on = self.restart_guard.unwrap_or(self.urls.len() > 1);
        is_on.then(|| self.longest_ttl.unwrap_or(self.longest_of_defaults()))
    }

    fn longest_of_defaults(&self) -> Duration {
        self.adaptive.map_or(self.defaults.ttl, |(_, longest)| longest.max(self.defaults.ttl))
    }

    fn command_timeout_or_default(&self) -> Duration {
        let share = self.defaults.ttl / TTL_SHARE;
        self.command_timeout.unwrap_or(if self.urls.len() > 1 {
            share.clamp(COMMAND_TIMEOUT_FLOOR, DEFAULT_COMMAND_TIMEOUT)
        } else {
            DEFAULT_COMMAND_TIMEOUT
        })
    }

    fn start(&self, endpoints: Vec<Endpoint>, quorum: Quorum, tls: Option<Client>) -> Core {
        let addresses: Vec<String> =
            endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect();
        let is_judged = endpoints.len() > 1 || self.restart_guard == Some(true) || self.strict;
        let settings = NodeSettings {
            connect_timeout: self.connect_timeout,
            lanes: self.connections,
            connection: Settings {
                command_timeout: self.command_timeout_or_default(),
                write_inline: write_inline(),
            },
            tls,
            rules: is_judged
                .then(|| Rules { restart_guard: self.guarded_ttl(), strict: self.strict }),
        };
        let fingerprint = (endpoints.len() > 1).then(|| fingerprint(&addresses, quorum.needed()));
        let registry = Arc::new(Registry::new(addresses));
        let watchers = Arc::new(Watchers::default());
        let nodes = endpoints.into_iter().enumerate().map(|(number, endpoint)| {
            let place = (number, Arc::clone(&registry), Arc::clone(&watchers));
            Node::start(place, endpoint, scripts::catalog(), settings.clone())
        });
        let guarded_ttl = self.guarded_ttl();
        let configuration = Configuration { quorum, fingerprint, guarded_ttl };
        Core::new(nodes, configuration, Meter::new(self.observer.clone()))
    }

    fn check(&self) -> Result<(), Error> {
        Term::new(self.defaults.ttl, self.defaults.min_validity).map_err(Error::misuse)?;
        self.defaults.label.as_deref().map_or(Ok(()), check_label).map_err(Error::misuse)?;
        self.defaults.retry.check().map_err(Error::misuse)?;
        if let Some(longest) = self.longest_ttl {
            Term::new(longest, None).map_err(Error::misuse)?;
            if longest < self.longest_of_defaults() {
                return Err(Error::misuse(format_args!(
                    "a longest TTL of {longest:?} is shorter than the TTL of {:?}",
                    self.longest_of_defaults()
                )));
            }
        }
        if !(1..=LANES_MAX).contains(&self.connections) {
            return Err(Error::misuse(format_args!(
                "{} connections cannot be kept: it has to be 1 to {LANES_MAX}",
                self.connections
            )));
        }
        for (what, timeout) in [
            ("command timeout", self.command_timeout_or_default()),
            ("connect timeout", self.connect_timeout),
        ] {
            if !(TIMEOUT_MIN..=TIMEOUT_MAX).contains(&timeout) {
                return Err(Error::misuse(format_args!(
                    "a {what} of {timeout:?} cannot be kept: \
                     it has to be {TIMEOUT_MIN:?} to {TIMEOUT_MAX:?}"
                )));
            }
        }
        Ok(())
    }
}

/// The server of a URL; the other targets can't be reached yet.
fn parse_server(url: &str) -> Result<Endpoint, Error> {
    let unsupported = match Target::parse(url).map_err(Error::misuse)? {
        Target::Server(endpoint) => return Ok(endpoint),
        Target::Cluster { .. } => "redis-cluster://",
        Target::Sentinel { .. } => "redis-sentinel://",
    };
    Err(Error::misuse(format_args!("{unsupported} is not supported yet: use redis://")))
}

/// Up to how many commands in flight a caller writes for itself, as measured by
/// `benches/figures.rs`. On one thread writes gather by themselves when the flusher takes its turn:
/// with 8 tasks on a shared core, 1 made 75,000 pairs a second, 4 made 61,000, 16 made 48,000. On
/// several threads, 0 to 32 are within 9 % of one another.
fn write_inline() -> usize {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => 1,
        _ => 4,
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

//! Which servers a locker uses, how it logs in to them, and what leases are like unless a request says otherwise.

#[cfg(any(test, feature = "credentials"))]
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Builder;
#[cfg(any(feature = "cluster", feature = "sentinel"))]
use crate::endpoint::Mapped;
#[cfg(any(test, feature = "credentials", feature = "sentinel"))]
use crate::endpoint::credentials::Credentials;
#[cfg(feature = "sentinel")]
use crate::endpoint::credentials::Login;
#[cfg(any(test, feature = "credentials"))]
use crate::endpoint::credentials::provider::Provider;
#[cfg(feature = "tls")]
use crate::net::tls::Tls;
use crate::policy::Retry;

impl Builder {
    /// Adds a server, by its URL:
    ///
    /// - `redis://[[user]:password@]host[:port][/database]`
    /// - `rediss://`, with the same parts: over TLS, with the feature `tls`
    /// - `redis+unix://[[user]:password@]/path/to/socket[?db=database]`
    /// - `redis-cluster://[[user]:password@]host[:port][,host[:port]..][/database]`: some nodes of a
    ///   Redis Cluster, which name the others, with the feature `cluster`; only Valkey with
    ///   `cluster-databases` has a database other than 0
    /// - `redis-sentinel://[[user]:password@]host[:port][,host[:port]..]/service[?db=database]`:
    ///   Sentinels, which name the master of the service, with the feature `sentinel`
    ///
    /// `valkey` may stand for `redis`, and `valkeys` for `rediss`: `valkey://`, `valkeys-cluster://`
    /// and so on. Percent-encode user, password, path and service; put an IPv6 address in brackets. A
    /// Cluster or a service counts as one server that moves: its failovers promote replicas that may
    /// lack the last writes, and with them a lease.
    ///
    /// Several servers, 64 at the most, make a Redlock: a quorum of them has to grant a lease. They must be independent
    /// masters, neither replicas of one another nor nodes of a Cluster. All clients must have the same
    /// servers, by the same addresses. An address must lead to one server, not to a balancer over several.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use leasehold::Locker;
    ///
    /// let one = Locker::builder().node("redis://user:p%40ss@redis.internal:6379/2").connect().await?;
    /// let cluster = Locker::builder().node("redis-cluster://10.0.0.1,10.0.0.2").connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn node(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// Adds several servers, for a Redlock: see [`Builder::node`] and the example of [`Builder::quorum`].
    pub fn nodes<U: Into<String>>(mut self, urls: impl IntoIterator<Item = U>) -> Self {
        self.urls.extend(urls.into_iter().map(Into::into));
        self
    }

    /// Sets the quorum: how many servers must grant a lease. By default more than half, which is also
    /// the minimum, because with fewer two clients could hold the same lock.
    ///
    /// All clients must use the same quorum. A larger one tolerates more servers that lose their
    /// memory and fewer that are down ([`Locker::tolerance`](crate::Locker::tolerance)).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// let servers = ["redis://a", "redis://b", "redis://c", "redis://d", "redis://e"];
    /// // These servers run without persistence: two may forget, and one may be down.
    /// let locker = leasehold::Locker::builder().nodes(servers).quorum(4).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn quorum(mut self, servers: usize) -> Self {
        self.quorum = Some(servers);
        self
    }

    /// Sets the longest TTL that any client of these servers uses: by default this locker's TTL.
    ///
    /// The restart quarantine and the failover grace wait that long, so with either a request for a longer TTL is refused.
    /// All clients need the same: a shorter one lets a restarted server vote while longer leases last.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::Locker;
    ///
    /// let servers = ["redis://a", "redis://b", "redis://c"];
    /// let builder = Locker::builder().nodes(servers).max_ttl(Duration::from_secs(60));
    /// let locker = builder.connect().await?;
    /// let guard = locker.lock("report").ttl(Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_ttl(mut self, ttl: Duration) -> Self {
        self.max_ttl = Some(ttl);
        self
    }

    /// Sets whether a restarted server must not vote until every lease that it may have forgotten has
    /// ended. On by default with several servers.
    ///
    /// With one server the default is off, because a restart that forgets leases would stop all
    /// locking for the longest TTL. Turn the quarantine on if that is better than two holders, unless the
    /// server writes every command to disk (`appendfsync always`).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let builder = leasehold::Locker::builder().node("redis://127.0.0.1:6379");
    /// let builder = builder.restart_quarantine(true).max_ttl(Duration::from_secs(30));
    /// let locker = builder.connect().await?; // after a restart: no locks for up to 30 s
    /// # Ok(())
    /// # }
    /// ```
    pub fn restart_quarantine(mut self, on: bool) -> Self {
        self.restart_quarantine = Some(on);
        self
    }

    /// Sets whether locks survive the failover of one primary with asynchronous replicas: a server that became the primary
    /// grants nothing new until every lease that it may lack has ended, and holders report their leases to it at
    /// once. Off by default.
    ///
    /// A *grace* begins when the first client with this setting meets a new primary, or a restarted one, and lasts for
    /// [`Builder::max_ttl`], three seconds at least. In a grace a request that waits goes on waiting, and one that does
    /// not ends with [`Unavailable`](crate::ErrorKind::Unavailable), whose text says when to try again. Renewed leases
    /// are kept, also if the new primary lacks them, provided that their holder reaches it before they end. All clients
    /// have to set this, with the same longest TTL and key prefix. The rows "A failover with a grace" of
    /// [`guide::guarantees`](crate::guide::guarantees) have the exceptions.
    ///
    /// A request over a connection that was silent for half a second costs one more round trip: the server is asked
    /// whether it is still the same primary. If a server refuses `INFO` or `TIME` to scripts, nothing is granted.
    /// With several servers there is no such round trip, and a new primary votes once its grace is over, as after a restart.
    /// All kinds of leases are granted by these rules, but a read or write lock, a permit, or a lease of `lock_all` is lost
    /// if the new primary lacks it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// let url = "redis://cache.internal:6379"; // one name, behind which a service fails over
    /// let locker = leasehold::Locker::builder().node(url).failover_grace(true).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(any(test, feature = "grace"))]
    pub fn failover_grace(mut self, on: bool) -> Self {
        self.failover_grace = on;
        self
    }

    /// Refuses servers that may evict keys. By default they are used, and
    /// [`Locker::warnings`](crate::Locker::warnings) reports them.
    pub fn refuse_evicting(mut self) -> Self {
        self.refuse_evicting = true;
        self
    }

    /// Sets the TLS of servers with `rediss://` URLs: [`Tls::new`] by default. With this setting a URL without TLS is
    /// refused.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use leasehold::{Locker, Tls};
    ///
    /// let tls = Tls::new().ca_file("/etc/redis/ca.pem");
    /// let locker = Locker::builder().node("rediss://redis.internal").tls(tls).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Calls `map` with the host and port of each server that a Cluster's nodes or Sentinels name, to learn where the
    /// server is reached from here: behind NAT, or in containers whose ports are published. `None` leaves the address as it is.
    ///
    /// `map` is called for the nodes in a `redis-cluster://` URL too, and not for Sentinels: URLs say where both are reached
    /// from here. A Cluster with `cluster-announce-ip` and `-port`, and a service with `replica-announce-ip`, need
    /// no `map`.
    ///
    /// `map` is called before each dial. It must not block or panic, and must return the same address for the same
    /// server: the library tells servers apart by the addresses that they announce. Over TLS, a certificate has to be
    /// for the host that `map` returns. Servers of `redis://` URLs are where their URLs say.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// // Nodes call each other 172.18.0.2:6379 and so on; Docker publishes 172.18.0.2 as port 7002 of this host.
    /// let published = |host: &str, _port: u16| {
    ///     let last = host.rsplit('.').next()?.parse::<u16>().ok()?;
    ///     host.starts_with("172.18.0.").then(|| ("127.0.0.1".to_owned(), 7000 + last))
    /// };
    /// let builder = leasehold::Locker::builder().node("redis-cluster://127.0.0.1:7002");
    /// let locker = builder.map_address(published).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(any(feature = "cluster", feature = "sentinel"))]
    pub fn map_address(
        mut self,
        map: impl Fn(&str, u16) -> Option<(String, u16)> + Send + Sync + 'static,
    ) -> Self {
        self.mapped = Mapped::by(map);
        self
    }

    /// Calls `provide` for the credentials of servers whose URLs have none: a token that expires after
    /// some minutes, a password that is rotated.
    ///
    /// The library calls it for each connection, with the server's address: `host:port`, or the path of
    /// a socket. That includes nodes of a Cluster and the master of a service; Sentinels have
    /// [`Builder::sentinel_credentials_from`]. A locker has one connection to each server, and `provide` is called
    /// again each time it connects again. If credentials expire ([`Credentials::valid_for`]), `provide` is called
    /// before they do, and the live connection logs in again by `AUTH`, between other commands; leases go on.
    ///
    /// `provide` must answer within nine tenths of [`Builder::connect_timeout`], and must not block the
    /// thread. If it fails, panics or takes longer, the server is unavailable
    /// ([`Unavailable`](crate::ErrorKind::Unavailable)), and the error has the provider's text;
    /// credentials that the server refuses are [`Auth`](crate::ErrorKind::Auth). Both are tried
    /// again like any connection. On a live connection both are counted
    /// ([`Stats::logins_failed`](crate::Stats::logins_failed)), reported by
    /// [`Locker::warnings`](crate::Locker::warnings), and tried again after a pause; the connection stays
    /// until the server closes it.
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
    #[cfg(any(test, feature = "credentials"))]
    pub fn credentials<A, E>(
        mut self,
        provide: impl Fn(String) -> A + Send + Sync + 'static,
    ) -> Self
    where
        A: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: fmt::Display,
    {
        self.credentials = Some(provider(provide));
        self
    }

    /// Sets the login for the Sentinels of a `redis-sentinel://` URL; without a user, the default
    /// user's. None by default. The URL's own credentials are for the servers.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// let url = "redis-sentinel://app:secret@10.0.0.1,10.0.0.2,10.0.0.3/locks";
    /// let builder = leasehold::Locker::builder().node(url);
    /// let locker = builder.sentinel_credentials(Some("watcher"), "other secret").connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "sentinel")]
    pub fn sentinel_credentials(mut self, user: Option<&str>, password: impl Into<String>) -> Self {
        let user = user.map(str::to_owned);
        let credentials = Credentials { user, ..Credentials::password(password) };
        self.sentinel_login = Some(Login::Fixed(credentials));
        self
    }

    /// Calls `provide` for the credentials of Sentinels, as [`Builder::credentials`] does for servers.
    #[cfg(all(feature = "sentinel", any(test, feature = "credentials")))]
    pub fn sentinel_credentials_from<A, E>(
        mut self,
        provide: impl Fn(String) -> A + Send + Sync + 'static,
    ) -> Self
    where
        A: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: fmt::Display,
    {
        self.sentinel_login = Some(Login::Provided(provider(provide)));
        self
    }

    /// Sets the TTL of leases whose requests set none: 10 ms to 24 h, by default
    /// [`Builder::DEFAULT_TTL`], 10 s.
    ///
    /// The guide says [how to choose it](crate::guide#the-ttl).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    /// use leasehold::Locker;
    ///
    /// let builder = Locker::builder().node("redis://127.0.0.1:6379");
    /// // A crashed holder blocks others for up to 3 s.
    /// let locker = builder.ttl(Duration::from_secs(3)).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = ttl;
        self
    }

    /// Does not renew leases: each ends at its TTL unless [`Guard::extend`](crate::Guard::extend) is
    /// called. By default leases are renewed while their guards live.
    pub fn no_renewal(mut self) -> Self {
        self.defaults.is_renewed = false;
        self
    }

    /// Sets when requests without a policy of their own try again ([`LockRequest::retry`](crate::LockRequest::retry)):
    /// [`Retry::default`] by default.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.defaults.retry = retry;
        self
    }

    /// Sets the minimum validity that a granted lease must have left, for requests that set none: a tenth of the TTL by
    /// default. A grant with less left is released ([`LockRequest::min_validity`](crate::LockRequest::min_validity)).
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.defaults.min_validity = Some(min_validity);
        self
    }

    /// Sets the label of leases whose requests set none; at most 256 bytes, none by default.
    ///
    /// Other clients see it in their errors, so it should name this process to people.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use leasehold::Locker;
    ///
    /// let label = format!("billing, process {}", std::process::id());
    /// let locker = Locker::builder().node("redis://127.0.0.1:6379").label(&label).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.defaults.label = Some(Arc::from(label.as_ref()));
        self
    }

    /// Sets the prefix of every lock's key, to which the name is appended; empty by default.
    ///
    /// With a prefix the server's user needs rights to the keys below it only (docs/acl.md). A prefix
    /// with a hash tag, such as `{billing}:`, puts all locks into one slot of a Cluster.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// let builder = leasehold::Locker::builder().node("redis://127.0.0.1:6379");
    /// let locker = builder.key_prefix("billing:").connect().await?;
    /// let guard = locker.lock("invoice:42").await?;
    /// assert_eq!(guard.name(), b"billing:invoice:42");
    /// # Ok(())
    /// # }
    /// ```
    pub fn key_prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.defaults.prefix = prefix.as_ref().to_vec();
        self
    }
}

#[cfg(any(test, feature = "credentials"))]
fn provider<A, E>(provide: impl Fn(String) -> A + Send + Sync + 'static) -> Provider
where
    A: Future<Output = Result<Credentials, E>> + Send + 'static,
    E: fmt::Display,
{
    Provider::new(provide)
}

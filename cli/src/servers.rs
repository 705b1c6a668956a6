//! Which servers to use, and how to connect.

use std::ffi::OsString;
use std::future::{Ready, ready};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::FalseyValueParser;
use leasehold::{Builder, Credentials, Locker, Tls};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::exit::Failure;
use crate::times::duration;
use crate::waits::Until;
use crate::words::plain;

/// The library's default.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The library's maximum.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);
/// The library's maximum TTL.
const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum wait for a pipe's content if the caller gives no limit: the program that fetches a secret may be slow.
pub const PIPES_WITHIN: Duration = Duration::from_secs(10);
/// Maximum round trips of a connection, with TLS and an old server's second greeting.
const CONNECT_ROUND_TRIPS: u32 = 4;

/// Which servers, and how to connect.
#[derive(Debug, clap::Args)]
pub struct Servers {
    /// URL of a server: redis://, rediss://, redis+unix://, redis-cluster:// or redis-sentinel://, or
    /// the same with valkey for redis. Several URLs make a Redlock; in LEASEHOLD_URL, separate them
    /// with spaces. leasehold hides a URL's password from ps
    #[arg(
        long = "url",
        short = 'u',
        value_name = "URL",
        env = "LEASEHOLD_URL",
        hide_env_values = true,
        value_delimiter = ' ',
        global = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    pub urls: Vec<String>,

    /// Number of servers that must grant a lock; without it a majority
    #[arg(long, value_name = "SERVERS", global = true)]
    quorum: Option<usize>,

    /// Prefix of every lock's key
    #[arg(long, value_name = "PREFIX", default_value = "", global = true)]
    pub key_prefix: OsString,

    /// Whether a restarted server must not vote until all leases that it may have forgotten have
    /// ended; without it on with several servers, off with one
    #[arg(long, value_name = "WHETHER", global = true)]
    restart_quarantine: Option<Switch>,

    /// Longest TTL of any lock on these servers, its lock delay included: a restarted server does not vote for that long. By
    /// default that of this command; where clients have different TTLs, give all of them the longest
    #[arg(long, value_name = "TIME", global = true, value_parser = duration, conflicts_with = "failover_grace")]
    max_ttl: Option<Duration>,

    /// Grant nothing new for this long after a primary with asynchronous replicas failed over, so that no lock is
    /// granted beside its holder: the longest TTL of any lock on these servers. All clients need it, and the same
    #[arg(long, value_name = "LONGEST-TTL", global = true, value_parser = duration)]
    failover_grace: Option<Duration>,

    /// Refuse servers that may evict keys
    #[arg(long, global = true)]
    pub refuse_evicting: bool,

    /// Take locks without scripts, on servers that run none but know SET .. IFEQ (Redis 8.4, Valkey 8.1, or later): waiters
    /// have no order. For run without --shared, --permits, --steal, --adopt and --ticket, for bench and for doctor
    #[arg(
        long,
        global = true,
        env = "LEASEHOLD_SCRIPTLESS",
        hide_env_values = true,
        value_parser = FalseyValueParser::new()
    )]
    pub scriptless: bool,

    /// How long a server may take to answer a command; to connect, a server has four times as long, and at
    /// least 2s. Raise it for servers that are far away. Without it 500ms, and with several servers a twentieth
    /// of the TTL, from 50ms to 500ms
    #[arg(long, value_name = "TIME", global = true, value_parser = duration)]
    pub command_timeout: Option<Duration>,

    /// Where to reach a server that a Cluster's nodes or Sentinels name, behind NAT or in containers, as in
    /// 172.18.0.2:6379=127.0.0.1:7002; may be given several times
    #[arg(long, value_name = "NAMED=REACHED", global = true, value_parser = mapping)]
    map_address: Vec<Mapping>,

    /// User to log in as, with --password-file, for URLs without a user
    #[arg(long, value_name = "NAME", global = true)]
    user: Option<String>,

    /// File with the password for URLs without one, in its first line. leasehold reads a file at every
    /// connection, and a descriptor, such as /dev/fd/3, once
    #[arg(long, value_name = "FILE", global = true)]
    password_file: Option<PathBuf>,

    /// User to log in as at Sentinels, with --sentinel-password-file
    #[arg(long, value_name = "NAME", global = true)]
    sentinel_user: Option<String>,

    /// File with the password of Sentinels that have one of their own, as --password-file has that of servers
    #[arg(long, value_name = "FILE", global = true)]
    sentinel_password_file: Option<PathBuf>,

    /// PEM file of CAs to trust instead of the platform's; may be given several times
    #[arg(long, value_name = "FILE", global = true)]
    ca: Vec<PathBuf>,

    /// PEM file of the client certificate for servers that ask for one, followed by its issuers'
    /// certificates; needs --key
    #[arg(long, value_name = "FILE", global = true)]
    cert: Option<PathBuf>,

    /// PEM file of the private key of --cert
    #[arg(long, value_name = "FILE", global = true)]
    key: Option<PathBuf>,
}

/// A host and port, and the ones to dial instead.
type Mapping = ((String, u16), (String, u16));

fn mapping(text: &str) -> Result<Mapping, String> {
    let form =
        || "two addresses with = between them, as in 172.18.0.2:6379=127.0.0.1:7002".to_owned();
    let address = |text: &str| {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Some((host.to_owned(), port.parse::<u16>().ok().filter(|_| !host.is_empty())?))
    };
    let (named, reached) = text.split_once('=').ok_or_else(form)?;
    address(named).zip(address(reached)).ok_or_else(form)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl Servers {
    /// A builder for these servers. Waits for the content of pipes within this time; None is without a limit.
    pub async fn builder(&self, pipes_within: Option<Duration>) -> Result<Builder, Failure> {
        self.read_pipes(pipes_within).await?;
        // Removes the empty texts between repeated spaces of LEASEHOLD_URL.
        let urls = self.urls.iter().map(|url| url.trim()).filter(|url| !url.is_empty());
        if urls.clone().next().is_none() {
            return Err(Failure::Options("no URL was given: LEASEHOLD_URL, or --url, is empty"));
        }
        let builder = Locker::builder().nodes(urls);
        let mut builder = builder.key_prefix(self.key_prefix.as_bytes());
        if let Some(servers) = self.quorum {
            builder = builder.quorum(servers);
        }
        builder = builder.connect_timeout(self.connect_timeout());
        if let Some(timeout) = self.command_timeout {
            builder = builder.command_timeout(timeout);
        }
        if let Some(switch) = self.restart_quarantine {
            builder = builder.restart_quarantine(switch == Switch::On);
        }
        if !self.map_address.is_empty() {
            let mappings = self.map_address.clone();
            builder = builder.map_address(move |host, port| {
                let is_it = |(named, _): &&Mapping| named.0 == host && named.1 == port;
                mappings.iter().find(is_it).map(|(_, reached)| reached.clone())
            });
        }
        if let Some(longest) = self.failover_grace {
            builder = builder.failover_grace(true).max_ttl(longest);
        }
        if let Some(longest) = self.max_ttl {
            builder = builder.max_ttl(longest);
        }
        if self.refuse_evicting {
            builder = builder.refuse_evicting();
        }
        if self.scriptless {
            builder = builder.scriptless();
        }
        if let Some(tls) = self.tls()? {
            builder = builder.tls(tls);
        }
        self.logged_in(builder)
    }

    /// Reads descriptors and pipes, which may block.
    async fn read_pipes(&self, within: Option<Duration>) -> Result<(), Failure> {
        let until = Until::after(within);
        let files = [&self.password_file, &self.sentinel_password_file, &self.cert, &self.key];
        for file in files.into_iter().flatten().chain(&self.ca).filter(|file| is_pipe(file)) {
            let (told, came) = oneshot::channel();
            let from = file.clone();
            // On a thread of its own: the runtime would wait for a writer even when this process is to end.
            thread::spawn(move || told.send(read(&from).map(drop)));
            let came = timeout(until.left().unwrap_or(Duration::MAX), came).await;
            let came = came.unwrap_or_else(|_| Ok(Err(late(within.unwrap_or_default()))));
            let came = came.unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()));
            came.map_err(|error| unread(file, error))?;
        }
        Ok(())
    }

    /// A builder for a lock of this TTL and lock delay.
    pub async fn builder_for(
        &self,
        ttl: Duration,
        lock_delay: Option<Duration>,
        pipes_within: Option<Duration>,
    ) -> Result<Builder, Failure> {
        let builder = self.builder(pipes_within).await?.ttl(ttl);
        let is_said = self.max_ttl.or(self.failover_grace).is_some();
        Ok(match lock_delay.filter(|_| !is_said) {
            // One server does not need this: there the delay may be as long by itself.
            Some(delay) => builder.max_ttl(ttl.saturating_add(delay).min(TTL_MAX)),
            None => builder,
        })
    }

    /// The timeout of one attempt to connect.
    pub fn connect_timeout(&self) -> Duration {
        let of_commands = self.command_timeout.unwrap_or_default();
        let most = of_commands.saturating_mul(CONNECT_ROUND_TRIPS);
        most.clamp(CONNECT_TIMEOUT, CONNECT_TIMEOUT_MAX)
    }

    /// None if there are no TLS options.
    fn tls(&self) -> Result<Option<Tls>, Failure> {
        let read = |file: &PathBuf| read(file).map_err(|error| unread(file, error));
        let mut tls = Tls::new();
        for file in &self.ca {
            tls = if is_pipe(file) { tls.ca_pem(read(file)?) } else { tls.ca_file(file) };
        }
        match (&self.cert, &self.key) {
            (None, None) => Ok((!self.ca.is_empty()).then_some(tls)),
            (Some(cert), Some(key)) => {
                Ok(Some(tls.client_certificate_pem(read(cert)?, read(key)?)))
            }
            _ => Err(Failure::Options("--cert and --key must be given together")),
        }
    }

    fn logged_in(&self, mut builder: Builder) -> Result<Builder, Failure> {
        match (&self.user, &self.password_file) {
            (user, Some(file)) => builder = builder.credentials(provider(user, file)?),
            (None, None) => {}
            (Some(_), None) => return Err(Failure::Options("--user needs --password-file")),
        }
        match (&self.sentinel_user, &self.sentinel_password_file) {
            (user, Some(file)) => Ok(builder.sentinel_credentials_from(provider(user, file)?)),
            (None, None) => Ok(builder),
            (Some(_), None) => {
                Err(Failure::Options("--sentinel-user needs --sentinel-password-file"))
            }
        }
    }
}

/// Reads credentials for each connection: a file may be rotated; a descriptor is read once.
fn provider(
    user: &Option<String>,
    file: &Path,
) -> Result<impl Fn(String) -> Ready<io::Result<Credentials>> + Send + Sync + use<>, Failure> {
    first_line(file).map_err(|error| unread(file, error))?;
    let (user, file) = (user.clone(), file.to_owned());
    Ok(move |_| {
        ready(first_line(&file).map(|password| match user.clone() {
            Some(user) => Credentials::new(user, password),
            None => Credentials::password(password),
        }))
    })
}

fn first_line(file: &Path) -> io::Result<String> {
    let text = String::from_utf8(read(file)?);
    let text = text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))?;
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// The present content of a file; for a descriptor or a pipe what was read once, because later connections need it too.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    static READ: Mutex<Vec<(PathBuf, Vec<u8>)>> = Mutex::new(Vec::new());
    let known = || READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, text)) = known().iter().find(|(from, _)| from == file) {
        return Ok(text.clone());
    }
    let text = std::fs::read(file)?;
    if is_pipe(file) {
        known().push((file.to_owned(), text.clone()));
    }
    Ok(text)
}

fn is_pipe(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|it| !it.is_file())
}

/// The writer of a pipe has not written, or not closed it, in time.
fn late(within: Duration) -> io::Error {
    let why = format!("its writer has not come to an end within {within:?}");
    io::Error::new(io::ErrorKind::TimedOut, why)
}

fn unread(file: &Path, error: io::Error) -> Failure {
    Failure::Unread(plain(file.as_os_str().as_encoded_bytes()), error)
}

//! What a URL leads to: one server, a cluster, or a server that Sentinels know.

use std::fmt;

use super::pieces::Pieces;
use super::{Credentials, Endpoint, InvalidEndpoint, Login, percent, shown_user};
use crate::net::transport::Address;

const SERVER_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// What a URL leads to:
///
/// - `redis://[[user]:password@]host[:port][/db]`
/// - `redis+unix://[[user]:password@]/path/to.sock`, or `unix://` for short
/// - `redis-cluster://[[user]:password@]host[:port][,host[:port]...][/db]`
/// - `redis-sentinel://[[user]:password@]host[:port][,host[:port]...]/service`
///
/// with `?db=N` as another way, or a socket's and a service's only one, to choose the database; most
/// clusters have only 0, and those of Valkey 9 what `cluster-databases` says. All but the sockets are reached over TLS where `rediss` stands for `redis`.
/// `valkey` means what `redis` does in each of these, and `valkeys` what `rediss` does. User,
/// password, path and service are percent-encoded; an IPv6 address stands in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One server.
    Server(Endpoint),
    /// Some nodes of a cluster.
    Cluster {
        /// At least one, all with the same credentials, database and `tls`.
        seeds: Vec<Endpoint>,
    },
    /// The server that is the primary of a service.
    Sentinel {
        /// At least one.
        sentinels: Vec<Address>,
        /// What the Sentinels call the primary and its replicas; never empty.
        service: String,
        /// For the service's servers, not for the Sentinels.
        credentials: Option<Credentials>,
        /// Which database of the service's servers to select.
        database: u32,
        /// Whether the Sentinels and the servers are reached over TLS.
        tls: bool,
    },
}

impl Target {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// [`InvalidEndpoint`] says which part of the URL is wrong and what a right one looks like.
    pub fn parse(url: &str) -> Result<Self, InvalidEndpoint> {
        if url.contains(|character: char| character.is_control() || character.is_whitespace()) {
            return Err(InvalidEndpoint::Unprintable);
        }
        let (scheme, rest) = url.split_once("://").ok_or(InvalidEndpoint::MissingScheme)?;
        let pieces = Pieces::split(rest);
        match canonical(scheme).as_str() {
            "redis" => server(&pieces?, false),
            "rediss" => server(&pieces?, true),
            #[cfg(unix)]
            "redis+unix" | "unix" => socket(&pieces?),
            "redis-cluster" => cluster(&pieces?, false),
            "rediss-cluster" => cluster(&pieces?, true),
            "redis-sentinel" => sentinel(&pieces?, false),
            "rediss-sentinel" => sentinel(&pieces?, true),
            _ => Err(InvalidEndpoint::scheme(scheme)),
        }
    }
}

#[cfg(any(test, fuzzing))]
impl Target {
    /// What the URL said.
    pub fn credentials(&self) -> Option<&Credentials> {
        let login = match self {
            Self::Server(endpoint) => &endpoint.login,
            Self::Cluster { seeds } => &seeds[0].login,
            Self::Sentinel { credentials, .. } => return credentials.as_ref(),
        };
        let Some(Login::Fixed(credentials)) = login else { return None };
        Some(credentials)
    }
}

/// The scheme in lower case, and as Redis's where it is Valkey's name for the same.
fn canonical(scheme: &str) -> String {
    let scheme = scheme.to_ascii_lowercase();
    match scheme.strip_prefix("valkey") {
        Some(kind) => format!("redis{kind}"),
        None => scheme,
    }
}

fn server(pieces: &Pieces<'_>, tls: bool) -> Result<Target, InvalidEndpoint> {
    let address = pieces.address(SERVER_PORT)?;
    let database = pieces.database()?;
    let login = pieces.credentials()?.map(Login::Fixed);
    Ok(Target::Server(Endpoint { address, login, database, tls }))
}

#[cfg(unix)]
fn socket(pieces: &Pieces<'_>) -> Result<Target, InvalidEndpoint> {
    let address = pieces.socket()?;
    let database = pieces.database_in_query()?.unwrap_or(0);
    let login = pieces.credentials()?.map(Login::Fixed);
    Ok(Target::Server(Endpoint { address, login, database, tls: false }))
}

fn cluster(pieces: &Pieces<'_>, tls: bool) -> Result<Target, InvalidEndpoint> {
    let addresses = pieces.addresses(SERVER_PORT)?;
    let database = pieces.database()?;
    let login = pieces.credentials()?.map(Login::Fixed);
    let seed = |address| Endpoint { address, login: login.clone(), database, tls };
    Ok(Target::Cluster { seeds: addresses.into_iter().map(seed).collect() })
}

fn sentinel(pieces: &Pieces<'_>, tls: bool) -> Result<Target, InvalidEndpoint> {
    Ok(Target::Sentinel {
        sentinels: pieces.addresses(SENTINEL_PORT)?,
        service: pieces.service()?,
        database: pieces.database_in_query()?.unwrap_or(0),
        credentials: pieces.credentials()?,
        tls,
    })
}

/// As a URL without the password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(endpoint) => endpoint.fmt(f),
            Self::Cluster { seeds } => {
                let first = seeds.first();
                let tls = if first.is_some_and(|seed| seed.tls) { "s" } else { "" };
                let user = shown_user(first.and_then(|seed| seed.login.as_ref()?.user()));
                write!(f, "redis{tls}-cluster://{user}")?;
                write_list(f, seeds.iter().map(|seed| &seed.address))?;
                match first.map_or(0, |seed| seed.database) {
                    0 => Ok(()),
                    database => write!(f, "/{database}"),
                }
            }
            Self::Sentinel { sentinels, service, credentials, database, tls } => {
                let tls = if *tls { "s" } else { "" };
                let user = credentials.as_ref().and_then(|it| it.user.as_deref());
                write!(f, "redis{tls}-sentinel://{}", shown_user(user))?;
                write_list(f, sentinels)?;
                write!(f, "/{}?db={database}", percent::encode(service.as_bytes()))
            }
        }
    }
}

fn write_list<'a>(
    f: &mut fmt::Formatter<'_>,
    addresses: impl IntoIterator<Item = &'a Address>,
) -> fmt::Result {
    for (index, address) in addresses.into_iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(f, "{comma}{address}")?;
    }
    Ok(())
}

//! What a URL leads to: one server, a cluster, or a server that Sentinels know.

use std::fmt;

use super::pieces::Pieces;
use super::server::PORT;
use super::{Endpoint, InvalidEndpoint, Login, Seeds, Watched};
use crate::net::transport::Address;
use crate::policy::parts::{lower, parted};

/// What a URL leads to:
///
/// - `redis://[[user]:password@]host[:port][/db]`
/// - `redis+unix://[[user]:password@]/path/to.sock`, or `unix://` for short
/// - `redis-cluster://[[user]:password@]host[:port][,host[:port]...][/db]`
/// - `redis-sentinel://[[user]:password@]host[:port][,host[:port]...]/service`
///
/// `?db=N` chooses the database too, and is the only way to for sockets and services; most Clusters have only 0, and
/// those of Valkey 9 as many as `cluster-databases` says. `rediss` instead of `redis` means TLS, except for sockets.
/// `valkey` means `redis`, and `valkeys` `rediss`. User, password, path and service are percent-encoded; an IPv6
/// address stands in brackets, and its zone behind a `%25`. Of other clients' parameters, `?database=N` and
/// `?protocol=3` are read, and others are refused by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One server.
    Server(Endpoint),
    /// Some nodes of a cluster.
    Cluster(Seeds),
    /// The server that is the primary of a service.
    Sentinel(Watched),
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
        let (scheme, rest) = parted(url, "://").ok_or(InvalidEndpoint::MissingScheme)?;
        let pieces = Pieces::split(rest);
        let canonical = canonical(scheme);
        let plain = canonical.strip_prefix("rediss");
        let (tls, kind) = (plain.is_some(), plain.or(canonical.strip_prefix("redis")));
        match (kind, canonical.as_str()) {
            (Some(""), _) => {
                let pieces = pieces?;
                let (address, database) = (pieces.address(PORT)?, pieces.database()?);
                server(&pieces, address, database, tls)
            }
            #[cfg(unix)]
            (_, "redis+unix" | "unix") => {
                let pieces = pieces?;
                let (address, database) = (pieces.socket()?, pieces.database_in_query()?);
                server(&pieces, address, database.unwrap_or(0), false)
            }
            (Some("-cluster"), _) => Seeds::parse(&pieces?, tls).map(Self::Cluster),
            (Some("-sentinel"), _) => Watched::parse(&pieces?, tls).map(Self::Sentinel),
            _ => Err(InvalidEndpoint::scheme(scheme)),
        }
    }
}

#[cfg(all(any(test, fuzzing), feature = "cluster", feature = "sentinel"))]
impl Target {
    /// The credentials in the URL.
    pub fn credentials(&self) -> Option<&super::Credentials> {
        let endpoint = match self {
            Self::Server(endpoint) => endpoint,
            Self::Cluster(seeds) => &seeds.endpoints()[0],
            Self::Sentinel(watched) => &watched.template,
        };
        let Some(Login::Fixed(credentials)) = &endpoint.login else { return None };
        Some(credentials)
    }
}

/// The scheme in lower case, with Redis's name instead of Valkey's.
fn canonical(scheme: &str) -> String {
    let scheme = lower(scheme);
    match scheme.strip_prefix("valkey") {
        Some(kind) => format!("redis{kind}"),
        None => scheme,
    }
}

/// One server, with the URL's address and database.
fn server(
    pieces: &Pieces<'_>,
    address: Address,
    database: u32,
    tls: bool,
) -> Result<Target, InvalidEndpoint> {
    let login = pieces.credentials()?.map(Login::Fixed);
    Ok(Target::Server(Endpoint { address, login, database, tls }))
}

/// As a URL without the password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(endpoint) => endpoint.fmt(f),
            Self::Cluster(seeds) => seeds.fmt(f),
            Self::Sentinel(watched) => watched.fmt(f),
        }
    }
}

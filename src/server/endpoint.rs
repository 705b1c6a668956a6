//! Where a server is and how to log in: the URL that the user gives.
//!
//! Nothing is resolved or opened here. A URL can hold a password, and a mistyped one can hold it
//! anywhere, so no error, no `Debug` and no `Display` of this module repeats what it read: see
//! [`InvalidEndpoint`].

use std::fmt;
use std::net::Ipv6Addr;

mod invalid;
mod percent;
#[cfg(test)]
mod tests;

pub use invalid::{InvalidEndpoint, Part};

use crate::net::transport::Address;

/// The port of a URL that names none.
const DEFAULT_PORT: u16 = 6379;

/// One server, as its URL describes it:
///
/// - `redis://[[user]:password@]host[:port][/db]`
/// - `redis+unix://[[user]:password@]/path/to.sock`, or `unix://` for short
///
/// with `?db=N` as another way to choose the database. User, password and path are
/// percent-encoded; an IPv6 address stands in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where to connect to.
    pub address: Address,
    /// How to log in; none where the URL has no password.
    pub credentials: Option<Credentials>,
    /// Which database to select.
    pub database: u32,
}

/// How to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// None is the server's default user.
    pub user: Option<String>,
    /// Never empty.
    pub password: Secret,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text` from being shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, to be sent and never to be shown.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Endpoint {
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
        let into_endpoint = match scheme.to_ascii_lowercase().as_str() {
            "redis" => Pieces::into_tcp,
            #[cfg(unix)]
            "redis+unix" | "unix" => Pieces::into_unix,
            _ => return Err(InvalidEndpoint::scheme(scheme)),
        };
        into_endpoint(Pieces::split(rest)?)
    }
}

/// What stands behind `://`, cut at its delimiters and not yet judged.
struct Pieces<'a> {
    userinfo: Option<&'a str>,
    host_and_port: &'a str,
    /// Empty, or from the first slash on.
    path: &'a str,
    query: Option<&'a str>,
}

impl<'a> Pieces<'a> {
    fn split(rest: &'a str) -> Result<Self, InvalidEndpoint> {
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(authority_end);
        // An '@' here most likely ends a password that holds a '/', a '?' or a '#'. To go on would
        // take the password's first half for a host and its second half for a path, and show both.
        if tail.contains('@') {
            return Err(InvalidEndpoint::UnencodedDelimiter);
        }
        if tail.contains('#') {
            return Err(InvalidEndpoint::Fragment);
        }
        let (userinfo, host_and_port) = match authority.rsplit_once('@') {
            Some((userinfo, host_and_port)) => (Some(userinfo), host_and_port),
            None => (None, authority),
        };
        let (path, query) = match tail.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (tail, None),
        };
        Ok(Self { userinfo, host_and_port, path, query })
    }

    fn into_tcp(self) -> Result<Endpoint, InvalidEndpoint> {
        let (host, port) = parse_host_and_port(self.host_and_port)?;
        let from_path = match self.path {
            "" | "/" => None,
            path => Some(parse_database(&path[1..])?),
        };
        let database = match (from_path, self.database_in_query()?) {
            (Some(_), Some(_)) => return Err(InvalidEndpoint::DatabaseTwice),
            (from_path, from_query) => from_path.or(from_query).unwrap_or(0),
        };
        let address = Address::Tcp { host: host.to_owned(), port };
        Ok(Endpoint { address, credentials: self.credentials()?, database })
    }

    #[cfg(unix)]
    fn into_unix(self) -> Result<Endpoint, InvalidEndpoint> {
        use std::ffi::OsString;
        use std::os::unix::ffi::OsStringExt;

        if !self.host_and_port.is_empty() {
            return Err(InvalidEndpoint::HostBeforeSocketPath);
        }
        let path = percent::decode(self.path, Part::SocketPath)?;
        if path.is_empty() || path == b"/" {
            return Err(InvalidEndpoint::MissingSocketPath);
        }
        if path.contains(&0) {
            return Err(InvalidEndpoint::NulInSocketPath);
        }
        let database = self.database_in_query()?.unwrap_or(0);
        let address = Address::Unix { path: OsString::from_vec(path).into() };
        Ok(Endpoint { address, credentials: self.credentials()?, database })
    }

    fn credentials(&self) -> Result<Option<Credentials>, InvalidEndpoint> {
        let Some(userinfo) = self.userinfo else {
            return Ok(None);
        };
        // Where a variable was not filled in, saying so is better than a login that fails.
        let (user, password) = match userinfo.split_once(':') {
            None | Some((_, "")) => return Err(InvalidEndpoint::MissingPassword),
            Some(both) => both,
        };
        let user = percent::decode_text(user, Part::User)?;
        let password = Secret::new(percent::decode_text(password, Part::Password)?);
        Ok(Some(Credentials { user: (!user.is_empty()).then_some(user), password }))
    }

    fn database_in_query(&self) -> Result<Option<u32>, InvalidEndpoint> {
        let Some(query) = self.query else {
            return Ok(None);
        };
        let mut database = None;
        for parameter in query.split('&') {
            let Some(number) = parameter.strip_prefix("db=") else {
                return Err(InvalidEndpoint::UnknownParameter);
            };
            if database.replace(parse_database(number)?).is_some() {
                return Err(InvalidEndpoint::DatabaseTwice);
            }
        }
        Ok(database)
    }
}

fn parse_host_and_port(text: &str) -> Result<(&str, u16), InvalidEndpoint> {
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed.split_once(']').ok_or(InvalidEndpoint::Ipv6)?;
            host.parse::<Ipv6Addr>().map_err(|_| InvalidEndpoint::Ipv6)?;
            let port = match rest {
                "" => None,
                rest => Some(rest.strip_prefix(':').ok_or(InvalidEndpoint::Port)?),
            };
            (host, port)
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(InvalidEndpoint::Ipv6),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(InvalidEndpoint::MissingHost);
    }
    if host.contains(['[', ']', '%', '\\', '"', '<', '>', '^', '`', '{', '|', '}']) {
        return Err(InvalidEndpoint::Host);
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => parse_digits(port).filter(|port| *port != 0).ok_or(InvalidEndpoint::Port)?,
    };
    Ok((host, port))
}

fn parse_database(text: &str) -> Result<u32, InvalidEndpoint> {
    parse_digits(text).ok_or(InvalidEndpoint::Database)
}

/// Digits only: `str::parse` takes a `+` as well.
fn parse_digits<T: std::str::FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// As a URL without the password.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, credentials, database } = self;
        let user = credentials.as_ref().and_then(|credentials| credentials.user.as_ref());
        let user = user.map(|user| percent::encode(user.as_bytes()) + "@").unwrap_or_default();
        match address {
            Address::Tcp { .. } => write!(f, "redis://{user}{address}/{database}"),
            #[cfg(unix)]
            Address::Unix { path } => {
                let path = percent::encode_path(path.as_os_str().as_encoded_bytes());
                write!(f, "redis+unix://{user}{path}?db={database}")
            }
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

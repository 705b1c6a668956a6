//! Cuts a URL at its delimiters, and reads each of its parts.

#[cfg(any(feature = "cluster", feature = "sentinel"))]
use std::net::Ipv6Addr;

use super::{Credentials, InvalidEndpoint, Part, Secret, percent};
#[cfg(any(feature = "cluster", feature = "sentinel"))]
use super::{Endpoint, Login};
use crate::endpoint::host;
use crate::net::transport::Address;
use crate::policy::number;
use crate::policy::parts::{has, parted, split};

/// The text behind `://`, cut at its delimiters and not yet checked.
pub(super) struct Pieces<'a> {
    userinfo: Option<&'a str>,
    hosts: &'a str,
    /// Empty, or the text from the first slash on.
    path: &'a str,
    query: Option<&'a str>,
}

impl<'a> Pieces<'a> {
    pub(super) fn split(rest: &'a str) -> Result<Self, InvalidEndpoint> {
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(authority_end);
        // An '@' here most likely ends a password with a '/', '?' or '#' in it. Reading on would take the password's
        // halves for a host and a path, and show both.
        if has(tail, "@") {
            return Err(InvalidEndpoint::UnencodedDelimiter);
        }
        if has(tail, "#") {
            return Err(InvalidEndpoint::Fragment);
        }
        let (userinfo, hosts) = match authority.rsplit_once('@') {
            Some((userinfo, hosts)) => (Some(userinfo), hosts),
            None => (None, authority),
        };
        let (path, query) = match parted(tail, "?") {
            Some((path, query)) => (path, Some(query)),
            None => (tail, None),
        };
        Ok(Self { userinfo, hosts, path, query })
    }

    /// The host, if there is exactly one.
    pub(super) fn address(&self, default_port: u16) -> Result<Address, InvalidEndpoint> {
        if has(self.hosts, ",") {
            return Err(InvalidEndpoint::UnexpectedList);
        }
        parse_address(self.hosts, default_port)
    }

    /// The hosts of the list, at least one and all different, each with the URL's settings.
    #[cfg(any(feature = "cluster", feature = "sentinel"))]
    pub(super) fn endpoints(
        &self,
        default_port: u16,
        database: u32,
        tls: bool,
    ) -> Result<Vec<Endpoint>, InvalidEndpoint> {
        let addresses = self.addresses(default_port)?;
        let login = self.credentials()?.map(Login::Fixed);
        let endpoint = |address| Endpoint { address, login: login.clone(), database, tls };
        Ok(addresses.into_iter().map(endpoint).collect())
    }

    #[cfg(any(feature = "cluster", feature = "sentinel"))]
    fn addresses(&self, default_port: u16) -> Result<Vec<Address>, InvalidEndpoint> {
        // In "h1:1,u:pw@h2" all before the '@' would be a login, and a host would be lost.
        if self.userinfo.is_some_and(|it| has(it, "@") || has(it, ",")) {
            return Err(InvalidEndpoint::AmbiguousLogin);
        }
        if self.hosts.is_empty() {
            return Err(InvalidEndpoint::MissingHost);
        }
        let mut addresses = Vec::new();
        for text in split(self.hosts, ",") {
            if text.is_empty() {
                return Err(InvalidEndpoint::GapInList);
            }
            let address = parse_address(text, default_port)?;
            if addresses.iter().any(|other| is_same(other, &address)) {
                return Err(InvalidEndpoint::HostTwice);
            }
            addresses.push(address);
        }
        Ok(addresses)
    }

    #[cfg(unix)]
    pub(super) fn socket(&self) -> Result<Address, InvalidEndpoint> {
        use std::ffi::OsString;
        use std::os::unix::ffi::OsStringExt;

        if !self.hosts.is_empty() {
            return Err(InvalidEndpoint::HostBeforeSocketPath);
        }
        let path = percent::decode(self.path, Part::SocketPath)?;
        if path.is_empty() || path == b"/" {
            return Err(InvalidEndpoint::MissingSocketPath);
        }
        if path.contains(&0) {
            return Err(InvalidEndpoint::NulInSocketPath);
        }
        Ok(Address::Unix { path: OsString::from_vec(path).into() })
    }

    #[cfg(feature = "sentinel")]
    pub(super) fn service(&self) -> Result<String, InvalidEndpoint> {
        let name = self.path.strip_prefix('/').unwrap_or_default();
        if name.is_empty() {
            return Err(InvalidEndpoint::MissingService);
        }
        if has(name, "/") {
            return Err(InvalidEndpoint::SlashInService);
        }
        percent::decode_text(name, Part::Service)
    }

    // Never inlined: several kinds of URLs use it.
    #[cfg_attr(any(feature = "cluster", feature = "sentinel"), inline(never))]
    pub(super) fn credentials(&self) -> Result<Option<Credentials>, InvalidEndpoint> {
        let Some(userinfo) = self.userinfo else {
            return Ok(None);
        };
        // An empty password may be a variable that was not filled in: an error here is clearer than a failed login.
        let (user, password) = match parted(userinfo, ":") {
            None | Some((_, "")) => return Err(InvalidEndpoint::MissingPassword),
            Some(both) => both,
        };
        let user = percent::decode_text(user, Part::User)?;
        let password = Secret::new(percent::decode_text(password, Part::Password)?);
        let user = (!user.is_empty()).then_some(user);
        Ok(Some(Credentials { user, password, valid_for: None }))
    }

    /// The database in the path or the query.
    #[cfg_attr(any(feature = "cluster", feature = "sentinel"), inline(never))]
    pub(super) fn database(&self) -> Result<u32, InvalidEndpoint> {
        let path = self.path.strip_prefix('/').unwrap_or_default();
        // A slash may follow the number.
        let from_path = match path.strip_suffix('/').unwrap_or(path) {
            "" => None,
            number => Some(parse_database(number)?),
        };
        match (from_path, self.database_in_query()?) {
            (Some(_), Some(_)) => Err(InvalidEndpoint::DatabaseTwice),
            (from_path, from_query) => Ok(from_path.or(from_query).unwrap_or(0)),
        }
    }

    /// The database in the query, for URLs whose path is something else.
    #[cfg_attr(any(feature = "cluster", feature = "sentinel"), inline(never))]
    pub(super) fn database_in_query(&self) -> Result<Option<u32>, InvalidEndpoint> {
        let Some(query) = self.query else {
            return Ok(None);
        };
        let mut database = None;
        for parameter in split(query, "&") {
            let (name, value) = parted(parameter, "=").unwrap_or((parameter, ""));
            match name {
                "db" | "database" => {
                    if database.replace(parse_database(value)?).is_some() {
                        return Err(InvalidEndpoint::DatabaseTwice);
                    }
                }
                // Accepted: the library uses RESP3 if the server does.
                "protocol" if ["3", "resp3"].contains(&value) => {}
                name => return Err(InvalidEndpoint::parameter(name)),
            }
        }
        Ok(database)
    }
}

fn parse_address(text: &str, default_port: u16) -> Result<Address, InvalidEndpoint> {
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = parted(bracketed, "]").ok_or(InvalidEndpoint::Ipv6)?;
            let port = match rest {
                "" => None,
                rest => Some(rest.strip_prefix(':').ok_or(InvalidEndpoint::Port)?),
            };
            (parse_ipv6(host)?, port)
        }
        None => match parted(text, ":") {
            Some((_, port)) if has(port, ":") => return Err(InvalidEndpoint::Ipv6),
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), None),
        },
    };
    if host.is_empty() {
        return Err(InvalidEndpoint::MissingHost);
    }
    let is_name = !has(&host, ":");
    if host.bytes().any(|byte| br#"[]\"<>^`{|}"#.contains(&byte)) || is_name && has(&host, "%") {
        return Err(InvalidEndpoint::Host);
    }
    let port = match port {
        None => default_port,
        Some(port) => parse_digits(port).filter(|port| *port != 0).ok_or(InvalidEndpoint::Port)?,
    };
    Ok(Address::Tcp { host, port })
}

/// The host in brackets. RFC 6874 percent-encodes the `%` before a zone.
fn parse_ipv6(text: &str) -> Result<String, InvalidEndpoint> {
    let host = match parted(text, "%25") {
        Some((address, zone)) => format!("{address}%{zone}"),
        None => text.to_owned(),
    };
    let is_it = has(&host, ":") && host::read(host.as_bytes()).is_some();
    if is_it { Ok(host) } else { Err(InvalidEndpoint::Ipv6) }
}

/// Whether both have the same host and port, as texts: no name is resolved.
#[cfg(any(feature = "cluster", feature = "sentinel"))]
fn is_same(one: &Address, other: &Address) -> bool {
    match (one, other) {
        (Address::Tcp { host, port }, Address::Tcp { host: other_host, port: other_port }) => {
            port == other_port && is_same_host(host, other_host)
        }
        #[cfg(unix)]
        _ => one == other,
    }
}

#[cfg(any(feature = "cluster", feature = "sentinel"))]
fn is_same_host(one: &str, other: &str) -> bool {
    match (one.parse::<Ipv6Addr>(), other.parse::<Ipv6Addr>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one.eq_ignore_ascii_case(other),
    }
}

fn parse_database(text: &str) -> Result<u32, InvalidEndpoint> {
    parse_digits(text).ok_or(InvalidEndpoint::Database)
}

/// Digits only: `str::parse` takes a `+` as well.
fn parse_digits<T: TryFrom<u64>>(text: &str) -> Option<T> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { number(text.as_bytes()) } else { None }
}

//! Where a node of a cluster listens, as nodes say it to each other and to clients.

use std::fmt;
use std::net::Ipv6Addr;

use crate::net::transport::Address;

/// The longest name that the domain name system has.
const HOST_BYTES_MAX: usize = 255;

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// A name or an IP address; IPv6 without brackets. Never empty.
    pub host: String,
    /// Never 0.
    pub port: u16,
}

impl HostPort {
    /// A host and its port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }
}

/// As [`Address`] shows it.
impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Address::from(self).fmt(f)
    }
}

impl From<&HostPort> for Address {
    fn from(HostPort { host, port }: &HostPort) -> Self {
        Self::Tcp { host: host.clone(), port: *port }
    }
}

/// A host as a node names it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    Host(String),
    /// Nothing: the host that the node itself was reached at.
    Responder,
    /// `?`: the node does not know.
    Unknown,
}

impl Named {
    /// Reads a host; None where no host can be called so. An IPv6 address may stand in brackets.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        match text {
            b"" => return Some(Self::Responder),
            b"?" => return Some(Self::Unknown),
            _ => {}
        }
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= HOST_BYTES_MAX)?;
        let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let host = bracketed.unwrap_or(text);
        let is_host = if bracketed.is_some() || host.contains(':') {
            is_ipv6(host)
        } else {
            host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        is_host.then(|| Self::Host(host.to_owned()))
    }

    /// The host, where there is one.
    pub(super) fn or_responder(self, responder: &HostPort) -> Option<String> {
        match self {
            Self::Host(host) => Some(host),
            Self::Responder => Some(responder.host.clone()),
            Self::Unknown => None,
        }
    }
}

/// An address on one link only has the link's name behind a `%`.
fn is_ipv6(host: &str) -> bool {
    let (address, zone) = host.split_once('%').unwrap_or((host, "0"));
    let is_zone = !zone.is_empty() && zone.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_zone && address.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_addresses_of_either_kind() {
        let long = "a".repeat(HOST_BYTES_MAX);
        for host in ["h", "10.0.0.1", "node-1.my_cluster.local", "::1", "fe80::1%eth0", &long] {
            assert_eq!(Named::read(host.as_bytes()), Some(Named::Host(host.into())), "{host}");
        }
        assert_eq!(Named::read(b"[::1]"), Some(Named::Host("::1".into())));
        assert_eq!(Named::read(b""), Some(Named::Responder));
        assert_eq!(Named::read(b"?"), Some(Named::Unknown));
    }

    #[test]
    fn what_no_host_is_called_is_refused() {
        let long = "a".repeat(HOST_BYTES_MAX + 1);
        let texts: [&[u8]; 12] = [
            b"a b",
            b"a\n",
            b"a\0",
            b"\xff",
            b"??",
            b"a/b",
            b"u@h",
            b"[h]",
            b"[]",
            b":",
            b"::1%",
            long.as_bytes(),
        ];
        for text in texts {
            assert_eq!(Named::read(text), None, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn it_is_shown_as_it_is_written() {
        assert_eq!(HostPort::new("h", 1).to_string(), "h:1");
        assert_eq!(HostPort::new("::1", 1).to_string(), "[::1]:1");
    }
}

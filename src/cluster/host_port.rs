//! The addresses of a Cluster's nodes, as nodes tell each other and clients.

use std::fmt;
use std::net::IpAddr;

use crate::endpoint::host;
use crate::net::transport::Address;

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// Reads an address in the form of its `Display`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        Some(Self::new(bare.unwrap_or(host), port.parse().ok()?))
    }
}

/// As [`Address`].
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

/// A host in a node's reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    Host(String),
    /// Empty, or every address of its machine: the host at which the node was reached.
    Responder,
    /// `?`: the node does not know.
    Unknown,
}

impl Named {
    /// Reads a host; none if the text is no host.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        match text {
            b"" => return Some(Self::Responder),
            b"?" => return Some(Self::Unknown),
            _ => {}
        }
        host::read(text).map(|host| {
            let is_any = host.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified());
            if is_any { Self::Responder } else { Self::Host(host) }
        })
    }

    /// The host, if known.
    pub(super) fn or_responder(self, responder: &HostPort) -> Option<String> {
        match self {
            Self::Host(host) => Some(host),
            Self::Responder => Some(responder.host.clone()),
            Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests;

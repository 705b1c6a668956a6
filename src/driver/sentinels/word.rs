//! What Sentinels, and the servers that they name, say of a service, read from their replies.

use leasehold_resp::Frame;
use std::time::Duration;

use crate::endpoint::host;
use crate::net::transport::Address;
use crate::policy::parts::has;
use crate::policy::{Role, SETTLING, Word, fitness};

/// What a Sentinel knows of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) word: Word<Address>,
    /// How long the master is silent before the Sentinel takes it for down.
    #[cfg(any(test, feature = "examine"))]
    pub(crate) down_after: Option<Duration>,
    /// How many Sentinels there are beside this one.
    #[cfg(any(test, feature = "examine"))]
    pub(crate) others: Option<usize>,
    /// How many of them have to agree that the master is down.
    #[cfg(any(test, feature = "examine"))]
    pub(crate) quorum: Option<usize>,
}

/// Reads the replies of `SENTINEL MASTER` and, from after it, `GET-MASTER-ADDR-BY-NAME`.
pub(crate) fn known(watched: &Frame, named: &Frame) -> Option<Known> {
    let flags = field(watched, "flags")?;
    // It counts from where the Sentinel began to watch this master, or started itself.
    let watched_for = millis(watched, "role-reported-time");
    let word = Word {
        epoch: count(watched, "config-epoch")?,
        watched: address_in(watched)?,
        master: pair(named)?,
        is_down: has(flags, "s_down") || has(flags, "o_down"),
        is_new: watched_for.is_some_and(|time| time < SETTLING),
    };
    Some(Known {
        word,
        #[cfg(any(test, feature = "examine"))]
        down_after: millis(watched, "down-after-milliseconds"),
        #[cfg(any(test, feature = "examine"))]
        others: count(watched, "num-other-sentinels").and_then(|it| it.try_into().ok()),
        #[cfg(any(test, feature = "examine"))]
        quorum: count(watched, "quorum").and_then(|it| it.try_into().ok()),
    })
}

/// Reads the reply of `SENTINEL REPLICAS`.
pub(crate) fn replicas(reply: &Frame) -> Vec<Address> {
    let mut addresses = Vec::new();
    if let Frame::Array(replicas) = reply {
        replicas.iter().for_each(|replica| addresses.extend(address_in(replica)));
    }
    addresses
}

/// Reads the reply of `INFO replication`.
pub(crate) fn role(reply: &Frame) -> Role {
    let text = reply.as_bytes().map(|text| String::from_utf8_lossy(text));
    match text.as_deref().and_then(|text| fitness::find(text, "role")) {
        Some("master") => Role::Master,
        Some(_) => Role::Replica,
        None => Role::Silent,
    }
}

fn millis(reply: &Frame, name: &str) -> Option<Duration> {
    count(reply, name).map(Duration::from_millis)
}

fn count(reply: &Frame, name: &str) -> Option<u64> {
    field(reply, name)?.parse().ok()
}

/// A map, or in RESP2 an array that stands for one.
#[inline(never)]
fn field<'a>(reply: &'a Frame, name: &str) -> Option<&'a str> {
    text(reply.field(name)?)
}

fn address_in(reply: &Frame) -> Option<Address> {
    address(field(reply, "ip")?, field(reply, "port")?)
}

fn pair(reply: &Frame) -> Option<Address> {
    let Frame::Array(items) = reply else { return None };
    let [host, port] = &items[..] else { return None };
    address(text(host)?, text(port)?)
}

fn text(frame: &Frame) -> Option<&str> {
    std::str::from_utf8(frame.as_bytes()?).ok()
}

fn address(host: &str, port: &str) -> Option<Address> {
    let port = port.parse().ok().filter(|port| *port != 0)?;
    Some(Address::Tcp { host: host::read(host.as_bytes())?, port })
}

#[cfg(test)]
mod tests;

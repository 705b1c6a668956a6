//! A node's error reply if another node serves the slot.

use super::host_port::{HostPort, Named};
use super::slot::SLOTS;
use crate::policy::number;

/// A reply that names another node. The command did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// What it means.
    pub kind: Kind,
    /// The slot of the command's keys.
    pub slot: u16,
    /// The node to send the command to; none if unknown. It can be the node that replied.
    pub to: Option<HostPort>,
}

/// What a redirect means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The slot is served by another node from now on.
    Moved,
    /// For this command alone, behind an `ASKING`: the slot is moving there.
    Ask,
}

impl Redirect {
    /// Reads an error text of the node `asked`, without its `-`; none if it is no redirect.
    pub fn parse(text: &[u8], asked: &HostPort) -> Option<Self> {
        let mut words = text.split(|&byte| byte == b' ');
        let kind = match words.next()? {
            b"MOVED" => Kind::Moved,
            b"ASK" => Kind::Ask,
            _ => return None,
        };
        let slot = digits(words.next()?).filter(|slot| usize::from(*slot) < SLOTS)?;
        let place = words.next().filter(|_| words.next().is_none())?;
        // The last colon: an IPv6 address has colons too, and may be without brackets.
        let colon = place.iter().rposition(|&byte| byte == b':')?;
        let port = digits(&place[colon + 1..]).filter(|port| *port != 0)?;
        let host = Named::read(&place[..colon])?.or_responder(asked);
        Some(Self { kind, slot, to: host.map(|host| HostPort { host, port }) })
    }
}

/// Digits only: `str::parse` takes a `+` as well.
pub(super) fn digits(text: &[u8]) -> Option<u16> {
    if text.iter().all(u8::is_ascii_digit) { number(text) } else { None }
}

#[cfg(test)]
mod tests;

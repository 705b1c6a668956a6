//! A lock that nobody holds, and that nobody can take without its ticket.
//!
//! A holder gives its lock to a ticket by `keep.lua`: under the key stands the id of an owner that nobody is,
//! for as long as the ticket is good. From then on nothing that the former holder sent, or sends late, touches
//! the key. The bearer of the ticket takes the lock from that owner by `seize.lua` (`extra/takeover.rs`).
//!
//! The text is `lh1.ID.FINGERPRINT.KEY`: the version; the owner's id; the fingerprint of servers and quorum,
//! empty where there is one server; and the lock's key, in which every byte but letters, digits and `-` is
//! `_` and two hexadecimal digits. So it goes into a URL, a header or a file name as it is.

use std::fmt::{self, Write as _};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use crate::error::Error;
use crate::error::value::{FINGERPRINT_LENGTH, ID_LENGTH};
use crate::policy::{TTL_MAX, TTL_MIN, Units};

const VERSION: &str = "lh1";
/// Maximum bytes of a text that is read: a name has up to 16 KiB, each of its bytes up to three characters.
const TEXT_MAX: usize = 64 * 1024;

/// A lease on its way from one process to another: [`Guard::into_ticket`](crate::Guard::into_ticket) makes it,
/// [`Locker::adopt`](crate::Locker::adopt) turns it into a guard.
///
/// Its text ([`Display`](fmt::Display), [`FromStr`]) fits into a URL, a header or a job's payload. **Treat it as
/// a secret**: any client with it that may use the servers can take the lock. A client that may read the lock's key
/// on a server can see the ticket's id as well. Its [`Debug`](fmt::Debug) text does not show the id.
///
/// # Examples
///
/// ```
/// let ticket: leasehold::Ticket = "lh1.0123456789abcdef0123456789abcdef..invoice_3A42".parse()?;
/// assert_eq!(ticket.name(), b"invoice:42");
/// assert_eq!(ticket.to_string(), "lh1.0123456789abcdef0123456789abcdef..invoice_3A42");
/// assert!("lh1.0123".parse::<leasehold::Ticket>().is_err());
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "the lock stays taken until the ticket is adopted or its time is over"]
pub struct Ticket {
    key: Box<[u8]>,
    id: [u8; ID_LENGTH],
    fingerprint: Option<Box<str>>,
}

/// Why a text is no ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidTicket {
    #[error("not a ticket: its text has the form lh1.ID.FINGERPRINT.KEY")]
    Form,
    #[error("a ticket of another version of Leasehold: adopt it with the version that made it")]
    Version,
}

impl Ticket {
    /// How long a ticket may be good: as long as a lease, 10 ms to 24 h.
    pub const GOOD_FOR: RangeInclusive<Duration> = TTL_MIN..=TTL_MAX;

    /// For the lock of this key, whose owner has this id, at servers with this fingerprint.
    pub(crate) fn new(key: &[u8], id: [u8; ID_LENGTH], fingerprint: Option<&str>) -> Self {
        Self { key: key.into(), id, fingerprint: fingerprint.map(Into::into) }
    }

    /// Refuses a time for which no ticket can be good.
    pub(crate) fn check(within: Duration) -> Result<(), Error> {
        if Self::GOOD_FOR.contains(&within) {
            return Ok(());
        }
        Err(Error::misuse(format_args!(
            "a ticket must be good for {} to {}, not {}",
            Units(*Self::GOOD_FOR.start()),
            Units(*Self::GOOD_FOR.end()),
            Units(within)
        )))
    }

    /// The lock's key: the configured prefix and the name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.key
    }

    /// Whose lock it is until it is adopted.
    pub(crate) fn id(&self) -> &[u8; ID_LENGTH] {
        &self.id
    }

    pub(crate) fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    fn parse(text: &str) -> Result<Self, InvalidTicket> {
        let (version, rest) = text.split_once('.').ok_or(InvalidTicket::Form)?;
        let is_other = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        match version.strip_prefix("lh") {
            Some(_) if version == VERSION => {}
            Some(digits) if !digits.is_empty() && is_other(digits) => {
                return Err(InvalidTicket::Version);
            }
            _ => return Err(InvalidTicket::Form),
        }
        Self::parse_rest(rest).filter(|_| text.len() <= TEXT_MAX).ok_or(InvalidTicket::Form)
    }

    fn parse_rest(rest: &str) -> Option<Self> {
        let mut parts = rest.split('.');
        let (id, print, key) = (parts.next()?, parts.next()?, parts.next()?);
        let is_hex =
            |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_print = print.is_empty() || print.len() == FINGERPRINT_LENGTH;
        if parts.next().is_some() || !is_hex(id) || !is_hex(print) || !is_print || key.is_empty() {
            return None;
        }
        let fingerprint = Some(print).filter(|print| !print.is_empty()).map(Into::into);
        Some(Self { key: decode(key)?, id: id.as_bytes().try_into().ok()?, fingerprint })
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn decode(text: &str) -> Option<Box<[u8]>> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if is_plain(byte) {
            bytes.push(byte);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2).filter(|_| byte == b'_')?;
        let is_hex = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'A'..=b'F'));
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
        // Each ticket has one text: what needs no digits has none.
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|byte| !is_plain(*byte))?);
        rest = behind;
    }
    Some(bytes.into())
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = String::from_utf8_lossy(&self.id);
        write!(f, "{VERSION}.{id}.{}.", self.fingerprint().unwrap_or_default())?;
        self.key.iter().try_for_each(|&byte| match is_plain(byte) {
            true => f.write_char(char::from(byte)),
            false => write!(f, "_{byte:02X}"),
        })
    }
}

/// Without the id, so that a log does not have it.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.key.escape_ascii())
    }
}

impl FromStr for Ticket {
    type Err = Error;

    /// # Errors
    ///
    /// [`Misuse`](crate::ErrorKind::Misuse) if the text is no ticket, or one of another version.
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text).map_err(Error::misuse)
    }
}

#[cfg(test)]
mod tests;

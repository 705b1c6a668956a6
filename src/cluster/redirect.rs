//! What a node answers where another has the slot.

use super::host_port::{HostPort, Named};
use super::slot::SLOTS;
use crate::policy::number;

/// An answer that names another node. The command did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// What it means.
    pub kind: Kind,
    /// The slot of the command's keys.
    pub slot: u16,
    /// Where to ask; none where the answering node does not know. It can be the node asked.
    pub to: Option<HostPort>,
}

/// What a redirect means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The slot is another node's from now on.
    Moved,
    /// This once, and behind an `ASKING`: the slot is on its way there.
    Ask,
}

impl Redirect {
    /// Reads the text of an error that `asked` gave, without its `-`; none where it is no redirect.
    #[must_use]
    pub fn parse(text: &[u8], asked: &HostPort) -> Option<Self> {
        let mut words = text.split(|&byte| byte == b' ');
        let kind = match words.next()? {
            b"MOVED" => Kind::Moved,
            b"ASK" => Kind::Ask,
            _ => return None,
        };
        let slot = digits(words.next()?).filter(|slot| usize::from(*slot) < SLOTS)?;
        let place = words.next().filter(|_| words.next().is_none())?;
        // The last: an IPv6 address has colons of its own, and may come without brackets.
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
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Redirect> {
        Redirect::parse(text.as_bytes(), &HostPort::new("asked", 7))
    }

    fn redirect(kind: Kind, slot: u16, host: &str, port: u16) -> Option<Redirect> {
        Some(Redirect { kind, slot, to: Some(HostPort::new(host, port)) })
    }

    #[test]
    fn both_kinds_are_read() {
        let table = [
            ("MOVED 3999 127.0.0.1:6381", redirect(Kind::Moved, 3999, "127.0.0.1", 6381)),
            ("ASK 0 node-1.local:1", redirect(Kind::Ask, 0, "node-1.local", 1)),
            ("MOVED 16383 h:65535", redirect(Kind::Moved, 16_383, "h", 65_535)),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    #[test]
    fn ipv6_is_read_with_and_without_brackets() {
        let table = [
            ("MOVED 1 ::1:6381", "::1"),
            ("MOVED 1 [::1]:6381", "::1"),
            ("MOVED 1 2001:db8::7:6381", "2001:db8::7"),
            ("MOVED 1 :::6381", "asked"),
            ("MOVED 1 fe80::1%eth0:6381", "fe80::1%eth0"),
        ];
        for (text, host) in table {
            assert_eq!(parse(text), redirect(Kind::Moved, 1, host, 6381), "{text}");
        }
    }

    #[test]
    fn no_host_is_the_host_that_was_asked() {
        assert_eq!(parse("MOVED 1 :6381"), redirect(Kind::Moved, 1, "asked", 6381));
        assert_eq!(parse("ASK 1 :6381"), redirect(Kind::Ask, 1, "asked", 6381));
    }

    #[test]
    fn a_node_that_does_not_know_still_says_that_it_was_not_here() {
        let unknown = Some(Redirect { kind: Kind::Moved, slot: 1, to: None });
        assert_eq!(parse("MOVED 1 ?:6381"), unknown);
    }

    #[test]
    fn anything_else_is_no_redirect() {
        let texts = [
            "",
            "MOVED",
            "MOVED ",
            "MOVED 1",
            "MOVED 1 ",
            "MOVED 1 h",
            "MOVED 1 h:",
            "MOVED 1 h:0",
            "MOVED 1 h:65536",
            "MOVED 1 h:+1",
            "MOVED 1 h:-1",
            "MOVED 1 ::",
            "MOVED 1 ::1",
            "MOVED 1 1:2:3",
            "MOVED 1 [::1:6381",
            "MOVED 1 [h]:6381",
            "MOVED 1 []:6381",
            "MOVED 1 h:1 more",
            "MOVED 1 h:1 ",
            "MOVED  1 h:1",
            " MOVED 1 h:1",
            "MOVED 16384 h:1",
            "MOVED -1 h:1",
            "MOVED +1 h:1",
            "MOVED 99999999999999999999 h:1",
            "MOVED x h:1",
            "MOVED 1 a/b:1",
            "MOVED 1 h\0:1",
            "moved 1 h:1",
            "MOVEDX 1 h:1",
            "ERR MOVED 1 h:1",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "CLUSTERDOWN Hash slot not served",
        ];
        for text in texts {
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert_eq!(Redirect::parse(b"MOVED 1 \xff:1", &HostPort::new("asked", 7)), None);
        assert_eq!(Redirect::parse(b"MOVED \xff h:1", &HostPort::new("asked", 7)), None);
    }

    #[test]
    fn no_part_of_a_redirect_is_one_of_another_place() {
        let whole = b"MOVED 3999 [2001:db8::7]:6381";
        let cut = b"MOVED 3999 [2001:db8::7]:".len();
        for length in 0..=whole.len() {
            let parsed = Redirect::parse(&whole[..length], &HostPort::new("asked", 7));
            assert_eq!(parsed.is_some(), length > cut, "{length} bytes");
        }
    }
}

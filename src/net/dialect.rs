//! What some servers can do without a script, told from how they introduce themselves and from what
//! they refuse.

use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use leasehold_resp::Frame;

use super::refusal::{Code, ServerError};
use crate::policy::number;

/// Plain commands in the place of a script, which not every server and user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortcut {
    /// Several commands that are one for their caller.
    Together = 1,
    /// A command that deletes a key if it has a value.
    DeleteIfEqual = 2,
}

/// The shortcuts of one connection: all, but for those that were refused on it.
#[derive(Default)]
pub struct Shortcuts {
    /// Bits of [`Shortcut`].
    refused: AtomicU8,
}

impl Shortcuts {
    /// Whether it was not refused.
    pub fn has(&self, shortcut: Shortcut) -> bool {
        self.refused.load(Ordering::Relaxed) & shortcut as u8 == 0
    }

    /// Remembers that a shortcut is not available, if that is what an error says of it.
    pub fn note_refused(&self, shortcut: Shortcut, error: &ServerError) {
        if matches!(error.code(), Code::Permission | Code::Unsupported) {
            self.refused.fetch_or(shortcut as u8, Ordering::Relaxed);
        }
    }
}

/// The command by which a server deletes a key if it has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteIfEqual {
    /// `DELIFEQ key value`, of Valkey since its version 9.
    Delifeq,
    /// `DELEX key IFEQ value`, of Redis since its version 8.4.
    Delex,
}

impl DeleteIfEqual {
    /// The one of a server that answers `HELLO` so, if it has one.
    pub(super) fn of_hello(reply: &Frame) -> Option<Self> {
        let field = |name| field(reply, name);
        let version = std::str::from_utf8(field(b"version")?).ok()?;
        let mut numbers = version.split('.').map(|text| number::<u32>(text.as_bytes()));
        let version = (numbers.next()??, numbers.next()??);
        match &field(b"server")?[..] {
            b"valkey" if version >= (9, 0) => Some(Self::Delifeq),
            b"redis" if version >= (8, 4) => Some(Self::Delex),
            _ => None,
        }
    }
}

/// Whether a server that introduces itself so is a replica.
pub(super) fn is_replica(hello: &Frame) -> bool {
    field(hello, b"role").is_some_and(|role| matches!(&role[..], b"replica" | b"slave"))
}

fn field<'a>(hello: &'a Frame, name: &[u8]) -> Option<&'a Bytes> {
    let Frame::Map(fields) = hello else { return None };
    let found = fields.iter().find(|(key, _)| key.as_bytes().is_some_and(|key| key == name));
    found.and_then(|(_, value)| value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortcut_is_given_up_where_it_is_not_to_be_had_and_not_for_a_while() {
        let shortcuts = Shortcuts::default();
        for passing in ["BUSY Redis is busy", "MOVED 1 a:1", "OOM command not allowed", "ERR other"]
        {
            shortcuts.note_refused(Shortcut::Together, &ServerError::new(passing.as_bytes()));
        }
        assert!(shortcuts.has(Shortcut::Together));
        let lasting = b"NOPERM User u has no permissions to run the 'incrby' command";
        shortcuts.note_refused(Shortcut::Together, &ServerError::new(lasting));
        assert!(!shortcuts.has(Shortcut::Together) && shortcuts.has(Shortcut::DeleteIfEqual));
        let unknown = b"ERR unknown command 'DELEX', with args beginning with: 'a'";
        shortcuts.note_refused(Shortcut::DeleteIfEqual, &ServerError::new(unknown));
        assert!(!shortcuts.has(Shortcut::DeleteIfEqual));
    }

    #[test]
    fn servers_are_known_by_their_names_and_versions() {
        let of = |server: &'static str, version: &'static str| {
            let text = |text: &'static str| Frame::Bulk(text.into());
            let fields = [(text("server"), text(server)), (text("version"), text(version))];
            DeleteIfEqual::of_hello(&Frame::Map(fields.into()))
        };
        assert_eq!(of("valkey", "9.1.2"), Some(DeleteIfEqual::Delifeq));
        assert_eq!(of("valkey", "10.0.0"), Some(DeleteIfEqual::Delifeq));
        assert_eq!(of("valkey", "8.1.4"), None);
        assert_eq!(of("redis", "8.4.0"), Some(DeleteIfEqual::Delex));
        assert_eq!(of("redis", "8.10.2"), Some(DeleteIfEqual::Delex));
        assert_eq!(of("redis", "9.0.0"), Some(DeleteIfEqual::Delex));
        for version in ["8.3.9", "7.0.15", "255.255", "8", "", "x.y"] {
            let known = of("redis", version);
            assert_eq!(known.is_some(), version == "255.255", "{version}");
        }
        assert_eq!(of("dragonfly", "9.9.9"), None);
        assert_eq!(DeleteIfEqual::of_hello(&Frame::Map(Vec::new().into())), None);
        assert_eq!(DeleteIfEqual::of_hello(&Frame::Null), None);
    }
}

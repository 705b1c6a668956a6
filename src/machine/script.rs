//! A script as a server knows it.

use crate::policy::parts::find;

/// The text of a Lua script, and the digest by which servers call it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) digest: &'static [u8],
}

/// How a script is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    Digest,
    /// Itself.
    Whole,
    /// By its digest, behind a command that loads it.
    Loaded,
    /// Itself, with another clock than `TIME`.
    Clocked(&'static str),
}

/// Those that a lock needs: what each does stands at the head of its file in `scripts/`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scripts {
    pub(crate) acquire: Script,
    pub(crate) extend: Script,
    pub(crate) release: Script,
    pub(crate) repair: Script,
    pub(crate) queue: Script,
    /// What stands before a script, on its first line, where none may call `TIME`.
    pub(crate) clock: &'static str,
    /// Those that are seldom called: no handshake loads them.
    pub(crate) others: &'static [Script],
}

impl Scripts {
    /// Those that each handshake loads.
    pub(crate) fn loaded(&self) -> [Script; 5] {
        [self.acquire, self.extend, self.release, self.repair, self.queue]
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Script> + use<> {
        self.loaded().into_iter().chain(self.others.iter().copied())
    }

    /// The text of the one that an error arose in, where the server says in which.
    pub(crate) fn of_error(&self, error: &[u8]) -> &'static str {
        let found = self.all().find(|script| find(error, script.digest).is_some());
        found.map_or("", |script| script.text)
    }
}

//! A script as a server knows it.

/// The text of a Lua script, and the digest by which servers call it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    pub(crate) digest: &'static [u8],
}

/// Those that a lock needs: what each does stands at the head of its file in `scripts/`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scripts {
    pub(crate) acquire: Script,
    pub(crate) extend: Script,
    pub(crate) release: Script,
    pub(crate) repair: Script,
    pub(crate) queue: Script,
    /// Those that are seldom called: no handshake loads them.
    pub(crate) others: &'static [Script],
}

impl Scripts {
    /// Those that each handshake loads.
    pub(crate) fn loaded(&self) -> [Script; 5] {
        [self.acquire, self.extend, self.release, self.repair, self.queue]
    }
}

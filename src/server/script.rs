//! A Lua script as a server knows it: by the digest of its text.

use std::sync::Arc;

use bytes::Bytes;

use super::sha1;
use crate::net::connection::Connection;

/// See the module's documentation.
pub(crate) struct Script {
    known_by: KnownBy,
    text: Arc<str>,
}

enum KnownBy {
    /// Its place in the catalog, and so in the digests of each connection: every connection loads the
    /// whole catalog in its handshake.
    Number(usize),
    /// Its digest, which a server knows from the first call on.
    Digest(Bytes),
}

impl Script {
    /// The script in `source`, less its comment lines: servers are spared them, people are not.
    pub(crate) fn new(number: usize, source: &str) -> Self {
        Self { known_by: KnownBy::Number(number), text: bare(source).into() }
    }

    /// One of no catalog, which is loaded when it is first called.
    pub(crate) fn on_demand(source: &str) -> Self {
        let text = bare(source);
        Self { known_by: KnownBy::Digest(sha1::digest(text.as_bytes()).into()), text: text.into() }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn shared_text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// What it is called on this connection, if it can be called by that.
    pub(super) fn digest<'a>(&'a self, connection: &'a Connection) -> Option<&'a Bytes> {
        match &self.known_by {
            KnownBy::Number(number) => connection.digest(*number),
            KnownBy::Digest(digest) => Some(digest),
        }
    }
}

fn bare(source: &str) -> String {
    let lines = source.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("--")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_stay_at_home() {
        let script = Script::new(0, "-- header\nlocal a = 1\n\n  -- why\n  return a\n");
        assert_eq!(script.text(), "local a = 1\nreturn a");
    }
}

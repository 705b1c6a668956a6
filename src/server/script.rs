//! A Lua script as a server knows it: by the digest of its text.

use std::str;

use bytes::Bytes;

use crate::net::connection::Connection;

/// See the module's documentation.
pub(crate) struct Script {
    known_by: KnownBy,
    text: &'static str,
    is_by_key: bool,
}

enum KnownBy {
    /// Its place in the catalog, and so in the digests of each connection: every connection loads the
    /// whole catalog in its handshake.
    Number(usize),
    /// Its digest, which a server knows from the first call on.
    Digest(Bytes),
}

impl Script {
    /// A script of the catalog, or one beyond its end, which is always sent whole.
    pub(crate) const fn new(number: usize, text: &'static str) -> Self {
        Self { known_by: KnownBy::Number(number), text, is_by_key: false }
    }

    /// One of no catalog, which is loaded when it is first called.
    pub(crate) const fn on_demand(text: &'static str, digest: &'static [u8]) -> Self {
        Self { known_by: KnownBy::Digest(Bytes::from_static(digest)), text, is_by_key: false }
    }

    /// The same, which does what it does to each key that it is given, also where it is given that one alone.
    pub(crate) const fn by_key(mut self) -> Self {
        self.is_by_key = true;
        self
    }

    /// See [`Script::by_key`].
    pub(super) fn is_by_key(&self) -> bool {
        self.is_by_key
    }

    pub(crate) fn text(&self) -> &'static str {
        self.text
    }

    /// What it is called on this connection, if it can be called by that.
    pub(super) fn digest<'a>(&'a self, connection: &'a Connection) -> Option<&'a Bytes> {
        match &self.known_by {
            KnownBy::Number(number) => connection.digest(*number),
            KnownBy::Digest(digest) => Some(digest),
        }
    }
}

/// The script in a file of `scripts/`: with its number in the catalog, or one that is loaded when it is first
/// called. The compiler takes the comments out and computes the digest, so that programs carry neither.
macro_rules! script {
    ($file:literal) => {{
        const TEXT: &str = $crate::server::script::script!(text $file);
        const DIGEST: &[u8] = &$crate::server::sha1::digest(TEXT.as_bytes());
        $crate::server::script::Script::on_demand(TEXT, DIGEST)
    }};
    ($file:literal, $number:expr) => {
        $crate::server::script::Script::new($number, $crate::server::script::script!(text $file))
    };
    (text $file:literal) => {{
        use $crate::server::script::{bare, text};
        const SOURCE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/", $file));
        const LENGTH: usize = bare::<{ SOURCE.len() }>(SOURCE).1;
        const BARE: [u8; LENGTH] = bare(SOURCE).0;
        text(&BARE)
    }};
}
pub(crate) use script;

/// `source` less its comment lines and indentation, and how long that is.
pub(crate) const fn bare<const ROOM: usize>(source: &str) -> ([u8; ROOM], usize) {
    let (mut bare, mut length) = ([0; ROOM], 0);
    let mut rest = source.as_bytes();
    while !rest.is_empty() {
        let mut end = 0;
        while end < rest.len() && rest[end] != b'\n' {
            end += 1;
        }
        let (line, after) = rest.split_at(end);
        let mut line = line.trim_ascii();
        if !matches!(line, [] | [b'-', b'-', ..]) {
            if length > 0 {
                bare[length] = b'\n';
                length += 1;
            }
            while let [first, others @ ..] = line {
                bare[length] = *first;
                length += 1;
                line = others;
            }
        }
        rest = if let [_, lines @ ..] = after { lines } else { after };
    }
    (bare, length)
}

pub(crate) const fn text(bytes: &[u8]) -> &str {
    match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("whole lines of a text are a text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_stay_at_home() {
        let source = "-- header\nlocal a = 1\n\n  -- why\n  return a\n";
        let (bare, length) = bare::<99>(source);
        assert_eq!(text(&bare[..length]), "local a = 1\nreturn a");
    }
}

//! A Lua script as a server knows it: by the digest of its text.

use std::str;

use crate::sha1::Digest;

/// See the module's documentation.
pub(crate) struct Script {
    /// None where it is always sent whole.
    digest: Option<&'static Digest>,
    text: &'static str,
    is_by_key: bool,
    /// Its number among the scripts that connections bring.
    brought: Option<u8>,
}

impl Script {
    /// One that is called by its digest. A server that was not given it by a handshake has it from the first call on.
    pub(crate) const fn new(text: &'static str, digest: &'static Digest) -> Self {
        Self { digest: Some(digest), text, is_by_key: false, brought: None }
    }

    /// The same, which does what it does to each key that it is given, also where it is given that one alone.
    pub(crate) const fn by_key(mut self) -> Self {
        self.is_by_key = true;
        self
    }

    /// One that is seldom called, and then sent whole.
    #[cfg(any(test, feature = "_calls"))]
    pub(crate) const fn whole(text: &'static str) -> Self {
        Self { digest: None, text, is_by_key: false, brought: None }
    }

    #[cfg(any(test, feature = "_calls"))]
    pub(crate) fn text(&self) -> &'static str {
        self.text
    }

    /// The same, whose first call on each connection brings it along, for what asks several servers. Were a server to say
    /// first that it lacks the script, the others' answers could decide before the script comes to that server: a slow
    /// one would do nothing of what it was asked, each time again. Each such script has a `number` of its own, below 8.
    pub(crate) const fn brought(mut self, number: u8) -> Self {
        assert!(number < 8, "a connection counts eight such scripts");
        self.brought = Some(number);
        self
    }

    /// What a handshake loads.
    pub(crate) const fn to_load(&self) -> Option<(&'static str, &'static Digest)> {
        match self.digest {
            Some(digest) => Some((self.text, digest)),
            None => None,
        }
    }
}

/// The script in a file of `scripts/`, called by its digest or `whole`. The compiler puts in the parts, takes the
/// comments out and computes the digest, so that programs carry only what is sent.
macro_rules! script {
    ($file:literal) => {{
        const TEXT: &str = $crate::server::script::script!(text $file);
        const DIGEST: &$crate::sha1::Digest = &$crate::sha1::digest(TEXT.as_bytes());
        $crate::server::script::Script::new(TEXT, DIGEST)
    }};
    (whole $file:literal) => {
        $crate::server::script::Script::whole($crate::server::script::script!(text $file))
    };
    (text $file:literal) => {{
        use $crate::server::script::{PARTS_LENGTH, bare, text};
        const SOURCE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/", $file));
        const LENGTH: usize = bare::<{ SOURCE.len() + PARTS_LENGTH }>(SOURCE).1;
        const BARE: [u8; LENGTH] = bare(SOURCE).0;
        text(&BARE)
    }};
}
pub(crate) use script;

/// Texts that several scripts have, each by its name: the line `--@ name` in a script stands for one, once.
const PARTS: &[(&str, &str)] = &[
    ("next_waiter", include_str!("../../scripts/parts/next_waiter.lua")),
    ("token", include_str!("../../scripts/parts/token.lua")),
];

/// Room for all parts.
pub(crate) const PARTS_LENGTH: usize = {
    let (mut length, mut parts) = (0, PARTS);
    while let [(_, text), others @ ..] = parts {
        (length, parts) = (length + text.len(), others);
    }
    length
};

const fn part(name: &[u8]) -> &'static [u8] {
    let mut parts = PARTS;
    while let [(known, text), others @ ..] = parts {
        let (mut known, mut named) = (known.as_bytes(), name);
        while let ([one, ones @ ..], [other, rest @ ..]) = (known, named) {
            if *one != *other {
                break;
            }
            (known, named) = (ones, rest);
        }
        if known.is_empty() && named.is_empty() {
            return text.as_bytes();
        }
        parts = others;
    }
    panic!("a script has a part that there is not")
}

/// `source` with its parts, less comment lines and indentation, and how long that is.
pub(crate) const fn bare<const ROOM: usize>(source: &str) -> ([u8; ROOM], usize) {
    let (mut bare, mut length) = ([0; ROOM], 0);
    let mut rest = source.as_bytes();
    // What stands behind the part that is being put in.
    let mut behind: &[u8] = &[];
    while !rest.is_empty() || !behind.is_empty() {
        if rest.is_empty() {
            (rest, behind) = (behind, &[]);
        }
        let mut end = 0;
        while end < rest.len() && rest[end] != b'\n' {
            end += 1;
        }
        let (line, after) = rest.split_at(end);
        rest = if let [_, lines @ ..] = after { lines } else { after };
        let mut line = line.trim_ascii();
        if let [b'-', b'-', b'@', name @ ..] = line {
            (rest, behind) = (part(name.trim_ascii()), rest);
        } else if !matches!(line, [] | [b'-', b'-', ..]) {
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
    use leasehold_resp::Frame;

    use super::*;
    use crate::sha1;
    use crate::support::RedisServer;

    #[test]
    fn comments_stay_at_home() {
        let source = "-- header\nlocal a = 1\n\n  -- why\n  return a\n";
        let (bare, length) = bare::<99>(source);
        assert_eq!(text(&bare[..length]), "local a = 1\nreturn a");
    }

    #[test]
    fn parts_are_put_in_where_they_are_named() {
        let source = "local a = 1\nif a then\n  --@ next_waiter\n  return a\nend\n";
        let (bare, length) = bare::<{ 99 + PARTS_LENGTH }>(source);
        let whole = text(&bare[..length]);
        assert!(
            whole.starts_with("local a = 1\nif a then\nlocal function next_waiter("),
            "{whole}"
        );
        assert!(whole.ends_with("\nend\nreturn a\nend"), "{whole}");
    }

    /// Lengths around a block's end.
    #[test]
    fn a_server_calls_a_script_by_the_same_digest() {
        let server = RedisServer::start();
        for length in [0, 1, 54, 55, 56, 63, 64, 65, 119, 120, 1000] {
            let script = format!("return '{}'", "x".repeat(length));
            let Frame::Bulk(known) = server.cli(&["SCRIPT", "LOAD", &script]) else { panic!() };
            assert_eq!(sha1::digest(script.as_bytes()), known[..], "{length}");
        }
    }
}

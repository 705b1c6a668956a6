//! The scripts in `scripts/`, as programs carry them; what each does stands at the head of its file.

use std::str;

use crate::machine::{Script, Scripts};

/// The script in a file of `scripts/`. The compiler puts in the parts, takes the comments out and computes the digest, so
/// that programs carry only what is sent.
macro_rules! script {
    ($file:literal) => {{
        use $crate::scripts::{PARTS_LENGTH, bare, text};
        const SOURCE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/", $file));
        const LENGTH: usize = bare::<{ SOURCE.len() + PARTS_LENGTH }>(SOURCE).1;
        const BARE: [u8; LENGTH] = bare(SOURCE).0;
        const TEXT: &str = text(&BARE);
        const DIGEST: &$crate::sha1::Digest = &$crate::sha1::digest(TEXT.as_bytes());
        $crate::machine::Script { text: TEXT, digest: DIGEST }
    }};
}
pub(crate) use script;

pub(crate) const ACQUIRE: Script = script!("acquire.lua");
pub(crate) const EXTEND: Script = script!("extend.lua");
pub(crate) const RELEASE: Script = script!("release.lua");
pub(crate) const FREE: Script = script!("free.lua");
pub(crate) const REPAIR: Script = script!("repair.lua");
pub(crate) const QUEUE: Script = script!("queue.lua");
#[cfg(any(test, feature = "grace"))]
pub(crate) const REIGN: Script = script!("reign.lua");
#[cfg(any(test, feature = "inspect", feature = "sharing"))]
pub(crate) const SHARE: Script = script!("share.lua");
#[cfg(any(test, feature = "inspect"))]
pub(crate) const HOLDER: Script = script!("holder.lua");
#[cfg(any(test, feature = "inspect"))]
pub(crate) const INSPECT: Script = script!("inspect.lua");

/// What locks of one owner need, and those that are seldom called.
pub(crate) const fn of_locks(others: &'static [Script]) -> Scripts {
    Scripts {
        acquire: ACQUIRE,
        extend: EXTEND,
        release: RELEASE,
        free: FREE,
        repair: REPAIR,
        queue: QUEUE,
        clock: CLOCK,
        others,
    }
}

/// See `scripts/parts/clock.lua`.
const CLOCK: &str = {
    const SOURCE: &str = include_str!("../scripts/parts/clock.lua");
    const BARE: ([u8; SOURCE.len()], usize) = bare(SOURCE);
    const LINE: [u8; BARE.1] = {
        let (mut line, mut at) = ([b' '; BARE.1], 0);
        while at < BARE.1 {
            if BARE.0[at] != b'\n' {
                line[at] = BARE.0[at];
            }
            at += 1;
        }
        line
    };
    text(&LINE)
};

/// Texts that several scripts have, each by its name: the line `--@ name` in a script stands for one, once.
const PARTS: &[(&str, &str)] = &[
    ("next_waiter", include_str!("../scripts/parts/next_waiter.lua")),
    ("token", include_str!("../scripts/parts/token.lua")),
];

/// Room for all parts.
pub(crate) const PARTS_LENGTH: usize = {
    let (mut length, mut parts) = (0, PARTS);
    while let [(_, text), others @ ..] = parts {
        (length, parts) = (length + text.len(), others);
    }
    length
};

/// All that locks of one owner need.
#[cfg(test)]
pub(crate) const CATALOG: [Script; 7] = [ACQUIRE, EXTEND, RELEASE, REPAIR, QUEUE, HOLDER, FREE];

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
mod tests;

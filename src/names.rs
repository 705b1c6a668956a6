//! From a lock's name to its keys.
//!
//! The lock key is the prefix and the name, byte for byte, so that other libraries' locks of the same name and ours
//! exclude each other. The fence key has to be in the same Cluster slot ("Hash tags" in the Redis Cluster
//! specification): if the lock key has a hash tag, it is the key and `:fence`; otherwise the whole lock key becomes the
//! tag, `{key}:fence`. The queue's key is formed likewise, with `:queue`; as few commands need it, it is made when
//! needed.
//!
//! Two locks may share a counter (`a` and `{a}` do): that only makes their tokens rise together. They share nothing
//! else, since a waiter for one must not be handed the other: the queue of `{a}` is `{a}:queue:queue`, which no other
//! lock can have, because `{a}:queue` is no valid name.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Maximum characters of a name shown to people.
const SHOWN_MAX: usize = 128;

/// Maximum bytes of a name with its prefix: longer ones are likely mistakes, and each command has them.
const NAME_BYTES_MAX: usize = 16 * 1024;
const FENCE_SUFFIX: &[u8] = b":fence";
/// As long as `:fence`, so that one key becomes the other by a change of its end.
const QUEUE_SUFFIX: &[u8; FENCE_SUFFIX.len()] = b":queue";
const SHARES_SUFFIX: &[u8] = b":shares";
/// Suffixes of other primitives' keys, which a name with a hash tag must not have.
const OTHER_SUFFIXES: [&[u8]; 9] = [
    b":limit",
    b":once",
    b":idempotent",
    b":latch",
    b":open",
    b":barrier",
    b":passed",
    REIGN_SUFFIX,
    PERMIT_SUFFIX.as_bytes(),
];
const REIGN_SUFFIX: &[u8] = b":reign";
const PERMIT_SUFFIX: &str = ":permit";
/// Maximum bytes of a fence key without an allocation, 8 more than the lock key has at the most; a lease has two of these.
const NAMES_BYTES: usize = 37;
/// The same for another key, of which there are few.
const SHORT_BYTES: usize = 54;

/// The keys of one lock: the fence key, in place if short, and else in one allocation that all clones share. The lock
/// key is a part of it, with `braces` around it, 1 or 0.
pub(crate) enum Names {
    Short { fence: [u8; NAMES_BYTES], len: u8, braces: u8 },
    Long { fence: Arc<[u8]>, braces: u8 },
}

/// A key, in place if short.
#[derive(Clone)]
pub(crate) enum Key {
    Short { bytes: [u8; SHORT_BYTES], len: u8 },
    Long(Box<[u8]>),
}

/// The parts as one text, if that is short.
#[inline]
fn joined<const MAX: usize>(parts: &[&[u8]]) -> Option<([u8; MAX], u8)> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = [0; MAX];
    let mut room = bytes.get_mut(..len)?;
    for part in parts {
        let (head, rest) = room.split_at_mut(part.len());
        head.copy_from_slice(part);
        room = rest;
    }
    Some((bytes, u8::try_from(len).ok()?))
}

impl Key {
    fn new(parts: &[&[u8]]) -> Self {
        let long = || Self::Long(parts.concat().into());
        joined(parts).map_or_else(long, |(bytes, len)| Self::Short { bytes, len })
    }

    #[cfg(any(test, feature = "groups"))]
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::new(&[bytes])
    }
}

// Not inlined, so that it is compiled once.
impl Clone for Names {
    #[inline(never)]
    fn clone(&self) -> Self {
        match *self {
            Self::Short { fence, len, braces } => Self::Short { fence, len, braces },
            Self::Long { ref fence, braces } => Self::Long { fence: Arc::clone(fence), braces },
        }
    }
}

impl Deref for Key {
    type Target = [u8];

    #[inline(never)]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Short { bytes, len } => &bytes[..usize::from(*len)],
            Self::Long(bytes) => bytes,
        }
    }
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.lock() == other.lock()
    }
}

impl Eq for Names {}

impl Borrow<[u8]> for Names {
    fn borrow(&self) -> &[u8] {
        self.lock()
    }
}

impl Hash for Names {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.lock().hash(state);
    }
}

/// Why a name is invalid for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidName {
    #[error("lock name must not be empty")]
    Empty,
    #[error("lock name and key prefix must be at most {NAME_BYTES_MAX} bytes together, not {0}")]
    TooLong(usize),
    #[error(
        "lock name must not end in \":fence\", \":queue\" or \":shares\", nor, with a hash tag, in \":limit\", \
         \":once\", \":idempotent\", \":latch\", \":open\", \":barrier\", \":passed\", \":reign\" or \":permit\": Leasehold keeps its own \
         data under such keys"
    )]
    Reserved,
    #[error(
        "lock name with a `}}` needs a hash tag, as in \"{{user:7}}:cart\", so that its fence counter \
         is in the same Redis Cluster slot"
    )]
    Braces,
}

impl Names {
    pub(crate) fn new(prefix: &[u8], name: &[u8]) -> Result<Self, InvalidName> {
        let length = prefix.len() + name.len();
        if name.is_empty() {
            return Err(InvalidName::Empty);
        }
        if length > NAME_BYTES_MAX {
            return Err(InvalidName::TooLong(length));
        }
        let ends_in = |suffix: &[u8]| {
            // Fast path: few names have the last byte of a suffix.
            name.last() == suffix.last() && end_in(prefix, name, suffix)
        };
        if [FENCE_SUFFIX, QUEUE_SUFFIX, SHARES_SUFFIX].into_iter().any(ends_in) {
            return Err(InvalidName::Reserved);
        }
        // Fast path: few names have braces.
        let has_braces = |part: &[u8]| part.iter().any(|byte| matches!(byte, b'{' | b'}'));
        let mut is_tagged = false;
        if has_braces(prefix) || has_braces(name) {
            let key = || prefix.iter().chain(name).copied();
            is_tagged = has_hash_tag(key());
            let is_end = |suffix: &&[u8]| end_in(prefix, name, suffix);
            if is_tagged && OTHER_SUFFIXES.iter().any(is_end) {
                return Err(InvalidName::Reserved);
            }
            if !is_tagged && key().any(|byte| byte == b'}') {
                return Err(InvalidName::Braces);
            }
        }
        let (open, end): (&[u8], &[u8]) =
            if is_tagged { (b"", FENCE_SUFFIX) } else { (b"{", b"}:fence") };
        Ok(Self::of(&[open, prefix, name, end], u8::from(!is_tagged)))
    }

    /// The names with this fence key, in parts.
    fn of(parts: &[&[u8]], braces: u8) -> Self {
        let long = || Self::Long { fence: parts.concat().into(), braces };
        joined(parts).map_or_else(long, |(fence, len)| Self::Short { fence, len, braces })
    }

    /// A placeholder for an invalid name, which no command has.
    pub(crate) fn of_nothing() -> Self {
        Self::new(b"", b"-").expect("it is a name")
    }

    /// The key that is the lock.
    #[inline(never)]
    pub(crate) fn lock(&self) -> &[u8] {
        let (fence, braces) = (self.fence(), self.braces());
        &fence[braces..fence.len() - FENCE_SUFFIX.len() - braces]
    }

    fn braces(&self) -> usize {
        let (Self::Short { braces, .. } | Self::Long { braces, .. }) = self;
        usize::from(*braces)
    }

    /// The key of the lock's fence counter.
    pub(crate) fn fence(&self) -> &[u8] {
        match self {
            Self::Short { fence, len, .. } => &fence[..usize::from(*len)],
            Self::Long { fence, .. } => fence,
        }
    }

    /// The key of the queue of waiting processes.
    #[inline(never)]
    pub(crate) fn queue(&self) -> Key {
        // Nearly always another end of the fence key.
        if let Self::Short { fence, len, braces: 1 } = *self {
            let mut bytes = [0; SHORT_BYTES];
            bytes[..NAMES_BYTES].copy_from_slice(&fence);
            let end = usize::from(len);
            bytes[end - QUEUE_SUFFIX.len()..end].copy_from_slice(QUEUE_SUFFIX);
            return Key::Short { bytes, len };
        }
        self.beside(QUEUE_SUFFIX)
    }

    /// The key of the lock's shares.
    #[cfg(any(test, feature = "inspect", feature = "sharing"))]
    pub(crate) fn shares(&self) -> Key {
        self.beside(SHARES_SUFFIX)
    }

    /// The keys of one of the locks that are a semaphore's permits over several servers.
    #[cfg(any(test, feature = "sharing"))]
    pub(crate) fn permit(&self, number: u32) -> Self {
        let lock = self.beside(format!(":{number}{PERMIT_SUFFIX}").as_bytes());
        Self::of(&[&lock, FENCE_SUFFIX], 0)
    }

    /// The keys of the permit whose lock has this key.
    #[cfg(any(test, all(feature = "inspect", feature = "sharing")))]
    pub(crate) fn of_permit(prefix: &[u8], key: &[u8]) -> Option<Self> {
        let numbered = key.strip_suffix(PERMIT_SUFFIX.as_bytes())?;
        let colon = numbered.iter().rposition(|byte| *byte == b':')?;
        let permit = std::str::from_utf8(&numbered[colon + 1..]).ok()?.parse().ok()?;
        let whole = &numbered[..colon];
        // Undoes the doubled suffix of [`Names::beside`].
        let whole = whole.strip_suffix(&key[colon..]).unwrap_or(whole);
        let inside = whole.strip_prefix(b"{").and_then(|it| it.strip_suffix(b"}"));
        let permit_of = |names: &[u8]| {
            let names = Self::new(prefix, names.strip_prefix(prefix)?).ok()?.permit(permit);
            (names.lock() == key).then_some(names)
        };
        inside.and_then(permit_of).or_else(|| permit_of(whole))
    }

    /// Whether it is a permit's lock: no other lock has such a name.
    #[cfg(any(test, all(feature = "sharing", any(feature = "takeover", feature = "inspect"))))]
    pub(crate) fn is_permit(&self) -> bool {
        self.braces() == 0 && self.lock().ends_with(PERMIT_SUFFIX.as_bytes())
    }

    /// Another key in the same slot, with this suffix.
    #[inline(never)]
    pub(crate) fn beside(&self, suffix: &[u8]) -> Key {
        let fence = self.fence();
        let tagged = &fence[..fence.len() - FENCE_SUFFIX.len()];
        let again = if self.is_another_in_braces() { suffix } else { b"" };
        Key::new(&[tagged, suffix, again])
    }

    /// Whether the lock's key is how another lock's other keys begin.
    fn is_another_in_braces(&self) -> bool {
        matches!(self.lock(), [b'{', other @ .., b'}'] if !other.contains(&b'}'))
    }
}

#[cold]
fn end_in(prefix: &[u8], name: &[u8], suffix: &[u8]) -> bool {
    let behind = name.len().min(suffix.len());
    let (ahead, inside) = suffix.split_at(suffix.len() - behind);
    name.ends_with(inside) && prefix.ends_with(ahead)
}

/// The key of a marker that says since when a server is the primary (`scripts/reign.lua`), for locks with this prefix.
/// In a Cluster each number has a marker in a slot of its own; if the prefix has a hash tag, all are in its slot. A `}` in
/// the prefix would end a tag of ours.
#[cfg(any(test, feature = "grace"))]
pub(crate) fn marker(prefix: &[u8], number: Option<u32>) -> Key {
    let number = number.map_or_else(String::new, |number| format!(":{number}"));
    let is_bare = prefix.contains(&b'}');
    let (open, close): (&[u8], &[u8]) = if is_bare { (b"", b"") } else { (b"{", b"}") };
    Key::new(&[open, prefix, b"leasehold", number.as_bytes(), close, REIGN_SUFFIX])
}

/// Whether a prefix puts all locks in one slot.
#[cfg(any(test, feature = "grace"))]
pub(crate) fn is_tagged(prefix: &[u8]) -> bool {
    has_hash_tag(prefix.iter().copied())
}

/// Whether a key has a hash tag: a text between its first `{` and the next `}`.
fn has_hash_tag(key: impl Iterator<Item = u8>) -> bool {
    let mut tag = key.skip_while(|&byte| byte != b'{').skip(1);
    tag.position(|byte| byte == b'}').is_some_and(|length| length > 0)
}

/// The lock key, escaped for a terminal.
impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !b"\\\"".contains(byte);
        let name = String::from_utf8_lossy(self.lock());
        if name.len() <= SHOWN_MAX && name.as_bytes().iter().all(is_plain) {
            return f.write_str(&name);
        }
        let shown = name.char_indices().nth(SHOWN_MAX).map_or(name.len(), |(end, _)| end);
        let quoted = format!("{:?}", &name[..shown]);
        f.write_str(&quoted[1..quoted.len() - 1])?;
        if shown < name.len() { f.write_str("...") } else { Ok(()) }
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Names({self})")
    }
}

/// Maximum names of several locks shown to people.
#[cfg(any(test, feature = "groups", feature = "tracing"))]
const TITLES_MAX: usize = 16;

/// Names of locks, for people.
#[cfg(any(test, feature = "groups", feature = "tracing"))]
pub(crate) fn title(names: &[Names]) -> String {
    let mut title = String::new();
    for (place, names) in names.iter().take(TITLES_MAX).enumerate() {
        let separator = if place > 0 { ", " } else { "" };
        title += &format!("{separator}{names}");
    }
    let more = names.len().saturating_sub(TITLES_MAX);
    if more > 0 {
        title += &format!(", {more} more");
    }
    title
}

#[cfg(test)]
mod tests;

//! Who holds a lock: a fresh random id for every attempt, and a label for people.
//!
//! The lock key's value is the id in hexadecimal; `@` and the fingerprint of the configuration,
//! where there are several servers; and `:` and the label, where there is one.

use std::fmt;
use std::time::Duration;

use super::fingerprint;
use crate::clock;
use crate::error::{Configured, Holder};

/// Hexadecimal digits of 128 random bits.
pub(super) const ID_LENGTH: usize = 32;
/// Longer labels are cut off by nobody, so they are refused.
const LABEL_BYTES_MAX: usize = 256;

/// The owner of one attempt. There is no way to make the same one twice.
pub(crate) enum Owner {
    Plain([u8; ID_LENGTH]),
    /// With what follows the id.
    Extended(Box<[u8]>),
}

/// Why a text cannot be a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("label must be at most {LABEL_BYTES_MAX} bytes, not {0}")]
pub(crate) struct InvalidLabel(usize);

pub(crate) fn check_label(label: &str) -> Result<(), InvalidLabel> {
    if label.len() > LABEL_BYTES_MAX {
        return Err(InvalidLabel(label.len()));
    }
    Ok(())
}

impl Owner {
    /// Takes the place of one that is taken out.
    pub(super) const NOBODY: Self = Self::Plain([b'0'; ID_LENGTH]);

    pub(crate) fn fresh(fingerprint: Option<&str>, label: Option<&str>) -> Self {
        let id = fresh_id();
        let part = |mark, text: Option<_>| text.map_or(["", ""], |text| [mark, text]);
        let parts = [part("@", fingerprint), part(":", label)].map(|part| part.map(str::as_bytes));
        let [[at, print], [colon, label]] = parts;
        if at.is_empty() && colon.is_empty() {
            return Self::Plain(id);
        }
        Self::Extended([&id[..], at, print, colon, label].concat().into())
    }

    /// What nobody else has: the value begins with it.
    pub(super) fn id(&self) -> [u8; ID_LENGTH] {
        let id = self.value().first_chunk();
        *id.expect("a value begins with its id")
    }

    /// One with another id, and the same text for people: a lock whose value it is has no owner.
    pub(super) fn another(&self) -> Self {
        let id = fresh_id();
        match self {
            Self::Plain(_) => Self::Plain(id),
            Self::Extended(value) => Self::Extended([&id, &value[ID_LENGTH..]].concat().into()),
        }
    }

    /// What stands under the lock key while this owner holds it.
    pub(crate) fn value(&self) -> &[u8] {
        match self {
            Self::Plain(id) => id,
            Self::Extended(value) => value,
        }
    }
}

fn fresh_id() -> [u8; ID_LENGTH] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut id = [0; ID_LENGTH];
    let random = clock::random_id();
    #[cfg(test)]
    let random = clock::simulated::reused_id().unwrap_or(random);
    for (digits, byte) in id.chunks_exact_mut(2).zip(random) {
        digits[0] = DIGITS[usize::from(byte >> 4)];
        digits[1] = DIGITS[usize::from(byte & 15)];
    }
    id
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({})", self.value().escape_ascii())
    }
}

/// Reads a lock key's value, ours or another library's.
pub(crate) fn holder_of(value: &[u8], pttl_ms: i64) -> Holder {
    let text = String::from_utf8_lossy(value);
    let remaining = u64::try_from(pttl_ms).ok().map(Duration::from_millis);
    let (owner, configuration, label) = match parts_of(&text) {
        Some((id, None, label)) => (id, Configured::Single, label),
        Some((id, Some(print), label)) => (id, Configured::Several(print.into()), label),
        None => (&*text, Configured::Unknown, None),
    };
    let (owner, label) = (owner.to_owned(), label.map(str::to_owned));
    Holder { owner, label, remaining, is_here: false, other_configuration: false, configuration }
}

/// Whether a value that begins so may be one of ours.
#[cfg(feature = "inspect")]
pub(super) fn begins_as_ours(value: &[u8]) -> bool {
    value.len() >= ID_LENGTH && value[..ID_LENGTH].iter().all(u8::is_ascii_hexdigit)
}

/// The id, the fingerprint and the label of a value, if it is one of ours.
fn parts_of(text: &str) -> Option<(&str, Option<&str>, Option<&str>)> {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (id, rest) = text.split_at_checked(ID_LENGTH)?;
    let (fingerprint, rest) = match rest.strip_prefix('@') {
        Some(rest) => {
            let (print, rest) = rest.split_at_checked(fingerprint::LENGTH)?;
            (Some(print), rest)
        }
        None => (None, rest),
    };
    let label = rest.strip_prefix(':');
    let is_ours =
        is_hex(id) && fingerprint.is_none_or(is_hex) && (rest.is_empty() || label.is_some());
    is_ours.then_some((id, fingerprint, label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_begins_with_the_id_and_ends_with_the_label() {
        let owner = Owner::fresh(None, Some("billing:1"));
        assert_eq!(&owner.value()[ID_LENGTH..], b":billing:1");
        let holder = holder_of(owner.value(), 1500);
        assert_eq!(holder.label.as_deref(), Some("billing:1"));
        assert_eq!(holder.owner.as_bytes(), &owner.value()[..ID_LENGTH]);
        assert_eq!(holder.remaining, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn a_fingerprint_stands_between_id_and_label() {
        for label in [None, Some("a@b:c")] {
            let owner = Owner::fresh(Some("0a1b2c3d"), label);
            let holder = holder_of(owner.value(), 1);
            assert_eq!(holder.owner.as_bytes(), &owner.value()[..ID_LENGTH]);
            assert_eq!(holder.label.as_deref(), label);
            assert_eq!(holder.configuration, Configured::Several("0a1b2c3d".into()));
        }
        let single = holder_of(Owner::fresh(None, Some("@0a1b2c3d")).value(), 1);
        assert_eq!(single.configuration, Configured::Single);
    }

    #[test]
    fn owners_are_never_alike() {
        assert_ne!(Owner::fresh(None, None).value(), Owner::fresh(None, None).value());
        assert_eq!(Owner::fresh(None, None).value().len(), ID_LENGTH);
    }

    #[test]
    fn another_librarys_value_is_the_owner_itself() {
        let holder = holder_of(b"redis-py-token-\xff", -1);
        assert_eq!(holder.owner, "redis-py-token-\u{fffd}");
        assert_eq!(holder.label, None);
        assert_eq!(holder.configuration, Configured::Unknown);
        assert_eq!(holder.remaining, None);
        // As long as ours, but no hexadecimal digits, and characters over several bytes.
        assert_eq!(holder_of("ä".repeat(20).as_bytes(), 1).label, None);
        assert_eq!(holder_of(&[b'g'; 40], 1).owner, "g".repeat(40));
    }

    #[test]
    fn labels_are_bounded() {
        assert!(check_label(&"x".repeat(LABEL_BYTES_MAX)).is_ok());
        assert!(check_label(&"x".repeat(LABEL_BYTES_MAX + 1)).is_err());
    }
}

//! Who holds a lock: a fresh random id for every attempt, and a label for people.
//!
//! The lock key's value is the id in hexadecimal, and `:` and the label where there is one.

use std::fmt;

use crate::clock;
use crate::error::Holder;

/// Hexadecimal digits of 128 random bits.
const ID_LENGTH: usize = 32;
/// Longer labels are cut off by nobody, so they are refused.
const LABEL_BYTES_MAX: usize = 256;

/// The owner of one attempt. There is no way to make the same one twice.
pub(crate) struct Owner {
    id: [u8; ID_LENGTH],
    /// The whole value, where a label follows the id.
    labelled: Option<Box<[u8]>>,
}

/// Why a text cannot be a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a label may have at most {LABEL_BYTES_MAX} bytes, not {0}")]
pub(crate) struct InvalidLabel(usize);

pub(crate) fn check_label(label: &str) -> Result<(), InvalidLabel> {
    if label.len() > LABEL_BYTES_MAX {
        return Err(InvalidLabel(label.len()));
    }
    Ok(())
}

impl Owner {
    pub(crate) fn fresh(label: Option<&str>) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut id = [0; ID_LENGTH];
        for (digits, byte) in id.chunks_exact_mut(2).zip(clock::random_id()) {
            digits[0] = DIGITS[usize::from(byte >> 4)];
            digits[1] = DIGITS[usize::from(byte & 15)];
        }
        let labelled = label.map(|label| [&id[..], b":", label.as_bytes()].concat().into());
        Self { id, labelled }
    }

    /// What stands under the lock key while this owner holds it.
    pub(crate) fn value(&self) -> &[u8] {
        self.labelled.as_deref().unwrap_or(&self.id)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({})", self.value().escape_ascii())
    }
}

/// Reads a lock key's value, ours or another library's.
pub(super) fn holder_of(value: &[u8], pttl_ms: i64) -> Holder {
    let text = String::from_utf8_lossy(value);
    let (id, rest) = text.split_at_checked(ID_LENGTH).unwrap_or((&text, ""));
    let is_ours = id.len() == ID_LENGTH
        && id.bytes().all(|byte| byte.is_ascii_hexdigit())
        && (rest.is_empty() || rest.starts_with(':'));
    let (owner, label) = if is_ours {
        (id.to_owned(), rest.strip_prefix(':').map(str::to_owned))
    } else {
        (text.into_owned(), None)
    };
    let remaining = u64::try_from(pttl_ms).ok().map(std::time::Duration::from_millis);
    Holder { owner, label, remaining }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_value_begins_with_the_id_and_ends_with_the_label() {
        let owner = Owner::fresh(Some("billing:1"));
        assert_eq!(&owner.value()[..ID_LENGTH], &owner.id);
        assert_eq!(&owner.value()[ID_LENGTH..], b":billing:1");
        let holder = holder_of(owner.value(), 1500);
        assert_eq!(holder.label.as_deref(), Some("billing:1"));
        assert_eq!(holder.owner.as_bytes(), &owner.id);
        assert_eq!(holder.remaining, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn owners_are_never_alike() {
        assert_ne!(Owner::fresh(None).value(), Owner::fresh(None).value());
        assert_eq!(Owner::fresh(None).value().len(), ID_LENGTH);
    }

    #[test]
    fn another_librarys_value_is_the_owner_itself() {
        let holder = holder_of(b"redis-py-token-\xff", -1);
        assert_eq!(holder.owner, "redis-py-token-\u{fffd}");
        assert_eq!(holder.label, None);
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

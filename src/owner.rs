//! The owner of a lock: a fresh random id for every attempt, and a label for people.
//!
//! The lock key's value is the id in hexadecimal; `~`, the format; `+` and the lock-delay in milliseconds, where
//! there is one; `@` and the fingerprint of the configuration, where there are several servers; `!` and the priority
//! in the queue, where there is one; and `:` and the label, where there is one. The value under a lock that is shared
//! is a sharer's, with `*` and the limit behind the id, 0 for readers (`scripts/share.lua`).
//!
//! The format says that the owner knows marks: that it finds its value again with a byte 0 behind it, which says that
//! somebody waits. Values of earlier versions have none (`docs/compatibility.md`), and no other library's has it: they
//! are compared whole by their owners, and scripts put nothing behind them.

use std::fmt;

use crate::clock::{now, owner_id};
use crate::error::value::FORMAT;
pub(crate) use crate::error::value::{ID_LENGTH, Mark};

/// Id and format.
const HEAD_LENGTH: usize = ID_LENGTH + 1;

/// The owner of one attempt. There is no way to make the same one for another attempt.
#[derive(Clone)]
pub(crate) enum Owner {
    Plain([u8; HEAD_LENGTH]),
    /// With what follows them.
    Extended(Box<[u8]>),
}

impl Owner {
    pub(crate) fn fresh(mark: Mark<'_>) -> Self {
        match mark.text() {
            None => Self::Plain(fresh_head()),
            Some(text) => Self::Extended([&fresh_head()[..], text.as_bytes()].concat().into()),
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

/// A new id, and the format.
fn fresh_head() -> [u8; HEAD_LENGTH] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut head = [FORMAT; HEAD_LENGTH];
    for (digits, byte) in head.chunks_exact_mut(2).zip(owner_id(now()).to_be_bytes()) {
        digits[0] = DIGITS[usize::from(byte >> 4)];
        digits[1] = DIGITS[usize::from(byte & 15)];
    }
    head
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({})", self.value().escape_ascii())
    }
}

#[cfg(test)]
mod tests;

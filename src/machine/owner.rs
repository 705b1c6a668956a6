//! The owner of a lease: what nobody else has, and what the value says beside it.

/// Hexadecimal digits of 128 random bits.
const ID_LENGTH: usize = 32;
/// Behind the id: the owner finds its value again with a byte 0 behind it, which says that somebody waits.
const FORMAT: u8 = b'~';
const HEAD_LENGTH: usize = ID_LENGTH + 1;

/// The value that stands under the lock's key: the id, the format, and what is said beside them.
#[derive(Clone)]
pub(super) enum Owner {
    Plain([u8; HEAD_LENGTH]),
    Extended(Box<[u8]>),
}

impl Owner {
    pub(super) fn new(id: u128, said: &[u8]) -> Self {
        let head = head(id);
        if said.is_empty() {
            Self::Plain(head)
        } else {
            Self::Extended([&head, said].concat().into())
        }
    }

    /// What it is known by.
    pub(super) fn id(&self) -> &[u8] {
        &self.value()[..ID_LENGTH]
    }

    /// Another owner, which says the same.
    pub(super) fn another(&self, id: u128) -> Self {
        Self::new(id, self.said())
    }

    /// Whether the other says the same beside its id.
    pub(super) fn says(&self, other: &Self) -> bool {
        self.said() == other.said()
    }

    /// What it says beside its id.
    pub(super) fn said(&self) -> &[u8] {
        &self.value()[HEAD_LENGTH..]
    }

    pub(super) fn value(&self) -> &[u8] {
        match self {
            Self::Plain(value) => value,
            Self::Extended(value) => value,
        }
    }
}

fn head(id: u128) -> [u8; HEAD_LENGTH] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut head = [FORMAT; HEAD_LENGTH];
    for (pair, byte) in head.chunks_exact_mut(2).zip(id.to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    head
}

//! How an acquire treats others that want the lock.

/// See `acquire.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    /// Takes the lock if it is free and nobody waits for it.
    Turn,
    /// Only looks.
    Look,
    /// Takes the lock if it is free.
    Take,
}

impl Taking {
    pub(super) fn word(self) -> &'static [u8] {
        match self {
            Self::Take => b"take",
            Self::Turn => b"turn",
            Self::Look => b"look",
        }
    }
}

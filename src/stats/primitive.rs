use std::fmt;

/// The kinds of primitives that a [`Locker`](crate::Locker) offers beside locks: the subject of an
/// [`Event::Answered`](crate::Event::Answered).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Primitive {
    /// [`Locker::limit`](crate::Locker::limit).
    Limit,
    /// [`Locker::once`](crate::Locker::once).
    Once,
    /// [`Locker::idempotent`](crate::Locker::idempotent).
    Idempotency,
    /// [`Locker::latch`](crate::Locker::latch).
    Latch,
    /// [`Locker::barrier`](crate::Locker::barrier).
    Barrier,
    /// [`Locker::elect`](crate::Locker::elect): nominations. A campaign counts as a request for a lock.
    Election,
}

impl Primitive {
    /// The name in errors, metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Once => "once",
            Self::Idempotency => "idempotency key",
            Self::Latch => "latch",
            Self::Barrier => "barrier",
            Self::Election => "election",
        }
    }
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

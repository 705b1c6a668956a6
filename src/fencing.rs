//! Fencing tokens, and which guards have one.

use std::fmt;

/// A number that rises with every lease of a lock. Pass it to the resource that the lock protects, in the
/// statement that reads as well as in each that writes, and have the resource refuse a token that is smaller
/// than the largest it has seen: [`Guard::fence`](crate::Guard::fence) has an example.
///
/// Tokens of one lock are unique and follow the order in which its leases were granted, whatever clocks do, for as long
/// as the server keeps the lock's counter. If the server forgets it (the server lost its memory, evicted the key, or nobody
/// took the lock for seven days), tokens go on from a clock, in microseconds since 1970, and rise unless that clock is
/// behind the last token: [`guide::guarantees`](crate::guide::guarantees) says which clock.
///
/// Tokens are not consecutive, and stay below 2^53: an `i64`, a `bigint` column and a JSON number hold each of them.
///
/// With the feature `serde` a token is serialized as its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token of this number: for a token that was stored, and for tests of a resource that checks tokens. Nobody holds
    /// a lock by it.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

/// For a `bigint` column. It is the same number: tokens stay below 2^53.
impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        Self::try_from(token.0).unwrap_or(Self::MAX)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for FencingToken {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for FencingToken {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::Deserialize::deserialize(deserializer).map(Self)
    }
}

pub(super) mod sealed {
    pub trait Sealed: Sized + Send + Sync + Unpin + 'static {
        const FENCED: bool;
        fn from_token(token: Option<u64>) -> Self;
    }
}

/// Whether a guard has a fencing token: [`Fenced`] or [`Unfenced`].
pub trait Fencing: sealed::Sealed {}

/// A guard with a fencing token.
#[derive(Clone, Copy, Debug)]
pub struct Fenced(pub(super) FencingToken);

/// A guard without a fencing token.
#[derive(Clone, Copy, Debug)]
pub struct Unfenced(());

impl Fencing for Fenced {}
impl Fencing for Unfenced {}

impl sealed::Sealed for Fenced {
    const FENCED: bool = true;

    fn from_token(token: Option<u64>) -> Self {
        Self(FencingToken(token.expect("a fenced lease is granted with its token")))
    }
}

impl sealed::Sealed for Unfenced {
    const FENCED: bool = false;

    fn from_token(_: Option<u64>) -> Self {
        Self(())
    }
}

#[cfg(test)]
mod tests;

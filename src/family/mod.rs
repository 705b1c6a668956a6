//! The primitives beside locks: each is a script or two, a key, and a way to read the replies.
//!
//! A file is one primitive. It knows its scripts and what their replies mean, and asks servers through
//! its [`site::Site`]. It must never know a lease or a connection. Primitives are registered nowhere: a program
//! that does not use one does not contain its code.

pub(crate) mod agreement;
mod asking;
pub(crate) mod barrier;
pub(crate) mod idempotency;
#[cfg(feature = "inspect")]
pub(crate) mod kept;
pub(crate) mod latch;
pub(crate) mod limit;
pub(crate) mod nomination;
pub(crate) mod once;
mod parties;
mod purpose;
pub(crate) mod rate;
pub(crate) mod site;
mod slots;
mod stint;
#[cfg(test)]
mod tests;
mod vigil;

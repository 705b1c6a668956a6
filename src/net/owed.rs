//! What has to reach a server, on this connection or on another.

use std::sync::Arc;

use bytes::Bytes;

use super::proof::Expected;
use super::refusal::ServerError;
use crate::policy::Redelivery;

/// A command whose reply nobody waits for, but which has to reach the server: should its
/// connection end before it is answered, it is handed back, to be sent on another. So it has to
/// be one that may run twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owed {
    /// The command, encoded.
    pub command: Bytes,
    /// The script that the command calls by its digest: what is sent to a server that lacks it.
    pub script: Option<&'static str>,
    /// Whether it may be split into one of each of its keys, where they are on two nodes.
    pub is_by_key: bool,
    /// What its reply can be.
    pub expected: Expected,
    /// The part of the key space that its keys are in: on which server, may change.
    pub slot: u16,
    /// When it is sent again.
    pub again: Redelivery,
    /// One for all that a locker owes: how often it is shared says how much that is, wherever it is.
    pub counted: Arc<()>,
}

/// Something owed that the server did not do, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What was owed.
    pub owed: Owed,
    /// The server's words.
    pub error: ServerError,
}

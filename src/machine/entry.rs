//! An owner that waits in the queue of a lock.

use super::ids::LeaseId;
use crate::policy::{Moment, WaiterState};

/// An owner in the queue of a lock at one server.
pub(crate) struct Entry {
    /// The link to the server, and the place of the lease's replica there.
    pub(crate) server: usize,
    pub(super) at: usize,
    pub(crate) state: WaiterState,
    /// When its last question was sent; what is to be judged is the answer to that one.
    pub(crate) asked_at: Moment,
    /// Since when nothing has been answered that was asked.
    pub(crate) unanswered_since: Option<Moment>,
    /// The server has answered its owner: only a first question enters.
    pub(crate) is_known: bool,
    /// It knows of nobody before it.
    pub(crate) is_first: bool,
    /// A server has told that something happened to the lock.
    pub(crate) is_told: bool,
    /// When all servers were asked last.
    pub(crate) all_asked_at: Moment,
    /// An attempt by another owner that asks them.
    pub(super) scout: Option<LeaseId>,
    /// When the holder's lease ends, as far as is known.
    pub(crate) frees_at: Option<Moment>,
    /// The server keeps the lock for the owner until then, with this token: its turn to ask all servers.
    pub(super) turn: Option<(Moment, u64)>,
}

//! What is leased, as rows of data: which scripts extend it and give it back, and by which keys.
//!
//! Whatever keeps, loses and gives back leases goes by the row of a hold. The lock is the first row; a hold
//! has another only where its request says so, and then it is of one name.

use std::num::NonZeroU32;

use super::scripts;
use crate::server::script::Script;

/// One kind of lease.
pub(super) struct Row {
    pub(super) extend: fn() -> &'static Script,
    pub(super) release: fn() -> &'static Script,
    /// Whether the release has the key of the shares, too.
    pub(super) frees_shares: bool,
    /// Whether the lock's key alone names the holder: then servers tell of its end, a process may hand it on,
    /// and it can be asked for key by key. Else an extension has the key of the shares, too.
    pub(super) is_by_lock: bool,
}

const LOCK: Row = Row {
    extend: scripts::extend,
    release: scripts::release,
    frees_shares: false,
    is_by_lock: true,
};

static ROWS: [Row; 3] = [
    LOCK,
    // The whole lock, of an owner that lets sharers in behind it.
    Row { release: scripts::share, frees_shares: true, ..LOCK },
    // Shares of a lock.
    Row {
        extend: scripts::prolong,
        release: scripts::share,
        frees_shares: true,
        is_by_lock: false,
    },
];

/// What is wanted of a lock by a request that allows for shares of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// All of it.
    Whole,
    /// One share, beside any number of others.
    Any,
    /// As many shares of a limited number as the weight says.
    Limited { limit: NonZeroU32, weight: NonZeroU32 },
}

impl Sharing {
    /// The limit, 0 without one, and the weight; none for the whole lock.
    pub(super) fn share(self) -> Option<[u32; 2]> {
        match self {
            Self::Whole => None,
            Self::Any => Some([0, 1]),
            Self::Limited { limit, weight } => Some([limit.get(), weight.get()]),
        }
    }
}

impl Row {
    pub(super) fn of(sharing: Option<Sharing>) -> &'static Self {
        &ROWS[match sharing {
            None => 0,
            Some(Sharing::Whole) => 1,
            Some(Sharing::Any | Sharing::Limited { .. }) => 2,
        }]
    }
}

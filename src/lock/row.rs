//! What is leased, as rows of data: which scripts take it, extend it and give it back, and by which keys.
//!
//! Whatever keeps, loses and gives back leases goes by the row of a hold. The lock is the first row; a hold
//! has another only where its request says so, and then it is of one name. Only a request names its row, so a
//! program without shares does not have their scripts.

use std::num::NonZeroU32;

use super::scripts;
use crate::server::script::Script;

/// One kind of lease.
#[derive(Debug)]
pub(super) struct Row {
    /// The script by which a server has it, or knows it as waited for.
    pub(super) take: fn() -> &'static Script,
    pub(super) extend: fn() -> &'static Script,
    pub(super) release: fn() -> &'static Script,
    /// Whether the release has the key of the shares, too.
    pub(super) frees_shares: bool,
    /// Whether the lock's key alone names the holder: then servers tell of its end, a process may hand it on,
    /// and it can be asked for key by key. Else an extension has the key of the shares, too.
    pub(super) is_by_lock: bool,
}

static LOCK: Row = Row {
    take: scripts::acquire,
    extend: scripts::extend,
    release: scripts::release,
    frees_shares: false,
    is_by_lock: true,
};

/// The whole lock, of an owner that lets sharers in behind it.
static WHOLE: Row = Row {
    take: scripts::acquire,
    extend: scripts::extend,
    release: scripts::share,
    frees_shares: true,
    is_by_lock: true,
};

static SHARES: Row = Row {
    take: scripts::share,
    extend: scripts::prolong,
    release: scripts::share,
    frees_shares: true,
    is_by_lock: false,
};

/// What is wanted of a lock by a request that allows for shares of others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharing {
    row: &'static Row,
    /// The limit, 0 without one, and the weight; none for the whole lock.
    pub(super) share: Option<[u32; 2]>,
}

impl Sharing {
    /// All of it.
    pub(crate) const WHOLE: Self = Self { row: &WHOLE, share: None };
    /// One share, beside any number of others.
    pub(crate) const ANY: Self = Self { row: &SHARES, share: Some([0, 1]) };

    /// As many shares of a limited number as the weight says.
    pub(crate) fn limited(limit: NonZeroU32, weight: NonZeroU32) -> Self {
        Self { row: &SHARES, share: Some([limit.get(), weight.get()]) }
    }
}

/// The rows follow from the shares.
impl PartialEq for Sharing {
    fn eq(&self, other: &Self) -> bool {
        self.share == other.share
    }
}

impl Row {
    pub(super) fn of(sharing: Option<Sharing>) -> &'static Self {
        sharing.map_or(&LOCK, |sharing| sharing.row)
    }
}

//! The settings of one run.

use std::time::Duration;

pub(crate) struct Plan {
    /// The command of an adapter, before the servers' URLs.
    pub(crate) adapter: Vec<String>,
    pub(crate) length: Duration,
    pub(crate) seed: u64,
    pub(crate) servers: usize,
    pub(crate) kind: Kind,
    pub(crate) expects_faults: bool,
    /// The number of processes that wait in queues; none if locks are only tried.
    pub(crate) waiters: Option<usize>,
    /// The kind of servers with the queues.
    pub(crate) setting: Setting,
}

/// What the clients acquire.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Lock,
    /// Shares of one reader-writer lock: readers, or one writer.
    Shares,
    /// Permits of a semaphore with this limit.
    Permits(u32),
}

impl Kind {
    pub(crate) fn permits(self) -> u32 {
        match self {
            Self::Lock | Self::Shares => 1,
            Self::Permits(limit) => limit,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Setting {
    Servers,
    Sentinel,
    Cluster,
}

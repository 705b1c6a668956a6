//! The settings of one run.

use std::time::Duration;

pub(crate) struct Plan {
    /// The command of an adapter, to which the servers' URLs are added.
    pub(crate) adapter: Vec<String>,
    pub(crate) length: Duration,
    pub(crate) seed: u64,
    pub(crate) servers: usize,
    pub(crate) kind: Kind,
    pub(crate) expects_faults: bool,
    /// How many processes wait in queues; none where locks are only tried.
    pub(crate) waiters: Option<usize>,
    /// Whose queues.
    pub(crate) setting: Setting,
}

/// What the clients take.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Lock,
    /// That of one reader-writer lock: readers, and a writer alone.
    Shares,
    /// Shares of one reader-writer lock: readers, or one writer.
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

//! What one run is to be like.

use std::time::Duration;

pub(crate) struct Plan {
    /// The command of an adapter, to which the servers' URLs are added.
    pub(crate) adapter: Vec<String>,
    pub(crate) length: Duration,
    pub(crate) seed: u64,
    pub(crate) servers: usize,
    /// How many may hold one lock at once.
    pub(crate) permits: usize,
    pub(crate) expects_faults: bool,
    /// How many processes wait in queues; none where locks are only tried.
    pub(crate) waiters: Option<usize>,
    /// Whose queues.
    pub(crate) setting: Setting,
}

#[derive(Clone, Copy)]
pub(crate) enum Setting {
    Servers,
    Sentinel,
    Cluster,
}

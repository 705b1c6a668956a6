//! A lane of a node, and what it has beside its connection.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::fitness::Standing;
use crate::net::lane::Lane;

/// See the module's documentation.
pub(super) struct Desk {
    pub(super) lane: Lane,
    /// Whether anybody has ever wanted a connection: until then none is made.
    pub(super) is_wanted: AtomicBool,
    /// Somebody wants the connection now.
    pub(super) wanted: Notify,
    /// How the server stands while the lane's connection lives.
    pub(super) standing: Mutex<Standing>,
}

impl Desk {
    pub(super) fn new(is_wanted: bool) -> Self {
        Self {
            lane: Lane::default(),
            is_wanted: AtomicBool::new(is_wanted),
            wanted: Notify::new(),
            standing: Mutex::new(Standing::Fit),
        }
    }

    /// Waits until somebody has wanted the lane for the first time.
    pub(super) async fn first_wanted(&self) {
        while !self.is_wanted.load(Ordering::Acquire) {
            self.wanted.notified().await;
        }
    }
}

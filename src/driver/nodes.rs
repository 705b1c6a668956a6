//! A driver's state of a Cluster beside the map.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::mutex::lock;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Nodes {
    /// Notified when the map may be old.
    pub(super) wanted: Notify,
    /// A node's refusal to give the map, for want of a right.
    refused: Mutex<Option<String>>,
}

impl Nodes {
    pub(super) fn refused(&self) -> Option<String> {
        lock(&self.refused).clone()
    }

    pub(super) fn note_refused(&self, refused: Option<String>) {
        *lock(&self.refused) = refused;
    }
}

//! What a driver knows of a Cluster beside its map.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::mutex::lock;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Nodes {
    /// Rung where the map may be old.
    pub(super) wanted: Notify,
    /// What a node has refused that was asked for the map, for want of a right.
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

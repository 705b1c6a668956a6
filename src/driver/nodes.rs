//! What a driver knows of a Cluster beside its map.

use std::sync::{Mutex, OnceLock};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::mutex::lock;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Nodes {
    /// Rung where the map may be old.
    pub(super) wanted: Notify,
    /// What a node has refused that was asked for the map, for want of a right.
    refused: Mutex<Option<String>>,
    /// The task that asks for the map.
    keeper: OnceLock<AbortHandle>,
}

impl Nodes {
    pub(super) fn refused(&self) -> Option<String> {
        lock(&self.refused).clone()
    }

    pub(super) fn note_refused(&self, refused: Option<String>) {
        *lock(&self.refused) = refused;
    }

    pub(super) fn are_kept_by(&self, keeper: AbortHandle) {
        let _ = self.keeper.set(keeper);
    }

    /// The driver has ended.
    pub(super) fn are_left(&self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.abort();
        }
    }
}

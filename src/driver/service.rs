//! A driver's state of a service that Sentinels watch: which server is its master.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::endpoint::Endpoint;
use crate::mutex::lock;

/// See the module's documentation.
pub(crate) struct Service {
    master: Mutex<Endpoint>,
    /// Notified when the master may have changed.
    pub(super) wanted: Notify,
    /// Refusals of Sentinels for want of a right, a line each.
    refused: Mutex<Vec<String>>,
}

impl Service {
    pub(crate) fn new(master: Endpoint) -> Self {
        Self { master: Mutex::new(master), wanted: Notify::new(), refused: Mutex::default() }
    }

    pub(super) fn master(&self) -> Endpoint {
        lock(&self.master).clone()
    }

    pub(super) fn address(&self) -> String {
        lock(&self.master).address.text()
    }

    /// Another server is the master.
    pub(super) fn follow(&self, successor: Endpoint) {
        *lock(&self.master) = successor;
    }

    pub(super) fn refused(&self) -> Vec<String> {
        lock(&self.refused).clone()
    }

    pub(super) fn note_refused(&self, refused: Vec<String>) {
        *lock(&self.refused) = refused;
    }
}

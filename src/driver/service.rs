//! What a driver knows of a service that Sentinels watch: which server is its master.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::mutex::lock;
use crate::server::endpoint::Endpoint;

/// See the module's documentation.
pub(crate) struct Service {
    master: Mutex<Arc<Endpoint>>,
    /// Rung where the master may be another.
    pub(super) wanted: Notify,
    /// What Sentinels refuse, for want of a right, a line each.
    refused: Mutex<Vec<String>>,
}

impl Service {
    pub(super) fn new(master: Endpoint) -> Self {
        let (master, refused) = (Mutex::new(Arc::new(master)), Mutex::default());
        Self { master, wanted: Notify::new(), refused }
    }

    pub(super) fn master(&self) -> Arc<Endpoint> {
        Arc::clone(&lock(&self.master))
    }

    /// Another server is the master; which one was.
    pub(super) fn follow(&self, master: Endpoint) -> Arc<Endpoint> {
        std::mem::replace(&mut *lock(&self.master), Arc::new(master))
    }

    pub(super) fn refused(&self) -> Vec<String> {
        lock(&self.refused).clone()
    }

    pub(super) fn note_refused(&self, refused: Vec<String>) {
        *lock(&self.refused) = refused;
    }
}

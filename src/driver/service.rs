//! What a driver knows of a service that Sentinels watch: which server is its master.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::mutex::lock;
use crate::server::endpoint::Endpoint;

/// See the module's documentation.
pub(crate) struct Service {
    /// And how many were before.
    master: Mutex<(Endpoint, u32)>,
    /// Rung where the master may be another.
    pub(super) wanted: Notify,
    /// What Sentinels refuse, for want of a right, a line each.
    refused: Mutex<Vec<String>>,
}

impl Service {
    pub(super) fn new(master: Endpoint) -> Self {
        Self { master: Mutex::new((master, 0)), wanted: Notify::new(), refused: Mutex::default() }
    }

    pub(super) fn master(&self) -> Endpoint {
        lock(&self.master).0.clone()
    }

    pub(super) fn address(&self) -> String {
        lock(&self.master).0.address.to_string()
    }

    pub(super) fn turn(&self) -> u32 {
        lock(&self.master).1
    }

    /// Another server is the master.
    pub(super) fn follow(&self, successor: Endpoint) {
        let mut master = lock(&self.master);
        *master = (successor, master.1.wrapping_add(1));
    }

    pub(super) fn refused(&self) -> Vec<String> {
        lock(&self.refused).clone()
    }

    pub(super) fn note_refused(&self, refused: Vec<String>) {
        *lock(&self.refused) = refused;
    }
}

//! How tasks that wait for a lease's loss are told.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::mutex::lock;

/// There is something to ring once somebody waits: most leases are given back before.
#[derive(Default)]
pub(super) struct Bell(Mutex<Option<Arc<Notify>>>);

impl Bell {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Notify>>> {
        lock(&self.0)
    }

    /// Tells the tasks that wait; a later one finds the loss.
    pub(super) fn ring(&self) {
        let rung = self.lock().clone();
        if let Some(rung) = rung {
            rung.notify_waiters();
        }
    }

    /// What waiting tasks listen to.
    pub(super) fn heard(&self) -> Arc<Notify> {
        Arc::clone(self.lock().get_or_insert_default())
    }
}

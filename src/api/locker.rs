//! What all handles share.

use std::sync::Arc;

use crate::driver::Shared;
use crate::names::Names;
use crate::stats::Meter;

/// See the module's documentation.
#[derive(Clone)]
pub(crate) struct Locker {
    pub(crate) driver: Arc<Shared>,
    pub(crate) meter: Arc<Meter>,
}

impl Locker {
    /// Whether one of its leases holds the lock.
    pub(crate) fn holds(&self, names: &Names) -> bool {
        self.driver.look(|machine| machine.holds(names))
    }
}

//! A lease without a guard, kept for a request that waits for further locks.

use std::sync::Arc;

use super::locker::Locker;
use crate::driver::Shared;
use crate::machine::{LeaseId, Options};

/// Dropping it releases the lock.
pub(crate) struct Part {
    driver: Arc<Shared>,
    id: LeaseId,
}

impl Part {
    /// None if the request failed.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, whatever was granted is released.
    pub(crate) async fn take(locker: &Locker, options: Options) -> Option<Self> {
        let driver = locker.driver.clone();
        let id = driver.with(|machine, now| machine.acquire(options, now));
        let part = Self { driver, id };
        part.driver.wait(|machine, context| machine.poll_acquire(id, context)).await.ok()?;
        Some(part)
    }

    /// The value under the lock's key.
    pub(crate) fn owner(&self) -> Option<Box<[u8]>> {
        self.driver.look(|machine| machine.owner(self.id).map(Box::from))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.driver.with_drop(|machine, now| machine.forget(self.id, now));
    }
}

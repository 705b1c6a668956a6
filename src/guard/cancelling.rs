//! A token that is cancelled when the lease is over, for other tasks and threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
#[cfg(any(test, feature = "sharing"))]
use tokio_util::sync::DropGuard;

use crate::api::Lease;

/// The token of one lease. Dropping it cancels the token.
pub(super) struct Cancelling {
    part: Part,
    watcher: AbortHandle,
}

/// Of the guard, and of the task that waits for the loss: whichever is dropped first cancels the token. A runtime that
/// ends drops its tasks, and nobody renews a lease from then on.
#[derive(Clone)]
struct Part {
    token: CancellationToken,
    is_armed: Arc<AtomicBool>,
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.is_armed.load(Ordering::SeqCst) {
            self.token.cancel();
        }
    }
}

impl Cancelling {
    /// A new token, which a task of the locker's runtime cancels at the loss.
    pub(super) fn of(lease: &Lease) -> Self {
        Self::begin(lease, CancellationToken::new())
    }

    pub(super) fn token(&self) -> CancellationToken {
        self.part.token.clone()
    }

    fn begin(lease: &Lease, token: CancellationToken) -> Self {
        let part = Part { token, is_armed: Arc::new(AtomicBool::new(true)) };
        let watcher = lease.drop_at_loss(part.clone());
        Self { part, watcher }
    }

    /// The token of a lease in whose place another may come: it is cancelled where none does.
    #[cfg(any(test, feature = "sharing"))]
    pub(super) fn suspend(self) -> DropGuard {
        self.part.is_armed.store(false, Ordering::SeqCst);
        self.part.token.clone().drop_guard()
    }

    /// The same token for the lease that there is now.
    #[cfg(any(test, feature = "sharing"))]
    pub(super) fn resume(lease: &Lease, suspended: DropGuard) -> Self {
        Self::begin(lease, suspended.disarm())
    }
}

impl Drop for Cancelling {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

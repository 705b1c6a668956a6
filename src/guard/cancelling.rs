//! A token that is cancelled when the lease is over, for work that goes on elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
#[cfg(any(test, feature = "sharing"))]
use tokio_util::sync::DropGuard;

use super::Guard;
use crate::api::Lease;
use crate::fencing::Fencing;

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

impl<F: Fencing> Guard<F> {
    /// A token that is cancelled when the lease is lost, and when the guard is released or dropped: for tasks, threads and
    /// requests elsewhere, which [`Guard::run`] cannot end. Each call returns the same token, as a clone.
    ///
    /// It is cancelled before the release is sent. A task of the locker's runtime waits for the loss, as in
    /// [`Guard::lost`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: leasehold::Guard, parts: Vec<u32>) -> Result<(), leasehold::Error> {
    /// # async fn rebuild(part: u32) {}
    /// let mut tasks = tokio::task::JoinSet::new();
    /// for part in parts {
    ///     let lost = guard.cancellation_token();
    ///     tasks.spawn(async move { lost.run_until_cancelled(rebuild(part)).await });
    /// }
    /// tasks.join_all().await;
    /// guard.release().await
    /// # }
    /// ```
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        let begin = || Cancelling::begin(&self.lease, CancellationToken::new());
        self.cancelling.get_or_init(begin).part.token.clone()
    }
}

//! Tasks beside the driver's main task.

use tokio::task::AbortHandle;

/// A task that ends with this: what it would come to is nothing any more.
pub(super) struct Aside(pub(super) AbortHandle);

impl Drop for Aside {
    fn drop(&mut self) {
        self.0.abort();
    }
}

//! What all handles share.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::Shared;
#[cfg(any(test, feature = "_calls", feature = "groups"))]
use crate::driver::timekeeper::Timer;
use crate::error::{Error, Report};
use crate::names::Names;
use crate::policy::Quorum;
#[cfg(any(test, feature = "_calls", feature = "groups", feature = "sharing"))]
use crate::race::Elapsed;

const STANDS_STILL: &str = "this call is on no tokio runtime, and the locker is on a current_thread one, which stands still unless \
     a thread is in its block_on: await the call there, or connect on a multi_thread runtime";

/// See the module's documentation.
#[derive(Clone)]
pub(crate) struct Locker {
    pub(crate) driver: Arc<Shared>,
    /// The lock for turns: its holder may keep some of its locks while it waits for the others.
    #[cfg(any(test, feature = "groups"))]
    pub(crate) turns: Option<Arc<Names>>,
}

impl Locker {
    /// Waits until each server was dialled once, and reports those that do not serve.
    pub(crate) async fn meet(&self) -> Report {
        poll_fn(|context| self.driver.look(|machine| machine.poll_met(context))).await;
        self.driver.unmet()
    }

    /// A timer of the caller's runtime, or else of the driver's.
    #[cfg(any(test, feature = "_calls", feature = "groups"))]
    pub(crate) fn sleep(&self, time: Duration) -> Timer {
        self.driver.timer(time)
    }

    /// The output of `future`, if it is ready within `limit`.
    #[cfg(any(test, feature = "_calls", feature = "groups", feature = "sharing"))]
    pub(crate) async fn timeout<F: Future + Unpin>(
        &self,
        limit: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        self.driver.timeout(limit, future).await
    }

    /// Whether the caller is on another runtime.
    ///
    /// # Errors
    ///
    /// It would wait for ever, because no thread drives the locker's.
    pub(crate) fn check_runtime(&self) -> Result<bool, Error> {
        self.driver.is_elsewhere().ok_or_else(|| Error::misuse(STANDS_STILL))
    }

    /// Sorts several locks, and removes duplicates.
    #[cfg(any(test, feature = "groups"))]
    pub(crate) fn arrange(&self, names: &mut Vec<Names>) {
        names.sort_unstable_by(|one, other| one.lock().cmp(other.lock()));
        names.dedup();
    }

    #[cfg(any(test, feature = "inspect", feature = "takeover"))]
    pub(crate) fn fingerprint(&self) -> Option<&str> {
        self.driver.fingerprint()
    }

    pub(crate) fn quorum(&self) -> Quorum {
        self.driver.look(|machine| machine.settings().quorum)
    }

    /// Whether one server decides alone.
    #[cfg(any(test, feature = "sharing"))]
    pub(crate) fn is_single(&self) -> bool {
        self.driver.votes() == 1
    }

    /// Whether the locker has no queues.
    #[cfg(any(test, feature = "groups", feature = "sharing"))]
    pub(crate) fn is_scriptless(&self) -> bool {
        #[cfg(any(test, feature = "scriptless"))]
        return self.driver.look(|machine| machine.settings().scriptless.is_some());
        #[cfg(not(any(test, feature = "scriptless")))]
        false
    }

    #[cfg(any(
        test,
        feature = "groups",
        feature = "sharing",
        feature = "election",
        feature = "family"
    ))]
    pub(crate) fn command_timeout(&self) -> Duration {
        self.driver.look(|machine| machine.settings().timeout)
    }
}

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoints = self.driver.links().into_iter().map(|link| self.driver.endpoint(link));
        f.debug_list().entries(endpoints.map(|it| it.to_string())).finish()
    }
}

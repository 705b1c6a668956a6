//! The callers that wait on one connection for what replicas have: see [`super::muster`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use super::muster::Muster;
use super::pipeline::Ticket;

#[derive(Default)]
pub(super) struct Waiting(Mutex<State>);

#[derive(Default)]
pub(super) struct State {
    pub(super) muster: Muster<Waker>,
    /// Claims the reply to the `WAIT` under way.
    pub(super) ticket: Option<Ticket>,
}

impl Waiting {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has all look, as any of them may be dropped before it does.
    pub(super) fn wake_all(&self) {
        let all = self.state().muster.wake_all();
        all.into_iter().for_each(Waker::wake);
    }
}

/// The reply to the `WAIT` under way has come.
impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

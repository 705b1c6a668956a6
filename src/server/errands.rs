//! What is owed where keys move, until it is carried: by [`super::courier`], which knows where to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock;
use crate::net::owed::{Owed, Refused};
use crate::net::pushes::Refusals;
use crate::net::refusal::{Code, ServerError};
use crate::net::transport::Address;
use crate::policy::{Backoff, Moment};

/// Between two tries: soon, but not at the pace at which servers that disagree can refuse.
const TRIES: Backoff =
    Backoff { first: Duration::from_millis(4), longest: Duration::from_millis(500) };
/// More than this is kept for nobody.
const ERRANDS_MAX: usize = 4096;

/// Something owed, and what is known of where it is to go.
pub(super) struct Errand {
    pub(super) owed: Owed,
    pub(super) lane: usize,
    pub(super) due_at: Moment,
    /// The server that refused it, and its words.
    pub(super) refused: Option<(Address, ServerError)>,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Errands {
    waiting: Mutex<Vec<Errand>>,
    pub(super) called: Notify,
}

impl Errands {
    fn waiting(&self) -> MutexGuard<'_, Vec<Errand>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, owed: Owed, lane: usize, refused: Option<(Address, ServerError)>) {
        let due_at = due_at(&owed);
        let errand = Errand { owed, lane, due_at, refused };
        let mut waiting = self.waiting();
        if waiting.len() < ERRANDS_MAX {
            waiting.push(errand);
            drop(waiting);
            self.called.notify_one();
        }
    }

    /// Takes over what could not be sent on this lane of a server, or was not answered there.
    pub(super) fn carry(&self, owed: impl IntoIterator<Item = Owed>, lane: usize) {
        owed.into_iter().for_each(|owed| self.add(owed, lane, None));
    }

    /// Hears what a lane of a server refuses.
    pub(super) fn listener(self: &Arc<Self>, address: Address, lane: usize) -> Arc<dyn Refusals> {
        Arc::new(Listener { errands: Arc::clone(self), address, lane })
    }

    pub(super) fn take_due(&self) -> Vec<Errand> {
        let now = clock::now();
        let mut waiting = self.waiting();
        let (due, later) = waiting.drain(..).partition(|errand| errand.due_at <= now);
        *waiting = later;
        due
    }

    /// Keeps these for another try; when the next one is due.
    pub(super) fn put_back(&self, mut left: Vec<Errand>) -> Option<Moment> {
        let mut waiting = self.waiting();
        waiting.append(&mut left);
        waiting.iter().map(|errand| errand.due_at).min()
    }
}

/// When it is to be sent next.
pub(super) fn due_at(owed: &Owed) -> Moment {
    clock::now().after(TRIES.delay(owed.tries, clock::random_bits()))
}

/// One lane of one server.
struct Listener {
    errands: Arc<Errands>,
    address: Address,
    lane: usize,
}

impl Refusals for Listener {
    fn refused(&self, Refused { owed, error }: Refused) {
        // Anything else it would refuse everywhere.
        if matches!(error.code(), Code::Elsewhere | Code::ReadOnly | Code::Later) {
            let refused = Some((self.address.clone(), error));
            self.errands.add(owed, self.lane, refused);
        }
    }
}

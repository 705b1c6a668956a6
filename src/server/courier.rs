//! What is owed where keys move: carried to whichever server serves its slot now.
//!
//! A release that a server refuses because the key has moved, or that a connection's end left
//! unanswered, has to reach the server that has the key now. It may be carried out twice, and is
//! given up once it is pointless.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::place::{Detour, Directory};
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
struct Errand {
    owed: Owed,
    lane: usize,
    due_at: Moment,
    /// The server that refused it, and its words.
    refused: Option<(Address, ServerError)>,
}

/// What has to be carried.
#[derive(Default)]
pub(crate) struct Courier {
    errands: Mutex<Vec<Errand>>,
    called: Notify,
}

impl Courier {
    fn errands(&self) -> MutexGuard<'_, Vec<Errand>> {
        self.errands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, owed: Owed, lane: usize, refused: Option<(Address, ServerError)>) {
        let due_at = due_at(&owed);
        let errand = Errand { owed, lane, due_at, refused };
        let mut errands = self.errands();
        if errands.len() < ERRANDS_MAX {
            errands.push(errand);
            drop(errands);
            self.called.notify_one();
        }
    }

    /// Takes over what could not be sent on this lane of a server, or was not answered there.
    pub(super) fn carry(&self, owed: impl IntoIterator<Item = Owed>, lane: usize) {
        owed.into_iter().for_each(|owed| self.add(owed, lane, None));
    }

    /// Hears what a lane of a server refuses.
    pub(super) fn listener(self: &Arc<Self>, address: Address, lane: usize) -> Arc<dyn Refusals> {
        Arc::new(Listener { courier: Arc::clone(self), address, lane })
    }

    fn take_due(&self) -> Vec<Errand> {
        let now = clock::now();
        let mut errands = self.errands();
        let (due, later) = errands.drain(..).partition(|errand| errand.due_at <= now);
        *errands = later;
        due
    }

    /// Keeps these for another try; when the next one is due.
    fn put_back(&self, mut left: Vec<Errand>) -> Option<Moment> {
        let mut errands = self.errands();
        errands.append(&mut left);
        errands.iter().map(|errand| errand.due_at).min()
    }

    /// Carries what comes, for as long as the directory's place lives.
    pub(super) async fn run(&self, directory: &dyn Directory) {
        loop {
            let mut due = self.take_due();
            due.retain_mut(|errand| !errand.deliver(directory));
            match self.put_back(due) {
                None => self.called.notified().await,
                Some(at) => {
                    let _ = timeout(at.since(clock::now()), self.called.notified()).await;
                }
            }
        }
    }
}

/// When it is to be sent next.
fn due_at(owed: &Owed) -> Moment {
    clock::now().after(TRIES.delay(owed.tries, clock::random_bits()))
}

impl Errand {
    /// Whether it is done with: sent, or pointless. Should it be refused again, it comes back as
    /// another errand.
    fn deliver(&mut self, directory: &dyn Directory) -> bool {
        if self.owed.pointless_at <= clock::now() {
            return true;
        }
        self.owed.tries = self.owed.tries.saturating_add(1);
        self.due_at = due_at(&self.owed);
        let slot = self.owed.slot;
        // Followed once: later on the directory knows better.
        let refused = self.refused.take();
        let Detour { node, is_asking } = refused
            .and_then(|(asked, error)| directory.detour(&error, &asked))
            .unwrap_or_else(|| Detour { node: directory.serves(slot), is_asking: false });
        let ahead: &[&[u8]] = &[b"ASKING"];
        node.connection_now(self.lane).is_ok_and(|connection| {
            connection.send_owed_behind(is_asking.then_some(ahead), self.owed.clone()).is_ok()
        })
    }
}

/// One lane of one server.
struct Listener {
    courier: Arc<Courier>,
    address: Address,
    lane: usize,
}

impl Refusals for Listener {
    fn refused(&self, Refused { owed, error }: Refused) {
        // Anything else it would refuse everywhere.
        if matches!(error.code(), Code::Elsewhere | Code::ReadOnly | Code::Later) {
            let refused = Some((self.address.clone(), error));
            self.courier.add(owed, self.lane, refused);
        }
    }
}

#[cfg(test)]
mod tests;

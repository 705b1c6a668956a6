//! Owners that wait for a server to hand them a lock by a push.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The owners, each with its seat.
#[derive(Default)]
pub(crate) struct Handed(Mutex<BTreeMap<Arc<[u8]>, Arc<Seat>>>);

#[derive(Default)]
struct Seat {
    /// The fencing token that came with the lock; 0 where none came.
    token: AtomicU64,
    bell: Notify,
}

/// One owner that waits; it hears nothing once this is dropped.
#[must_use = "an owner whose seat is dropped hears nothing"]
pub(crate) struct Awaited {
    handed: Arc<Handed>,
    owner: Arc<[u8]>,
    seat: Arc<Seat>,
}

impl Handed {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<[u8]>, Arc<Seat>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on a push for this owner is heard.
    pub(super) fn wait_for(self: &Arc<Self>, owner: &[u8]) -> Awaited {
        let (owner, seat) = (Arc::<[u8]>::from(owner), Arc::<Seat>::default());
        self.lock().insert(Arc::clone(&owner), Arc::clone(&seat));
        Awaited { handed: Arc::clone(self), owner, seat }
    }

    /// A push came: the token, a space, and the owner's value. One for an owner that nobody waits for
    /// any more needs no answer: whatever ended its wait has queued its release.
    pub(super) fn hear(&self, payload: &[u8]) {
        let Some(space) = payload.iter().position(|byte| *byte == b' ') else { return };
        let token = std::str::from_utf8(&payload[..space]).ok().and_then(|text| text.parse().ok());
        let seat = self.lock().get(&payload[space + 1..]).cloned();
        if let (Some(token), Some(seat)) = (token, seat) {
            seat.token.store(token, Ordering::Release);
            seat.bell.notify_one();
        }
    }
}

impl Awaited {
    /// Waits for the push, and returns the fencing token that came with it.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn pushed(&self) -> u64 {
        loop {
            match self.seat.token.load(Ordering::Acquire) {
                0 => self.seat.bell.notified().await,
                token => return token,
            }
        }
    }

    /// The push has been judged: from here on another one is waited for.
    pub(crate) fn forget(&self) {
        self.seat.token.store(0, Ordering::Release);
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.handed.lock().remove(&self.owner);
    }
}

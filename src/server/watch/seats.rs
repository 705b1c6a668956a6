//! Watches by name: of keys that may change, and of owners that may be handed a lock.

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use tokio::sync::Notify;

use super::by_hash::ByHash;
use crate::box_future::BoxFuture;
use crate::mutex::lock;

/// Watches by name. It keeps only names that somebody watches.
#[derive(Default)]
pub(super) struct Seats(Mutex<ByHash<Arc<Seat>>>);

/// What a watch and the map share.
struct Seat {
    name: Box<[u8]>,
    /// What was told since the last [`Watch::rearm`]; 0 is nothing.
    told: AtomicU64,
    /// Wakes the tasks in [`Watch::stirred`].
    bell: Notify,
}

/// One interest in one name; it ends when this is dropped.
#[must_use = "a watch that is dropped hears nothing"]
pub(crate) struct Watch {
    seats: Arc<Seats>,
    seat: Arc<Seat>,
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, ByHash<Arc<Seat>>> {
        lock(&self.0)
    }

    /// A watch of `name`. It has not been stirred.
    pub(super) fn take(self: &Arc<Self>, name: &[u8]) -> Watch {
        let (told, bell) = (AtomicU64::new(0), Notify::new());
        let seat = Arc::new(Seat { name: name.into(), told, bell });
        self.lock().insert(name, Arc::clone(&seat));
        Watch { seats: Arc::clone(self), seat }
    }

    /// Stirs the watches of these names.
    pub(super) fn stir<'a>(&self, names: impl Iterator<Item = &'a [u8]>, told: u64) {
        let mut stirred = Vec::new();
        {
            let all = self.lock();
            for name in names {
                stirred.extend(all.of(name).filter(|seat| *seat.name == *name).cloned());
            }
        }
        // Outside the lock: what a waker does is its own affair.
        stirred.iter().for_each(|seat| seat.stir(told));
    }

    pub(super) fn stir_all(&self, told: u64) {
        let stirred: Vec<_> = self.lock().all().cloned().collect();
        stirred.iter().for_each(|seat| seat.stir(told));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}

impl Seat {
    fn stir(&self, told: u64) {
        self.told.store(told, Ordering::Release);
        self.bell.notify_waiters();
    }
}

impl Watch {
    /// Forgets what came so far: to be called before the key is read, not after.
    pub(crate) fn rearm(&self) {
        // A swap, so that what is read from here on is not older than the stir that is forgotten.
        self.seat.told.swap(0, Ordering::AcqRel);
    }

    /// Whether there was a stir since the last [`Watch::rearm`].
    #[cfg(test)]
    pub(super) fn is_stirred(&self) -> bool {
        self.seat.told.load(Ordering::Acquire) != 0
    }

    /// Waits for a stir since the last [`Watch::rearm`], which may be there at once, and returns what was
    /// told.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn stirred(&self) -> u64 {
        loop {
            // Made before the look: from here on it hears the bell, polled or not.
            let rung = self.seat.bell.notified();
            match self.seat.told.load(Ordering::Acquire) {
                0 => rung.await,
                told => return told,
            }
        }
    }
}

/// Waits for the first stir of these watches; for ever where there is none.
///
/// # Cancel safety
///
/// Nothing is lost when the future is dropped.
pub(crate) fn any_stirred(watches: &[Watch]) -> BoxFuture<'_, ()> {
    let mut running: Vec<_> = watches.iter().map(|watch| Box::pin(watch.stirred())).collect();
    Box::pin(poll_fn(move |context| {
        match running.iter_mut().any(|stirred| stirred.as_mut().poll(context).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }))
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.seats.lock().remove(&self.seat.name, |seat| Arc::ptr_eq(seat, &self.seat));
    }
}

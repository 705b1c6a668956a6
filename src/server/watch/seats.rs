//! Watches by name: of keys that may change, and of owners that may be handed a lock.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tokio::sync::Notify;

use crate::box_future::BoxFuture;

/// Watches by name. It keeps only names that somebody watches; a tree, because that gives back what
/// it took when many watches end.
#[derive(Default)]
pub(super) struct Seats(Mutex<BTreeMap<Arc<[u8]>, Watching>>);

/// The watchers of one name. Nearly always it is one: a process waits once for each name.
enum Watching {
    One(Arc<Seat>),
    More(Vec<Arc<Seat>>),
}

/// What a watch and the map share.
#[derive(Default)]
struct Seat {
    /// What was told since the last [`Watch::rearm`]; 0 is nothing.
    told: AtomicU64,
    /// Wakes the tasks in [`Watch::stirred`].
    bell: Notify,
}

/// One interest in one name; it ends when this is dropped.
#[must_use = "a watch that is dropped hears nothing"]
pub(crate) struct Watch {
    seats: Arc<Seats>,
    pub(super) name: Arc<[u8]>,
    seat: Arc<Seat>,
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<[u8]>, Watching>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A watch of `name`. It has not been stirred.
    pub(super) fn take(self: &Arc<Self>, name: &[u8]) -> Watch {
        let seat = Arc::<Seat>::default();
        let mut all = self.lock();
        let name = match all.get_key_value(name) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(name),
        };
        match all.get_mut(&name) {
            Some(watching) => watching.add(Arc::clone(&seat)),
            None => _ = all.insert(Arc::clone(&name), Watching::One(Arc::clone(&seat))),
        }
        drop(all);
        Watch { seats: Arc::clone(self), name, seat }
    }

    /// Stirs the watches of these names.
    pub(super) fn stir<'a>(&self, names: impl Iterator<Item = &'a [u8]>, told: u64) {
        let mut stirred = Vec::new();
        {
            let all = self.lock();
            for watching in names.filter_map(|name| all.get(name)) {
                stirred.extend_from_slice(watching.all());
            }
        }
        // Outside the lock: what a waker does is its own affair.
        stirred.iter().for_each(|seat| seat.stir(told));
    }

    pub(super) fn stir_all(&self, told: u64) {
        let stirred: Vec<_> = self.lock().values().flat_map(Watching::all).cloned().collect();
        stirred.iter().for_each(|seat| seat.stir(told));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}

impl Watching {
    fn all(&self) -> &[Arc<Seat>] {
        match self {
            Self::One(seat) => std::slice::from_ref(seat),
            Self::More(seats) => seats,
        }
    }

    fn add(&mut self, seat: Arc<Seat>) {
        match self {
            Self::One(first) => *self = Self::More(vec![Arc::clone(first), seat]),
            Self::More(seats) => seats.push(seat),
        }
    }

    /// Takes one out; whether none is left.
    fn remove(&mut self, seat: &Arc<Seat>) -> bool {
        match self {
            Self::One(_) => true,
            Self::More(seats) => {
                seats.retain(|other| !Arc::ptr_eq(other, seat));
                seats.is_empty()
            }
        }
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
        let mut all = self.seats.lock();
        if all.get_mut(&self.name).is_some_and(|watching| watching.remove(&self.seat)) {
            all.remove(&self.name);
        }
    }
}

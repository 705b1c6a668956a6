//! Waiting for a key to change, as the servers that track the key tell it.
//!
//! A server tells a connection once of a change to what was read on it, and forgets the key then.
//! So a waiter does this in turn: [`Watch::rearm`], read the key on a watch lane, and wait
//! ([`Watch::stirred`]) if what was read does not let it go on. A stir says no more than that the
//! key is worth reading again: it may be gone, changed, or as it was, and where a watch connection
//! has ended nobody would have told.
//!
//! The watches of all servers of a set are one: a stir does not say whose it is. The keeper of leases
//! watches very many keys, and is told of them in another way: see [`kept`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_resp::Frame;
use tokio::sync::Notify;

use crate::net::pushes::Pushes;

pub(crate) mod handed;
pub(crate) mod kept;

use handed::{Awaited, Handed};
use kept::Kept;

/// All watches of one set of servers. It keeps only keys that somebody watches; a tree, because
/// that gives back what it took when many watches end.
#[derive(Default)]
pub(crate) struct Watchers {
    seats: Mutex<BTreeMap<Arc<[u8]>, Seats>>,
    kept: Kept,
    handed: Arc<Handed>,
}

/// The watchers of one key. Nearly always it is one: a process waits once for each name.
enum Seats {
    One(Arc<Seat>),
    More(Vec<Arc<Seat>>),
}

/// What a watch and the map share.
struct Seat {
    is_stirred: AtomicBool,
    /// Wakes the tasks in [`Watch::stirred`].
    bell: Notify,
}

/// One interest in one key; it ends when this is dropped.
#[must_use = "a watch that is dropped hears nothing"]
pub(crate) struct Watch {
    watchers: Arc<Watchers>,
    key: Arc<[u8]>,
    seat: Arc<Seat>,
}

impl Watchers {
    /// A watch of `key`. It has not been stirred.
    pub(crate) fn watch(self: &Arc<Self>, key: &[u8]) -> Watch {
        let seat = Arc::new(Seat { is_stirred: AtomicBool::new(false), bell: Notify::new() });
        let mut seats = self.lock();
        let key = match seats.get_key_value(key) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(key),
        };
        match seats.get_mut(&key) {
            Some(watching) => watching.add(Arc::clone(&seat)),
            None => {
                seats.insert(Arc::clone(&key), Seats::One(Arc::clone(&seat)));
            }
        }
        drop(seats);
        Watch { watchers: Arc::clone(self), key, seat }
    }

    /// An owner that waits for its lock to be handed to it.
    pub(crate) fn await_push(&self, owner: &[u8]) -> Awaited {
        self.handed.wait_for(owner)
    }

    /// The leases that are kept.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<[u8]>, Seats>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stirs the watches of these keys.
    fn stir<'a>(&self, keys: impl Iterator<Item = &'a [u8]> + Clone) {
        self.kept.stir(keys.clone());
        let mut stirred = Vec::new();
        {
            let seats = self.lock();
            for watching in keys.filter_map(|key| seats.get(key)) {
                stirred.extend_from_slice(watching.all());
            }
        }
        // Outside the lock: what a waker does is its own affair.
        stirred.iter().for_each(|seat| seat.stir());
    }

    /// The keys are with another server now: waiters ask there, and all leases are renewed.
    pub(crate) fn moved(&self) {
        self.kept.move_all();
        self.stir_waiting();
    }

    fn stir_all(&self) {
        self.kept.stir_all();
        self.stir_waiting();
    }

    fn stir_waiting(&self) {
        let stirred: Vec<_> = self.lock().values().flat_map(Seats::all).cloned().collect();
        stirred.iter().for_each(|seat| seat.stir());
    }
}

impl Pushes for Watchers {
    fn push(&self, frame: Frame) {
        let Frame::Push(items) = frame else { return };
        match &items[..] {
            [kind, Frame::Array(keys)] if is_invalidation(kind) => {
                self.stir(keys.iter().filter_map(Frame::as_bytes).map(|key| &key[..]));
            }
            // The server forgot all keys: FLUSHALL or FLUSHDB.
            [kind, Frame::Null] if is_invalidation(kind) => self.stir_all(),
            [kind, _channel, payload] if is_message(kind) => {
                if let Some(payload) = payload.as_bytes() {
                    self.handed.hear(payload);
                }
            }
            // Of something that we did not ask for.
            _ => {}
        }
    }

    /// What the server remembered went with the connection: all have to read again elsewhere.
    fn ended(&self) {
        self.stir_all();
    }
}

fn is_message(kind: &Frame) -> bool {
    kind.as_bytes().is_some_and(|kind| &kind[..] == b"message")
}

fn is_invalidation(kind: &Frame) -> bool {
    kind.as_bytes().is_some_and(|kind| &kind[..] == b"invalidate")
}

impl Seats {
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
    fn stir(&self) {
        self.is_stirred.store(true, Ordering::Release);
        self.bell.notify_waiters();
    }
}

impl Watch {
    /// Forgets what came so far: to be called before the key is read, not after.
    pub(crate) fn rearm(&self) {
        // A swap, so that what is read from here on is not older than the stir that is forgotten.
        self.seat.is_stirred.swap(false, Ordering::AcqRel);
    }

    /// Whether the key may have changed since the last [`Watch::rearm`].
    pub(crate) fn is_stirred(&self) -> bool {
        self.seat.is_stirred.load(Ordering::Acquire)
    }

    /// Waits until the key may have changed since the last [`Watch::rearm`], which may be at once.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn stirred(&self) {
        loop {
            // Made before the look: from here on it hears the bell, polled or not.
            let rung = self.seat.bell.notified();
            if self.is_stirred() {
                return;
            }
            rung.await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut seats = self.watchers.lock();
        if seats.get_mut(&self.key).is_some_and(|watching| watching.remove(&self.seat)) {
            seats.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;

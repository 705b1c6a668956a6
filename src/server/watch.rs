//! Waiting for a key to change, as the servers that track the key tell it.
//!
//! A server tells a connection once of a change to what was read on it, and forgets the key then.
//! So a waiter does this in turn: [`Watch::rearm`], read the key on a watch lane, and wait
//! ([`Watch::stirred`]) if what was read does not let it go on. A stir says no more than that the
//! key is worth reading again: it may be gone, changed, or as it was, and where a watch connection
//! has ended nobody would have told.
//!
//! An owner that waits for a server to hand it a lock is stirred in the same way, by a push.
//!
//! The watches of all servers of a set are one: a stir does not say whose it is. The keeper of leases
//! watches very many keys, and is told of them in another way: see [`kept`].

use std::iter;
use std::sync::Arc;

use leasehold_resp::Frame;

use crate::net::pushes::Pushes;
use crate::policy::number;

mod by_hash;
pub(crate) mod kept;
mod seats;

use kept::Kept;
use seats::Seats;
pub(crate) use seats::{Watch, any_stirred};

/// What a watch of a key is told.
const CHANGED: u64 = 1;

/// All watches of one set of servers.
#[derive(Default)]
pub(crate) struct Watchers {
    keys: Arc<Seats>,
    owners: Arc<Seats>,
    kept: Kept,
}

impl Watchers {
    /// A watch of `key`. It has not been stirred.
    pub(crate) fn watch(&self, key: &[u8]) -> Watch {
        self.keys.take(key)
    }

    /// A watch for the push that hands this owner its lock; what is told is the fencing token.
    pub(crate) fn await_push(&self, owner: &[u8]) -> Watch {
        self.owners.take(owner)
    }

    /// The leases that are kept.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Stirs the watches of these keys.
    fn stir<'a>(&self, keys: impl Iterator<Item = &'a [u8]> + Clone) {
        self.kept.stir(keys.clone());
        self.keys.stir(keys, CHANGED);
    }

    /// The keys are with another server now: waiters ask there, and all leases are renewed.
    pub(crate) fn moved(&self) {
        self.kept.move_all();
        self.keys.stir_all(CHANGED);
    }

    fn stir_all(&self) {
        self.kept.stir_all();
        self.keys.stir_all(CHANGED);
    }

    /// A push came: the token, a space, and the owner's value. One for an owner that nobody waits for
    /// any more needs no answer: whatever ended its wait has queued its release.
    fn hear(&self, payload: &[u8]) {
        let Some(space) = payload.iter().position(|byte| *byte == b' ') else { return };
        let token = number(&payload[..space]);
        if let Some(token) = token {
            self.owners.stir(iter::once(&payload[space + 1..]), token);
        }
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
                    self.hear(payload);
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

#[cfg(test)]
mod tests;

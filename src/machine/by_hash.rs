//! Leases by hashes of names. Of two with one hash the later is known: the other learns what it has to at its renewal, or
//! when it asks again.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::ids::LeaseId;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct ByHash {
    hashing: RandomState,
    known: HashMap<u64, LeaseId>,
}

impl ByHash {
    pub(super) fn insert(&mut self, name: &[u8], id: LeaseId) {
        self.known.insert(self.hashing.hash_one(name), id);
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<LeaseId> {
        if self.known.is_empty() {
            return None;
        }
        self.known.get(&self.hashing.hash_one(name)).copied()
    }

    pub(super) fn take(&mut self, name: &[u8]) -> Option<LeaseId> {
        if self.known.is_empty() {
            return None;
        }
        self.known.remove(&self.hashing.hash_one(name))
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
    }
}

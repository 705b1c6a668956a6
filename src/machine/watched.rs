//! The leases that servers tell of, by hashes of their keys: of two with one hash, one is told at its renewal.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::ids::LeaseId;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Watched {
    hashing: RandomState,
    by_hash: HashMap<u64, LeaseId>,
}

impl Watched {
    pub(super) fn insert(&mut self, key: &[u8], id: LeaseId) {
        self.by_hash.insert(self.hashing.hash_one(key), id);
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<LeaseId> {
        self.by_hash.get(&self.hashing.hash_one(key)).copied()
    }

    pub(super) fn remove(&mut self, key: &[u8], id: LeaseId) {
        let hash = self.hashing.hash_one(key);
        if self.by_hash.get(&hash) == Some(&id) {
            self.by_hash.remove(&hash);
        }
    }
}

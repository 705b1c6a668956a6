//! Hashes that nobody outside the process can foresee, so that nobody can choose names that collide.

use std::hash::{BuildHasher, DefaultHasher, Hasher};

use crate::clock::random_bits;

/// Hashes of one table, by a random number of its own: in a simulation they are the same for one seed.
pub(crate) struct Hashing(u64);

impl Default for Hashing {
    fn default() -> Self {
        Self(random_bits())
    }
}

impl BuildHasher for Hashing {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

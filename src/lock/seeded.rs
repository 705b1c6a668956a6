//! The names whose counters are known to live, each on one connection.
//!
//! It is a memory of what is likely, of a fixed size: names drop out of it where there are many. A
//! name that is in it by mistake (two have the same hash) costs a round trip at most, as the head of
//! `policy/fence.rs` says of counters that are lost.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Each has room for two names: 32 kB in all, once the first is known.
const BUCKETS: u64 = 4096;
const TAG_BITS: u32 = u32::BITS;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Seeded {
    hashing: RandomState,
    buckets: OnceLock<Box<[AtomicU64]>>,
}

impl Seeded {
    fn place(&self, name: &[u8], connection: u64) -> (usize, u64) {
        let hash = self.hashing.hash_one((connection, name));
        // No tag is 0, which is an empty place's.
        let bucket = usize::try_from(hash % BUCKETS).expect("it is less than that");
        (bucket, (hash >> TAG_BITS) | 1)
    }

    /// Whether the name's counter was set on this connection.
    pub(super) fn has(&self, name: &[u8], connection: u64) -> bool {
        let Some(buckets) = self.buckets.get() else { return false };
        let (bucket, tag) = self.place(name, connection);
        let tags = buckets[bucket].load(Ordering::Relaxed);
        tags & u64::from(u32::MAX) == tag || tags >> TAG_BITS == tag
    }

    /// It has been set: whichever name has been in its bucket for longer drops out.
    pub(super) fn add(&self, name: &[u8], connection: u64) {
        if self.has(name, connection) {
            return;
        }
        let buckets =
            self.buckets.get_or_init(|| (0..BUCKETS).map(|_| AtomicU64::new(0)).collect());
        let (bucket, tag) = self.place(name, connection);
        let before = buckets[bucket].load(Ordering::Relaxed);
        // Where two do so at once, one of them is forgotten.
        buckets[bucket].store(before << TAG_BITS | tag, Ordering::Relaxed);
    }

    /// The script is to be asked next.
    pub(super) fn remove(&self, name: &[u8], connection: u64) {
        let Some(buckets) = self.buckets.get() else { return };
        let (bucket, tag) = self.place(name, connection);
        let tags = buckets[bucket].load(Ordering::Relaxed);
        let (last, first) = (tags & u64::from(u32::MAX), tags >> TAG_BITS);
        let last = if last == tag { 0 } else { last };
        let first = if first == tag { 0 } else { first };
        buckets[bucket].store(first << TAG_BITS | last, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_on_the_connection_on_which_its_counter_was_set() {
        let seeded = Seeded::default();
        assert!(!seeded.has(b"a", 1));
        seeded.add(b"a", 1);
        assert!(seeded.has(b"a", 1));
        assert!(!seeded.has(b"a", 2) && !seeded.has(b"b", 1));
        seeded.remove(b"b", 1);
        assert!(seeded.has(b"a", 1));
        seeded.remove(b"a", 1);
        assert!(!seeded.has(b"a", 1));
    }

    #[test]
    fn most_of_a_thousand_names_are_known_and_a_million_drop_out() {
        let seeded = Seeded::default();
        let names: Vec<String> = (0..1024).map(|number| format!("lock:{number}")).collect();
        names.iter().for_each(|name| seeded.add(name.as_bytes(), 7));
        let known = names.iter().filter(|name| seeded.has(name.as_bytes(), 7)).count();
        assert!(known > 950, "{known}");
        (0..100_000).for_each(|number: u32| seeded.add(&number.to_be_bytes(), 7));
        let known = names.iter().filter(|name| seeded.has(name.as_bytes(), 7)).count();
        assert!(known < 8, "{known}");
    }
}

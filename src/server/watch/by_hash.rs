//! Items by the hash of a key, very many, in sorted vectors: a small part of the code of a tree.

use std::hash::BuildHasher;

use crate::hashing::Hashing;

/// Vectors, each for the hashes that end alike: of a million items each has two thousand, which are moved in
/// less than a microsecond.
const PARTS: usize = 512;
/// Maximum items that are in one vector, so that a process with a few locks has no room for a million.
const FEW: usize = 64;
/// A vector that uses less than this part of its room gives the rest back.
const USED_SHARE: usize = 4;

/// Items, any number for one key. Keys may have the same hash, which is of this process alone: nobody can
/// choose keys for which that happens.
pub(super) struct ByHash<T> {
    hashing: Hashing,
    parts: Vec<Vec<(u32, T)>>,
    len: usize,
}

impl<T> Default for ByHash<T> {
    fn default() -> Self {
        Self { hashing: Hashing::default(), parts: Vec::new(), len: 0 }
    }
}

impl<T> ByHash<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Half of it: what many items have in common by chance is still next to nothing.
    pub(super) fn hash(&self, key: &[u8]) -> u32 {
        (self.hashing.hash_one(key) >> 32) as u32
    }

    pub(super) fn insert(&mut self, key: &[u8], item: T) {
        let parts = if self.len < FEW { 1 } else { PARTS };
        if self.parts.len() < parts {
            self.spread(parts);
        }
        let hash = self.hash(key);
        let part = self.part_of(hash);
        let part = &mut self.parts[part];
        let behind = part.partition_point(|(other, _)| *other <= hash);
        part.insert(behind, (hash, item));
        self.len += 1;
    }

    /// The items of this key, and of those that have the same hash, in the order in which they came.
    pub(super) fn of(&self, key: &[u8]) -> impl Iterator<Item = &T> {
        let hash = self.hash(key);
        let part = self.parts.get(self.part_of(hash)).map_or(&[][..], Vec::as_slice);
        let from_here = &part[part.partition_point(|(other, _)| *other < hash)..];
        from_here.iter().take_while(move |(other, _)| *other == hash).map(|(_, item)| item)
    }

    /// Removes the first item of this key that is meant, if there is one.
    pub(super) fn remove(&mut self, key: &[u8], is_meant: impl Fn(&T) -> bool) {
        let Some(ahead) = self.of(key).position(is_meant) else { return };
        let hash = self.hash(key);
        let part = self.part_of(hash);
        let part = &mut self.parts[part];
        part.remove(part.partition_point(|(other, _)| *other < hash) + ahead);
        if part.len() * USED_SHARE < part.capacity() {
            part.shrink_to(2 * part.len());
        }
        self.len -= 1;
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().flatten().map(|(_, item)| item)
    }

    /// Sorts all items into more parts; those of one hash stay in their order.
    fn spread(&mut self, parts: usize) {
        let items = std::mem::take(&mut self.parts);
        self.parts.resize_with(parts, Vec::new);
        for (hash, item) in items.into_iter().flatten() {
            let part = self.part_of(hash);
            self.parts[part].push((hash, item));
        }
    }

    fn part_of(&self, hash: u32) -> usize {
        hash as usize % self.parts.len().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_by_their_keys_and_removed_one_by_one() {
        let keys: Vec<String> = (0..3000).map(|number| number.to_string()).collect();
        let mut items = ByHash::default();
        for (number, key) in keys.iter().enumerate() {
            items.insert(key.as_bytes(), number);
            assert!(items.len() > FEW || items.parts.len() == 1, "a few items have one part");
            items.insert(key.as_bytes(), number + keys.len());
        }
        for (number, key) in keys.iter().enumerate() {
            let of_key = items.of(key.as_bytes()).filter(|item| **item % keys.len() == number);
            assert_eq!(of_key.collect::<Vec<_>>(), [&number, &(number + keys.len())]);
        }
        assert_eq!((items.all().count(), items.len()), (6000, 6000));
        for (number, key) in keys.iter().enumerate() {
            items.remove(key.as_bytes(), |item| *item == number);
            items.remove(key.as_bytes(), |item| *item == number);
        }
        assert!(items.all().all(|item| *item >= keys.len()));
        assert_eq!(items.len(), 3000);
        items.remove(b"unknown", |_| true);
        keys.iter().for_each(|key| items.remove(key.as_bytes(), |item| *item >= keys.len()));
        assert_eq!(items.len(), 0);
        assert!(items.parts.iter().all(|part| part.capacity() == 0), "its room is given back");
    }
}

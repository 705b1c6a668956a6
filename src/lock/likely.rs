//! What is likely of a name, so that a lock is asked for in the way that decides by one round trip.
//!
//! It is a memory of a fixed size: names drop out of it where there are many. A fact that is in it by
//! mistake (two have the same hash) costs a round trip or a longer script at most: the head of
//! `policy/fence.rs` says so of counters that are lost, and `scripts/queue.lua` takes a lock that is free.

use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::hashing::Hashing;
use crate::policy::Tick;

/// Maximum pages: a page is made when the first name is in it, so that few names take little memory.
const PAGES: usize = 64;
/// Buckets of a page; each has room for two names. All pages together take 32 kB.
const BUCKETS: usize = 64;
const TAG_BITS: u32 = u32::BITS;

/// What is known of a name.
#[derive(Clone, Copy)]
pub(super) enum Fact {
    /// In this tick the script accepted a token on a connection in this reign of its server, or a token was
    /// drawn there: the name's counter lives.
    Seeded(u64, Tick),
    /// Another process held the lock, or waited for it, when this one last had to do with it: the next
    /// request that waits enters the queue with its first question.
    Sought,
    /// In this tick a waiter of this process asked the queue of the lock, and others were before it.
    Queued(Tick),
}

type Page = OnceLock<Box<[AtomicU64; BUCKETS]>>;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Likely {
    hashing: Hashing,
    /// Nothing until the first name is known: then no name needs a hash either.
    pages: OnceLock<Box<[Page; PAGES]>>,
}

/// Where a name belongs, and what stands there for it: never 0, which is an empty place's.
struct Place {
    page: usize,
    bucket: usize,
    tag: u64,
}

impl Likely {
    fn place(&self, name: &[u8], fact: Fact) -> Place {
        // All ticks of a name share a bucket: the present one drives out those that have gone.
        let (about, tick) = match fact {
            Fact::Seeded(reign, tick) => (Some(reign), tick.number()),
            Fact::Sought => (None, 0),
            // No reign has this number.
            Fact::Queued(tick) => (Some(u64::MAX), tick.number()),
        };
        let hash = self.hashing.hash_one((about, name));
        let all = (PAGES * BUCKETS) as u64;
        let bucket = usize::try_from(hash % all).expect("it is less than that");
        let tag = ((hash >> TAG_BITS) ^ (tick << 1)) & u64::from(u32::MAX) | 1;
        Place { page: bucket / BUCKETS, bucket: bucket % BUCKETS, tag }
    }

    pub(super) fn has(&self, name: &[u8], fact: Fact) -> bool {
        let Some(pages) = self.pages.get() else { return false };
        let Place { page, bucket, tag } = self.place(name, fact);
        let Some(buckets) = pages[page].get() else { return false };
        let tags = buckets[bucket].load(Ordering::Relaxed);
        tags & u64::from(u32::MAX) == tag || tags >> TAG_BITS == tag
    }

    /// From here on it is so: whatever has been in its bucket for longer drops out.
    pub(super) fn add(&self, name: &[u8], fact: Fact) {
        if self.has(name, fact) {
            return;
        }
        let Place { page, bucket, tag } = self.place(name, fact);
        let pages = self.pages.get_or_init(|| Box::new([const { Page::new() }; PAGES]));
        let buckets = pages[page].get_or_init(|| Box::new([const { AtomicU64::new(0) }; BUCKETS]));
        let before = buckets[bucket].load(Ordering::Relaxed);
        // Where two do so at once, one of them is forgotten.
        buckets[bucket].store(before << TAG_BITS | tag, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, name: &[u8], fact: Fact) {
        let Some(pages) = self.pages.get() else { return };
        let Place { page, bucket, tag } = self.place(name, fact);
        let Some(buckets) = pages[page].get() else { return };
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
    use crate::policy::Moment;

    fn seeded(reign: u64) -> Fact {
        Fact::Seeded(reign, Tick::of(Moment::default()))
    }

    #[test]
    fn a_name_is_known_on_the_connection_on_which_its_counter_was_set() {
        let likely = Likely::default();
        assert!(!likely.has(b"a", seeded(1)));
        likely.add(b"a", seeded(1));
        assert!(likely.has(b"a", seeded(1)));
        assert!(!likely.has(b"a", seeded(2)) && !likely.has(b"b", seeded(1)));
        likely.remove(b"b", seeded(1));
        assert!(likely.has(b"a", seeded(1)));
        likely.add(b"a", Fact::Sought);
        likely.remove(b"a", seeded(1));
        assert!(likely.has(b"a", Fact::Sought));
        assert!(!likely.has(b"a", seeded(1)));
    }

    #[test]
    fn most_of_a_thousand_names_are_known_and_a_million_drop_out() {
        let likely = Likely::default();
        let names: Vec<String> = (0..1024).map(|number| format!("lock:{number}")).collect();
        names.iter().for_each(|name| likely.add(name.as_bytes(), seeded(7)));
        let known = names.iter().filter(|name| likely.has(name.as_bytes(), seeded(7))).count();
        assert!(known > 950, "{known}");
        (0..100_000).for_each(|number: u32| likely.add(&number.to_be_bytes(), seeded(7)));
        let known = names.iter().filter(|name| likely.has(name.as_bytes(), seeded(7))).count();
        assert!(known < 8, "{known}");
    }
}

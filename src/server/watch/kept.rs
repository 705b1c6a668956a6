//! Leases that somebody keeps, very many, and is told of together.
//!
//! Of a key no more than a hash is remembered. Keys that have the same are stirred together, which
//! does no harm: a stir says no more than that a key is worth reading.

use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

use super::by_hash::ByHash;
use crate::mutex::lock;
use crate::policy::TimerKey;

/// The keys of leases that are kept.
#[derive(Default)]
pub(crate) struct Kept {
    state: Mutex<State>,
    /// Rung at every stir.
    bell: Notify,
}

#[derive(Default)]
struct State {
    keys: ByHash<TimerKey>,
    news: News,
}

/// What the keeper of leases is told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// These leases were stirred.
    pub(crate) stirred: Vec<TimerKey>,
    /// All leases were, that have a key here.
    pub(crate) are_all_stirred: bool,
    /// All leases that are kept are with another server now, also those with no key here.
    pub(crate) have_moved: bool,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// From here on the lease is stirred with this key, which is to be read after this.
    pub(crate) fn add(&self, key: &[u8], lease: TimerKey) {
        let keys = &mut self.lock().keys;
        if !keys.of(key).any(|known| *known == lease) {
            keys.insert(key, lease);
        }
    }

    pub(crate) fn remove(&self, key: &[u8], lease: TimerKey) {
        self.lock().keys.remove(key, |known| *known == lease);
    }

    /// Stirs the leases of these keys.
    pub(super) fn stir<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) {
        let mut state = self.lock();
        let State { keys: known, news } = &mut *state;
        keys.for_each(|key| news.stirred.extend(known.of(key)));
        self.ring(state);
    }

    pub(super) fn stir_all(&self) {
        let mut state = self.lock();
        state.news.are_all_stirred |= state.keys.len() > 0;
        self.ring(state);
    }

    /// See [`News::have_moved`].
    pub(super) fn move_all(&self) {
        let mut state = self.lock();
        state.news.have_moved = true;
        self.ring(state);
    }

    fn ring(&self, state: MutexGuard<'_, State>) {
        let has_news = state.news != News::default();
        drop(state);
        if has_news {
            self.bell.notify_one();
        }
    }

    /// What there is to tell since this was called before.
    pub(crate) fn take_news(&self) -> News {
        std::mem::take(&mut self.lock().news)
    }

    /// Waits for something to take.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped: what was stirred is still to be taken.
    pub(crate) async fn stirred(&self) {
        self.bell.notified().await;
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().keys.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::policy::{Moment, TimerWheel};

    fn leases<const N: usize>() -> [TimerKey; N] {
        let start = Moment::from_nanos(0);
        let mut timers = TimerWheel::new(start);
        [(); N].map(|()| timers.insert((), start))
    }

    #[test]
    fn a_lease_is_stirred_with_each_of_its_keys_and_with_no_other() {
        let kept = Kept::default();
        let [one, two] = leases();
        kept.add(b"a", one);
        kept.add(b"b", one);
        kept.add(b"c", two);
        kept.stir([&b"b"[..], b"unknown"].into_iter());
        assert_eq!(kept.take_news().stirred, [one]);
        kept.stir([&b"c"[..], b"a"].into_iter());
        assert_eq!(kept.take_news().stirred, [two, one]);
        assert_eq!(kept.take_news().stirred, [], "each is taken once");
        kept.stir_all();
        assert!(kept.take_news().are_all_stirred);
    }

    #[test]
    fn leases_of_one_key_are_stirred_together_and_one_that_is_removed_no_longer() {
        let kept = Kept::default();
        let [before, after] = leases();
        kept.add(b"a", before);
        kept.add(b"a", after);
        kept.stir([&b"a"[..]].into_iter());
        assert_eq!(kept.take_news().stirred, [before, after]);
        kept.remove(b"a", before);
        kept.stir([&b"a"[..]].into_iter());
        assert_eq!(kept.take_news().stirred, [after]);
        kept.remove(b"a", after);
        kept.stir_all();
        assert_eq!(kept.take_news(), News::default());
        assert_eq!(kept.len(), 0, "nothing of them is kept");
    }

    #[test]
    fn keys_of_the_same_hash_are_both_stirred_and_removed_one_by_one() {
        let kept = Kept::default();
        let mut seen = HashMap::new();
        let (one, other) = (0_u32..)
            .find_map(|number| {
                Some((seen.insert(kept.lock().keys.hash(&number.to_ne_bytes()), number)?, number))
            })
            .map(|(one, other)| (one.to_ne_bytes(), other.to_ne_bytes()))
            .unwrap();
        let [first, second] = leases();
        kept.add(&one, first);
        kept.add(&other, second);
        kept.stir([&other[..]].into_iter());
        assert_eq!(kept.take_news().stirred, [first, second]);
        kept.remove(&one, first);
        kept.stir([&one[..]].into_iter());
        assert_eq!(kept.take_news().stirred, [second]);
        // Of one lease with both, one place is enough, and is given up with the first.
        kept.remove(&other, second);
        kept.add(&one, first);
        kept.add(&other, first);
        kept.stir([&one[..]].into_iter());
        assert_eq!(kept.take_news().stirred, [first]);
        kept.remove(&one, first);
        kept.remove(&other, first);
        assert_eq!(kept.len(), 0);
    }

    #[tokio::test]
    async fn their_keeper_is_woken_by_a_stir_before_or_after() {
        let kept = std::sync::Arc::new(Kept::default());
        let [lease] = leases();
        kept.add(b"a", lease);
        kept.stir([&b"a"[..]].into_iter());
        kept.stirred().await;
        assert_eq!(kept.take_news().stirred, [lease]);
        let waiting = tokio::spawn({
            let kept = std::sync::Arc::clone(&kept);
            async move { kept.stirred().await }
        });
        tokio::task::yield_now().await;
        kept.stir([&b"b"[..]].into_iter());
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "nothing is to be had");
        kept.stir_all();
        crate::support::soon("a stir", waiting).await.unwrap();
        assert!(kept.take_news().are_all_stirred);
    }
}

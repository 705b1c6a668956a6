//! Which holder relied on which lock from when to when, and the rules for that.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One lease, as its holder saw it.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) lock: usize,
    pub(crate) locker: usize,
    pub(crate) from: Instant,
    pub(crate) to: Instant,
}

/// Leases of all lockers, in the order in which they ended.
#[derive(Clone, Default)]
pub(crate) struct History(Arc<Mutex<Vec<Span>>>);

impl History {
    pub(crate) fn note(&self, span: Span) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(span);
    }

    fn spans(&self) -> Vec<Span> {
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        spans.sort_by_key(|span| span.from);
        spans
    }

    /// The locks that two held at a time, each with how long at most.
    pub(crate) fn doubly_held(&self) -> Vec<(usize, Duration)> {
        let spans = self.spans();
        let overlaps = spans.iter().enumerate().flat_map(|(index, one)| {
            let later = spans[index + 1..].iter().take_while(|other| other.from < one.to);
            let later = later.filter(|other| other.lock == one.lock);
            later.map(|other| (one.lock, one.to.min(other.to) - other.from))
        });
        let mut longest: Vec<(usize, Duration)> = Vec::new();
        for (lock, overlap) in overlaps {
            match longest.iter_mut().find(|(known, _)| *known == lock) {
                Some((_, most)) => *most = overlap.max(*most),
                None => longest.push((lock, overlap)),
            }
        }
        longest
    }

    /// How long one of the lockers was granted none of the locks that count, at most, between its
    /// first grant and its last.
    pub(crate) fn longest_pause(&self, lockers: usize, counts: fn(usize) -> bool) -> Duration {
        let spans = self.spans();
        let pause = |locker: usize| {
            let spans = spans.iter().filter(|span| counts(span.lock) && span.locker == locker);
            let granted: Vec<_> = spans.collect();
            granted.windows(2).map(|pair| pair[1].from - pair[0].from).max()
        };
        (0..lockers).filter_map(pause).max().unwrap_or_default()
    }
}

#[test]
fn leases_of_one_lock_that_overlap_are_found_and_pauses_are_counted_by_locker() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let history = History::default();
    for (lock, locker, from, to) in [(0, 0, 0, 10), (1, 1, 3, 9), (0, 0, 10, 20), (0, 1, 12, 15)] {
        history.note(Span { lock, locker, from: at(from), to: at(to) });
    }
    assert_eq!(history.doubly_held(), [(0, Duration::from_millis(3))]);
    assert_eq!(history.longest_pause(2, |lock| lock == 0), Duration::from_millis(10));
}

//! Counting, and a place for each reason of a loss.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::policy::Loss;

/// How many reasons of a loss there are.
pub(super) const LOSSES: usize = Loss::ALL.len();

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

pub(super) fn index_of(loss: Loss) -> usize {
    match loss {
        Loss::Expired => 0,
        Loss::Gone => 1,
        Loss::NoQuorum => 2,
        Loss::Suspended => 3,
        Loss::ShutDown => 4,
        Loss::HeldLongest => 5,
    }
}

//! Locking a mutex that no panic leaves half-way changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it, poisoned or not: whatever changes a state of this crate does not panic half-way. Compiled once
/// for each type; what is locked at each turn of a lock does the same in its own place.
#[inline(never)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Which party writes to a socket. `tests/loom` has this file as well, with loom's atomic, which tries every order of its uses.

#[cfg(leasehold_loom)]
use loom::sync::atomic::AtomicU8;
#[cfg(not(leasehold_loom))]
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering;

const WRITING: u8 = 1;
const MORE: u8 = 2;

/// Whether a party writes, and whether there is more than it has taken.
#[derive(Default)]
pub(super) struct Role(AtomicU8);

impl Role {
    pub(super) fn begin(&self) -> bool {
        self.0.fetch_or(WRITING | MORE, Ordering::SeqCst) & WRITING == 0
    }

    pub(super) fn take(&self) {
        self.0.store(WRITING, Ordering::SeqCst);
    }

    pub(super) fn end(&self) -> bool {
        self.0.compare_exchange(WRITING, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    pub(super) fn leave(&self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

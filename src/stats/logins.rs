//! Counts repeated logins before credentials expire, on all connections of one locker.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use super::export::{Figure, export};
use crate::mutex::lock;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Logins {
    renewed: AtomicU64,
    failed: AtomicU64,
    /// The servers where the last login failed, and why.
    overdue: Mutex<Vec<(String, String)>>,
}

impl Logins {
    /// A connection to this server logged in again.
    pub(crate) fn note_renewed(&self, server: &str) {
        self.renewed.fetch_add(1, Relaxed);
        export(Figure::LoginRenewed);
        self.forget(server);
    }

    /// A repeated login failed; another will follow.
    pub(crate) fn note_failed(&self, server: &str, why: String) {
        self.failed.fetch_add(1, Relaxed);
        export(Figure::LoginFailed);
        self.forget(server);
        self.overdue_now().push((server.to_owned(), why));
    }

    /// A connection ended, and its login's warning with it.
    pub(crate) fn forget(&self, server: &str) {
        self.overdue_now().retain(|(known, _)| known != server);
    }

    /// One warning for each server whose last login failed: why.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let line =
            |(server, why): &_| format!("{server}: a connection could not log in again: {why}");
        self.overdue_now().iter().map(line).collect()
    }

    pub(super) fn renewed(&self) -> u64 {
        self.renewed.load(Relaxed)
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    fn overdue_now(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        lock(&self.overdue)
    }
}

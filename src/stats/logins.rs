//! How logins that end were renewed, on all connections of one locker.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use super::export::{Figure, export};
use crate::mutex::lock;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Logins {
    renewed: AtomicU64,
    failed: AtomicU64,
    /// The servers where the last try failed, and why.
    overdue: Mutex<Vec<(String, String)>>,
}

impl Logins {
    /// A connection to this server has logged in again.
    pub(crate) fn note_renewed(&self, server: &str) {
        self.renewed.fetch_add(1, Relaxed);
        export(Figure::LoginRenewed);
        self.forget(server);
    }

    /// A try to log in again came to nothing; there will be another.
    pub(crate) fn note_failed(&self, server: &str, why: String) {
        self.failed.fetch_add(1, Relaxed);
        export(Figure::LoginFailed);
        self.forget(server);
        self.overdue_now().push((server.to_owned(), why));
    }

    /// The connection has ended: its login is nothing to warn of any more.
    pub(crate) fn forget(&self, server: &str) {
        self.overdue_now().retain(|(known, _)| known != server);
    }

    /// A line for each server with a connection whose login could not be renewed: why.
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

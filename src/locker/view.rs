//! Locks seen from outside, merged from the answers of all servers.

use std::cmp::Reverse;
use std::time::Duration;

use bytes::Bytes;

use super::look::{Looked, Seen};
use crate::error::value::holder_of;
use crate::error::{Configured, FailureKind, Holder, Report, ServerReport, Vote};
use crate::net::reason::Reason;
use crate::policy::{LockState, Quorum, time_left};

/// A lock as its servers show it: see [`Locker::inspect`](crate::Locker::inspect).
///
/// It shows what each server said at its own moment, which may have changed since.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockView {
    /// Its name, without the prefix of its key.
    pub name: Vec<u8>,
    /// Whether the lock is held, by all answers together.
    pub state: LockState,
    /// All owners that any server names, the one with most servers first.
    pub holders: Vec<HolderView>,
    /// How many processes wait for the lock; 0 if it is free.
    pub waiting: u64,
    /// How many servers were asked; a Cluster, or a service of Sentinels, is one.
    pub servers: usize,
    /// How many servers a holder needs.
    pub quorum: usize,
    /// Servers without a usable answer, or that show no lease and may have forgotten some.
    pub failures: Vec<ServerFailure>,
}

/// An owner that has a lock on some servers, or all sharers of a lock together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HolderView {
    /// The owner, or one of the sharers. Its time left is how long it has a quorum, or without a quorum, how long it is on
    /// any server.
    pub holder: Holder,
    /// The addresses of the servers that show this owner.
    pub servers: Vec<String>,
    /// The largest fencing tokens that these servers have accepted for this lock, each once and the
    /// smallest first. They have all accepted the holder's own, unless it asked for none: then these
    /// are of leases before it. Where a process hands the lock on within itself, servers have accepted up to 15 more
    /// for the holders after it.
    pub tokens: Vec<u64>,
    /// How many shares of a shared lock are taken: readers, or the weight of permits. None if it is not shared, or the
    /// server did not show it.
    pub shares: Option<u64>,
    /// The key's values, each once: a server marks the value while processes wait, and of sharers names one. None if
    /// too long to be read.
    values: Vec<Bytes>,
}

/// A server that gave no usable answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerFailure {
    /// Its address, without credentials.
    pub server: String,
    /// What kind of failure it was.
    pub kind: FailureKind,
    /// The server's or the system's words, safe for a terminal.
    pub reason: String,
}

/// The outcome of breaking leases: see [`Locker::break_lease`](crate::Locker::break_lease).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Broken {
    /// The addresses of the servers on which the lease was ended.
    pub freed: Vec<String>,
    /// Servers that did not confirm that the lease is gone.
    pub failures: Vec<ServerFailure>,
    /// How many servers a holder needs.
    pub quorum: usize,
}

impl HolderView {
    /// Whether it is a lease of this library, by the form of its value. What other programs keep
    /// under a key of this name is shown as a holder too.
    #[must_use]
    pub fn is_lease(&self) -> bool {
        self.holder.configuration != Configured::Unknown && !self.values.is_empty()
    }

    pub(super) fn values(&self) -> &[Bytes] {
        &self.values
    }
}

impl Broken {
    /// Whether the holder has lost its quorum, wherever else its lease may still be.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failures.len() < self.quorum
    }
}

impl ServerFailure {
    pub(super) fn new(server: String, reason: &Reason) -> Self {
        Self { server, kind: reason.kind(), reason: reason.to_string() }
    }
}

/// As a report for errors.
pub(super) fn report(failures: &[ServerFailure]) -> Report {
    let reports = failures.iter().cloned().map(|ServerFailure { server, kind, reason }| {
        ServerReport { server, vote: Vote::Failed { kind, reason }, round_trip: None }
    });
    Report { servers: reports.collect() }
}

/// Whether this is a lease of this library, by the form of its value.
pub(super) fn is_lease(seen: &Seen) -> bool {
    seen.is_whole && holder_of(&seen.value, seen.pttl_ms).configuration != Configured::Unknown
}

/// Merges the servers' answers on a lock, each with the server's address, for a client with this fingerprint.
pub(super) fn merge(
    name: Vec<u8>,
    quorum: Quorum,
    fingerprint: Option<&str>,
    looked: Vec<(String, Looked)>,
) -> LockView {
    let servers = looked.len();
    let (mut groups, mut failures) = (Vec::<Group>::new(), Vec::new());
    for (server, looked) in looked {
        match looked {
            Ok(None) => {}
            Ok(Some(seen)) => match groups.iter_mut().find(|group| group.is_of(&seen)) {
                Some(group) => group.shown.push((server, seen)),
                None => groups.push(Group { shown: vec![(server, seen)] }),
            },
            Err(reason) => failures.push(ServerFailure::new(server, &reason)),
        }
    }
    groups.sort_by_key(|group| Reverse(group.shown.len()));
    let most = groups.first().map_or(0, |group| group.shown.len());
    let waiting = groups.iter().flat_map(|group| &group.shown).map(|(_, seen)| seen.waiting);
    LockView {
        name,
        state: LockState::of(quorum, most, failures.len()),
        waiting: waiting.max().unwrap_or(0),
        holders: groups.into_iter().map(|group| group.view(quorum, fingerprint)).collect(),
        servers,
        quorum: quorum.needed(),
        failures,
    }
}

/// The servers that show the same owner, or sharers with the same limit; at least one.
struct Group {
    shown: Vec<(String, Seen)>,
}

impl Group {
    fn is_of(&self, seen: &Seen) -> bool {
        let (_, first) = &self.shown[0];
        let [one, other] = [first, seen].map(|seen| holder_of(&seen.value, seen.pttl_ms));
        let is_one = match (one.shared, other.shared) {
            (None, None) => one.owner == other.owner,
            (one, other) => one == other,
        };
        is_one && first.is_whole == seen.is_whole
    }

    fn view(self, quorum: Quorum, fingerprint: Option<&str>) -> HolderView {
        let Seen { value, pttl_ms, is_whole, .. } = self.shown[0].1.clone();
        let mut tokens: Vec<u64> = self.shown.iter().filter_map(|(_, seen)| seen.counter).collect();
        tokens.sort_unstable();
        tokens.dedup();
        let each = self.shown.iter().map(|(_, seen)| u64::try_from(seen.pttl_ms).ok());
        let each: Vec<_> = each.map(|left| left.map(Duration::from_millis)).collect();
        let mut holder = holder_of(&value, pttl_ms).seen_from(fingerprint);
        holder.remaining = time_left(quorum, &each);
        let shares = self.shown.iter().filter_map(|(_, seen)| seen.taken).max();
        let (servers, mut values): (_, Vec<_>) =
            self.shown.into_iter().map(|(server, seen)| (server, seen.value)).unzip();
        values.sort_unstable();
        values.dedup();
        values.retain(|_| is_whole);
        HolderView { holder, servers, tokens, shares, values }
    }
}

#[cfg(test)]
mod tests;

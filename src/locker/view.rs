//! Locks as their servers show them, put together from what each of them says.

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
    /// The addresses of the servers that say so.
    pub servers: Vec<String>,
    /// The largest fencing tokens that these servers have accepted for this lock, each once and the
    /// smallest first. They have all accepted the holder's own, unless it asked for none: then these
    /// are of leases before it. Where a process hands the lock on within itself, servers have accepted up to 15 more
    /// for the holders after it.
    pub tokens: Vec<u64>,
    /// How many shares are taken where the lock is shared: readers, or the weight of permits. None where it is
    /// not, or where the server did not say so.
    pub shares: Option<u64>,
    /// What stands under the key, each once: servers mark it where processes wait, and of sharers each server
    /// names one. None where it is too long to be asked for.
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

/// What became of the leases that were to be broken: see
/// [`Locker::break_lease`](crate::Locker::break_lease).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Broken {
    /// The addresses of the servers that had the lease and have it no more.
    pub freed: Vec<String>,
    /// Servers that did not confirm that the lease is gone.
    pub failures: Vec<ServerFailure>,
    /// How many servers make a holder.
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
    /// Whether the holder has no quorum any more, wherever else its lease may still be.
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

/// As errors carry them.
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

/// What the servers say of a lock, each with its address, seen from a client with this fingerprint.
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

/// The servers that show the same owner, or sharers with the same limit. There is at least one.
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
mod tests {
    use super::*;
    use crate::net::open_error::OpenError;

    const ONE: &str = "0123456789abcdef0123456789abcdef@0a1b2c3d:one";
    const TWO: &str = "f123456789abcdef0123456789abcdef@0a1b2c3d:two";

    fn held(value: &'static str, pttl_ms: i64, counter: u64) -> Looked {
        let value = Bytes::from_static(value.as_bytes());
        let (counter, waiting) = (Some(counter), counter);
        Ok(Some(Seen { value, is_whole: true, pttl_ms, counter, waiting, taken: None }))
    }

    fn down() -> Looked {
        Err(Reason::NoConnection(OpenError::Connecting))
    }

    fn merged(looked: impl IntoIterator<Item = Looked>) -> LockView {
        let looked: Vec<_> = looked
            .into_iter()
            .enumerate()
            .map(|(server, looked)| (format!("s{server}"), looked))
            .collect();
        let quorum = Quorum::new(looked.len(), None).unwrap();
        merge(b"job".to_vec(), quorum, Some("0a1b2c3d"), looked)
    }

    #[test]
    fn a_quorum_makes_a_holder_whichever_other_owner_has_a_server() {
        let view = merged([
            held(TWO, 9000, 4),
            held(ONE, 3000, 7),
            down(),
            held(ONE, 1000, 7),
            held(ONE, 2000, 7),
        ]);
        assert_eq!((view.state, view.servers, view.quorum), (LockState::Held, 5, 3));
        let [one, two] = &view.holders[..] else { panic!("{view:?}") };
        assert_eq!(one.servers, ["s1", "s3", "s4"]);
        assert_eq!(one.holder.label.as_deref(), Some("one"));
        assert_eq!(one.tokens, [7]);
        // Its third server is the last of its quorum.
        assert_eq!(one.holder.remaining, Some(Duration::from_secs(1)));
        assert!(one.is_lease() && !one.holder.other_configuration);
        assert_eq!((&two.servers[..], view.waiting), (&["s0".to_owned()][..], 7));
        assert_eq!(view.failures.len(), 1);
        assert_eq!(view.failures[0].server, "s2");
    }

    #[test]
    fn an_owner_is_one_where_others_wait_and_so_are_sharers() {
        const WAITED_FOR: &str = "0123456789abcdef0123456789abcdef@0a1b2c3d:one\0";
        let view = merged([held(WAITED_FOR, 9, 1), held(ONE, 9, 1), down()]);
        assert_eq!((view.state, view.holders.len()), (LockState::Held, 1));
        assert_eq!(view.holders[0].values(), [ONE, WAITED_FOR]);

        const READER: &str = "0123456789abcdef0123456789abcdef*0@0a1b2c3d:one";
        const ANOTHER: &str = "f123456789abcdef0123456789abcdef*0@0a1b2c3d:two";
        const PERMIT: &str = "f123456789abcdef0123456789abcdef*3@0a1b2c3d:two";
        let view = merged([held(READER, 9, 1), held(ANOTHER, 9, 1), down()]);
        assert_eq!((view.state, view.holders.len()), (LockState::Held, 1));
        let view = merged([held(READER, 9, 1), held(PERMIT, 9, 1), held(ONE, 9, 1)]);
        assert_eq!((view.state, view.holders.len()), (LockState::Partial, 3));
    }

    #[test]
    fn less_than_a_quorum_is_no_holder_and_may_hide_one() {
        let two_down = [held(ONE, 1, 1), Ok(None), Ok(None), down(), down()];
        assert_eq!(merged(two_down).state, LockState::Unknown);
        let split = [held(ONE, 1, 1), held(TWO, 1, 2), held(ONE, 1, 1), held(TWO, 1, 2), Ok(None)];
        let view = merged(split);
        assert_eq!((view.state, view.holders.len()), (LockState::Partial, 2));
        assert_eq!(merged([Ok(None), down(), Ok(None)]).state, LockState::Free);
        assert_eq!(merged([down()]).state, LockState::Unknown);
    }

    #[test]
    fn tokens_that_differ_are_all_shown() {
        let view = merged([held(ONE, -1, 9), held(ONE, -1, 3), held(ONE, 5, 9)]);
        assert_eq!(view.holders[0].tokens, [3, 9]);
        assert_eq!(view.holders[0].holder.remaining, None);
    }

    #[test]
    fn what_others_keep_under_a_key_is_no_lease() {
        let view = merged([held("redis-py", 100, 1)]);
        assert!(!view.holders[0].is_lease());
        let Ok(Some(mut seen)) = held(ONE, 1, 1) else { panic!() };
        assert!(is_lease(&seen));
        seen.is_whole = false;
        assert!(!is_lease(&seen));
        assert!(!merged([Ok(Some(seen))]).holders[0].is_lease());
    }

    #[test]
    fn a_lease_is_broken_once_too_few_servers_may_still_have_it() {
        let failures = merged([down(), down(), down()]).failures;
        let broken = |failed: usize| {
            let failures = failures[..failed].to_vec();
            Broken { freed: Vec::new(), failures, quorum: 2 }.is_complete()
        };
        assert!(broken(0) && broken(1) && !broken(2) && !broken(3));
    }
}

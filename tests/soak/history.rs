//! What happened, by one clock of this process.
//!
//! The clock is read so that every doubt is in the library's favour: a lease begins when its grant
//! has been returned, and ends when its holder begins to give it back, or at the earliest moment
//! that its deadline can have. What the checks then find is no matter of timing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasehold::{Error, ErrorKind, FailureKind, ServerReport, Vote};
use leasehold_testing::leases::{self, Part};

/// Since the start of the episode.
pub(crate) type At = Duration;

/// A lease that was granted, as its holder saw it.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) name: usize,
    pub(crate) client: usize,
    pub(crate) part: Part,
    pub(crate) token: u64,
    /// Read before the acquire was begun.
    pub(crate) begun: At,
    /// Read after it was granted.
    pub(crate) granted: At,
    /// Up to here its holder was told that it holds.
    pub(crate) until: At,
    pub(crate) extended: u32,
    pub(crate) end: &'static str,
}

impl leases::Lease for Lease {
    fn name(&self) -> usize {
        self.name
    }

    fn part(&self) -> Part {
        self.part
    }

    fn token(&self) -> u64 {
        self.token
    }

    fn begun(&self) -> At {
        self.begun
    }

    fn granted(&self) -> At {
        self.granted
    }

    fn until(&self) -> At {
        self.until
    }
}

/// What a guard claimed when an acquire or an extend had just returned.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) name: usize,
    pub(crate) token: u64,
    /// Read after it returned, so that the question was asked before.
    pub(crate) returned: At,
    pub(crate) ttl: Duration,
    pub(crate) until: At,
}

/// What an extend or a release said of a lease.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) name: usize,
    pub(crate) client: usize,
    pub(crate) token: u64,
    pub(crate) call: &'static str,
    /// Before the acquire was begun.
    pub(crate) since: At,
    pub(crate) returned: At,
    /// Up to when the lease was to hold.
    pub(crate) until: At,
    pub(crate) is_lost: bool,
}

/// Keys that the injector took from the servers: of one name, or of all.
#[derive(Clone, Debug)]
pub(crate) struct Disturbance {
    pub(crate) name: Option<usize>,
    pub(crate) begun: At,
    pub(crate) ended: At,
}

/// A fault, for a reader of the slice of a history.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) at: At,
    pub(crate) text: String,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) leases: Vec<Lease>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) disturbances: Vec<Disturbance>,
    /// Servers that were started again without their memory.
    pub(crate) forgetful: BTreeSet<usize>,
    pub(crate) notes: Vec<Note>,
    /// What can never be right, such as an error that no fault explains.
    pub(crate) surprises: Vec<Note>,
    /// How often what happened, for the summary.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

/// Writes the history of one episode, and has its clock.
pub(crate) struct Recorder {
    origin: Instant,
    history: Mutex<History>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now(), history: Mutex::default() }
    }

    /// What [`At`] is counted from.
    pub(crate) fn origin(&self) -> Instant {
        self.origin
    }

    pub(crate) fn now(&self) -> At {
        self.origin.elapsed()
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, what: &'static str) {
        *self.history().counts.entry(what).or_default() += 1;
    }

    pub(crate) fn note(&self, text: String) {
        let at = self.now();
        self.history().notes.push(Note { at, text });
    }

    /// Nothing that the injector does may look like the caller's mistake.
    pub(crate) fn expect_fault(&self, call: &str, error: &Error) {
        use FailureKind::{Auth, Misuse};
        let is_told =
            |it: &ServerReport| matches!(it.vote, Vote::Failed { kind: Auth | Misuse, .. });
        if matches!(error.kind(), ErrorKind::Auth | ErrorKind::Misuse)
            || error.report().servers().iter().any(is_told)
        {
            self.surprise(format!("{call}: {error}"));
        }
    }

    pub(crate) fn surprise(&self, text: String) {
        let at = self.now();
        self.history().surprises.push(Note { at, text });
    }
}

impl History {
    /// What happened to one name, and what was done to the servers, around some time.
    pub(crate) fn slice(&self, name: usize, from: At, to: At) -> String {
        const BEFORE: Duration = Duration::from_millis(2500);
        let (from, to) = (from.saturating_sub(BEFORE), to + Duration::from_millis(200));
        let leases = self.leases.iter().filter(|lease| lease.name == name);
        let leases = leases.filter(|lease| lease.until >= from && lease.begun <= to);
        let mut lines: Vec<(At, String)> = leases
            .map(|lease| {
                let Lease { client, part, token, begun, granted, until, extended, end, .. } = lease;
                let text = format!(
                    "client {client:2} {part:?} token {token}: asked {begun:.6?}, granted {granted:.6?}, \
                     held until {until:.6?} ({extended} extends, {end})"
                );
                (*granted, text)
            })
            .collect();
        let notes = self.notes.iter().filter(|note| note.at >= from && note.at <= to);
        lines.extend(notes.map(|note| (note.at, format!("    {:.6?} {}", note.at, note.text))));
        lines.sort();
        lines.into_iter().map(|(_, line)| line + "\n").collect()
    }
}

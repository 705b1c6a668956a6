//! A scan of all keys of all servers that match a pattern, step by step.

use std::collections::VecDeque;

use bytes::Bytes;

use super::spot::Spot;
use super::view::{ServerFailure, report};
use crate::api::Locker as Front;
use crate::error::Error;
use crate::net::reason::Reason;

/// The cursor that begins a scan, and that ends it.
const CURSOR: &[u8] = b"0";

/// See the module's documentation.
pub(super) struct Walk {
    pub(super) front: Front,
    /// The pattern for SCAN, with the prefix.
    pub(super) pattern: Vec<u8>,
    /// The servers still to scan, each with the index of its vote.
    ahead: VecDeque<(usize, Spot)>,
    /// The cursor at the first of them.
    pub(super) cursor: Bytes,
    /// The result for each vote so far.
    passages: Vec<Passage>,
    /// What the nodes of a Cluster served at the beginning.
    #[cfg(feature = "cluster")]
    served: Vec<Vec<u8>>,
    pub(super) failures: Vec<ServerFailure>,
}

/// The result of scanning a vote's servers, the worst of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Passage {
    Whole,
    /// Complete, but one of them may have forgotten leases, or a slot moved.
    Doubtful,
    /// One of them could not be scanned to the end.
    Broken,
}

impl Walk {
    pub(super) fn new(front: &Front, pattern: Vec<u8>) -> Self {
        Self {
            front: front.clone(),
            pattern,
            ahead: Spot::all(front).into(),
            cursor: Bytes::from_static(CURSOR),
            passages: Vec::new(),
            #[cfg(feature = "cluster")]
            served: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Reads which slots a Cluster's nodes serve, before the first step and after the last.
    #[cfg(feature = "cluster")]
    pub(super) async fn survey(&mut self) {
        let is_due = match self.served.is_empty() {
            true => self.passages.is_empty(),
            false => self.ahead.is_empty() && self.passages == [Passage::Whole],
        };
        if is_due && self.front.driver.is_cluster() {
            match Spot::served(&self.front, &self.served).await {
                // Nothing is left to compare with after the last step: another call asks no more.
                Ok(served) => {
                    self.served = if self.served.is_empty() { served } else { Vec::new() }
                }
                Err((node, reason)) => self.pass(0, &node, Some(reason), Passage::Doubtful),
            }
        }
    }

    /// The server of the next step, with the index of its vote.
    pub(super) fn here(&self) -> Option<(usize, Spot)> {
        self.ahead.front().cloned()
    }

    /// Notes the cursor that a step returned, or why the server cannot be scanned.
    pub(super) fn stepped(&mut self, cursor: Result<Bytes, Reason>) {
        let Some((vote, spot)) = self.here() else { return };
        match cursor {
            Ok(cursor) if cursor == CURSOR => {
                let doubt = spot.quarantine();
                let passage = match doubt {
                    Some(_) => Passage::Doubtful,
                    None => Passage::Whole,
                };
                self.leave(vote, &spot, doubt, passage);
            }
            Ok(cursor) => self.cursor = cursor,
            Err(reason) => self.leave(vote, &spot, Some(reason), Passage::Broken),
        }
    }

    /// Notes failures, each once.
    pub(super) fn note(&mut self, failures: impl IntoIterator<Item = ServerFailure>) {
        for failure in failures {
            if !self.failures.contains(&failure) {
                self.failures.push(failure);
            }
        }
    }

    /// Goes on to the next server.
    fn leave(&mut self, vote: usize, spot: &Spot, trouble: Option<Reason>, passage: Passage) {
        self.pass(vote, spot, trouble, passage);
        self.ahead.pop_front();
        self.cursor = Bytes::from_static(CURSOR);
    }

    /// Says how it went with a server.
    fn pass(&mut self, vote: usize, spot: &Spot, trouble: Option<Reason>, passage: Passage) {
        self.note(trouble.map(|reason| ServerFailure::new(spot.address(), &reason)));
        self.passages.resize(vote + 1, Passage::Whole);
        self.passages[vote] = self.passages[vote].max(passage);
    }

    /// Whether one of these servers was scanned before the present one, so that its keys were found there.
    pub(super) fn has_met(&self, mut shown: impl Iterator<Item = usize>) -> bool {
        let passed = |vote: usize| {
            self.passages.get(vote).is_some_and(|passage| *passage != Passage::Broken)
        };
        let here = self.ahead.front().map_or(0, |(vote, _)| *vote);
        shown.any(|vote| vote < here && passed(vote))
    }

    /// Refuses a scan that failed at every server.
    pub(super) fn end(&self) -> Result<(), Error> {
        match self.passages.iter().any(|passage| *passage != Passage::Broken) {
            true => Ok(()),
            false => Err(Error::connect(report(&self.failures))),
        }
    }

    /// Whether all was found that a quorum of the servers had throughout.
    pub(super) fn is_complete(&self) -> bool {
        let whole = self.passages.iter().filter(|passage| **passage == Passage::Whole).count();
        self.ahead.is_empty() && whole > Spot::count(&self.front) - self.front.quorum().needed()
    }
}

//! A way through all keys of all servers that match a pattern, step by step.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::view::{ServerFailure, report};
use crate::error::Error;
use crate::lock::answer::Reason;
use crate::lock::engine::Engine;
use crate::lock::look::quarantine;
use crate::server::node::Node;

/// With it every scan begins, and says that it has ended.
const CURSOR: &[u8] = b"0";

/// See the module's documentation.
pub(super) struct Walk {
    pub(super) engine: Arc<Engine>,
    /// As SCAN takes it, with the prefix.
    pub(super) pattern: Vec<u8>,
    /// The servers that have still to be gone through, each with the number of its place.
    ahead: VecDeque<(usize, Arc<Node>)>,
    /// How far the first of them is.
    pub(super) cursor: Bytes,
    /// How it went at each place so far.
    passages: Vec<Passage>,
    pub(super) failures: Vec<ServerFailure>,
}

/// How it went to go through the servers of a place; the worst of them counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Passage {
    Whole,
    /// To the end, but one of them may have forgotten leases.
    Forgetful,
    /// One of them could not be gone through to the end.
    Broken,
}

impl Walk {
    pub(super) fn new(engine: &Arc<Engine>, pattern: Vec<u8>) -> Self {
        let places = engine.places().iter().enumerate();
        let ahead = places
            .flat_map(|(place, servers)| servers.nodes().into_iter().map(move |node| (place, node)))
            .collect();
        Self {
            engine: Arc::clone(engine),
            pattern,
            ahead,
            cursor: Bytes::from_static(CURSOR),
            passages: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// The server of the next step, with the number of its place.
    pub(super) fn here(&self) -> Option<(usize, Arc<Node>)> {
        self.ahead.front().cloned()
    }

    /// A step led to this cursor; or why the server cannot be gone through.
    pub(super) fn stepped(&mut self, cursor: Result<Bytes, Reason>) {
        let Some((place, node)) = self.here() else { return };
        match cursor {
            Ok(cursor) if cursor == CURSOR => {
                let doubt = quarantine(&node);
                let passage = match doubt {
                    Some(_) => Passage::Forgetful,
                    None => Passage::Whole,
                };
                self.leave(place, &node, doubt, passage);
            }
            Ok(cursor) => self.cursor = cursor,
            Err(reason) => self.leave(place, &node, Some(reason), Passage::Broken),
        }
    }

    /// The user lacks the rights to see something; each is told once.
    pub(super) fn note_denied(&mut self, denied: Vec<ServerFailure>) {
        for failure in denied {
            if !self.failures.contains(&failure) {
                self.failures.push(failure);
            }
        }
    }

    /// Goes on to the next server.
    fn leave(&mut self, place: usize, node: &Node, trouble: Option<Reason>, passage: Passage) {
        let server = || node.endpoint().address.to_string();
        self.failures.extend(trouble.map(|reason| ServerFailure::new(server(), &reason)));
        self.ahead.pop_front();
        self.cursor = Bytes::from_static(CURSOR);
        self.passages.resize(place + 1, Passage::Whole);
        self.passages[place] = self.passages[place].max(passage);
    }

    /// Whether what these servers show was found before: at one in front of the present one.
    pub(super) fn has_met(&self, mut shown: impl Iterator<Item = usize>) -> bool {
        let passed = |place: usize| {
            self.passages.get(place).is_some_and(|passage| *passage != Passage::Broken)
        };
        let here = self.ahead.front().map_or(0, |(place, _)| *place);
        shown.any(|place| place < here && passed(place))
    }

    /// Refuses a walk that went through no server.
    pub(super) fn end(&self) -> Result<(), Error> {
        match self.passages.iter().any(|passage| *passage != Passage::Broken) {
            true => Ok(()),
            false => Err(Error::connect(report(&self.failures))),
        }
    }

    /// Whether whatever a quorum of the servers had all the while was met.
    pub(super) fn is_complete(&self) -> bool {
        let whole = self.passages.iter().filter(|passage| **passage == Passage::Whole).count();
        self.ahead.is_empty() && whole > self.engine.places().len() - self.engine.quorum().needed()
    }
}

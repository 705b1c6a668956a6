//! What a link knows of its server's reign: since when it has been the primary (feature `grace`).

use std::time::Duration;

use bytes::Bytes;

use super::command::Script;
use super::ids::LeaseId;
use super::rules;
use crate::policy::{Code, Failing, Moment, Reign, is_recent};

/// The settings of the grace.
pub(crate) struct Grace {
    /// The longest TTL of any lease.
    pub(crate) longest_ttl: Duration,
    pub(crate) prefix: Box<[u8]>,
    pub(crate) script: Script,
}

/// What a link knows of the reign of its server.
#[derive(Default)]
pub(super) struct Met {
    /// Primaries have a grace.
    pub(super) is_on: bool,
    /// None if the server is no primary, or has not said since when it is.
    pub(super) reign: Option<Reign>,
    /// When this reign was first learned.
    pub(super) since: Moment,
    /// When it was asked, if it has not answered yet.
    pub(super) asked_at: Option<Moment>,
    /// When it answered last.
    pub(super) said_at: Moment,
    /// The map has changed since: other clients may use another marker.
    pub(super) is_outdated: bool,
    /// The error that came instead of a reign.
    pub(super) said: Option<Bytes>,
    /// Leases in a queue of the server whose next command waits for the answer.
    pub(super) waiting: Vec<LeaseId>,
}

impl Met {
    /// The error that came instead of a reign, while there is none.
    pub(super) fn said(&self) -> Option<&Bytes> {
        self.said.as_ref().filter(|_| self.reign.is_none())
    }

    /// Why no lock is requested while no reign is known. A server that does not tell its role, or whose scripts may not ask
    /// for it, would answer the same again. A marker whose slot has moved waits for the next map.
    pub(super) fn failing(&self) -> Failing {
        let code = self.said().map(|text| Code::of_bytes(text));
        let is_lasting = |code: Code| code.is_lasting() && code != Code::Elsewhere;
        if code.is_some_and(is_lasting) { Failing::Hopeless } else { Failing::Otherwise }
    }

    /// Whether its reign has to be asked for, first or again, before a lock is requested.
    pub(super) fn is_unsure(&self, now: Moment) -> bool {
        let is_fresh = |reign: Reign| !reign.wait(now).is_zero() || reign.is_fresh(now);
        self.is_on && !self.reign.is_some_and(is_fresh)
    }

    /// Whether its answer came a moment ago, and was old by then: requests that waited for that go out anyway, or else they
    /// would ask a distant server for its reign without end.
    pub(super) fn is_just_said(&self, now: Moment) -> bool {
        let was_old = self.reign.is_some_and(|reign| !reign.is_fresh(self.said_at));
        was_old && is_recent(self.said_at, now)
    }

    /// Whether a grant by its server is believed now.
    pub(super) fn grants(&self, now: Moment) -> bool {
        !self.is_on || rules::is_granted(self.reign.is_some_and(|reign| reign.grants(now)))
    }

    /// Whether a release may hand the lock on. A repeated release may be old: then the reign has to be certain.
    pub(super) fn hands_on(&self, is_repeated: bool, now: Moment) -> bool {
        let is_open =
            |reign: Reign| reign.wait(now).is_zero() && (!is_repeated || reign.is_sure(now));
        !self.is_on || rules::hands_on(self.reign.is_some_and(is_open))
    }
}

#[cfg(test)]
mod tests;

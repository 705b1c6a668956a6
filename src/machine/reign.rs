//! What a link knows of its server's reign: since when it has been the primary (feature `grace`).

use std::time::Duration;

use bytes::Bytes;

use super::command::Script;
use super::ids::LeaseId;
use super::rules;
use crate::policy::{Code, Failing, Moment, Reign, is_recent};

/// That primaries have a grace.
pub(crate) struct Grace {
    /// No lease lasts longer.
    pub(crate) longest_ttl: Duration,
    pub(crate) prefix: Box<[u8]>,
    pub(crate) script: Script,
}

/// What a link knows of the reign of its server.
#[derive(Default)]
pub(super) struct Met {
    /// Primaries have a grace.
    pub(super) is_on: bool,
    /// None where the server is no primary, or has not said since when it is.
    pub(super) reign: Option<Reign>,
    /// When this reign was learned of first.
    pub(super) since: Moment,
    /// It has been asked then, and has not answered yet.
    pub(super) asked_at: Option<Moment>,
    /// When it answered last.
    pub(super) said_at: Moment,
    /// The map has changed since: the question may be of another marker than others ask for.
    pub(super) is_outdated: bool,
    /// Why there is none, where the server has said that.
    pub(super) said: Option<Bytes>,
    /// Those in a queue of the server whose next question waits for the answer.
    pub(super) waiting: Vec<LeaseId>,
}

impl Met {
    /// What the server said in the place of its reign.
    pub(super) fn said(&self) -> Option<&Bytes> {
        self.said.as_ref().filter(|_| self.reign.is_none())
    }

    /// Why no lock is asked for where nothing is known of a reign: a server that does not tell what it is, or lets its
    /// scripts not ask, says the same the next time. The slot of a marker has moved until the map says so.
    pub(super) fn failing(&self) -> Failing {
        let code = self.said().map(|text| Code::of_bytes(text));
        let is_lasting = |code: Code| code.is_lasting() && code != Code::Elsewhere;
        if code.is_some_and(is_lasting) { Failing::Hopeless } else { Failing::Otherwise }
    }

    /// Whether its reign has to be learned, or looked at again, before a lock is asked for.
    pub(super) fn is_unsure(&self, now: Moment) -> bool {
        let is_fresh = |reign: Reign| !reign.wait(now).is_zero() || reign.is_fresh(now);
        self.is_on && !self.reign.is_some_and(is_fresh)
    }

    /// Whether its answer was old when it came, a moment ago: what has waited for that is asked, and would look without end
    /// at a server that is so far away.
    pub(super) fn is_just_said(&self, now: Moment) -> bool {
        let was_old = self.reign.is_some_and(|reign| !reign.is_fresh(self.said_at));
        was_old && is_recent(self.said_at, now)
    }

    /// Whether a lock is believed to be granted, as its server says now.
    pub(super) fn grants(&self, now: Moment) -> bool {
        !self.is_on || rules::is_granted(self.reign.is_some_and(|reign| reign.grants(now)))
    }

    /// Whether a release may hand the lock on. What is repeated may be long past: the reign has to be sure.
    pub(super) fn hands_on(&self, is_repeated: bool, now: Moment) -> bool {
        let is_open =
            |reign: Reign| reign.wait(now).is_zero() && (!is_repeated || reign.is_sure(now));
        !self.is_on || rules::hands_on(self.reign.is_some_and(is_open))
    }
}

#[cfg(test)]
mod tests;

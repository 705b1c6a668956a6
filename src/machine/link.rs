//! The link to one server, over its successive connections: its state beside the commands on a connection ([`Talk`]).

use std::mem;
use std::time::Duration;

use super::command::{Form, Memory};
use super::ids::LeaseId;
use super::session::{Fault, Sighting};
use super::talk::{LIMITS, Talk};
use crate::policy::fitness::Unfit;
use crate::policy::{Breaker, Failing, Moment};

/// With more unsent bytes than this, no lock of a single server is requested. Releases still go out.
const UNSENT_MAX: usize = 1024 * 1024;
/// Maximum repeats of one command: servers that disagree on the owner of a slot redirect it to and fro.
#[cfg(any(test, feature = "_calls", feature = "cluster"))]
pub(super) const REPEATS_MAX: u8 = 8;

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The driver is to dial at this time; for a request from `soonest` on.
    Down {
        dial_at: Moment,
        soonest: Moment,
    },
    /// The driver dials, and makes the handshake.
    Dialling,
    Ready,
}

pub(super) struct Link {
    /// The server's address, the same in all processes.
    pub(super) address: Box<str>,
    pub(super) talk: Talk,
    pub(super) state: State,
    /// The number of its connection, among those of all links.
    pub(super) generation: u32,
    /// Failed dials in a row.
    pub(super) failed: u32,
    /// Why there is no connection, or was none the last time.
    pub(super) fault: Option<Fault>,
    /// The last dial failed.
    pub(super) is_down: bool,
    pub(super) sighting: Option<Sighting>,
    /// Problems of the server that are no reason to refuse it.
    pub(super) warnings: Vec<Unfit>,
    /// From when on the server may vote.
    pub(super) votes_at: Moment,
    pub(super) ready_at: Moment,
    #[cfg(any(test, feature = "sentinel"))]
    pub(super) succession: super::session::Succession,
    pub(super) breaker: Breaker,
    /// An `ASKING` goes before the next command.
    #[cfg(any(test, feature = "cluster"))]
    pub(super) is_asking: bool,
    /// When a server that still has the slot last redirected a command here.
    #[cfg(any(test, feature = "cluster"))]
    pub(super) sent_here_at: Option<Moment>,
    /// Requests that wait for the connection to the only server, and extensions that wait for this one.
    pub(super) awaited: Vec<LeaseId>,
    /// Leases that are to be released here, once the server serves: the link is ready, and it carries out writes.
    pub(super) owed: Vec<LeaseId>,
    /// When the server first refused a release of these.
    pub(super) refused_at: Option<Moment>,
    /// Releases in commands for several that are not answered yet.
    pub(super) together: usize,
    #[cfg(any(test, feature = "grace"))]
    pub(super) met: super::reign::Met,
}

impl Link {
    pub(super) fn new(address: Box<str>, dial_at: Moment) -> Self {
        Self {
            address,
            talk: Talk::new(Form::Digest, LIMITS),
            state: State::Down { dial_at, soonest: dial_at },
            generation: 0,
            failed: 0,
            fault: None,
            is_down: false,
            sighting: None,
            warnings: Vec::new(),
            votes_at: dial_at,
            ready_at: dial_at,
            #[cfg(any(test, feature = "sentinel"))]
            succession: super::session::Succession::default(),
            breaker: Breaker::default(),
            #[cfg(any(test, feature = "cluster"))]
            is_asking: false,
            #[cfg(any(test, feature = "cluster"))]
            sent_here_at: None,
            awaited: Vec::new(),
            owed: Vec::new(),
            refused_at: None,
            together: 0,
            #[cfg(any(test, feature = "grace"))]
            met: super::reign::Met::default(),
        }
    }

    /// Whether the link serves, or a dial has failed.
    pub(super) fn is_tried(&self) -> bool {
        self.is_ready() && !self.awaits_reign() || self.fault.is_some()
    }

    /// Whether requests have to wait until more is sent.
    pub(super) fn is_full(&self) -> bool {
        self.talk.out.len() > UNSENT_MAX
    }

    /// Whether requests that have waited for that can go out.
    pub(super) fn has_room_again(&self) -> bool {
        !self.awaited.is_empty() && self.is_ready() && !self.is_full()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Why no lock is requested of the server now; none if it may vote.
    pub(super) fn refusal(&self, now: Moment) -> Option<Failing> {
        match self.state {
            State::Ready if self.votes_at <= now => None,
            State::Ready => Some(Failing::Quarantined(self.votes_at.since(now))),
            _ if self.fault.as_ref().is_some_and(Fault::is_lasting) => Some(Failing::Hopeless),
            _ => Some(Failing::Otherwise),
        }
    }

    /// The recent releases for a successor of its server, if there may be one.
    pub(super) fn memory(&mut self) -> Option<&mut dyn Memory> {
        #[cfg(any(test, feature = "sentinel"))]
        if let Some(memory) = &mut self.succession.memory {
            return Some(&mut **memory);
        }
        None
    }

    /// Until when other clients may still be granted leases by the former server.
    pub(super) fn settles_at(&self) -> Option<Moment> {
        #[cfg(any(test, feature = "sentinel"))]
        return Some(self.succession.settles_at);
        #[cfg(not(any(test, feature = "sentinel")))]
        None
    }

    /// The connection of a finished handshake replaces the former one.
    pub(super) fn adopt(&mut self, greeted: Talk, generation: u32) {
        let form = self.talk.form;
        (self.talk, self.generation) = (greeted, generation);
        self.talk.form = form;
    }

    /// The connection has ended, or the dial failed. Returns the state of its commands.
    pub(super) fn end(&mut self, state: State, now: Moment) -> Talk {
        if let (true, Some(sighting)) = (self.is_ready(), &mut self.sighting) {
            sighting.left_at = Some(now);
        }
        self.state = state;
        self.forgets_reign();
        let form = self.talk.form;
        let form = if form <= Form::Loaded { Form::Digest } else { form };
        mem::replace(&mut self.talk, Talk::new(form, LIMITS))
    }

    /// Whether nothing is expected of the server for now: it is silent, or two dials in a row have failed, of which a
    /// connection that ended at once is one.
    pub(super) fn is_away(&self) -> bool {
        let is_mute = matches!(self.fault, Some(Fault::Silent | Fault::Late));
        !self.is_ready() && (is_mute || self.failed > 1)
    }

    /// When the link is due; `silence` is the longest silence of a server.
    pub(super) fn due(&self, silence: Duration, never: Moment) -> Moment {
        let or_never = |at: Option<Moment>| at.unwrap_or(never);
        match self.state {
            State::Down { dial_at, .. } => dial_at,
            State::Dialling => never,
            State::Ready => {
                let due = or_never(self.talk.silent_at(silence)).min(or_never(self.talk.leave_at));
                #[cfg(any(test, feature = "credentials"))]
                let due =
                    due.min(or_never(self.talk.renewal.as_ref().and_then(|renewal| renewal.at)));
                due
            }
        }
    }

    /// A request needs the link: brings its next dial forward, if any. Returns whether that changes the time.
    pub(super) fn want(&mut self, now: Moment) -> bool {
        let State::Down { dial_at, soonest } = &mut self.state else { return false };
        let sooner = (*soonest).max(now).min(*dial_at);
        mem::replace(dial_at, sooner) != sooner
    }
}

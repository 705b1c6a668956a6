//! A link that leads to another server from some time on, which takes the place of the one before: a replica that was
//! promoted.
//!
//! It may know nothing of what the one before was told last. Leases are looked for there at once, as at another run of one
//! server; what was given back lately is given back once more. A release names an owner that is never used again, so it
//! can do no harm.

use std::collections::VecDeque;
use std::time::Duration;

use super::command::Command;
use super::core::Machine;
use super::link::{Fault, Link, State, To};
use crate::policy::Moment;

/// A server that serves for longer than this has heard of its release by then, or is followed already.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// Maximum releases that are remembered: the oldest are forgotten.
const REMEMBERED_MAX: usize = 2048;

/// Of a link that may lead to another server.
pub(super) struct Moves {
    /// The server has not been met yet.
    is_new: bool,
    /// It may not vote before.
    votes_at: Moment,
    /// Releases that were written lately.
    released: VecDeque<(Moment, Command)>,
}

impl Link {
    /// Whether its server is met for the first time.
    pub(super) fn meets_another(&mut self) -> bool {
        self.moves.as_mut().is_some_and(|moves| std::mem::replace(&mut moves.is_new, false))
    }

    /// When a server may vote that is met now, and has not forgotten anything.
    pub(super) fn settles_at(&self, now: Moment) -> Moment {
        self.moves.as_ref().map_or(now, |moves| moves.votes_at.max(now))
    }

    /// Whether it may not vote yet because clients may still follow the server before it.
    pub(super) fn is_settling(&self) -> bool {
        self.moves.as_ref().is_some_and(|moves| moves.votes_at == self.votes_at)
    }

    /// A release is written.
    pub(super) fn remember(&mut self, release: &Command, now: Moment) {
        let Some(Moves { released, .. }) = self.moves.as_deref_mut() else { return };
        let is_old = |(at, _): &(Moment, Command)| now.since(*at) > REMEMBERED_FOR;
        while released.len() >= REMEMBERED_MAX || released.front().is_some_and(is_old) {
            released.pop_front();
        }
        released.push_back((now, release.clone()));
    }

    /// Writes them once more.
    pub(super) fn release_again(&mut self, now: Moment) {
        let Some(moves) = &mut self.moves else { return };
        for (at, release) in std::mem::take(&mut moves.released) {
            if now.since(at) <= REMEMBERED_FOR {
                self.say(&release, To::Nobody, now);
            }
        }
    }
}

impl Machine {
    /// The link leads to another server from here on, which may not vote before `votes_at`. What the driver has begun to
    /// dial for it, and not said yet, is over.
    pub(crate) fn moved(&mut self, server: usize, votes_at: Moment, now: Moment) {
        self.end_link(server, Fault::Closed, now);
        let link = &mut self.links[server];
        let released = link.moves.take().map(|moves| moves.released).unwrap_or_default();
        link.moves = Some(Box::new(Moves { is_new: true, votes_at, released }));
        // What is known of the run before bounds the age of that server alone.
        (link.sighting, link.failed, link.is_down) = (None, 0, false);
        link.state = State::Down { dial_at: now, soonest: now };
        self.note(now);
    }
}

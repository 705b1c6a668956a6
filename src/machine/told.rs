//! Has servers push hand-overs and changes of keys: of awaited locks, and of held leases. So a key that is deleted or
//! overwritten is noticed within a round trip.
//!
//! A renewal reads the key after `CLIENT CACHING YES`: from then on the server tells of its next change. Most leases
//! are released before that, and cost the server nothing; a lease whose holder waits for its loss is renewed early. A
//! push only brings a renewal forward, whose reply says whether the lease is lost.

use std::time::Duration;

use super::answer::Place;
use super::command::Form;
use super::core::{Happening, Machine, NEVER};
use super::ids::LeaseId;
use super::lease::{Extending, Lease};
use super::link::Link;
use super::session::{Subscription, Told};
use super::talk::To;
use crate::policy::Moment;

/// Has the server tell of changes to the keys that the next command reads.
const CACHING: [&[u8]; 3] = [b"CLIENT", b"CACHING", b"YES"];

impl Link {
    /// Asks for pushes, once for each connection. If the server refuses, and over RESP2, there are none, and waiters poll.
    pub(super) fn subscribe(&mut self, id: fn(Moment) -> u128, now: Moment) {
        if !self.is_ready() || !self.talk.is_resp3 || self.talk.told.is_asked || self.is_asking() {
            return;
        }
        self.talk.told = Subscription::asked(id(now));
        let channel = self.talk.told;
        let subscribe: [&[u8]; 2] = [b"SUBSCRIBE", channel.channel()];
        self.talk.write(&subscribe, Place::Subscribed, To::Told(Told::OfHandOvers), now);
        let track: [&[u8]; 5] = [b"CLIENT", b"TRACKING", b"ON", b"OPTIN", b"NOLOOP"];
        self.talk.command(&track, To::Nobody, now);
        // The reply shows whether keys are tracked: either right may be missing, and this command needs both.
        self.talk.command(&CACHING, To::Told(Told::OfKeys), now);
    }

    /// Has the keys that the next command reads tracked, unless the server has refused tracking; returns whether it did.
    pub(super) fn watch_held(&mut self, id: fn(Moment) -> u128, now: Moment) -> bool {
        self.subscribe(id, now);
        let may_tell = self.talk.told.is_tracking || self.talk.told.is_awaited();
        self.watches(may_tell && self.is_ready(), now)
    }

    /// Has the keys that the next command reads tracked, if the server has confirmed tracking; returns whether it did.
    pub(super) fn watch_next(&mut self, now: Moment) -> bool {
        self.watches(self.talk.told.is_tracking, now)
    }

    fn watches(&mut self, may_tell: bool, now: Moment) -> bool {
        // Before a `SCRIPT LOAD` it would apply to that.
        let is_next = self.talk.form != Form::Loaded;
        let may_tell = may_tell && !self.is_asking() && is_next;
        if may_tell {
            self.talk.command(&CACHING, To::Nobody, now);
        }
        may_tell
    }

    /// Whether an `ASKING` goes before the next command, with nothing between.
    pub(super) fn is_asking(&self) -> bool {
        #[cfg(any(test, feature = "cluster"))]
        return self.is_asking;
        #[cfg(not(any(test, feature = "cluster")))]
        false
    }
}

/// Maximum locks of a tracked lease: Redis before 7.2 notes all keys of a script at each read.
const TOLD_MAX: usize = 64;

impl Lease {
    pub(super) fn is_trackable(&self) -> bool {
        self.kind.also(&self.words).len() < TOLD_MAX
    }

    /// Whether a server has told of a change to its key, and no answer has said yet whether that is its end.
    pub(super) fn is_looked_for(&self) -> bool {
        let is_asked = self.is_told && self.extending != Extending::Nothing;
        is_asked || self.news_at != NEVER
    }
}

/// If a holder has waited this long for a loss, its key is tracked.
const WAITED: Duration = Duration::from_millis(40);
/// Least time between two looks at a key that changes again and again.
const LOOKS: Duration = Duration::from_millis(200);

impl Machine {
    /// Has the server track the keys of these leases with their renewal; returns whether it may.
    pub(super) fn are_watched(&mut self, server: usize, batch: &[LeaseId], now: Moment) -> bool {
        let Self { links, leases, watched, settings, .. } = self;
        let is_kept = |id: &&LeaseId| leases.get(**id).is_some_and(Lease::is_told_of);
        if !batch.iter().any(|id| is_kept(&id)) || !links[server].watch_held(settings.owner_id, now)
        {
            return false;
        }
        for &id in batch {
            let Some(lease) = leases.get_mut(id).filter(|lease| lease.is_told_of()) else {
                continue;
            };
            if !std::mem::replace(&mut lease.is_watched, true) {
                lease.keys().for_each(|key| watched.insert(key, id));
            }
        }
        true
    }

    /// Whether a separate command has to read the lock after its extension, which does not read it.
    pub(super) fn are_read_behind(&self, batch: &[LeaseId]) -> bool {
        let is_it = |id: &LeaseId| {
            self.leases.get(*id).is_some_and(|lease| !lease.kind.means().read_the_lock)
        };
        batch.first().is_some_and(is_it)
    }

    /// Reads the lock after its extension, so that the server tells of its next change.
    #[cfg(any(test, feature = "_kinds"))]
    pub(super) fn reads_behind(&mut self, id: LeaseId, at: usize, now: Moment) {
        let Some(server) = self.leases.get(id).map(|lease| lease.link(at)) else { return };
        if self.are_watched(server, &[id], now) {
            let Self { links, leases, .. } = self;
            let Some(lease) = leases.get(id) else { return };
            links[server].talk.write(&[b"GET", lease.names.lock()], Place::Text, To::Nobody, now);
        }
    }

    /// Its holder waits for its loss.
    pub(super) fn is_waited_for(&mut self, id: LeaseId, now: Moment) {
        let is_unwatched = |lease: &&Lease| lease.is_told_of() && !lease.is_watched;
        if let Some(lease) = self.leases.get(id).filter(is_unwatched) {
            let at = now.after(WAITED).min(lease.due);
            self.plan(id, at);
        }
    }

    /// The key has changed, or any may have if none is named: looks for held leases.
    pub(super) fn held_changed(&mut self, key: Option<&[u8]>, now: Moment) {
        self.tell_callers(Happening::Changed(key), now);
        let told: Vec<LeaseId> = match key {
            Some(key) => self.watched.get(key).into_iter().collect(),
            None => self.all(&|_, lease| lease.is_watched),
        };
        self.are_looked_for(told, now);
    }

    /// A connection has ended on which pushes would have come.
    pub(super) fn held_changed_at(&mut self, server: usize, now: Moment) {
        self.tell_callers(Happening::Changed(None), now);
        let is_there = |lease: &Lease| lease.at_link(server).next().is_some();
        let told = self.all(&|_, lease| lease.is_watched && is_there(lease));
        self.are_looked_for(told, now);
    }

    fn are_looked_for(&mut self, told: Vec<LeaseId>, now: Moment) {
        for id in told {
            let Some(lease) = self.leases.get_mut(id).filter(|lease| lease.is_held()) else {
                continue;
            };
            let is_first = !std::mem::replace(&mut lease.is_told, true);
            let at = if is_first { now } else { now.max(lease.asked_at.after(LOOKS)) };
            lease.news_at = at;
            // With an extension under way it is looked for after the answer.
            if is_first || lease.extending == Extending::Nothing {
                let at = at.min(lease.due);
                self.plan(id, at);
            }
        }
    }

    /// It has ended: its key is no longer watched.
    pub(super) fn is_watched_no_more(&mut self, id: LeaseId) {
        let Self { leases, watched, .. } = self;
        if let Some(lease) = leases.get_mut(id).filter(|lease| lease.is_watched) {
            lease.is_watched = false;
            lease.keys().for_each(|key| watched.forget(key, id));
        }
    }
}

#[cfg(test)]
mod tests;

//! Has servers push hand-overs and changes of keys: of awaited locks, and of held leases. So a key that is deleted or
//! overwritten is noticed within a round trip, and not at the next renewal.
//!
//! A renewal reads the key after `CLIENT CACHING YES`: from then on the server tells of its next change. Most leases
//! are released before their first renewal, and cost the server nothing; a lease whose holder waits for its loss is
//! renewed early. A push only brings a renewal forward, whose reply says whether the lease is lost.

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

/// The server is to tell of the keys that the next command reads.
const CACHING: [&[u8]; 3] = [b"CLIENT", b"CACHING", b"YES"];

impl Link {
    /// Asks to be told, once for each connection. What the server refuses stays as it is, and on RESP2 nothing is told:
    /// then waiters ask again and again.
    pub(super) fn subscribe(&mut self, id: fn() -> u128, now: Moment) {
        if !self.is_ready() || !self.talk.is_resp3 || self.talk.told.is_asked || self.is_asking() {
            return;
        }
        self.talk.told = Subscription::asked(id());
        let channel = self.talk.told;
        let subscribe: [&[u8]; 2] = [b"SUBSCRIBE", channel.channel()];
        self.talk.write(&subscribe, Place::Subscribed, To::Told(Told::OfHandOvers), now);
        let track: [&[u8]; 5] = [b"CLIENT", b"TRACKING", b"ON", b"OPTIN", b"NOLOOP"];
        self.talk.command(&track, To::Nobody, now);
        // Whether keys are told of shows here: each right may be missing, and this needs both.
        self.talk.command(&CACHING, To::Told(Told::OfKeys), now);
    }

    /// Whether the server may tell of the keys that the next command reads, which has not said that it does not.
    pub(super) fn watch_held(&mut self, id: fn() -> u128, now: Moment) -> bool {
        self.subscribe(id, now);
        let may_tell = self.talk.told.is_tracking || self.talk.told.is_awaited();
        self.watches(may_tell && self.is_ready(), now)
    }

    /// Whether the keys that the next command reads are watched from here on.
    pub(super) fn watch_next(&mut self, now: Moment) -> bool {
        self.watches(self.talk.told.is_tracking, now)
    }

    fn watches(&mut self, may_tell: bool, now: Moment) -> bool {
        // It would be of `SCRIPT LOAD`, where a script is brought by that.
        let is_next = self.talk.form != Form::Loaded;
        let may_tell = may_tell && !self.is_asking() && is_next;
        if may_tell {
            self.talk.command(&CACHING, To::Nobody, now);
        }
        may_tell
    }

    /// Whether an `ASKING` stands before the next command, which nothing may come between.
    pub(super) fn is_asking(&self) -> bool {
        #[cfg(any(test, feature = "cluster"))]
        return self.is_asking;
        #[cfg(not(any(test, feature = "cluster")))]
        false
    }
}

impl Lease {
    /// Whether a server has told that its key has changed, and none has said yet whether that is its end.
    pub(super) fn is_looked_for(&self) -> bool {
        let is_asked = self.is_told && self.extending != Extending::Nothing;
        is_asked || self.news_at != NEVER
    }
}

/// A holder that waits this long for a loss is told of it by a server.
const WAITED: Duration = Duration::from_millis(40);
/// A key that changes again and again is looked at once in this time.
const LOOKS: Duration = Duration::from_millis(200);

impl Machine {
    /// These are renewed in such a way that the server tells of what happens to them next, if it tells at all.
    /// Whether it may.
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

    /// Whether a server has to be asked to tell of the lock behind its extension, which reads nothing.
    pub(super) fn are_read_behind(&self, batch: &[LeaseId]) -> bool {
        let is_it = |id: &LeaseId| {
            self.leases.get(*id).is_some_and(|lease| !lease.kind.means().read_the_lock)
        };
        batch.first().is_some_and(is_it)
    }

    /// Reads the lock behind its extension, so that the server tells of its next change.
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

    /// The key has changed, or all keys where none is named: what is held is looked for.
    pub(super) fn held_changed(&mut self, key: Option<&[u8]>, now: Moment) {
        self.tell_callers(Happening::Changed(key), now);
        let told: Vec<LeaseId> = match key {
            Some(key) => self.watched.get(key).into_iter().collect(),
            None => self.all(&|_, lease| lease.is_watched),
        };
        self.are_looked_for(told, now);
    }

    /// A connection has ended on which the server would have told.
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
            // What is under way is looked at again once it is answered.
            if is_first || lease.extending == Extending::Nothing {
                let at = at.min(lease.due);
                self.plan(id, at);
            }
        }
    }

    /// It has ended.
    pub(super) fn is_watched_no_more(&mut self, id: LeaseId) {
        let Self { leases, watched, .. } = self;
        if let Some(lease) = leases.get_mut(id).filter(|lease| lease.is_watched) {
            lease.is_watched = false;
            for key in lease.keys() {
                if watched.get(key) == Some(id) {
                    watched.take(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

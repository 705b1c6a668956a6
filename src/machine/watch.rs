//! A held lease whose end its server tells of: a key that is deleted or overwritten is noticed in a round trip, and not at
//! the next renewal.
//!
//! A renewal reads the key, behind `CLIENT CACHING YES`: from then on the server tells of the next change to it. Most leases
//! are given back before their first renewal, and cost the server nothing; one whose holder waits for its loss is
//! renewed early. News only ever brings a renewal forward, whose answer says what has become of the lease.

use std::time::Duration;

use super::core::{Happening, Machine};
use super::ids::LeaseId;
use super::lease::Lease;
use super::place::Place;
use super::talk::To;
use crate::policy::Moment;

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
        for id in told {
            let Some(lease) = self.leases.get_mut(id).filter(|lease| lease.is_held()) else {
                continue;
            };
            let is_first = !std::mem::replace(&mut lease.is_told, true);
            let at = if is_first { now } else { now.max(lease.asked_at.after(LOOKS)) };
            let at = at.min(lease.due);
            lease.news_at = at;
            self.plan(id, at);
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

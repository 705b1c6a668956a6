//! Releases that servers have still to answer: kept, and sent again until that is pointless.
//!
//! There is one backlog for all servers of a locker, whether they stay where they are or move. A release
//! comes here when no connection can take it, when its connection ends before the answer, and when the
//! server refuses it. [`Redelivery`](crate::policy::Redelivery) decides when it goes out again. A new
//! connection sends what waits for its lane before anybody else's commands ([`Backlog::send_on`]); the
//! redelivery task ([`super::redelivery`]) sends the rest.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::clock;
use crate::mutex::lock;
use crate::net::connection::Connection;
use crate::net::owed::{Owed, Refused};
use crate::net::pushes::Refusals;
use crate::net::refusal::{Code, ServerError};
use crate::net::transport::Address;
use crate::policy::Moment;

pub(crate) mod left;
mod words;

use words::{by_key, whole};

/// Maximum releases in a backlog: as many as two full connections leave unanswered when they end. Each
/// takes some 400 bytes. One that is dropped costs its lock's TTL.
pub(super) const RELEASES_MAX: usize = 8192;

/// One lane of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    /// Which of the locker's places the server is found at.
    pub(super) place: usize,
    pub(super) address: Address,
    pub(super) number: usize,
}

/// A release, and what is known of where it is to go.
pub(super) struct Undelivered {
    pub(super) owed: Owed,
    pub(super) lane: Lane,
    /// The words of the server that refused it last, until they have been followed.
    pub(super) refused: Option<ServerError>,
}

impl Undelivered {
    /// Sends it with nothing between it and the command `ahead`: when it is due again, if ever. Where others
    /// wait on the connection, no lock is held: a write that fails wakes them, and what a waker does is its
    /// own affair.
    pub(super) fn send(
        &mut self,
        connection: Option<&Connection>,
        ahead: Option<&[&[u8]]>,
    ) -> Option<Moment> {
        let (now, again) = (clock::now(), self.owed.again);
        if again.pointless_at() <= now {
            return None;
        }
        let repeated = self.owed.again.was_sent(now);
        let sent = connection.map(|it| it.send_owed_behind(ahead, whole(&self.owed)));
        if let Some(Ok(())) = sent {
            let (due_at, again) = repeated?;
            self.owed.again = again;
            return Some(due_at);
        }
        self.owed.again = again;
        Some(self.owed.again.after_failure(now, clock::random_bits()))
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Backlog {
    waiting: Mutex<Waiting>,
    pub(super) added: Notify,
    dropped: AtomicU64,
    /// Shared by all that is owed: see [`Owed::counted`].
    counted: Arc<()>,
}

/// What waits, in the order in which it is due.
#[derive(Default)]
pub(super) struct Waiting {
    /// Of those that are due together, the first to come goes first.
    releases: VecDeque<(Moment, Box<Undelivered>)>,
    /// What servers refuse for good since the locker's end began, each with the server's place.
    denied: Option<Vec<(Owed, usize, ServerError)>>,
}

impl Backlog {
    /// No connection is installed while this lock is held, and no release is added.
    #[inline(never)]
    pub(super) fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// Sends `owed` on `ready`, the lane's connection, or keeps it where there is none. `ready` is looked
    /// for under the lock under which a new connection is installed: either it is found there, or it finds
    /// the release here.
    pub(super) fn deliver(
        &self,
        owed: Owed,
        lane: Lane,
        ready: impl FnOnce() -> Option<Arc<Connection>>,
    ) {
        let mut release = Box::new(Undelivered { owed, lane, refused: None });
        let waiting = self.lock();
        let Some(connection) = ready() else {
            let due_at = release.send(None, None);
            return self.keep_until(waiting, release, due_at);
        };
        drop(waiting);
        let due_at = release.send(Some(&connection), None);
        self.keep_until(self.lock(), release, due_at);
    }

    /// Keeps what is due again.
    fn keep_until(
        &self,
        mut waiting: MutexGuard<'_, Waiting>,
        release: Box<Undelivered>,
        due_at: Option<Moment>,
    ) {
        let Some(due_at) = due_at else { return };
        self.keep(&mut waiting, release, due_at);
        drop(waiting);
        self.added.notify_one();
    }

    /// Sends what waits for this lane on its new connection, and once nothing does, or it has ended already,
    /// has it `put` there for others. What is sent, is sent where no lock is held, as by
    /// [`Backlog::deliver`]: those that are told of the connection's end are others, too.
    pub(super) fn send_on(&self, connection: &Connection, lane: &Lane, put: impl FnOnce()) {
        loop {
            let mut waiting = self.lock();
            let here = if connection.is_alive() { waiting.take_for(lane) } else { VecDeque::new() };
            if here.is_empty() {
                return put();
            }
            drop(waiting);
            for (_, mut release) in here {
                let due_at = release.send(Some(connection), None);
                self.keep_until(self.lock(), release, due_at);
            }
        }
    }

    /// Keeps what a connection of this lane left unanswered.
    pub(super) fn carry(&self, owed: impl IntoIterator<Item = Owed>, lane: &Lane) {
        let (now, mut waiting) = (clock::now(), self.lock());
        for owed in owed {
            let release = Undelivered { owed, lane: lane.clone(), refused: None };
            self.keep(&mut waiting, Box::new(release), now);
        }
        drop(waiting);
        self.added.notify_one();
    }

    /// Hears what a lane's connection refuses.
    pub(super) fn listener(self: &Arc<Self>, lane: Lane) -> Arc<dyn Refusals> {
        Arc::new(Listener { backlog: Arc::clone(self), lane })
    }

    /// How many releases were dropped because too many waited.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// What each release that is owed has a share of.
    pub(crate) fn counted(&self) -> Arc<()> {
        Arc::clone(&self.counted)
    }

    /// Keeps a release as long as there is room; what is pointless by now makes room first. At the end there is
    /// room for all: no more are owed than were held.
    pub(super) fn keep(&self, waiting: &mut Waiting, release: Box<Undelivered>, due_at: Moment) {
        let is_end = waiting.denied.is_some();
        let releases = &mut waiting.releases;
        if releases.len() >= RELEASES_MAX {
            let now = clock::now();
            releases.retain(|(_, release)| release.owed.again.pointless_at() > now);
        }
        if releases.len() >= RELEASES_MAX && !is_end {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let before = releases.partition_point(|(other, _)| *other <= due_at);
        releases.insert(before, (due_at, release));
    }
}

impl Waiting {
    /// Takes out what waits for a connection of this lane.
    fn take_for(&mut self, lane: &Lane) -> VecDeque<(Moment, Box<Undelivered>)> {
        let is_for = |release: &Undelivered| {
            let is_new = release.refused.is_none() && !release.owed.again.is_repetition();
            is_new && release.lane == *lane
        };
        let all = std::mem::take(&mut self.releases).into_iter();
        let (here, others) = all.partition(|(_, release)| is_for(release));
        self.releases = others;
        here
    }

    /// Takes out what is due.
    pub(super) fn take_due(&mut self, now: Moment) -> VecDeque<(Moment, Box<Undelivered>)> {
        let count = self.releases.partition_point(|(due_at, _)| *due_at <= now);
        let later = self.releases.split_off(count);
        std::mem::replace(&mut self.releases, later)
    }

    /// When the next release is due.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.releases.front().map(|(due_at, _)| *due_at)
    }
}

struct Listener {
    backlog: Arc<Backlog>,
    lane: Lane,
}

impl Refusals for Listener {
    fn refused(&self, Refused { mut owed, error }: Refused) {
        // These it would say of every release, and of each try.
        if error.is_denial() {
            let mut waiting = self.backlog.lock();
            if let Some(denied) = &mut waiting.denied {
                denied.push((owed, self.lane.place, error));
            }
            return;
        }
        let now = clock::now();
        let due_at = match error.code() {
            // Nothing stands in the way of the script itself.
            Code::NoScript if owed.script.is_some() => now,
            Code::Again => now,
            _ => owed.again.after_refusal(now, clock::random_bits()),
        };
        let (all, refused) = match error.code() {
            Code::Apart if owed.is_by_key => (by_key(&owed), None),
            Code::NoScript | Code::Again => (vec![owed], None),
            _ => (vec![owed], Some(error)),
        };
        let mut waiting = self.backlog.lock();
        for owed in all {
            let release = Undelivered { owed, lane: self.lane.clone(), refused: refused.clone() };
            self.backlog.keep(&mut waiting, Box::new(release), due_at);
        }
        drop(waiting);
        self.backlog.added.notify_one();
    }
}

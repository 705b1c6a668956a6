//! What all leases of one locker share.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::answer::Reason;
use super::ended::RecentlyEnded;
use super::fingerprint::rank;
use super::likely::Likely;
use super::names::Names;
use crate::clock;
use crate::net::connection::noticed_within;
use crate::net::outcome::{Failure, Fault};
use crate::policy::{Loss, Moment, Quorum, patience};
use crate::race::timeout;
use crate::server::backlog::Backlog;
use crate::server::node::Node;
use crate::server::place::{Directory, Place};
use crate::server::redelivery;
use crate::server::watch::Watchers;
use crate::stats::Meter;

/// A server that is asked before the others, and how long its answer is waited for.
#[derive(Clone, Debug)]
pub(super) struct Lead {
    pub(super) server: usize,
    pub(super) patience: Duration,
    /// Servers that do not lead where this one does not serve.
    pub(super) shunned: Vec<usize>,
}

impl Lead {
    /// The first of several servers that all have to grant.
    pub(super) const FIRST: Self = Self { server: 0, patience: Duration::MAX, shunned: Vec::new() };
}

/// Which servers, how many of them have to agree, and within what limits.
pub(crate) struct Configuration {
    pub(crate) quorum: Quorum,
    /// Which configuration this is, where there is more than one server.
    pub(crate) fingerprint: Option<Box<str>>,
    /// How long a server may take for one command.
    pub(crate) command_timeout: Duration,
}

pub(crate) struct Core {
    places: Arc<[Place]>,
    watchers: Arc<Watchers>,
    backlog: Arc<Backlog>,
    redelivery: JoinHandle<()>,
    configuration: Configuration,
    /// Where a server may take the place of another without having heard of all.
    recently_ended: Option<RecentlyEnded>,
    meter: Arc<Meter>,
    likely: Likely,
    /// The locker's own, on which its tasks run: it has timers.
    runtime: Handle,
    /// When the keeper of leases last looked at the clock.
    beat: AtomicU64,
    is_shut_down: AtomicBool,
    shut_down: Notify,
}

impl Core {
    /// On the current runtime.
    pub(crate) fn new(
        places: impl IntoIterator<Item = Place>,
        watchers: Arc<Watchers>,
        backlog: Arc<Backlog>,
        configuration: Configuration,
        meter: Meter,
    ) -> Self {
        let places: Arc<[Place]> = places.into_iter().collect();
        let may_forget =
            places.iter().any(|place| place.directory().is_some_and(Directory::may_forget));
        let again = redelivery::run(Arc::clone(&backlog), Arc::downgrade(&places));
        Self {
            places,
            recently_ended: may_forget.then(RecentlyEnded::default),
            watchers,
            backlog,
            redelivery: clock::spawn(again),
            configuration,
            meter: Arc::new(meter),
            likely: Likely::default(),
            runtime: Handle::current(),
            beat: AtomicU64::new(0),
            is_shut_down: AtomicBool::new(false),
            shut_down: Notify::new(),
        }
    }

    pub(crate) fn command_timeout(&self) -> Duration {
        self.configuration.command_timeout
    }

    /// Releases that the servers have still to answer.
    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// How long a command takes at the most until its timeout is noticed.
    pub(super) fn command_max(&self) -> Duration {
        noticed_within(self.command_timeout())
    }

    /// The place of each vote.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// All servers that are known now.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.places.iter().flat_map(Place::nodes).collect()
    }

    /// The servers that have to do with this lock now.
    pub(super) fn nodes_for(&self, names: &Names) -> impl Iterator<Item = Arc<Node>> {
        self.places.iter().map(|place| place.node(place.slot(names.lock())))
    }

    /// Puts locks next to each other that are taken together.
    pub(crate) fn arrange(&self, names: &mut Vec<Names>) {
        let place = &self.places[0];
        names.sort_unstable_by(|one, other| {
            let slots = place.slot(one.lock()).cmp(&place.slot(other.lock()));
            slots.then_with(|| one.lock().cmp(other.lock()))
        });
        names.dedup();
    }

    pub(crate) fn quorum(&self) -> Quorum {
        self.configuration.quorum
    }

    pub(crate) fn fingerprint(&self) -> Option<&str> {
        self.configuration.fingerprint.as_deref()
    }

    /// Leases that ended a moment ago, where a server may take over that has not heard of it.
    pub(super) fn recently_ended(&self) -> Option<&RecentlyEnded> {
        self.recently_ended.as_ref()
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// What is likely of names.
    pub(super) fn likely(&self) -> &Likely {
        &self.likely
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// What `asked` comes to, or that the reply is late where the connections' runtime may not say so.
    pub(crate) async fn in_time<T>(
        &self,
        asked: impl Future<Output = Result<T, Reason>>,
    ) -> Result<T, Reason> {
        if self.runs_beside_caller() {
            return asked.await;
        }
        let most = self.command_max();
        let late = |_| Err(Reason::NoReply(Failure::Unknown(Fault::Timeout(most))));
        timeout(most, pin!(asked)).await.unwrap_or_else(late)
    }

    /// Whether the connections' runtime runs while the caller waits. One without threads of its own runs
    /// only while somebody is in its `block_on`.
    pub(super) fn runs_beside_caller(&self) -> bool {
        self.runtime.runtime_flavor() != RuntimeFlavor::CurrentThread
            || Handle::try_current().is_ok_and(|own| own.id() == self.runtime.id())
    }

    /// The watches of all servers, which are one.
    pub(crate) fn watchers(&self) -> &Arc<Watchers> {
        &self.watchers
    }

    /// The keeper of leases looks at the clock.
    pub(super) fn note_beat(&self, now: Moment) {
        self.beat.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Why a lease has ended whose deadline has passed.
    pub(super) fn why_ended(&self, now: Moment) -> Loss {
        Loss::at_deadline(Moment::from_nanos(self.beat.load(Ordering::Relaxed)), now)
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shut_down.load(Ordering::Acquire)
    }

    /// Nobody is let in any more.
    pub(super) fn close(&self) {
        self.is_shut_down.store(true, Ordering::Release);
        self.shut_down.notify_waiters();
    }

    /// Waits until it is shut down.
    pub(crate) async fn closed(&self) {
        // Made before the look: from here on it is told, polled or not.
        let told = self.shut_down.notified();
        if !self.is_shut_down() {
            told.await;
        }
    }

    /// What it is called when servers say that a lease is no longer its owner's.
    pub(super) fn gone(&self) -> Loss {
        if self.is_single() { Loss::Gone } else { Loss::NoQuorum }
    }

    /// The server that contenders for this key ask first, once they have split the votes: the same
    /// for all, in whatever order they were given the servers; none where there is one server.
    ///
    /// `round_trip` is how long the slowest of the others took: the leader is given a few of them.
    /// It is none of those that are `shunned`.
    pub(super) fn leader(
        &self,
        key: &[u8],
        round_trip: Duration,
        shunned: &[usize],
    ) -> Option<Lead> {
        if self.is_single() {
            return None;
        }
        let rank = |&server: &usize| {
            rank(key, &self.places[server].node(0).endpoint().address.to_string())
        };
        let servers = (0..self.places.len()).filter(|server| !shunned.contains(server));
        let server = servers.max_by_key(rank)?;
        Some(Lead { server, patience: patience(round_trip), shunned: shunned.to_vec() })
    }

    /// Whether these locks are in several slots of one place, each of which may be with another server.
    pub(super) fn is_spread(&self, names: &[Names]) -> bool {
        let slot = |names: &Names| self.places[0].slot(names.lock());
        self.is_single() && names.iter().any(|other| slot(other) != slot(&names[0]))
    }

    /// Whether one server decides alone. Then it may raise a token by itself, and it is waited for
    /// when it is away; of several, one that is away is a vote that is missing.
    pub(crate) fn is_single(&self) -> bool {
        self.places.len() == 1
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.redelivery.abort();
    }
}

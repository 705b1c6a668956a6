//! Servers, and the faults of the network between them and the clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use leasehold_resp::Frame;
use tokio::sync::Notify;

use super::history::{At, History};
use super::plan::{Fault, Plan};
use super::prng::Prng;
use super::server::{Server, Told};
use crate::clock::simulated::true_wall;
use crate::support::accounts::Accounts;
use crate::ticket::Ticket;

pub(crate) struct World {
    pub(crate) plan: Plan,
    prng: Mutex<Prng>,
    servers: Vec<Mutex<Server>>,
    thawed: Vec<Notify>,
    /// For each server, wakes the task that expires keys.
    awaited: Vec<Notify>,
    links: Mutex<BTreeMap<u64, Weak<dyn Line>>>,
    links_made: AtomicU64,
    /// Until when nothing gets through between a client and a server.
    blocked: Mutex<BTreeMap<(usize, usize), At>>,
    history: Mutex<History>,
    /// Tickets that clients have made, each with the number of its lock.
    pub(crate) tickets: Mutex<Vec<(usize, Ticket)>>,
    /// The replies to callers of primitives beside locks.
    pub(crate) accounts: Mutex<Accounts>,
    pub(crate) counters_lost: Mutex<BTreeSet<usize>>,
    pub(crate) is_over: AtomicBool,
    /// Whether messages may be delayed.
    pub(crate) has_begun: AtomicBool,
    /// Whether clients have to end.
    pub(crate) is_closing: AtomicBool,
    /// Whether every command is noted.
    pub(crate) is_verbose: bool,
}

/// A connection, as the world sees it.
pub(super) trait Line: Send + Sync {
    fn server(&self) -> usize;
    fn is_cut(&self) -> bool;
    fn cut(&self, is_void: bool);
    fn is_harmed(&self) -> bool;
    /// Plans the fault of the next reply.
    fn wish_harm(&self, fault: Option<Fault>);
    /// Sends a reply or a push to the client.
    fn send(&self, frame: &Frame);
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn new(plan: Plan, mut prng: Prng) -> Arc<Self> {
        let drifts = plan.has(Fault::Drift);
        let servers = (0..plan.servers)
            .map(|number| {
                Mutex::new(Server::new(
                    number,
                    true_wall,
                    drift(&mut prng, drifts),
                    plan.deletes_if_equal,
                ))
            })
            .collect();
        let notifies = || (0..plan.servers).map(|_| Notify::new()).collect();
        Arc::new(Self {
            servers,
            thawed: notifies(),
            awaited: notifies(),
            plan,
            prng: Mutex::new(prng),
            links: Mutex::default(),
            links_made: AtomicU64::new(0),
            blocked: Mutex::default(),
            history: Mutex::default(),
            tickets: Mutex::default(),
            accounts: Mutex::default(),
            counters_lost: Mutex::default(),
            is_over: AtomicBool::new(false),
            has_begun: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            is_verbose: std::env::var_os("LEASEHOLD_SIM_SEED").is_some(),
        })
    }

    pub(crate) fn prng(&self) -> MutexGuard<'_, Prng> {
        lock(&self.prng)
    }

    pub(crate) fn server(&self, number: usize) -> MutexGuard<'_, Server> {
        lock(&self.servers[number])
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// How long a message takes, unless it is delayed.
    pub(super) fn latency(&self) -> Duration {
        let most = u64::try_from(self.plan.latency.as_millis()).expect("it is short");
        let mut prng = self.prng();
        let is_calm = self.is_over() || !self.has_begun.load(Ordering::Relaxed);
        if self.plan.has(Fault::Delay) && !is_calm && prng.percent(3) {
            let ttl = u64::try_from(self.plan.longest_ttl.as_millis()).expect("it is short");
            let most = if prng.percent(20) { ttl * 2 } else { ttl / 20 };
            return prng.millis(0..most + 1);
        }
        prng.millis(0..most + 1)
    }

    pub(crate) fn block(&self, client: usize, server: usize, until: At) {
        lock(&self.blocked).insert((client, server), until);
    }

    pub(crate) fn unblock(&self) {
        lock(&self.blocked).clear();
    }

    pub(super) fn blocked_until(&self, client: usize, server: usize) -> At {
        lock(&self.blocked).get(&(client, server)).copied().unwrap_or_default()
    }

    pub(crate) fn thaw(&self, server: usize) {
        let mut it = self.server(server);
        (it.is_frozen, it.is_busy) = (false, false);
        drop(it);
        self.thawed[server].notify_waiters();
    }

    pub(super) async fn served(&self, server: usize) {
        loop {
            let thawed = self.thawed[server].notified();
            if !self.server(server).is_frozen {
                return;
            }
            thawed.await;
        }
    }

    /// A number for a connection.
    pub(super) fn next_link(&self) -> u64 {
        self.links_made.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn add_link(&self, number: u64, link: Weak<dyn Line>) {
        lock(&self.links).insert(number, link);
    }

    pub(super) fn forget_link(&self, server: usize, number: u64) {
        self.server(server).forget_link(number);
        lock(&self.links).remove(&number);
    }

    fn links_of(&self, server: usize) -> Vec<Arc<dyn Line>> {
        let links = lock(&self.links);
        let links = links.values().filter_map(Weak::upgrade);
        links.filter(|link| link.server() == server).collect()
    }

    /// Ends one connection of a server; commands under way are carried out anyway, or not.
    pub(crate) fn cut_one(&self, server: usize) {
        let mut links = self.links_of(server);
        links.retain(|link| !link.is_cut());
        if links.is_empty() {
            return;
        }
        let (index, is_void) = {
            let mut prng = self.prng();
            (prng.index(links.len()), !(self.plan.has(Fault::Ghost) && prng.percent(60)))
        };
        links[index].cut(is_void);
    }

    /// Plans that the next reply on one connection to a server is lost, repeated or joined by another, or
    /// that from it on only pushes come.
    pub(crate) fn harm_one(&self, server: usize, fault: Fault) {
        let mut links = self.links_of(server);
        links.retain(|link| !link.is_cut() && !link.is_harmed());
        if !links.is_empty() {
            let index = self.prng().index(links.len());
            links[index].wish_harm(Some(fault));
        }
    }

    /// Plans no further faults of replies.
    pub(crate) fn harm_no_more(&self) {
        for server in 0..self.plan.servers {
            self.links_of(server).iter().for_each(|link| link.wish_harm(None));
        }
    }

    pub(crate) fn stop(&self, server: usize, remembers: bool) {
        self.links_of(server).iter().for_each(|link| link.cut(true));
        self.server(server).stop(remembers);
    }

    /// Starts a server that is down, with its wall clock behind by `behind_micros`.
    pub(crate) fn start(&self, server: usize, behind_micros: i64) {
        let mut it = self.server(server);
        if it.start() {
            it.step_wall(-behind_micros);
            drop(it);
            self.thawed[server].notify_waiters();
        }
    }

    /// Makes a server a replica with the saved state, or empty, while its connections stay.
    pub(crate) fn demote(&self, server: usize, has_saved: bool) {
        let told = self.server(server).demote(has_saved);
        self.history().questions.note_set_back(server);
        self.tell(told);
    }

    pub(crate) fn tell(&self, told: Vec<Told>) {
        for (number, push) in told {
            let link = lock(&self.links).get(&number).and_then(Weak::upgrade);
            if let Some(link) = link {
                link.send(&push);
            }
        }
    }

    /// Deletes expired keys, as soon as a client tracks them.
    pub(crate) async fn expire(self: Arc<Self>, server: usize) {
        loop {
            let (told, next) = self.server(server).expire();
            self.tell(told);
            let awaited = self.awaited[server].notified();
            match next {
                Some(next) => {
                    let _ = tokio::time::timeout(next, awaited).await;
                }
                None => awaited.await,
            }
        }
    }

    pub(crate) fn look_at_expiry(&self, server: usize) {
        self.awaited[server].notify_one();
    }
}

pub(crate) fn drift(prng: &mut Prng, drifts: bool) -> i64 {
    let ppm = i64::try_from(prng.within(0..6001)).expect("it is small") - 3000;
    if drifts { ppm } else { 0 }
}

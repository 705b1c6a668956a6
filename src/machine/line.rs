//! The waiters of one process for the same lock: the first asks the servers, the others stand behind it. Requests for shares
//! ask each for themselves.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::ids::LeaseId;
use crate::names::Names;
use crate::policy::Moment;

/// How long waiters that a server has named are assumed to wait.
const KNOWN_FOR: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Line {
    waiting: VecDeque<LeaseId>,
    /// Each of these asks for itself.
    beside: Vec<LeaseId>,
    /// The lease that got the lock from another of this process: while it holds the lock, no waiter in the line asks.
    occupant: Option<LeaseId>,
    /// When a server last said that other waiters in its queue are before these.
    behind_at: Option<Moment>,
}

impl Line {
    fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.beside.is_empty() && self.occupant.is_none()
    }
}

/// The lines, by the names of their locks.
///
/// The first of a line asks, or rests between two attempts; or a lease that was in the line holds the lock.
/// So the next is called whenever such a lease ends, or the first leaves while no such lease holds the lock.
#[derive(Default)]
pub(super) struct Lines {
    /// Locks that other processes held, or waited for, when this process last asked for them.
    sought: ByHash,
    by_name: HashMap<Names, Line>,
    /// Further locks of requests, beside the one in whose line they stand, by key.
    also: Vec<(Box<[u8]>, LeaseId)>,
    /// The change of the number of waiters since the last [`Lines::take_change`].
    change: i32,
}

/// Locks that are remembered, until all are forgotten.
const SOUGHT_MAX: usize = 1024;

impl Lines {
    /// Other processes want this lock too, as this lease was told.
    pub(super) fn is_sought(&mut self, names: &Names, told: LeaseId) {
        if self.sought.len() >= SOUGHT_MAX {
            self.sought.clear();
        }
        self.sought.insert(names.lock(), told);
    }

    /// Whether other processes wanted it, if known.
    pub(super) fn is_known_as_sought(&self, names: &Names) -> bool {
        self.sought.get(names).is_some()
    }

    /// Whether other processes wanted it; forgets that.
    pub(super) fn was_sought(&mut self, names: &Names) -> bool {
        self.sought.take(names).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Whether a newcomer has to stand in line.
    pub(super) fn has(&self, names: &Names) -> bool {
        let line = self.of(names.lock());
        line.is_some_and(|line| !line.waiting.is_empty() || line.occupant.is_some())
    }

    /// Joins the line, unless it stands there; returns whether it is the first.
    pub(super) fn join(&mut self, names: &Names, id: LeaseId) -> bool {
        let line = self.of_all_that_wait(names);
        let is_new = !line.waiting.contains(&id);
        if is_new {
            line.waiting.push_back(id);
        }
        let is_first = line.waiting.front() == Some(&id);
        self.change += i32::from(is_new);
        is_first
    }

    /// A lease in the line, or beside it, asks for these keys too.
    pub(super) fn asks_also(&mut self, keys: &[Box<[u8]>], id: LeaseId) {
        if !keys.is_empty() && !self.also.iter().any(|(_, other)| *other == id) {
            self.also.extend(keys.iter().map(|key| (key.clone(), id)));
        }
    }

    /// It waits beside the line.
    pub(super) fn stand_beside(&mut self, names: &Names, id: LeaseId) {
        let line = self.of_all_that_wait(names);
        let is_new = !line.beside.contains(&id);
        if is_new {
            line.beside.push(id);
        }
        self.change += i32::from(is_new);
    }

    fn of_all_that_wait(&mut self, names: &Names) -> &mut Line {
        if self.of(names.lock()).is_none() {
            self.by_name.insert(names.clone(), Line::default());
        }
        self.of_mut(names).expect("it is there")
    }

    /// Whether it waits, and asks by itself.
    pub(super) fn has_ask(&self, names: &Names, id: LeaseId) -> bool {
        let line = self.of(names.lock());
        line.is_some_and(|line| line.waiting.front() == Some(&id) || line.beside.contains(&id))
    }

    /// Whether others wait in the line.
    pub(super) fn has_others(&self, names: &Names, id: LeaseId) -> bool {
        let is_other = |line: &Line| line.waiting.iter().any(|other| *other != id);
        !self.is_empty() && self.of(names.lock()).is_some_and(is_other)
    }

    pub(super) fn first(&self, names: &Names) -> Option<LeaseId> {
        self.of(names.lock())?.waiting.front().copied()
    }

    /// The one behind the first, if `first` is that.
    pub(super) fn second(&self, names: &Names, first: LeaseId) -> Option<LeaseId> {
        let waiting = &self.of(names.lock())?.waiting;
        waiting.get(1).copied().filter(|_| waiting.front() == Some(&first))
    }

    /// The leases that ask for the lock of this key.
    pub(super) fn asking(&self, key: &[u8]) -> Vec<LeaseId> {
        let mut asking = Vec::new();
        if let Some(line) = self.of(key) {
            asking.extend(line.waiting.front());
            asking.extend_from_slice(&line.beside);
        }
        let also = self.also.iter().filter(|(also, _)| **also == *key);
        asking.extend(also.map(|(_, id)| id));
        asking
    }

    /// This lease got the lock from another of this process.
    pub(super) fn occupy(&mut self, names: &Names, id: LeaseId) {
        if let Some(line) = self.of_mut(names) {
            line.occupant = Some(id);
        }
    }

    pub(super) fn occupant(&self, names: &Names) -> Option<LeaseId> {
        self.of(names.lock())?.occupant
    }

    /// It no longer holds the lock.
    pub(super) fn vacate(&mut self, names: &Names, id: LeaseId) {
        let Some(line) = self.of_mut(names) else { return };
        line.occupant = line.occupant.filter(|occupant| *occupant != id);
        if line.is_over() {
            self.by_name.remove(names);
        }
    }

    /// Leaves the line; returns whether the next one is to ask.
    pub(super) fn leave(&mut self, names: &Names, id: LeaseId) -> bool {
        self.also.retain(|(_, other)| *other != id);
        let Some(line) = self.of_mut(names) else { return false };
        let is_free = line.occupant.is_none();
        let was_first = line.waiting.front() == Some(&id);
        let before = line.waiting.len() + line.beside.len();
        if was_first {
            line.waiting.pop_front();
        } else {
            line.waiting.retain(|other| *other != id);
            line.beside.retain(|other| *other != id);
        }
        let (left, is_over) = (line.waiting.len() + line.beside.len(), line.is_over());
        self.change -= i32::from(left < before);
        if is_over {
            self.by_name.remove(names);
        }
        was_first && is_free
    }

    /// A server has said that other waiters are before the first of this line.
    pub(super) fn are_behind(&mut self, names: &Names, now: Moment) {
        if let Some(line) = self.of_mut(names) {
            line.behind_at = Some(now);
        }
    }

    /// Whether a server has said so a moment ago.
    pub(super) fn has_others_before(&self, names: &Names, now: Moment) -> bool {
        let behind_at = self.of(names.lock()).and_then(|line| line.behind_at);
        behind_at.is_some_and(|at| now.since(at) <= KNOWN_FOR)
    }

    #[inline(never)]
    fn of(&self, key: &[u8]) -> Option<&Line> {
        self.by_name.get(key)
    }

    fn of_mut(&mut self, names: &Names) -> Option<&mut Line> {
        if self.is_empty() { None } else { self.known(names) }
    }

    #[inline(never)]
    fn known(&mut self, names: &Names) -> Option<&mut Line> {
        self.by_name.get_mut(names.lock())
    }

    /// Empties all lines.
    pub(super) fn clear(&mut self) {
        self.also.clear();
        for (_, line) in self.by_name.drain() {
            let waited = line.waiting.len() + line.beside.len();
            self.change -= i32::try_from(waited).unwrap_or(i32::MAX);
        }
    }

    /// The change of the number of waiters since the last call.
    pub(super) fn take_change(&mut self) -> i32 {
        std::mem::take(&mut self.change)
    }
}

/// Leases by hashes of names. Of two leases with one hash only the later is known: the other notices changes at its
/// renewal, or when it asks again.
#[derive(Default)]
pub(super) struct ByHash {
    hashing: RandomState,
    known: HashMap<u64, LeaseId>,
}

impl ByHash {
    pub(super) fn insert(&mut self, name: &[u8], id: LeaseId) {
        self.known.insert(self.hashing.hash_one(name), id);
    }

    #[inline(never)]
    fn remove(&mut self, name: &[u8]) -> Option<LeaseId> {
        self.known.remove(&self.hashing.hash_one(name))
    }

    #[inline(never)]
    fn find(&self, name: &[u8]) -> Option<LeaseId> {
        self.known.get(&self.hashing.hash_one(name)).copied()
    }

    pub(super) fn get(&self, name: &(impl Borrow<[u8]> + ?Sized)) -> Option<LeaseId> {
        if self.known.is_empty() { None } else { self.find(name.borrow()) }
    }

    pub(super) fn take(&mut self, name: &(impl Borrow<[u8]> + ?Sized)) -> Option<LeaseId> {
        if self.known.is_empty() { None } else { self.remove(name.borrow()) }
    }

    /// As [`ByHash::take`], unless another lease is known by that name.
    pub(super) fn forget(&mut self, name: &(impl Borrow<[u8]> + ?Sized), id: LeaseId) {
        if self.get(name) == Some(id) {
            self.take(name);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
    }
}

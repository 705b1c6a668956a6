//! The waiters for each lock in this process, first come, first served.
//!
//! Only the first in a line asks the servers; while this process holds the lock by hand-over, no
//! waiter does. A waiter that leaves, for whatever reason, leaves no gap: the next one is told.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::core::Core;
use super::hold::Hold;
use super::limit::Limit;
use super::names::Names;
use super::order::Order;
use super::rare::Vacate;
use crate::error::Report;
use crate::mutex::lock;

mod place;

use place::State;
pub(super) use place::{Failing, HandOver, Place, Turn};

pub(crate) struct Lines {
    core: Arc<Core>,
    /// The number of lines, so that a caller that finds none takes no mutex.
    known: AtomicUsize,
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    lines: HashMap<Names, Line>,
    /// Places taken so far, in all lines.
    taken: u64,
    is_closed: bool,
}

#[derive(Default)]
struct Line {
    /// The hold that the lock was handed to in this process: while that lasts, no one in the line has to
    /// ask the servers.
    occupant: Option<Occupant>,
    /// By number: one that leaves is found among many without a look at the others.
    places: VecDeque<Arc<Place>>,
}

struct Occupant {
    /// The hold's address.
    hold: usize,
    /// Where its owner waited for it.
    place: Arc<Place>,
}

/// A place in a line; dropping it leaves the line.
pub(super) struct Ticket {
    lines: Arc<Lines>,
    names: Names,
    pub(super) place: Arc<Place>,
}

impl Lines {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core, known: AtomicUsize::new(0), all: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        lock(&self.all)
    }

    pub(super) fn are_none(&self) -> bool {
        self.known.load(Ordering::Acquire) == 0
    }

    fn count(&self, all: &All) {
        self.known.store(all.lines.len(), Ordering::Release);
    }

    /// Whether anybody waits for this lock, or holds it by hand-over.
    pub(super) fn has(&self, names: &Names) -> bool {
        !self.are_none() && self.lock().lines.contains_key(names)
    }

    /// Takes the last place in the line.
    pub(super) fn join(self: &Arc<Self>, names: &Names, order: &Order, limit: Limit) -> Ticket {
        let mut all = self.lock();
        all.taken += 1;
        let place = Arc::new(Place::new(all.taken, order.clone(), limit));
        if all.is_closed {
            place.set(State::Closed);
        } else {
            let line = all.lines.entry(names.clone()).or_default();
            line.places.push_back(Arc::clone(&place));
            if line.places.len() == 1 {
                // Nobody waits there yet, so nobody has to be called.
                let _ = line.promote();
            }
            self.count(&all);
        }
        drop(all);
        self.core.meter().note_waiter_joined();
        Ticket { lines: Arc::clone(self), names: names.clone(), place }
    }

    /// Takes the first out of the line, to be handed the lock; the line stays, for later waiters.
    pub(super) fn next(
        &self,
        names: &Names,
        accepts: impl Fn(&Place) -> bool,
    ) -> Option<Arc<Place>> {
        if self.are_none() {
            return None;
        }
        let mut all = self.lock();
        let line = all.lines.get_mut(names)?;
        if accepts(line.places.front()?) { line.places.pop_front() } else { None }
    }

    /// The lock is on its way to `hold`, for the waiter at `place`.
    pub(super) fn occupy(&self, names: &Names, hold: &Hold, place: &Arc<Place>) {
        let occupant = Occupant { hold: hold.address(), place: Arc::clone(place) };
        let mut all = self.lock();
        all.lines.entry(names.clone()).or_default().occupant = Some(occupant);
        self.count(&all);
    }

    /// `hold` was given back: the waiter that asks the servers asks at once.
    pub(super) fn free(&self, hold: &Hold) {
        if let [names] = &hold.names[..] {
            self.end(names, hold.address(), true);
        }
    }

    fn end(&self, names: &Names, hold: usize, is_freed: bool) {
        if self.are_none() {
            return;
        }
        let mut all = self.lock();
        let Some(line) = all.lines.get_mut(names) else { return };
        let occupant = line.occupant.take_if(|known| known.hold == hold);
        // The waiter that was to have it, if it waits still, is the first again, and says so itself.
        let is_vacant = occupant.is_some_and(|occupant| occupant.place.has_gone());
        let promoted = if is_vacant { line.promote() } else { None };
        let stirred = if is_freed { line.stir() } else { None };
        all.forget_if_empty(names);
        self.count(&all);
        drop(all);
        call(promoted.or(stirred));
    }

    /// No request is granted any more, and the waiters are told.
    pub(super) fn close(&self) {
        let mut all = self.lock();
        all.is_closed = true;
        let lines = std::mem::take(&mut all.lines);
        self.count(&all);
        drop(all);
        for place in lines.into_values().flat_map(|line| line.places) {
            drop(place.set(State::Closed));
        }
    }
}

impl Vacate for Lines {
    /// The first in the line is to ask the servers.
    fn vacate(&self, names: &Names, hold: usize) {
        self.end(names, hold, false);
    }
}

/// Wakes the waiter there, where no mutex is held.
fn call(place: Option<Arc<Place>>) {
    if let Some(place) = place {
        place.call();
    }
}

impl All {
    fn forget_if_empty(&mut self, names: &Names) {
        let is_empty = |line: &Line| line.occupant.is_none() && line.places.is_empty();
        if self.lines.get(names).is_some_and(is_empty) {
            self.lines.remove(names);
        }
    }
}

impl Line {
    /// Lets the first ask the servers, if the lock is not held by this process: the waker to call.
    #[must_use]
    fn promote(&self) -> Option<Arc<Place>> {
        let first = if self.occupant.is_some() { None } else { self.first() };
        first.filter(|first| first.promote()).cloned()
    }

    /// Has the first ask the servers again, if it asks them: the waker to call.
    #[must_use]
    fn stir(&self) -> Option<Arc<Place>> {
        self.first().filter(|first| first.stir()).cloned()
    }

    /// Where the place of this number is, or belongs.
    fn find(&self, number: u64) -> Result<usize, usize> {
        self.places.binary_search_by_key(&number, |place| place.number)
    }

    fn first(&self) -> Option<&Arc<Place>> {
        self.places.front()
    }
}

impl Ticket {
    /// The servers have failed this waiter for `failed_for`. Each waiter behind it whose patience is
    /// no longer ends with the same error; one that is more patient, or has a limit, is next.
    pub(super) fn fail_all(&self, report: &Report, failed_for: Duration) {
        let mut all = self.lines.lock();
        let Some(line) = all.lines.get_mut(&self.names) else { return };
        let mut failed = Vec::new();
        line.places.retain(|place| {
            let has_enough = place.has_enough_of(failed_for);
            failed.extend(has_enough.then(|| Arc::clone(place)));
            !has_enough
        });
        drop(all);
        let failing = Failing { report: report.clone(), is_final: failed_for == Duration::MAX };
        for place in failed.iter().filter(|place| !Arc::ptr_eq(place, &self.place)) {
            drop(place.set(State::Failed(failing.clone())));
        }
    }

    /// What was handed over could not be acquired: this is the first in the line again.
    pub(super) fn rejoin(&self) {
        let lines = &self.lines;
        let mut all = lines.lock();
        if all.is_closed {
            drop(all);
            drop(self.place.set(State::Closed));
            return;
        }
        let line = all.lines.entry(self.names.clone()).or_default();
        if let Err(place) = line.find(self.place.number) {
            line.places.insert(place, Arc::clone(&self.place));
        }
        let promoted = line.promote();
        lines.count(&all);
        drop(all);
        call(promoted);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // What was handed over goes back, before the next one asks for it.
        drop(self.place.set(State::Gone));
        let lines = &self.lines;
        let mut all = lines.lock();
        let mut promoted = None;
        if let Some(line) = all.lines.get_mut(&self.names) {
            if let Ok(place) = line.find(self.place.number) {
                line.places.remove(place);
            }
            promoted = line.promote();
            all.forget_if_empty(&self.names);
            lines.count(&all);
        }
        drop(all);
        call(promoted);
        lines.core.meter().note_waiter_left();
    }
}

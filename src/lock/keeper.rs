//! Which leases are kept, and when something is due of each.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::core::Core;
use super::held::{Held, Room};
use super::hold::Hold;
use crate::clock;
use crate::policy::{BEAT, Moment, TimerKey, TimerWheel};
use crate::server::watch::kept::News;

/// Maximum leases renewed in one batch. Each server is asked for all of them in a few commands, and
/// the next batch need not wait for this one.
const BATCH_MAX: usize = 1024;
/// Nothing is planned: the task sleeps until it is called.
const NEVER: u64 = u64::MAX;

/// A lease, and its place with the keeper.
pub(super) struct Kept {
    pub(super) entry: TimerKey,
    pub(super) hold: Held,
}

pub(crate) struct Keeper {
    core: Arc<Core>,
    timers: Mutex<TimerWheel<Room>>,
    /// When the task will wake by itself.
    planned: AtomicU64,
    /// Whether a lease was begun since the task last woke.
    has_begun: AtomicBool,
    /// The task is to look at what is due.
    pub(super) called: Notify,
}

impl Keeper {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            timers: Mutex::new(TimerWheel::new(clock::now())),
            planned: AtomicU64::new(NEVER),
            has_begun: AtomicBool::new(false),
            called: Notify::new(),
        }
    }

    fn timers(&self) -> MutexGuard<'_, TimerWheel<Room>> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a lease of which something is due then.
    pub(super) fn keep(&self, hold: Held, due: Moment) -> TimerKey {
        let mut timers = self.timers();
        let entry = timers.insert(hold.into_room(), due);
        self.has_begun.store(true, Ordering::Relaxed);
        self.note_due(due);
        entry
    }

    /// Something is due then: the task is called if it would sleep longer. Under the lock of the timers.
    fn note_due(&self, due: Moment) {
        let planned = self.planned.load(Ordering::Relaxed);
        if planned == NEVER {
            self.core.note_beat(clock::now());
        }
        if due.as_nanos() < planned {
            self.planned.store(due.as_nanos(), Ordering::Relaxed);
            self.called.notify_one();
        }
    }

    pub(super) fn schedule(&self, entry: TimerKey, due: Moment) {
        let mut timers = self.timers();
        if timers.reschedule(entry, due) {
            self.note_due(due);
        }
    }

    /// Has the lease renewed now.
    pub(super) fn hasten(&self, entry: TimerKey) {
        self.schedule(entry, Moment::from_nanos(0));
    }

    /// It is not kept any more.
    pub(super) fn forget(&self, entry: TimerKey) {
        // Dropped where no lock is held.
        let room = self.timers().remove(entry);
        drop(room.map(Held::from));
    }

    /// All leases that are kept.
    pub(super) fn all(&self) -> Vec<Held> {
        self.timers().iter().map(|(_, room)| Held::from(Arc::clone(room))).collect()
    }

    /// Whether any lease that is kept is such a one.
    pub(super) fn any(&self, is_such: impl Fn(&Hold) -> bool) -> bool {
        self.timers().iter().filter_map(|(_, room)| Option::as_ref(room)).any(is_such)
    }

    /// The locker is gone: the task has nothing to do any more.
    pub(super) fn dismiss(&self) {
        self.called.notify_one();
    }

    /// When to wake by itself: for one more beat where leases came and went, so that the next ones
    /// need not call.
    pub(super) fn plan(&self, now: Moment) -> Option<Moment> {
        let timers = self.timers();
        let has_begun = self.has_begun.swap(false, Ordering::Relaxed);
        let next = (has_begun || timers.len() > 0).then(|| {
            let beat = now.after(BEAT);
            timers.next_at().map_or(beat, |due| due.min(beat))
        });
        self.planned.store(next.map_or(NEVER, Moment::as_nanos), Ordering::Relaxed);
        next
    }

    /// Has all leases renewed now.
    pub(super) fn hasten_all(&self, now: Moment) {
        let mut timers = self.timers();
        let all: Vec<TimerKey> = timers.iter().map(|(entry, _)| entry).collect();
        all.into_iter().for_each(|entry| _ = timers.reschedule(entry, now));
    }

    /// Has leases renewed soon of which a server said that something happened to them.
    pub(super) fn hear(&self, news: News, now: Moment) {
        let mut timers = self.timers();
        let stirred = match news.are_all_stirred {
            true => timers.iter().map(|(entry, _)| entry).collect(),
            false => news.stirred,
        };
        for entry in stirred {
            let hold = timers.get(entry).and_then(|room| Option::as_ref(room));
            let hold = hold.filter(|hold| hold.told_as.get().is_some());
            if let Some(due) = hold.and_then(|hold| hold.note_told(now)) {
                timers.reschedule(entry, due);
            }
        }
    }

    /// Takes out what is due, and gives back what has to be renewed of it, and whether that was all.
    pub(super) fn look_after(&self, now: Moment) -> (Vec<Kept>, bool) {
        let mut due = Vec::new();
        let is_all;
        let holds: Vec<Kept> = {
            let mut timers = self.timers();
            timers.take_due(now, BATCH_MAX, &mut due);
            is_all = due.len() < BATCH_MAX;
            let hold = |entry| Some(Held::from(Arc::clone(timers.get(entry)?)));
            let kept = |entry| Some(Kept { entry, hold: hold(entry)? });
            due.into_iter().filter_map(kept).collect()
        };
        let held = holds.into_iter().filter(|kept| match (kept.hold.loss(), kept.hold.ends_at()) {
            (None, Some(ends_at)) => {
                // Its end is looked at, and a renewal that is open when the next one would be due is not
                // waited for.
                let is_renewed = kept.hold.is_renewed;
                let again = if is_renewed { kept.hold.renew_at(now) } else { ends_at };
                self.timers().reschedule(kept.entry, again.min(ends_at));
                is_renewed
            }
            _ => false,
        });
        (held.collect(), is_all)
    }
}

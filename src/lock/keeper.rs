//! Who keeps leases: one task for all of a locker's, which renews them and notices their ends.
//!
//! It sleeps until something is due. While there are leases it wakes at least once a beat, so that
//! a beat that comes late says that everything stood still.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;

use tokio::sync::Notify;
use tokio::time::sleep;

use super::core::Core;
use super::held::{Held, Room};
use super::renew::{Kept, renew};
use super::resend::give_back_again;
use crate::clock;
use crate::policy::{Agenda, BEAT, Entry, Loss, Moment};
use crate::server::watch::kept;
use crate::soon::Soon;

/// So many leases are renewed in one go, at most: each server is asked for all of them in a few
/// commands, and the next go need not wait for this one.
const BATCH_MAX: usize = 1024;
/// Nothing is planned: the task sleeps until it is called.
const NEVER: u64 = u64::MAX;

pub(crate) struct Keeper {
    agenda: Mutex<Agenda<Room>>,
    /// When the task will wake by itself.
    planned: AtomicU64,
    beat: AtomicU64,
    /// Whether a lease was begun since the task last woke.
    has_begun: AtomicBool,
    called: Notify,
}

impl Default for Keeper {
    fn default() -> Self {
        Self {
            agenda: Mutex::new(Agenda::new(clock::now())),
            planned: AtomicU64::new(NEVER),
            beat: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
            called: Notify::new(),
        }
    }
}

impl Keeper {
    fn agenda(&self) -> MutexGuard<'_, Agenda<Room>> {
        self.agenda.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a lease of which something is due then.
    pub(super) fn keep(&self, hold: Held, due: Moment) -> Entry {
        let mut agenda = self.agenda();
        let entry = agenda.insert(hold.into_room(), due);
        self.has_begun.store(true, Ordering::Relaxed);
        self.note_due(due);
        entry
    }

    /// Something is due then: the task is called if it would sleep longer. Under the agenda's lock.
    fn note_due(&self, due: Moment) {
        let planned = self.planned.load(Ordering::Relaxed);
        if planned == NEVER {
            self.beat.store(clock::now().as_nanos(), Ordering::Relaxed);
        }
        if due.as_nanos() < planned {
            self.planned.store(due.as_nanos(), Ordering::Relaxed);
            self.called.notify_one();
        }
    }

    pub(super) fn schedule(&self, entry: Entry, due: Moment) {
        let mut agenda = self.agenda();
        if agenda.reschedule(entry, due) {
            self.note_due(due);
        }
    }

    /// Has the lease renewed now.
    pub(super) fn hasten(&self, entry: Entry) {
        self.schedule(entry, Moment::from_nanos(0));
    }

    /// It is not kept any more.
    pub(super) fn forget(&self, entry: Entry) {
        // Dropped where no lock is held.
        let room = self.agenda().remove(entry);
        drop(room.map(Held::from));
    }

    /// All leases that are kept.
    pub(super) fn all(&self) -> Vec<Held> {
        self.agenda().iter().map(|(_, room)| Held::from(Arc::clone(room))).collect()
    }

    /// Why a lease has ended whose deadline has passed.
    pub(super) fn why_ended(&self, now: Moment) -> Loss {
        Loss::at_deadline(Moment::from_nanos(self.beat.load(Ordering::Relaxed)), now)
    }

    /// The core is gone: the task has nothing to do any more.
    pub(super) fn dismiss(&self) {
        self.called.notify_one();
    }

    /// When to wake by itself: for one more beat where leases came and went, so that the next ones
    /// need not call.
    fn plan(&self, now: Moment) -> Option<Moment> {
        let agenda = self.agenda();
        let has_begun = self.has_begun.swap(false, Ordering::Relaxed);
        let next = (has_begun || agenda.len() > 0).then(|| {
            let beat = now.after(BEAT);
            agenda.next_at().map_or(beat, |due| due.min(beat))
        });
        self.planned.store(next.map_or(NEVER, Moment::as_nanos), Ordering::Relaxed);
        next
    }

    /// Has all leases renewed now.
    fn hasten_all(&self, now: Moment) {
        let mut agenda = self.agenda();
        let all: Vec<Entry> = agenda.iter().map(|(entry, _)| entry).collect();
        all.into_iter().for_each(|entry| _ = agenda.reschedule(entry, now));
    }

    /// Has leases renewed soon of which a server said that something happened to them.
    fn hear(&self, told: &kept::Kept, now: Moment) {
        let mut agenda = self.agenda();
        for entry in told.take_stirred() {
            let hold = agenda.get(entry).and_then(|room| Option::as_ref(room));
            if let Some(due) = hold.and_then(|hold| hold.note_told(now)) {
                agenda.reschedule(entry, due);
            }
        }
    }

    /// Takes out what is due, and gives back what has to be renewed of it.
    fn look_after(&self, now: Moment) -> Vec<Kept> {
        let mut due = Vec::new();
        let holds: Vec<Kept> = {
            let mut agenda = self.agenda();
            agenda.take_due(now, BATCH_MAX, &mut due);
            let hold = |entry| Some(Held::from(Arc::clone(agenda.get(entry)?)));
            let kept = |entry| Some(Kept { entry, hold: hold(entry)? });
            due.into_iter().filter_map(kept).collect()
        };
        let held = holds.into_iter().filter(|kept| match (kept.hold.loss(), kept.hold.ends_at()) {
            (None, Some(ends_at)) => {
                // Whatever becomes of a renewal, its end is looked at.
                self.agenda().reschedule(kept.entry, ends_at);
                kept.hold.is_renewed
            }
            _ => false,
        });
        held.collect()
    }
}

/// Keeps the leases of a core for as long as it is there.
pub(crate) async fn keep(core: Weak<Core>) {
    let shared = |core: Arc<Core>| (Arc::clone(core.keeper()), Arc::clone(core.watchers()));
    let Some((keeper, watchers)) = core.upgrade().map(shared) else { return };
    let mut batches: Vec<Soon<'static, ()>> = Vec::new();
    loop {
        let now = clock::now();
        {
            let Some(core) = core.upgrade() else { return };
            if watchers.kept().take_moved() {
                keeper.hasten_all(now);
                give_back_again(&core);
            }
            keeper.hear(watchers.kept(), now);
            loop {
                let due = keeper.look_after(now);
                let is_all = due.len() < BATCH_MAX;
                if !due.is_empty() {
                    batches.push(Box::pin(renew(Arc::clone(&core), due)));
                }
                if is_all {
                    break;
                }
            }
        }
        // Only now: what has ended meanwhile is to be told from the beat before.
        keeper.beat.store(now.as_nanos(), Ordering::Relaxed);
        rest(&keeper, watchers.kept(), &mut batches).await;
    }
}

/// Waits until something is due, somebody calls, a server tells of something, or a batch is done.
async fn rest(keeper: &Keeper, told: &kept::Kept, batches: &mut Vec<Soon<'static, ()>>) {
    let now = clock::now();
    let planned = keeper.plan(now);
    let mut called = pin!(keeper.called.notified());
    let mut stirred = pin!(told.stirred());
    let mut slept = pin!(async {
        match planned {
            Some(at) => sleep(at.since(now)).await,
            None => std::future::pending().await,
        }
    });
    poll_fn(|context| {
        let before = batches.len();
        batches.retain_mut(|batch| batch.as_mut().poll(context).is_pending());
        let is_over = batches.len() < before
            || called.as_mut().poll(context).is_ready()
            || stirred.as_mut().poll(context).is_ready()
            || slept.as_mut().poll(context).is_ready();
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

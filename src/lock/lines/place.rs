//! Where one waiter waits, and what it is told there.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;

use crate::box_future::BoxFuture;
use crate::error::{Error, Kind, Report};
use crate::lock::attempt::{Granted, Refused};
use crate::lock::limit::Limit;
use crate::lock::names::title;
use crate::lock::order::{Order, Wish};
use crate::mutex::lock;

/// A lock on its way to the next waiter: what remains to be awaited of it.
pub(in crate::lock) type HandOver = BoxFuture<'static, Result<Granted, Refused>>;

/// A waiter.
pub(in crate::lock) struct Place {
    /// Smaller than those of all waiters that came later.
    pub(super) number: u64,
    pub(in crate::lock) order: Order,
    /// Until when the wait lasts.
    pub(in crate::lock) limit: Limit,
    state: Mutex<State>,
    changed: Notify,
}

pub(super) enum State {
    Waits,
    /// It is the first, and asks the servers; at once, where there is news.
    First {
        has_news: bool,
    },
    Handed(HandOver),
    /// It has got what it waited for, or has gone.
    Gone,
    /// The lines were closed.
    Closed,
    /// The servers failed the first one, for longer than this one would have put up with.
    Failed(Failing),
}

/// What the servers said to another waiter for the same lock, and whether it is their last word.
#[derive(Clone)]
pub(in crate::lock) struct Failing {
    pub(in crate::lock) report: Report,
    pub(in crate::lock) is_final: bool,
}

impl Failing {
    pub(in crate::lock) fn error(self, wish: &Wish) -> Error {
        let Self { report, is_final } = self;
        Error::new(Kind::NoQuorum { waited: None, is_final }, title(&wish.names), report)
    }
}

/// What a waiter finds.
pub(in crate::lock) enum Turn {
    NotYet,
    First,
    Handed(HandOver),
    Closed,
    Failed(Failing),
}

impl Place {
    pub(super) fn new(number: u64, order: Order, limit: Limit) -> Self {
        let state = Mutex::new(State::Waits);
        Self { number, order, limit, state, changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The state before, to be dropped where no lock is held.
    pub(super) fn set(&self, state: State) -> State {
        let before = std::mem::replace(&mut *self.lock(), state);
        self.changed.notify_one();
        before
    }

    pub(super) fn has_gone(&self) -> bool {
        matches!(*self.lock(), State::Gone)
    }

    /// Whether that is news for it.
    pub(super) fn promote(&self) -> bool {
        let mut state = self.lock();
        let waits = matches!(*state, State::Waits);
        if waits {
            *state = State::First { has_news: true };
        }
        waits
    }

    /// Whether that is news for it.
    pub(super) fn stir(&self) -> bool {
        if let State::First { has_news } = &mut *self.lock() {
            *has_news = true;
            return true;
        }
        false
    }

    /// Wakes the waiter. To be called where no mutex is held: what a waker does is its own affair.
    pub(super) fn call(&self) {
        self.changed.notify_one();
    }

    /// Whether its patience ends where the servers have failed for that long.
    pub(super) fn has_enough_of(&self, failed_for: Duration) -> bool {
        let is_limited = matches!(self.limit, Limit::At(_)) && failed_for < Duration::MAX;
        !is_limited && self.order.term.ttl() <= failed_for
    }

    /// Hands the lock over; gives it back where nobody waits here any more.
    pub(in crate::lock) fn hand(&self, lock: HandOver) -> Result<(), HandOver> {
        let mut state = self.lock();
        if !matches!(*state, State::Waits | State::First { .. }) {
            return Err(lock);
        }
        *state = State::Handed(lock);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// What it finds now. A lock that was handed over, and news, are found once.
    pub(in crate::lock) fn turn(&self) -> Turn {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Waits) {
            State::Waits => Turn::NotYet,
            State::First { .. } => {
                *state = State::First { has_news: false };
                Turn::First
            }
            State::Handed(lock) => Turn::Handed(lock),
            State::Failed(failing) => Turn::Failed(failing),
            State::Closed | State::Gone => {
                *state = State::Closed;
                Turn::Closed
            }
        }
    }

    /// Waits for something to find: news of the lock, where this is the first.
    pub(in crate::lock) async fn called(&self) {
        self.until(|state| !matches!(state, State::Waits | State::First { has_news: false })).await;
    }

    /// Waits for something that ends an attempt under way.
    pub(in crate::lock) async fn interrupted(&self) {
        self.until(|state| matches!(state, State::Handed(_) | State::Closed | State::Failed(_)))
            .await;
    }

    async fn until(&self, is_so: impl Fn(&State) -> bool) {
        while !is_so(&self.lock()) {
            self.changed.notified().await;
        }
    }
}

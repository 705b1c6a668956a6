//! Whether a server is asked at all: its breaker, counted for metrics while it is open.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::clock;
use crate::mutex::lock;
use crate::net::transport::Address;
use crate::policy::{Breaker, Moment};
use crate::stats::AtServer;

#[derive(Default)]
pub(crate) struct CircuitBreaker {
    /// Whether anything has failed since the last answer: nearly always nothing has, and then no
    /// lock is taken.
    has_failed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    breaker: Breaker,
    /// Something is here while the breaker is not closed.
    open: Option<AtServer>,
}

impl CircuitBreaker {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Whether to ask now; where not, for how long not.
    pub(crate) fn admit(&self) -> Result<(), Duration> {
        if !self.has_failed() {
            return Ok(());
        }
        let mut state = self.state();
        // Randomness is a system call: it is not asked for where nothing is decided by it.
        if state.breaker.is_closed() {
            return Ok(());
        }
        state.breaker.admit(clock::now(), clock::random_bits())
    }

    /// For how long no question is let through; none where it is closed.
    pub(crate) fn opens_in(&self, now: Moment) -> Option<Duration> {
        self.state().breaker.opens_in(now)
    }

    /// The server answered, whatever it said.
    pub(crate) fn note_answer(&self) {
        if !self.has_failed() {
            return;
        }
        let mut state = self.state();
        state.breaker.note_answer();
        state.open = None;
        self.has_failed.store(false, Ordering::Relaxed);
    }

    /// The server at `address` did not answer in time, or could not be asked.
    pub(crate) fn note_failure(&self, address: &Address, now: Moment) {
        let mut state = self.state();
        self.has_failed.store(true, Ordering::Relaxed);
        state.breaker.note_failure(now, clock::random_bits());
        if !state.breaker.is_closed() && state.open.is_none() {
            state.open = Some(AtServer::open_breaker(address));
        }
    }
}

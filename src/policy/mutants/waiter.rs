//! Waiting in a queue with a known bug: a lease counts from the arrival of the push, or any token of a push is
//! believed.

use super::Mutant;
use crate::policy::waiter::{self, WaiterAction, WaiterEvent};
use crate::policy::{Moment, Term};

/// As [`waiter::WaiterState`], but for the bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaiterState(waiter::WaiterState);

impl WaiterState {
    pub(crate) fn begin() -> Self {
        Self(waiter::WaiterState::begin())
    }

    pub(crate) fn happens(&mut self, event: WaiterEvent, term: Term, now: Moment) -> WaiterAction {
        if let (waiter::WaiterState::Waiting { since, shown }, WaiterEvent::Pushed { token }) =
            (&mut self.0, event)
        {
            if Mutant::CountsFromThePush.is_on() {
                *since = now;
            }
            if Mutant::AnyTokenIsPushed.is_on() {
                *shown = Some(waiter::Shown { counter: token, clock: token, asked_at: now });
            }
        }
        self.0.happens(event, term, now)
    }

    pub(crate) fn has_place(self, term: Term, now: Moment) -> bool {
        self.0.has_place(term, now)
    }
}

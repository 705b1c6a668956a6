//! How many replicas have what was written on a connection: see [`super::muster`].
//!
//! No task looks after the `WAIT` under way: any of its members does when it is polled. So nothing has to
//! outlive the callers, whichever runtime they are on.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use leasehold_resp::Decimal;

use super::connection::Connection;
use super::muster::Wait;
use super::outcome::{Failure, Outcome};
use super::pipeline::Ticket;
use super::proof::Expected;
use super::waiting::{State, Waiting};
use crate::clock;

/// A `WAIT` takes at most this, because what is sent behind it is carried out after it: a crowd that
/// comes while a replica is away is kept no longer than this before it is counted.
const SLICE_MAX: Duration = Duration::from_millis(50);
/// And at most this part of the time that a command may take, of which the commands behind it lose it.
const SLICES_PER_TIMEOUT: u32 = 8;

impl Connection {
    /// Asks how many replicas have all that was sent on this connection before this call: until
    /// `needed` have, at least one, and for at most `within`, counted from when the server is asked.
    /// The outcome is that of a `WAIT`.
    pub fn acknowledged(self: &Arc<Self>, needed: u32, within: Duration) -> Acknowledged {
        let number = self.waiting.state().muster.join(needed, within);
        let joined = Acknowledged { connection: Arc::clone(self), number };
        // What comes of it is seen at the first poll.
        let _ = joined.see_to_wait();
        joined
    }

    fn send_wait(self: &Arc<Self>, Wait { replicas, within }: Wait) -> Result<Ticket, Failure> {
        let millis = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let (replicas, millis) = (Decimal::new(replicas.into()), Decimal::new(millis));
        self.send_for_ticket(&[b"WAIT", &replicas, &millis], Expected::Count, clock::now())
    }

    fn slice(&self) -> Duration {
        SLICE_MAX.min(self.settings.command_timeout / SLICES_PER_TIMEOUT)
    }
}

/// How many replicas have what was sent.
///
/// # Cancel safety
///
/// Nobody else's answer depends on it.
#[must_use = "nobody else hears the answer"]
pub struct Acknowledged {
    connection: Arc<Connection>,
    number: u64,
}

impl Acknowledged {
    /// What it was written on.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    fn waiting(&self) -> &Arc<Waiting> {
        &self.connection.waiting
    }

    /// The verdict, if there is one; else `waker` is woken when there is something to look at.
    fn verdict(&self, waker: &Waker) -> Option<Outcome> {
        // Dropped where no lock is held: what goes with a waker is its own affair.
        let mut displaced = None;
        self.waiting().state().muster.take(self.number, |kept| {
            if kept.as_ref().is_none_or(|kept| !kept.will_wake(waker)) {
                displaced = kept.replace(waker.clone());
            }
        })
    }

    /// Sees to it that a `WAIT` is under way, and that all look when its reply has come; ready when
    /// it has.
    fn see_to_wait(&self) -> Poll<()> {
        let for_all = Waker::from(Arc::clone(self.waiting()));
        let mut state = self.waiting().state();
        if state.ticket.is_none() {
            let Some(wait) = state.muster.next(clock::now(), self.connection.slice()) else {
                // Another is about to send one, and sees to it.
                return Poll::Pending;
            };
            drop(state);
            let sent = self.connection.send_wait(wait);
            state = self.waiting().state();
            match sent {
                Ok(ticket) => state.ticket = Some(ticket),
                Err(failure) => return self.settle(state, &Err(failure)),
            }
        }
        let Some(ticket) = state.ticket else { return Poll::Pending };
        let outcome = ready!(self.connection.poll_reply(ticket, &for_all));
        self.settle(state, &outcome)
    }

    fn settle(&self, mut state: MutexGuard<'_, State>, outcome: &Outcome) -> Poll<()> {
        state.ticket = None;
        state.muster.settle(outcome, clock::now());
        drop(state);
        self.waiting().wake_all();
        Poll::Ready(())
    }
}

impl Future for Acknowledged {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            if let Some(verdict) = self.verdict(context.waker()) {
                return Poll::Ready(verdict);
            }
            ready!(self.see_to_wait());
        }
    }
}

impl Drop for Acknowledged {
    fn drop(&mut self) {
        let mut state = self.connection.waiting.state();
        let waker = state.muster.leave(self.number);
        let left = if state.muster.is_over() { state.ticket.take() } else { None };
        drop(state);
        drop(waker);
        if let Some(ticket) = left {
            self.connection.abandon_reply(ticket);
        }
    }
}

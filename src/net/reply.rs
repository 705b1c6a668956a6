//! A reply that has still to come.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::connection::Connection;
use super::outcome::Outcome;
use super::owed::Owed;
use super::pipeline::Ticket;

/// The reply of one command that was sent.
///
/// # Cancel safety
///
/// Dropping it does not take the command back: its reply is thrown away when it comes.
#[must_use = "a reply that is dropped is thrown away when it comes"]
pub struct Reply {
    connection: Arc<Connection>,
    ticket: Option<Ticket>,
}

impl Reply {
    pub(super) fn new(connection: Arc<Connection>, ticket: Ticket) -> Self {
        Self { connection, ticket: Some(ticket) }
    }

    /// What the command went out on.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Leaves behind that `owed` is what the command was sent for: it is seen through without
    /// anybody waiting, as if it had been sent by [`Connection::send_owed`].
    ///
    /// # Errors
    ///
    /// What is owed, if the reply has come and settles nothing.
    pub fn leave_owed(mut self, owed: Owed) -> Result<(), Owed> {
        let Some(ticket) = self.ticket.take() else { return Err(owed) };
        let waker = self.connection.lock().owe(ticket, owed)?;
        drop(waker);
        Ok(())
    }
}

impl Connection {
    /// The reply that `ticket` claims, or `waker` is woken when it has come.
    #[inline]
    pub(super) fn poll_reply(&self, ticket: Ticket, waker: &Waker) -> Poll<Outcome> {
        // Dropped where no lock is held: what goes with a waker is its own affair.
        let mut displaced = None;
        self.lock().poll(ticket, |kept| {
            if kept.as_ref().is_none_or(|kept| !kept.will_wake(waker)) {
                displaced = kept.replace(waker.clone());
            }
        })
    }

    /// The reply that `ticket` claims is thrown away when it comes.
    pub(super) fn abandon_reply(&self, ticket: Ticket) {
        let waker = self.lock().abandon(ticket);
        drop(waker);
    }
}

/// The replies to several commands that were sent as one.
///
/// # Cancel safety
///
/// As [`Reply`].
#[must_use = "replies that are dropped are thrown away when they come"]
pub struct Replies<const N: usize> {
    connection: Arc<Connection>,
    tickets: Option<[Ticket; N]>,
}

impl<const N: usize> Replies<N> {
    pub(super) fn new(connection: Arc<Connection>, tickets: [Ticket; N]) -> Self {
        Self { connection, tickets: Some(tickets) }
    }

    /// What the commands went out on.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }
}

/// Ready once the last of them has come: so have the others, because replies come in order, and all
/// that waits together ends together.
impl<const N: usize> Future for Replies<N> {
    type Output = [Outcome; N];

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<[Outcome; N]> {
        let tickets = self.tickets.expect("replies are polled after they were ready");
        let waker = context.waker();
        let mut displaced = None;
        let mut pipeline = self.connection.lock();
        let last = pipeline.poll(tickets[N - 1], |kept| {
            if kept.as_ref().is_none_or(|kept| !kept.will_wake(waker)) {
                displaced = kept.replace(waker.clone());
            }
        });
        let outcomes = last.map(|last| {
            let mut last = Some(last);
            std::array::from_fn(|place| {
                if place + 1 == N {
                    return last.take().expect("it is the last");
                }
                match pipeline.poll(tickets[place], |_| ()) {
                    Poll::Ready(outcome) => outcome,
                    Poll::Pending => unreachable!("it came before the last"),
                }
            })
        });
        drop(pipeline);
        drop(displaced);
        if outcomes.is_ready() {
            self.tickets = None;
        }
        outcomes
    }
}

impl<const N: usize> Drop for Replies<N> {
    fn drop(&mut self) {
        let Some(tickets) = self.tickets.take() else { return };
        let mut pipeline = self.connection.lock();
        let wakers = tickets.map(|ticket| pipeline.abandon(ticket));
        drop(pipeline);
        drop(wakers);
    }
}

impl Future for Reply {
    type Output = Outcome;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let ticket = self.ticket.expect("a reply is polled after it was ready");
        let outcome = self.connection.poll_reply(ticket, context.waker());
        if outcome.is_ready() {
            self.ticket = None;
        }
        outcome
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.connection.abandon_reply(ticket);
        }
    }
}

//! A reply that has still to come.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::connection::Connection;
use super::outcome::Outcome;
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
}

impl Future for Reply {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let ticket = self.ticket.expect("a reply is polled after it was ready");
        let (outcome, displaced) = {
            let mut pipeline = self.connection.lock();
            (pipeline.poll(ticket, context.waker()), pipeline.take_displaced())
        };
        drop(displaced);
        if outcome.is_ready() {
            self.ticket = None;
        }
        outcome
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let waker = self.connection.lock().abandon(ticket);
            drop(waker);
        }
    }
}

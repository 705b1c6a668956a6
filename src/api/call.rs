//! Calls without a lease.

use std::pin::pin;
use std::task::{Context, Poll};

use leasehold_resp::Frame;

use super::locker::Locker;
use crate::machine::{self, CallId, Machine};
use crate::net::fault::Fault;
use crate::net::reason::Reason;

/// A command to one server, until it is forgotten.
pub(crate) struct Call {
    locker: Locker,
    server: usize,
    id: CallId,
    /// Whether the reply did not come in time.
    is_late: bool,
}

impl Locker {
    /// Sends a command to the server of this vote; in a Cluster, to the node that serves its first key.
    pub(crate) fn call(&self, server: usize, question: machine::Call) -> Call {
        let id = self.driver.with(|machine, now| machine.call(server, question, now));
        Call { locker: self.clone(), server, id, is_late: false }
    }

    /// Sends a command on this link.
    #[cfg(feature = "cluster")]
    pub(crate) fn call_at(&self, link: usize, question: machine::Call) -> Call {
        let id = self.driver.with(|machine, now| machine.call_at(link, question, now));
        Call { locker: self.clone(), server: link, id, is_late: false }
    }

    /// Whether the locker was shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.driver.look(|machine| machine.is_closed())
    }
}

impl Call {
    /// Waits for the reply, at most one command timeout; to be called once.
    ///
    /// # Errors
    ///
    /// Why there is no reply.
    pub(crate) async fn reply(&mut self) -> Result<Frame, Reason> {
        let driver = &self.locker.driver;
        let most = driver.look(|machine| machine.settings().timeout);
        let called = driver.wait(|machine, context| machine.poll_call(self.id, context));
        match self.locker.timeout(most, pin!(called)).await {
            Ok((server, mut called)) => {
                self.server = server;
                driver.replied(server, &mut called)
            }
            Err(_) => {
                self.is_late = true;
                let greeting = driver.look(|machine| machine.greeted_in(self.id));
                Err(Reason::NoReply(Fault::of_late(most, greeting)))
            }
        }
    }

    /// Waits until the key of a watched command may have changed, or the locker is shut down.
    pub(crate) async fn news(&self) {
        self.locker.driver.wait(|machine, context| machine.poll_news(self.id, context)).await;
    }

    /// See [`Call::news`]. Only the last caller is woken.
    pub(crate) fn poll_news(&self, context: &Context<'_>) -> Poll<()> {
        self.locker.driver.look(|machine| machine.poll_news(self.id, context))
    }

    /// Whether the server reports changes to that key; otherwise the command is to be repeated.
    pub(crate) fn is_told(&self) -> bool {
        self.locker.driver.look(|machine: &mut Machine| machine.tells_of(self.id))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let (id, is_late) = (self.id, self.is_late);
        self.locker.driver.with_drop(|machine, now| machine.forget_call(id, is_late, now));
    }
}

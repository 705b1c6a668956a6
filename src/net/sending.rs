//! How commands get into a connection: admitted, queued, and what they weigh there.

use std::pin::pin;
use std::sync::Arc;
use std::task::Waker;
#[cfg(test)]
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::SemaphorePermit;

use super::connection::{Connection, IN_FLIGHT_BYTES};
use super::outcome::{Failure, Fault};
use super::owed::Owed;
use super::pipeline::{Terms, Ticket};
use super::proof::Expected;
use super::reply::{Replies, Reply};
use crate::clock;
use crate::policy::Moment;
use crate::race::timeout;

/// What a command in flight takes beside its bytes: its slot, its place in the queue, its reply.
pub(super) const COMMAND_OVERHEAD: usize = 160;

fn weight(bytes: usize) -> usize {
    bytes.saturating_add(COMMAND_OVERHEAD)
}

/// What the connection's bound counts in; no weight that is admitted is larger.
fn narrow(weight: usize) -> u32 {
    u32::try_from(weight).unwrap_or(u32::MAX)
}

impl Connection {
    /// Waits for room for a command of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`Failure::NotSent`], when the connection has ended, when there was no room for the time
    /// that a command may take, or when no room could ever be enough.
    ///
    /// # Cancel safety
    ///
    /// Nothing is sent; dropping the future or the permit gives the room back.
    pub async fn admit(&self, bytes: usize) -> Result<SemaphorePermit<'_>, Failure> {
        Self::check_size(bytes)?;
        self.admit_weight(weight(bytes)).await
    }

    /// As [`Connection::admit`], if there is room now.
    pub fn try_admit(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        let weight = u32::try_from(weight(bytes)).ok()?;
        self.credit.try_acquire_many(weight).ok()
    }

    /// As [`Connection::admit`], for commands of these sizes together: as many of the first of
    /// them as may be in flight at once, which is how many comes back with the permit.
    ///
    /// # Errors
    ///
    /// As [`Connection::admit`].
    ///
    /// # Cancel safety
    ///
    /// As [`Connection::admit`].
    pub async fn admit_all(
        &self,
        sizes: impl IntoIterator<Item = usize>,
    ) -> Result<(SemaphorePermit<'_>, usize), Failure> {
        let (mut together, mut count) = (0, 0);
        for bytes in sizes {
            Self::check_size(bytes)?;
            if together + weight(bytes) > IN_FLIGHT_BYTES {
                break;
            }
            together += weight(bytes);
            count += 1;
        }
        Ok((self.admit_weight(together).await?, count))
    }

    /// Whether a command of `bytes` bytes could ever be admitted.
    ///
    /// # Errors
    ///
    /// [`Failure::NotSent`], when it could not.
    pub fn check_size(bytes: usize) -> Result<(), Failure> {
        if weight(bytes) <= IN_FLIGHT_BYTES {
            return Ok(());
        }
        Err(Failure::NotSent(Fault::TooLarge { bytes, most: IN_FLIGHT_BYTES }))
    }

    async fn admit_weight(&self, weight: usize) -> Result<SemaphorePermit<'_>, Failure> {
        let weight = narrow(weight);
        if let Ok(permit) = self.credit.try_acquire_many(weight) {
            return Ok(permit);
        }
        let within = self.settings.command_timeout;
        match timeout(within, pin!(self.credit.acquire_many(weight))).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_closed)) => Err(Failure::NotSent(self.fault())),
            Err(_elapsed) => Err(Failure::NotSent(Fault::Full(within))),
        }
    }

    /// Sends one encoded command that was admitted at `asked_at` or later. Its reply wakes `waker`,
    /// until it is polled for.
    ///
    /// # Errors
    ///
    /// [`Failure::NotSent`], when the connection has ended.
    #[inline]
    pub fn send(
        self: &Arc<Self>,
        permit: SemaphorePermit<'_>,
        command: &[u8],
        expected: Expected,
        asked_at: Moment,
        waker: &Waker,
    ) -> Result<Reply, Failure> {
        let ticket = self.enqueue(permit, command, expected, asked_at, waker)?;
        Ok(self.reply(ticket))
    }

    /// Sends one encoded command if there is room for it now, and returns when it was asked for, too:
    /// before its first byte was sent, from which a lease is counted (safety rule 2). Its reply wakes
    /// `waker`, until it is polled for.
    #[inline]
    pub fn try_send(
        self: &Arc<Self>,
        command: &[u8],
        expected: Expected,
        asked_at: Moment,
        waker: &Waker,
    ) -> Option<Result<Reply, Failure>> {
        let permit = self.try_admit(command.len())?;
        let sent = self.enqueue(permit, command, expected, asked_at, waker);
        Some(sent.map(|ticket| self.reply(ticket)))
    }

    #[inline]
    fn enqueue(
        &self,
        permit: SemaphorePermit<'_>,
        command: &[u8],
        expected: Expected,
        asked_at: Moment,
        waker: &Waker,
    ) -> Result<Ticket, Failure> {
        let terms = self.terms(expected, asked_at, narrow(permit.num_permits()));
        permit.forget();
        let mut pipeline = self.lock();
        let ticket = pipeline.push_encoded(command, terms, waker).map_err(Failure::NotSent)?;
        self.commit(pipeline);
        Ok(ticket)
    }

    /// Sends commands that were admitted together at `asked_at` or later, each with what its reply
    /// can be and its size: in one write, and nothing comes between them.
    ///
    /// # Errors
    ///
    /// [`Failure::NotSent`], when the connection has ended: none of them is sent.
    pub fn send_all<'a>(
        self: &Arc<Self>,
        permit: SemaphorePermit<'_>,
        commands: impl IntoIterator<Item = (&'a [&'a [u8]], Expected, usize)>,
        asked_at: Moment,
    ) -> Result<Vec<Reply>, Failure> {
        permit.forget();
        let terms = |expected, bytes| self.terms(expected, asked_at, narrow(weight(bytes)));
        let commands =
            commands.into_iter().map(|(args, expected, bytes)| (args, terms(expected, bytes)));
        self.send_together(commands)
    }

    /// Sends commands that are one for their caller and were admitted as one: in one write, and nothing
    /// comes between them. The reply to the last wakes `waker`, until they are polled for.
    ///
    /// # Errors
    ///
    /// [`Failure::NotSent`], when the connection has ended: none of them is sent.
    #[inline]
    pub fn send_as_one<const N: usize>(
        self: &Arc<Self>,
        permit: SemaphorePermit<'_>,
        commands: [(&[&[u8]], Expected); N],
        asked_at: Moment,
        waker: &Waker,
    ) -> Result<Replies<N>, Failure> {
        let weight = narrow(permit.num_permits());
        permit.forget();
        // What all of them weigh is given back with the last reply.
        let commands = commands.map(|(args, expected)| {
            let weight = if expected.is_part() { 0 } else { weight };
            (args, self.terms(expected, asked_at, weight))
        });
        let mut pipeline = self.lock();
        let tickets = pipeline.push_all(commands, waker).map_err(Failure::NotSent)?;
        self.commit(pipeline);
        Ok(Replies::new(Arc::clone(self), tickets))
    }

    /// Sends one command whatever else is in flight: for what stands in for an admitted command,
    /// and for the few commands of a handshake.
    ///
    /// # Errors
    ///
    /// [`Failure::NotSent`], when the connection has ended.
    pub fn send_unbounded(
        self: &Arc<Self>,
        args: &[&[u8]],
        expected: Expected,
        asked_at: Moment,
    ) -> Result<Reply, Failure> {
        let terms = self.terms(expected, asked_at, 0);
        let mut pipeline = self.lock();
        let ticket = pipeline.push(args, terms).map_err(Failure::NotSent)?;
        self.commit(pipeline);
        Ok(self.reply(ticket))
    }

    fn reply(self: &Arc<Self>, ticket: Ticket) -> Reply {
        Reply::new(Arc::clone(self), ticket)
    }

    /// Sends several commands that nothing comes between, in one write, each to be answered
    /// `within` that time.
    ///
    /// # Errors
    ///
    /// [`Failure::NotSent`], when the connection has ended: none of them is sent.
    #[cfg(test)]
    pub fn send_batch(
        self: &Arc<Self>,
        commands: &[&[&[u8]]],
        expected: Expected,
        asked_at: Moment,
        within: Duration,
    ) -> Result<Vec<Reply>, Failure> {
        let terms = Terms { expected, asked_at, deadline: asked_at.after(within), weight: 0 };
        self.send_together(commands.iter().map(|args| (*args, terms)))
    }

    /// Sends several commands that nothing comes between, in one write, each on its own terms.
    ///
    /// # Errors
    ///
    /// [`Failure::NotSent`], when the connection has ended: none of them is sent.
    pub(super) fn send_together<'a>(
        self: &Arc<Self>,
        commands: impl Iterator<Item = (&'a [&'a [u8]], Terms)>,
    ) -> Result<Vec<Reply>, Failure> {
        let mut tickets = Vec::with_capacity(commands.size_hint().0);
        let mut pipeline = self.lock();
        for (args, terms) in commands {
            // Only the first can fail: nothing ends the connection while the lock is held.
            tickets.push(pipeline.push(args, terms).map_err(Failure::NotSent)?);
        }
        self.commit(pipeline);
        Ok(tickets.into_iter().map(|ticket| self.reply(ticket)).collect())
    }

    /// Sends a command that has no reply, because pushes answer it: `SUBSCRIBE` in RESP3.
    ///
    /// # Errors
    ///
    /// [`Failure::NotSent`], when the connection has ended.
    pub fn send_unanswered(&self, args: &[&[u8]]) -> Result<(), Failure> {
        let mut pipeline = self.lock();
        pipeline.push_unanswered(args).map_err(Failure::NotSent)?;
        self.commit(pipeline);
        Ok(())
    }

    /// Sends what is owed. It neither blocks nor needs a runtime.
    ///
    /// It is not bounded: what is owed gives back what an admitted command took.
    ///
    /// # Errors
    ///
    /// What was to be sent, when the connection has ended.
    pub fn send_owed(&self, owed: Owed) -> Result<(), Owed> {
        self.send_owed_behind(None, owed)
    }

    /// As [`Connection::send_owed`], right behind another command that asks for no reply either.
    ///
    /// # Errors
    ///
    /// As [`Connection::send_owed`]: neither is sent.
    pub fn send_owed_behind(&self, ahead: Option<&[&[u8]]>, owed: Owed) -> Result<(), Owed> {
        let mut pipeline = self.lock();
        pipeline.push_owed(owed, ahead, clock::now())?;
        if self.is_alive() && Handle::try_current().is_ok() {
            self.commit(pipeline);
        } else {
            self.commit_unaided(pipeline);
        }
        Ok(())
    }

    /// Has the next command answered behind all that it makes the server say to other connections, by an `ECHO`
    /// that goes out with it. A server writes last to the connection that had something to be told first.
    pub fn let_others_first(&self) {
        let mut pipeline = self.lock();
        if pipeline.fault().is_none() {
            pipeline.ask();
        }
    }

    fn terms(&self, expected: Expected, asked_at: Moment, weight: u32) -> Terms {
        let deadline = asked_at.after(self.settings.command_timeout);
        Terms { expected, asked_at, deadline, weight }
    }
}

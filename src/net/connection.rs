//! One pipelined connection: a socket, the pipeline that matches its replies, and three tasks.
//!
//! Many callers share it. A command is encoded under one short lock; its caller writes it on its
//! own task while few are in flight, and leaves it to the flusher task when many are. The reader
//! task reads, whatever the writer waits for. The sweeper task ends waits that took too long, so
//! that a command costs no timer.
//!
//! Outcomes are three: a reply; not sent (nothing reached the socket); unknown. Nothing is ever
//! sent again from here.
//!
//! The tasks hold the connection weakly: when its last handle goes, what is still unwritten is
//! offered to the kernel once more, and the socket is closed for writing, so that the server still
//! runs all that was sent.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::outcome::{Failure, Fault};
use super::pipeline::{Owed, Pipeline, Sweep, Terms, Ticket};
use super::reply::Reply;
use super::tasks::{self, Signals};
use super::transport::{Address, WriteHalf, open};
use crate::clock;
use crate::policy::Moment;

/// What may be in flight on one connection, each command counted with its bytes and
/// [`COMMAND_OVERHEAD`]: some 4,000 lock commands, which is more than a server answers in a
/// round trip, so that more would only wait longer with its validity running.
const IN_FLIGHT_BYTES: usize = 1024 * 1024;
/// What a command in flight takes beside its bytes: its slot, its place in the queue, its reply.
const COMMAND_OVERHEAD: usize = 160;
/// A command's timeout is noticed within this part of it.
const SWEEPS_PER_TIMEOUT: u32 = 8;
/// A connection on which commands wait and nothing was read for this many timeouts is dead.
const TIMEOUTS_UNTIL_DEAD: u32 = 2;

/// How a connection behaves.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a command may wait for its reply.
    pub command_timeout: Duration,
    /// Up to how many commands in flight the caller writes for itself.
    pub write_inline: usize,
}

impl Settings {
    fn dead_after(&self) -> Duration {
        self.command_timeout * TIMEOUTS_UNTIL_DEAD
    }
}

/// See the module's documentation.
pub struct Connection {
    pipeline: Mutex<Pipeline<Waker>>,
    credit: Semaphore,
    pub(super) write: WriteHalf,
    pub(super) signals: Arc<Signals>,
    pub(super) settings: Settings,
    digests: OnceLock<Vec<Bytes>>,
}

impl Connection {
    /// Opens a socket and starts its tasks on the current runtime.
    ///
    /// # Errors
    ///
    /// What the operating system says of the socket.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn dial(address: &Address, settings: Settings) -> io::Result<Arc<Self>> {
        let (read, write) = open(address, settings.dead_after()).await?;
        let signals = Arc::new(Signals::default());
        let connection = Arc::new(Self {
            pipeline: Mutex::new(Pipeline::default()),
            credit: Semaphore::new(IN_FLIGHT_BYTES),
            write,
            signals: Arc::clone(&signals),
            settings,
            digests: OnceLock::new(),
        });
        let weak = Arc::downgrade(&connection);
        tokio::spawn(tasks::read(weak.clone(), read));
        tokio::spawn(tasks::flush(weak.clone(), Arc::clone(&signals)));
        let interval = settings.command_timeout / SWEEPS_PER_TIMEOUT;
        tokio::spawn(tasks::sweep(weak, signals, interval));
        Ok(connection)
    }

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
        let weight = u32::try_from(bytes + COMMAND_OVERHEAD).unwrap_or(u32::MAX);
        if weight as usize > IN_FLIGHT_BYTES {
            return Err(Failure::NotSent(Fault::TooLarge { bytes, most: IN_FLIGHT_BYTES }));
        }
        if let Ok(permit) = self.credit.try_acquire_many(weight) {
            return Ok(permit);
        }
        let within = self.settings.command_timeout;
        match timeout(within, self.credit.acquire_many(weight)).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_closed)) => Err(Failure::NotSent(self.fault())),
            Err(_elapsed) => Err(Failure::NotSent(Fault::Full(within))),
        }
    }

    /// Sends one command that was admitted at `asked_at` or later.
    ///
    /// # Errors
    ///
    /// [`Failure::NotSent`], when the connection has ended.
    pub fn send(
        self: &Arc<Self>,
        permit: SemaphorePermit<'_>,
        args: &[&[u8]],
        asked_at: Moment,
    ) -> Result<Reply, Failure> {
        let weight = u32::try_from(permit.num_permits()).unwrap_or(u32::MAX);
        permit.forget();
        self.send_weighing(weight, args, asked_at)
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
        asked_at: Moment,
    ) -> Result<Reply, Failure> {
        self.send_weighing(0, args, asked_at)
    }

    fn send_weighing(
        self: &Arc<Self>,
        weight: u32,
        args: &[&[u8]],
        asked_at: Moment,
    ) -> Result<Reply, Failure> {
        let mut pipeline = self.lock();
        let ticket = pipeline.push(args, self.terms(asked_at, weight)).map_err(Failure::NotSent)?;
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
    pub fn send_batch(
        self: &Arc<Self>,
        commands: &[&[&[u8]]],
        asked_at: Moment,
        within: Duration,
    ) -> Result<Vec<Reply>, Failure> {
        let mut pipeline = self.lock();
        let terms = Terms { asked_at, deadline: asked_at.after(within), weight: 0 };
        let tickets = commands
            .iter()
            .map(|args| pipeline.push(args, terms))
            .collect::<Result<Vec<_>, _>>()
            .map_err(Failure::NotSent)?;
        self.commit(pipeline);
        Ok(tickets.into_iter().map(|ticket| self.reply(ticket)).collect())
    }

    /// Sends what is owed. It neither blocks nor needs a runtime.
    ///
    /// It is not bounded: what is owed gives back what an admitted command took.
    ///
    /// # Errors
    ///
    /// What was to be sent, when the connection has ended.
    pub fn send_owed(&self, owed: Owed) -> Result<(), Owed> {
        let mut pipeline = self.lock();
        pipeline.push_owed(owed, clock::now())?;
        if self.is_alive() && Handle::try_current().is_ok() {
            self.commit(pipeline);
        } else {
            self.commit_unaided(pipeline);
        }
        Ok(())
    }

    /// What was owed and unanswered when the connection ended, once.
    pub fn take_unanswered(&self) -> Vec<Owed> {
        self.lock().take_unanswered()
    }

    /// Whether it can still take commands.
    pub fn is_alive(&self) -> bool {
        !self.credit.is_closed()
    }

    /// Waits for the connection's end, which one task may do.
    pub async fn ended(&self) {
        self.signals.ended.notified().await;
    }

    /// Why it ended.
    pub fn fault(&self) -> Fault {
        self.lock().fault().cloned().unwrap_or(Fault::ClosedByUs)
    }

    #[cfg(test)]
    fn in_flight(&self) -> usize {
        self.lock().in_flight()
    }

    /// What the server called the scripts that were loaded when the connection was made.
    pub fn digest(&self, script: usize) -> Option<&[u8]> {
        self.digests.get()?.get(script).map(|digest| &digest[..])
    }

    pub(super) fn set_digests(&self, digests: Vec<Bytes>) {
        // A handshake happens once; a second one could only say the same.
        let _ = self.digests.set(digests);
    }

    fn terms(&self, asked_at: Moment, weight: u32) -> Terms {
        let deadline = asked_at.after(self.settings.command_timeout);
        Terms { asked_at, deadline, weight }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Pipeline<Waker>> {
        self.pipeline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Matches what was decoded from a read, under one lock.
    pub(super) fn receive(
        &self,
        frames: &mut Vec<Frame>,
        decoded: Result<(), Fault>,
        woken: &mut Vec<Waker>,
    ) -> Result<(), Fault> {
        let mut pipeline = self.lock();
        pipeline.note_read();
        let mut delivered = Ok(());
        for frame in frames.drain(..) {
            match pipeline.deliver(frame) {
                Ok(waker) => woken.extend(waker),
                Err(fault) => {
                    delivered = Err(fault);
                    break;
                }
            }
        }
        let freed = pipeline.take_freed_weight();
        drop(pipeline);
        self.credit.add_permits(freed);
        delivered.and(decoded)
    }

    pub(super) fn sweep(&self, woken: &mut Vec<Waker>) -> Sweep {
        // The handshake has a time limit of its own.
        let is_prepared = self.digests.get().is_some();
        let dead_after = if is_prepared { self.settings.dead_after() } else { Duration::MAX };
        self.lock().sweep(clock::now(), dead_after, woken)
    }

    /// The reader is gone, with its runtime: nobody is left waiting for a reply that could not
    /// come, while what is owed is still sent.
    pub(super) fn orphan(&self) {
        let mut woken = Vec::new();
        let left = {
            let mut pipeline = self.lock();
            pipeline.orphan(Fault::RuntimeGone, &mut woken);
            pipeline.outbox().take_over()
        };
        self.credit.close();
        if let Some(chunk) = left {
            self.write_or_hand_over(chunk);
        }
        woken.into_iter().for_each(Waker::wake);
        self.signals.ended.notify_one();
    }

    /// Ends the connection. The first fault is the one that is told.
    pub fn fail(&self, fault: Fault) {
        let mut woken = Vec::new();
        self.lock().fail(fault, &mut woken);
        self.credit.close();
        self.write.shut_down();
        woken.into_iter().for_each(Waker::wake);
        self.signals.ended.notify_one();
        self.signals.flush.notify_one();
        self.signals.sweep.notify_one();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let pipeline = self.pipeline.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(chunk) = pipeline.outbox().take_over() {
            let _ = self.write_until_blocked(chunk);
        }
        self.signals.flush.notify_one();
        self.signals.sweep.notify_one();
    }
}

#[cfg(test)]
mod tests;

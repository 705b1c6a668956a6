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

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use super::outcome::{Failure, Fault, Outcome};
use super::pipeline::{Commit, Owed, Pipeline, Sweep, Terms, Ticket};
use super::transport::{Address, ReadHalf, WriteHalf, open};
use crate::clock;
use crate::policy::Moment;

/// What may be in flight on one connection, each command counted with its bytes and
/// [`COMMAND_OVERHEAD`]: some 4,000 lock commands, which is more than a server answers in a
/// round trip, so that more would only wait longer with its validity running.
const IN_FLIGHT_BYTES: usize = 1024 * 1024;
/// What a command in flight takes beside its bytes: its slot, its place in the queue, its reply.
const COMMAND_OVERHEAD: usize = 160;
/// One read of the socket; replies of a lock are below 100 bytes.
const READ_BUFFER_BYTES: usize = 16 * 1024;
/// With less room than this the read buffer is renewed.
const READ_ROOM_BYTES: usize = 4 * 1024;
/// A command's timeout is noticed within this part of it.
const SWEEPS_PER_TIMEOUT: u32 = 8;
/// A connection on which commands wait and nothing was read for this many timeouts is dead.
const TIMEOUTS_UNTIL_DEAD: u32 = 2;

/// What a lock's replies need at the most; a server that sends more is not answering a lock.
const LIMITS: Limits = Limits {
    depth: 16,
    bulk_bytes: 4 * 1024 * 1024,
    elements: 256 * 1024,
    line_bytes: 16 * 1024,
    frame_bytes: 8 * 1024 * 1024,
};

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

/// What wakes the tasks of a connection; it outlives the connection, so that they can wait on it
/// without keeping the connection alive.
#[derive(Default)]
struct Signals {
    flush: Notify,
    sweep: Notify,
    ended: Notify,
}

/// See the module's documentation.
pub struct Connection {
    pipeline: Mutex<Pipeline<Waker>>,
    credit: Semaphore,
    write: WriteHalf,
    signals: Arc<Signals>,
    settings: Settings,
    digests: OnceLock<Vec<bytes::Bytes>>,
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
        tokio::spawn(read_loop(weak.clone(), read));
        tokio::spawn(flush_loop(weak.clone(), Arc::clone(&signals)));
        tokio::spawn(sweep_loop(weak, signals, settings.command_timeout / SWEEPS_PER_TIMEOUT));
        Ok(connection)
    }

    /// Waits for room for a command of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`Failure::NotSent`], when the connection has ended or no room could ever be enough.
    ///
    /// # Cancel safety
    ///
    /// Nothing is sent; dropping the future or the permit gives the room back.
    pub async fn admit(&self, bytes: usize) -> Result<SemaphorePermit<'_>, Failure> {
        let weight = u32::try_from(bytes + COMMAND_OVERHEAD).unwrap_or(u32::MAX);
        if weight as usize > IN_FLIGHT_BYTES {
            return Err(Failure::NotSent(Fault::TooLarge { bytes, most: IN_FLIGHT_BYTES }));
        }
        match self.credit.try_acquire_many(weight) {
            Ok(permit) => Ok(permit),
            Err(_) => self
                .credit
                .acquire_many(weight)
                .await
                .map_err(|_closed| Failure::NotSent(self.fault())),
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
        Reply { connection: Arc::clone(self), ticket: Some(ticket) }
    }

    /// Sends several commands that nothing comes between, in one write.
    ///
    /// # Errors
    ///
    /// [`Failure::NotSent`], when the connection has ended: none of them is sent.
    pub fn send_batch(
        self: &Arc<Self>,
        commands: &[&[&[u8]]],
        asked_at: Moment,
    ) -> Result<Vec<Reply>, Failure> {
        let mut pipeline = self.lock();
        let terms = self.terms(asked_at, 0);
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
        self.commit(pipeline);
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

    pub(super) fn set_digests(&self, digests: Vec<bytes::Bytes>) {
        // A handshake happens once; a second one could only say the same.
        let _ = self.digests.set(digests);
    }

    fn terms(&self, asked_at: Moment, weight: u32) -> Terms {
        let deadline = asked_at.after(self.settings.command_timeout);
        Terms { asked_at, deadline, weight }
    }

    fn lock(&self) -> MutexGuard<'_, Pipeline<Waker>> {
        self.pipeline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what was pushed under this lock, or sees to it that somebody does.
    fn commit(&self, mut pipeline: MutexGuard<'_, Pipeline<Waker>>) {
        let wake_sweeper = pipeline.wants_sweeper();
        let commit = pipeline.commit(self.settings.write_inline);
        drop(pipeline);
        match commit {
            Commit::Queued => {}
            Commit::WakeFlusher => self.signals.flush.notify_one(),
            Commit::Write(chunk) => {
                if let Err(rest) = self.write_until_blocked(chunk) {
                    self.lock().hand_over(rest);
                    self.signals.flush.notify_one();
                }
            }
        }
        if wake_sweeper {
            self.signals.sweep.notify_one();
        }
    }

    /// Writes as the writer until nothing is left, or gives back what the kernel does not take.
    fn write_until_blocked(&self, mut chunk: BytesMut) -> Result<(), BytesMut> {
        loop {
            match self.write.try_write(&chunk) {
                Ok(0) => self.fail(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(written) if written < chunk.len() => {
                    chunk.advance(written);
                    continue;
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(chunk),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => self.fail(error.into()),
            }
            match self.lock().next_chunk(chunk) {
                Some(more) => chunk = more,
                None => return Ok(()),
            }
        }
    }

    /// Writes as the flusher, waiting for the socket where it has to.
    async fn flush(&self) {
        let Some(mut chunk) = self.lock().take_over() else { return };
        while let Err(rest) = self.write_until_blocked(chunk) {
            chunk = rest;
            if let Err(error) = self.write.writable().await {
                self.fail(error.into());
            }
        }
    }

    /// Matches what was decoded from a read, under one lock.
    fn receive(
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

    fn sweep(&self, woken: &mut Vec<Waker>) -> Sweep {
        self.lock().sweep(clock::now(), self.settings.dead_after(), woken)
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
        if let Some(chunk) = pipeline.take_over() {
            let _ = self.write_until_blocked(chunk);
        }
        self.signals.flush.notify_one();
        self.signals.sweep.notify_one();
    }
}

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

impl Future for Reply {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let ticket = self.ticket.expect("a reply is polled after it was ready");
        let outcome = self.connection.lock().poll(ticket, context.waker());
        if outcome.is_ready() {
            self.ticket = None;
        }
        outcome
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.connection.lock().abandon(ticket);
        }
    }
}

/// Who reads: one task per connection. It never waits for a writer.
async fn read_loop(connection: Weak<Connection>, mut socket: ReadHalf) {
    let mut decoder = Decoder::new(LIMITS);
    let mut buffer = BytesMut::with_capacity(READ_BUFFER_BYTES);
    let mut frames = Vec::new();
    let mut woken = Vec::new();
    loop {
        if buffer.capacity() - buffer.len() < READ_ROOM_BYTES {
            buffer.reserve(READ_BUFFER_BYTES);
        }
        let read = socket.read(&mut buffer).await;
        let Some(connection) = connection.upgrade() else { return };
        let received = match read {
            Ok(0) => Err(Fault::ClosedByServer),
            Ok(_) => {
                let decoded = decode_all(&mut decoder, &mut buffer, &mut frames);
                connection.receive(&mut frames, decoded, &mut woken)
            }
            Err(error) => Err(error.into()),
        };
        woken.drain(..).for_each(Waker::wake);
        if let Err(fault) = received {
            connection.fail(fault);
            return;
        }
    }
}

/// Decodes every whole frame; those before a fault are good.
fn decode_all(
    decoder: &mut Decoder,
    buffer: &mut BytesMut,
    frames: &mut Vec<Frame>,
) -> Result<(), Fault> {
    while let Some(frame) = decoder.decode(buffer)? {
        frames.push(frame);
    }
    Ok(())
}

/// Writes when the callers do not.
async fn flush_loop(connection: Weak<Connection>, signals: Arc<Signals>) {
    loop {
        signals.flush.notified().await;
        match connection.upgrade() {
            Some(connection) if connection.is_alive() => connection.flush().await,
            _ => return,
        }
    }
}

/// Ends waits that took too long, and the connection when the server is silent. It sleeps while
/// nothing is in flight.
async fn sweep_loop(connection: Weak<Connection>, signals: Arc<Signals>, interval: Duration) {
    let mut woken = Vec::new();
    loop {
        tokio::time::sleep(interval).await;
        let found = match connection.upgrade() {
            Some(connection) if connection.is_alive() => connection.sweep(&mut woken),
            _ => return,
        };
        woken.drain(..).for_each(Waker::wake);
        match found {
            Sweep::Busy => {}
            Sweep::Idle => signals.sweep.notified().await,
            Sweep::Dead(fault) => {
                if let Some(connection) = connection.upgrade() {
                    connection.fail(fault);
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;

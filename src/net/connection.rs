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
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use leasehold_resp::{Frame, Limits};

use super::dialect::{DeleteIfEqual, Shortcut, Shortcuts};
use super::outcome::Fault;
use super::owed::Owed;
#[cfg(not(test))]
pub(super) use super::pipeline::Pipeline;
#[cfg(test)]
pub(super) use super::pipeline::mutated::Pipeline;
use super::pipeline::{Patience, Sweep};
use super::pushes::{Listeners, Pushes};
use super::refusal::{Code, ServerError};
use super::sync::{Mutex, MutexGuard, Notify, Semaphore};
use super::tls::Client;
use super::transport::{Address, WriteHalf, open};
use super::words::Words;
use crate::clock;
use crate::policy::Moment;

/// What may be in flight on one connection, each command counted with its bytes and
/// [`COMMAND_OVERHEAD`]: some 4,000 lock commands, which is more than a server answers in a
/// round trip, so that more would only wait longer with its validity running.
pub(super) const IN_FLIGHT_BYTES: usize = 1024 * 1024;
/// A command's timeout is noticed within this part of it.
const SWEEPS_PER_TIMEOUT: u32 = 8;
/// A connection on which commands wait and no reply was read for this many timeouts is dead.
const TIMEOUTS_UNTIL_DEAD: u32 = 2;

/// How a connection behaves.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a command may wait for its reply.
    pub command_timeout: Duration,
    /// Up to how many commands in flight the caller writes for itself.
    pub write_inline: usize,
    /// The most that a reply may be.
    pub limits: Limits,
}

/// How long a command with this timeout takes at the most, while threads are not blocked.
pub fn noticed_within(command_timeout: Duration) -> Duration {
    command_timeout + command_timeout / SWEEPS_PER_TIMEOUT
}

impl Settings {
    pub(super) fn sweep_interval(&self) -> Duration {
        self.command_timeout / SWEEPS_PER_TIMEOUT
    }

    pub(super) fn patience(&self) -> Patience {
        let until_late = self.command_timeout;
        let until_dead = until_late * TIMEOUTS_UNTIL_DEAD;
        Patience { until_late, until_dead, greeting: Duration::ZERO }
    }
}

/// What wakes the tasks of a connection; it outlives the connection, so that they can wait on it
/// without keeping the connection alive.
#[derive(Default)]
pub(super) struct Signals {
    pub(super) flush: Notify,
    pub(super) sweep: Notify,
    pub(super) ended: Notify,
    unfit: Notify,
}

/// See the module's documentation.
pub struct Connection {
    pipeline: Mutex<Pipeline<Waker>>,
    pub(super) credit: Semaphore,
    pub(super) write: WriteHalf,
    pub(super) signals: Arc<Signals>,
    pub(super) settings: Settings,
    listeners: Listeners,
    prepared: OnceLock<Prepared>,
    /// The scripts that were sent whole on the connection, by their numbers, each a bit: see `Script::brought`.
    brought: AtomicU8,
    /// Tells it from every other connection.
    id: u64,
    /// When its server last said that it does not rule over a key, in nanoseconds; 0 where it never did.
    deposed_at: AtomicU64,
    /// What may be asked of it without a script.
    pub shortcuts: Shortcuts,
    /// The first right that the user turned out to lack where nobody waited to be told.
    refused: OnceLock<ServerError>,
    /// What its errors must not say.
    pub(super) words: Words,
    /// Permits one caller at a time to send a `WAIT`, which holds up all commands behind it: what was sent meanwhile goes
    /// before the next `WAIT`.
    pub waits: Semaphore,
}

/// What a handshake brought.
#[derive(Default)]
pub(super) struct Prepared {
    /// Whether the server tells of changes to what was read.
    pub(super) is_tracking: bool,
    /// Whether RESP3 is spoken.
    pub(super) is_resp3: bool,
    /// How a key is deleted if it has a value.
    pub(super) delete_if_equal: Option<DeleteIfEqual>,
    /// How long the first reply took.
    pub(super) greeting: Duration,
}

impl Connection {
    /// Opens a socket, at one address of several if it is given that, over TLS if it is given a client of that,
    /// and starts its tasks on the current runtime. What nobody is given to hear is dropped.
    ///
    /// # Errors
    ///
    /// What the operating system says of the socket, or TLS of the server.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn dial(
        address: &Address,
        at: Option<SocketAddr>,
        tls: Option<&Client>,
        settings: Settings,
        listeners: Listeners,
        within: Duration,
    ) -> io::Result<Arc<Self>> {
        let dead_after = settings.patience().until_dead;
        let (read, write) = open(address, at, tls, dead_after, within).await?;
        Ok(Self::over(read, write, settings, listeners))
    }

    pub(super) fn without_tasks(
        write: WriteHalf,
        settings: Settings,
        listeners: Listeners,
    ) -> Self {
        let id = clock::random_bits();
        Self {
            pipeline: Mutex::new(Pipeline::new(id)),
            id,
            deposed_at: AtomicU64::new(0),
            shortcuts: Shortcuts::default(),
            credit: Semaphore::new(IN_FLIGHT_BYTES),
            write,
            signals: Arc::default(),
            settings,
            listeners,
            prepared: OnceLock::new(),
            brought: AtomicU8::new(0),
            refused: OnceLock::new(),
            words: Words::default(),
            waits: Semaphore::new(1),
        }
    }

    /// What was owed and unanswered when the connection ended, once.
    pub fn take_unanswered(&self) -> Vec<Owed> {
        self.lock().take_unanswered()
    }

    /// What is owed on it and not answered yet.
    pub fn owed(&self) -> Vec<Owed> {
        self.lock().owed().cloned().collect()
    }

    /// Whether it can still take commands.
    pub fn is_alive(&self) -> bool {
        !self.credit.is_closed()
    }

    /// Tells the task that keeps the connection that the server is of no use as it is.
    pub fn note_unfit(&self) {
        self.signals.unfit.notify_one();
    }

    /// Waits until the server is found to be of no use as it is, which one task may do.
    pub async fn unfit(&self) {
        self.signals.unfit.notified().await;
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

    /// Why it ends that the server says no more, which may have told why: before it asks for a login it
    /// says one thing to a client that it has no room for, or does not let in, and closes.
    pub(super) fn why_closed(&self, unproved: &[Frame], fault: Fault) -> Fault {
        let word = if let [word] = unproved { word.error() } else { None };
        let word = word.filter(|_| self.prepared.get().is_none());
        word.map_or(fault, |text| Fault::TurnedAway(ServerError::new(text)))
    }

    /// Whether the server tells of changes, made by others, to what was read on this connection.
    pub fn is_tracking(&self) -> bool {
        self.prepared.get().is_some_and(|prepared| prepared.is_tracking)
    }

    /// Whether the script of this number was sent on the connection, and not by its digest alone.
    pub fn has_brought(&self, script: u8) -> bool {
        self.brought.load(Ordering::Relaxed) & (1 << script) != 0
    }

    /// The server has lost its scripts: each is brought again.
    pub(super) fn note_flushed(&self) {
        self.brought.store(0, Ordering::Relaxed);
    }

    /// Notes that the script of this number was sent on the connection.
    pub fn note_brought(&self, script: u8) {
        self.brought.fetch_or(1 << script, Ordering::Relaxed);
    }

    /// A number that no other connection has, and that this one has only until its server says that it
    /// does not rule over a key: what was true before need not be true once the server rules again.
    pub fn reign(&self) -> u64 {
        self.id.wrapping_add(self.deposed_at.load(Ordering::Relaxed))
    }

    /// The same, if it has lasted since `then`.
    pub fn reign_since(&self, then: Moment) -> Option<u64> {
        let deposed_at = self.deposed_at.load(Ordering::Relaxed);
        (deposed_at < then.as_nanos()).then(|| self.id.wrapping_add(deposed_at))
    }

    /// The server has said that it does not rule over a key.
    pub(super) fn end_reign(&self) {
        self.deposed_at.store(clock::now().as_nanos(), Ordering::Relaxed);
    }

    /// How its server deletes a key if it has a value, without a script.
    pub fn delete_if_equal(&self) -> Option<DeleteIfEqual> {
        let known = self.prepared.get()?.delete_if_equal;
        known.filter(|_| self.shortcuts.has(Shortcut::DeleteIfEqual))
    }

    /// What the server refused for want of a right where nobody waited to be told: what was owed,
    /// tracking, a renewal.
    pub fn refused(&self) -> Option<&ServerError> {
        self.refused.get()
    }

    /// Remembers an error that nobody waits to be told of, if it is about a right and the first.
    pub fn note_refused(&self, error: ServerError) {
        if error.code() == Code::Permission {
            let _ = self.refused.set(error);
        }
    }

    /// From here on no error of the server says anything of this password, which is about to be sent.
    pub fn hide(&self, password: &str) {
        self.words.hide(password);
    }

    /// Whether RESP3 is spoken on it, in which there are pushes.
    pub fn is_resp3(&self) -> bool {
        self.prepared.get().is_some_and(|prepared| prepared.is_resp3)
    }

    pub(super) fn set_prepared(&self, prepared: Prepared) {
        // A handshake happens once; a second one could only say the same.
        let _ = self.prepared.set(prepared);
        self.lock().give_room_back();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Pipeline<Waker>> {
        self.pipeline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Matches what has come, under one lock unless pushes come between. What nothing proves yet
    /// stays in `frames`.
    ///
    /// # Errors
    ///
    /// Where the connection is to end: nothing of what has come is believed.
    pub(super) fn receive(
        &self,
        frames: &mut Vec<Frame>,
        woken: &mut Vec<Waker>,
    ) -> Result<(), Fault> {
        let mut pipeline = self.lock();
        let proved = pipeline.judge(frames)?;
        if pipeline.take_asked() {
            self.commit(pipeline);
            pipeline = self.lock();
        }
        let mut frames = frames.drain(..proved);
        while let Some((listener, push)) = self.deliver(pipeline, &mut frames, woken)? {
            listener.push(push);
            pipeline = self.lock();
        }
        Ok(())
    }

    /// Matches replies up to the first push that somebody is to hear.
    fn deliver(
        &self,
        mut pipeline: MutexGuard<'_, Pipeline<Waker>>,
        frames: impl Iterator<Item = Frame>,
        woken: &mut Vec<Waker>,
    ) -> Result<Option<(&dyn Pushes, Frame)>, Fault> {
        let mut delivered = Ok(None);
        for frame in frames {
            match &self.listeners.pushes {
                Some(listener) if frame.is_push() => {
                    delivered = Ok(Some((&**listener, frame)));
                    break;
                }
                _ => {}
            }
            match pipeline.deliver(frame) {
                Ok(waker) => woken.extend(waker),
                Err(fault) => {
                    delivered = Err(fault);
                    break;
                }
            }
        }
        let (freed, refused) = (pipeline.take_freed_weight(), pipeline.take_refused());
        drop(pipeline);
        self.credit.add_permits(freed);
        for refused in refused {
            self.note_refused(refused.error.clone());
            if let Some(listener) = &self.listeners.refusals {
                listener.refused(refused);
            }
        }
        delivered
    }

    /// A read brought a part of a frame, and no whole one.
    pub(super) fn note_part(&self, is_push: bool) {
        self.lock().note_part(is_push);
    }

    pub(super) fn sweep(&self, woken: &mut Vec<Waker>) -> Sweep {
        // The handshake has a time limit of its own.
        let patience = match self.prepared.get() {
            Some(prepared) => Patience { greeting: prepared.greeting, ..self.settings.patience() },
            None => Patience::ENDLESS,
        };
        let mut pipeline = self.lock();
        let found = pipeline.sweep(clock::now(), patience, woken);
        if let Sweep::Asks = found {
            self.commit(pipeline);
        }
        found
    }

    /// The reader is gone, with its runtime: nobody is left waiting for a reply that could not
    /// come, while what is owed is still sent.
    pub(super) fn orphan(&self) {
        let mut woken = Vec::new();
        let (is_first, left) = {
            let mut pipeline = self.lock();
            let is_first = pipeline.fault().is_none();
            pipeline.orphan(Fault::RuntimeGone, &mut woken);
            (is_first, pipeline.take_over())
        };
        self.credit.close();
        if let Some(chunk) = left {
            self.write_or_hand_over(chunk);
        }
        self.tell_of_end(is_first, woken);
    }

    /// Ends the connection. The first fault is the one that is told.
    pub fn fail(&self, fault: Fault) {
        let mut woken = Vec::new();
        let is_first = {
            let mut pipeline = self.lock();
            let is_first = pipeline.fault().is_none();
            pipeline.fail(fault, &mut woken);
            is_first
        };
        self.credit.close();
        self.write.shut_down();
        self.tell_of_end(is_first, woken);
        self.signals.flush.notify_one();
        self.signals.sweep.notify_one();
    }

    fn tell_of_end(&self, is_first: bool, woken: Vec<Waker>) {
        woken.into_iter().for_each(Waker::wake);
        self.signals.ended.notify_one();
        if let Some(listener) = self.listeners.pushes.as_ref().filter(|_| is_first) {
            listener.ended();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let pipeline = self.pipeline.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(chunk) = pipeline.take_over() {
            let _ = self.write_until_blocked(chunk);
        }
        // Its last handle went while it was well: nobody reads it any more.
        if let Some(listener) = self.listeners.pushes.as_ref().filter(|_| self.is_alive()) {
            listener.ended();
        }
        self.signals.flush.notify_one();
        self.signals.sweep.notify_one();
    }
}

#[cfg(all(test, leasehold_loom))]
mod interleavings;
#[cfg(test)]
mod tests;

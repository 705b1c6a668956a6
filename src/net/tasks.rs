//! The three tasks of a connection: the reader, the flusher, which writes when the callers do not, and the
//! sweeper, which ends waits that took too long.

use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use bytes::BytesMut;
use leasehold_resp::{Decoder, Frame, Limits};
use tokio::task::yield_now;

use super::connection::{Connection, Settings, Signals};
use super::outcome::Fault;
use super::pipeline::Sweep;
use super::pushes::Listeners;
use super::refusal::{Code, ServerError};
use super::transport::{ReadHalf, WriteHalf};
use crate::clock;
use crate::race::timeout;

/// One read of the socket; replies of a lock are below 100 bytes.
const READ_BUFFER_BYTES: usize = 16 * 1024;
/// With less room than this the read buffer is renewed.
const READ_ROOM_BYTES: usize = 4 * 1024;
/// A sweep that comes by this factor too late is not the server's fault.
const LATE: u32 = 4;
/// Maximum bytes of replies and pushes that wait for a proof, in replies of the largest size.
const UNPROVED_REPLIES_MAX: usize = 2;

impl Connection {
    /// Starts its tasks on the current runtime.
    pub(super) fn over(
        socket: ReadHalf,
        write: WriteHalf,
        settings: Settings,
        listeners: Listeners,
    ) -> Arc<Self> {
        let connection = Arc::new(Self::without_tasks(write, settings, listeners));
        let signals = Arc::clone(&connection.signals);
        let weak = Arc::downgrade(&connection);
        let mut reader = clock::spawn(read(weak.clone(), socket, settings.limits));
        clock::spawn(flush(weak.clone(), Arc::clone(&signals)));
        clock::spawn(async move {
            sweep(weak, signals, settings.sweep_interval()).await;
            // A server that hangs does not close its side, and the socket is kept for as long as it is read.
            if timeout(settings.patience().until_dead, &mut reader).await.is_err() {
                reader.abort();
            }
        });
        connection
    }

    /// Hears of an error, whichever command it answers and whether or not a caller still waits for it: a replica says
    /// so itself, and so do a node that does not serve a key any more, and a server that has lost its scripts.
    #[cold]
    fn hear(&self, frame: &Frame) {
        let code = frame.error().map(|text| ServerError::new(text).code());
        if code == Some(Code::NoScript) {
            self.note_flushed();
        }
        if code == Some(Code::ReadOnly) {
            self.note_unfit();
        }
        if matches!(code, Some(Code::ReadOnly | Code::Elsewhere)) {
            self.end_reign();
        }
    }
}

/// The reader: one task per connection. It never waits for a writer.
pub(super) fn read(
    connection: Weak<Connection>,
    socket: ReadHalf,
    limits: Limits,
) -> impl Future<Output = ()> + Send {
    // Made here and not in the future: a task may be dropped before it is polled at all.
    let unread = Unread(Weak::clone(&connection));
    async move {
        read_until_the_end(connection, socket, limits).await;
        drop(unread);
    }
}

async fn read_until_the_end(connection: Weak<Connection>, mut socket: ReadHalf, limits: Limits) {
    let mut decoder = Decoder::new(limits);
    let mut buffer = BytesMut::with_capacity(READ_BUFFER_BYTES);
    let mut frames = Vec::new();
    let mut woken = Vec::new();
    // What has come since a reply was proved, or none was without a proof.
    let mut unproved_bytes = 0;
    loop {
        if buffer.capacity() - buffer.len() < READ_ROOM_BYTES {
            buffer.reserve(READ_BUFFER_BYTES);
        }
        let read = socket.read(&mut buffer).await;
        let Some(connection) = connection.upgrade() else { return };
        let received = match read {
            Ok(0) => Err(connection.why_closed(&frames, Fault::ClosedByServer)),
            Ok(bytes) => {
                let unproved = frames.len();
                unproved_bytes += bytes;
                match decode_all(&mut decoder, &mut buffer, &mut frames, &connection) {
                    Ok(()) if frames.len() > unproved => {
                        let came = frames.len();
                        let received = connection.receive(&mut frames, &mut woken);
                        if frames.len() < came {
                            unproved_bytes = 0;
                        }
                        received.and_then(|()| is_bounded(unproved_bytes, limits))
                    }
                    Ok(()) => {
                        connection.note_part(decoder.is_in_push(&buffer));
                        Ok(())
                    }
                    Err(fault) => Err(fault),
                }
            }
            Err(error) => Err(connection.why_closed(&frames, error.into())),
        };
        woken.drain(..).for_each(Waker::wake);
        if let Err(fault) = received {
            connection.fail(fault);
            return;
        }
    }
}

/// Frames that nothing proves yet are kept, pushes behind them too: no more of them than some of the largest replies
/// that the connection may have.
fn is_bounded(unproved_bytes: usize, limits: Limits) -> Result<(), Fault> {
    let is_within = unproved_bytes <= UNPROVED_REPLIES_MAX * limits.frame_bytes;
    if is_within { Ok(()) } else { Err(Fault::Unproved(unproved_bytes)) }
}

/// Tells the waiting callers when the reader ends, above all when it is dropped with its runtime.
struct Unread(Weak<Connection>);

impl Drop for Unread {
    fn drop(&mut self) {
        if let Some(connection) = self.0.upgrade() {
            connection.orphan();
        }
    }
}

/// Decodes every whole frame.
fn decode_all(
    decoder: &mut Decoder,
    buffer: &mut BytesMut,
    frames: &mut Vec<Frame>,
    connection: &Connection,
) -> Result<(), Fault> {
    while let Some(mut frame) = decoder.decode(buffer)? {
        if connection.words.tame(&mut frame) {
            connection.hear(&frame);
        }
        frames.push(frame);
    }
    Ok(())
}

/// Writes when the callers do not.
///
/// On several threads, a woken task runs right after the task that wakes it, and would find one command. So
/// the flusher lets the tasks that run now go first: then 64 tasks on two threads make half as many pairs again.
pub(super) async fn flush(connection: Weak<Connection>, signals: Arc<Signals>) {
    loop {
        signals.flush.notified().await;
        yield_now().await;
        match connection.upgrade() {
            Some(connection) if connection.is_alive() => connection.flush().await,
            _ => return,
        }
    }
}

/// Ends waits that took too long, and the connection when the server is silent. It sleeps while
/// nothing is in flight.
pub(super) async fn sweep(connection: Weak<Connection>, signals: Arc<Signals>, interval: Duration) {
    let mut woken = Vec::new();
    loop {
        let slept_from = clock::now();
        tokio::time::sleep(interval).await;
        if clock::now().since(slept_from) > interval * LATE {
            // We were suspended, or our threads blocked: what came meanwhile is read first.
            tokio::time::sleep(interval).await;
        }
        let found = match connection.upgrade() {
            Some(connection) if connection.is_alive() => connection.sweep(&mut woken),
            _ => return,
        };
        woken.drain(..).for_each(Waker::wake);
        match found {
            Sweep::Busy | Sweep::Asks => {}
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

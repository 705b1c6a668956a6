//! One direction of a [`FaultProxy`](super::FaultProxy), and the faults of its bytes.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown, sockopt::set_socket_linger};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

mod replies;

pub use replies::Harm;
use replies::Replies;

/// Bytes of one read, and maximum reads that wait for delivery: so much a delayed direction holds before it stops
/// reading.
const CHUNK_BYTES: usize = 16 * 1024;
const CHUNKS_HELD: usize = 64;

/// Pause between the pieces of a dribble, so that the receiver reads them separately.
const DRIBBLE_GAP: Duration = Duration::from_millis(1);

/// A fault, for open and for new connections, until another is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None.
    Pass,
    /// Each chunk is delivered this much later, with the same gaps.
    Delay(Duration),
    /// Bytes are delivered in pieces of this size.
    Dribble(usize),
    /// Bytes are read and dropped, and so is the end of the stream; the connection stays open.
    Blackhole,
    /// Bytes are not read, so the sender's buffers fill up. Nothing is lost.
    Stall,
}

/// One direction, shared by all connections.
pub struct Lane {
    state: watch::Sender<State>,
    delivered_bytes: watch::Sender<u64>,
}

#[derive(Clone, Copy)]
struct State {
    fault: Fault,
    /// Counts calls of [`Lane::half_close`].
    half_closes: u64,
    /// Bytes still to deliver before the reset.
    reset_after: Option<usize>,
    duplicate_next: bool,
    lose_next: bool,
    /// Whether new connections carry whole replies.
    knows_replies: bool,
    /// A fault of the reply after this number of others, on any connection.
    harm: Option<(usize, Harm)>,
    /// Number of connections so far.
    opened: u64,
    /// Connections before this one deliver nothing.
    detained_before: u64,
}

/// See [`Lane::mark`].
pub(super) struct Mark {
    half_closes: u64,
    number: u64,
}

struct Chunk {
    bytes: Vec<u8>,
    arrived: Instant,
}

impl Lane {
    pub(super) fn new() -> Self {
        let state = State {
            fault: Fault::Pass,
            half_closes: 0,
            reset_after: None,
            duplicate_next: false,
            lose_next: false,
            knows_replies: false,
            harm: None,
            opened: 0,
            detained_before: 0,
        };
        Self { state: watch::Sender::new(state), delivered_bytes: watch::Sender::new(0) }
    }

    /// Sets the fault.
    pub fn set(&self, fault: Fault) {
        assert_ne!(fault, Fault::Dribble(0), "a dribble of nothing never ends");
        self.state.send_modify(|state| state.fault = fault);
    }

    /// Ends this direction of the open connections (FIN); the other direction goes on.
    pub fn half_close(&self) {
        self.state.send_modify(|state| state.half_closes += 1);
    }

    /// Resets the connection that delivers after this number of bytes more, on both sides; once.
    pub fn reset_after(&self, bytes: usize) {
        self.state.send_modify(|state| state.reset_after = Some(bytes));
    }

    /// Delivers the next chunk twice, which TCP never does: a peer that replies twice.
    pub fn duplicate_next_chunk(&self) {
        self.state.send_modify(|state| state.duplicate_next = true);
    }

    /// Drops the next chunk, which is one reply if only one is waited for.
    pub fn lose_next_chunk(&self) {
        self.state.send_modify(|state| state.lose_next = true);
    }

    /// Makes connections from here on carry whole replies.
    pub fn know_replies(&self) {
        self.state.send_modify(|state| state.knows_replies = true);
    }

    /// Injects a fault into the next reply of a connection with whole replies.
    pub fn harm_next_reply(&self, harm: Harm) {
        self.harm_reply(0, harm);
    }

    /// The same for the reply after this number of others.
    pub fn harm_reply(&self, number: usize, harm: Harm) {
        self.state.send_modify(|state| state.harm = Some((number, harm)));
    }

    /// Whether such a fault is still to come.
    pub fn has_harm(&self) -> bool {
        self.state.borrow().harm.is_some()
    }

    /// Holds back all bytes on the connections that are open now, also after their sender has closed them; new
    /// connections are not affected.
    pub fn detain(&self) {
        self.state.send_modify(|state| state.detained_before = state.opened);
    }

    /// Delivers the bytes that were held back.
    pub fn let_go(&self) {
        self.state.send_modify(|state| state.detained_before = 0);
    }

    /// Number of bytes delivered so far.
    pub fn delivered_bytes(&self) -> u64 {
        *self.delivered_bytes.borrow()
    }

    /// Waits until this number of bytes was delivered since the start.
    pub async fn until_delivered(&self, bytes: u64) {
        let mut delivered = self.delivered_bytes.subscribe();
        delivered.wait_for(|now| *now >= bytes).await.expect("the sender is ours");
    }

    /// The state of the past that a new connection needs.
    pub(super) fn mark(&self) -> Mark {
        let mut number = 0;
        self.state.send_modify(|state| {
            number = state.opened;
            state.opened += 1;
        });
        Mark { half_closes: self.state.borrow().half_closes, number }
    }

    /// Copies bytes to the end of the stream; an error means that the connection is to be reset.
    pub(super) async fn pump(
        &self,
        from: &TcpStream,
        to: &TcpStream,
        mark: Mark,
    ) -> io::Result<()> {
        let (held, waiting) = mpsc::channel(CHUNKS_HELD);
        tokio::try_join!(self.take_in(from, held), self.give_out(waiting, to, mark)).map(|_| ())
    }

    async fn take_in(&self, from: &TcpStream, held: mpsc::Sender<Chunk>) -> io::Result<()> {
        let mut state = self.state.subscribe();
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut replies = state.borrow().knows_replies.then(Replies::default);
        loop {
            until(&mut state, |state| state.fault != Fault::Stall).await;
            from.readable().await?;
            if state.borrow().fault == Fault::Stall {
                continue;
            }
            let count = match from.try_read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                other => other?,
            };
            if count == 0 {
                until(&mut state, |state| state.fault != Fault::Blackhole).await;
                return Ok(());
            }
            let bytes = match &mut replies {
                Some(replies) => replies.pass(&buffer[..count], || self.take_harm()),
                None => buffer[..count].to_vec(),
            };
            let chunk = Chunk { bytes, arrived: Instant::now() };
            if held.send(chunk).await.is_err() {
                // The direction was half-closed.
                return Ok(());
            }
        }
    }

    fn take_harm(&self) -> Option<Harm> {
        let mut harm = None;
        self.state.send_if_modified(|state| {
            harm = match state.harm.take() {
                Some((0, harm)) => Some(harm),
                later => {
                    state.harm = later.map(|(number, harm)| (number - 1, harm));
                    None
                }
            };
            harm.is_some()
        });
        harm
    }

    async fn give_out(
        &self,
        mut waiting: mpsc::Receiver<Chunk>,
        to: &TcpStream,
        mark: Mark,
    ) -> io::Result<()> {
        let mut state = self.state.subscribe();
        let deliver_all = async {
            while let Some(chunk) = waiting.recv().await {
                until(&mut self.state.subscribe(), |it| it.detained_before <= mark.number).await;
                self.deliver(chunk, to).await?;
            }
            io::Result::Ok(())
        };
        tokio::select! {
            () = until(&mut state, |state| state.half_closes != mark.half_closes) => {}
            outcome = deliver_all => outcome?,
        }
        // An error means that the receiver has closed.
        shutdown(to, Shutdown::Write).ok();
        Ok(())
    }

    /// Delivers one chunk under the present fault, which may change meanwhile.
    async fn deliver(&self, chunk: Chunk, to: &TcpStream) -> io::Result<()> {
        let mut state = self.state.subscribe();
        let mut left = VecDeque::from(chunk.bytes);
        if state.borrow().duplicate_next {
            self.state.send_modify(|state| state.duplicate_next = false);
            left.extend(left.clone());
        }
        if state.borrow().lose_next {
            self.state.send_modify(|state| state.lose_next = false);
            left.clear();
        }
        while !left.is_empty() {
            let fault = state.borrow_and_update().fault;
            match fault {
                Fault::Pass => self.write(&mut left, usize::MAX, to).await?,
                Fault::Dribble(bytes) => {
                    self.write(&mut left, bytes, to).await?;
                    tokio::time::sleep(DRIBBLE_GAP).await;
                }
                Fault::Blackhole => left.clear(),
                Fault::Stall => until(&mut state, |state| state.fault != Fault::Stall).await,
                Fault::Delay(delay) => {
                    let early = delay.saturating_sub(chunk.arrived.elapsed());
                    if early.is_zero() {
                        self.write(&mut left, usize::MAX, to).await?;
                    } else {
                        tokio::select! {
                            () = tokio::time::sleep(early) => {}
                            () = until(&mut state, |state| state.fault != fault) => {}
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes at most `most` bytes of `left`, and no more than a planned reset allows.
    async fn write(&self, left: &mut VecDeque<u8>, most: usize, to: &TcpStream) -> io::Result<()> {
        let mut budget = most.min(left.len());
        let mut resets = false;
        self.state.send_if_modified(|state| {
            let Some(allowed) = state.reset_after else {
                return false;
            };
            resets = allowed <= budget;
            budget = budget.min(allowed);
            state.reset_after = (!resets).then(|| allowed - budget);
            true
        });
        let piece: Vec<u8> = left.drain(..budget).collect();
        write_all(to, &piece).await?;
        let count = u64::try_from(piece.len()).expect("a chunk is small");
        self.delivered_bytes.send_modify(|bytes| *bytes += count);
        if resets { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

/// `TcpStream` cannot be written through a shared reference in one call, and its owned halves send a FIN when dropped,
/// which would spoil a reset.
async fn write_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn until(state: &mut watch::Receiver<State>, condition: impl Fn(&State) -> bool) {
    state.wait_for(condition).await.expect("the lane outlives its pumps");
}

/// Makes the next close a reset.
pub fn arm_reset(stream: &TcpStream) {
    // An error means that the connection has ended.
    set_socket_linger(stream, Some(Duration::ZERO)).ok();
}

//! One connection of a client to a server, and the bytes under way in both directions.
//!
//! A client that gets replies out of place has to end the connection, because no reply on it can be
//! matched to its command (safety rule 13).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits, encode_frame};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::harm::{Harm, stray};
use super::history::At;
use super::meddle;
use super::plan::{CONNECT_TIMEOUT, Fault, command_timeout, key};
use super::server::Session;
use super::witness::{self, Asked, Stamp};
use super::world::{Line, World, lock};
use crate::clock;
use crate::clock::simulated::{Client, elapsed};
use crate::net::transport::simulated::{Inbox, ReadHalf, Wire, WriteHalf};

/// A connection without a reply to a waiting command ends after two timeouts, by a timer that goes off
/// eight times in each; the rest is for that timer's ticks and a message's time.
const TIMEOUTS_UNTIL_ENDED: u32 = 3;
/// Everything that is done at once is done after this.
const TICK: Duration = Duration::from_millis(1);
/// If only pushes come, this many come within one command's timeout.
const PUSHES_PER_TIMEOUT: u32 = 3;

/// Bytes on their way to a server.
struct Sent {
    arrives: At,
    stamp: Stamp,
    bytes: Bytes,
}

/// Bytes on their way to a client.
struct Told {
    arrives: At,
    bytes: Bytes,
    /// The bytes show that replies before them are out of place.
    is_proof_of_harm: bool,
}

/// One connection of a client to a server.
pub(crate) struct Link {
    number: u64,
    client: usize,
    server: usize,
    run: u64,
    world: Arc<World>,
    inbox: Arc<Inbox>,
    /// Nothing more is delivered to the client.
    is_cut: AtomicBool,
    /// Bytes still under way to the server are lost.
    is_void: AtomicBool,
    last_arrival: Mutex<At>,
    last_delivery: Mutex<At>,
    harm: Harm,
    to_server: Mutex<Option<UnboundedSender<Sent>>>,
    to_client: UnboundedSender<Told>,
}

/// Carries out the commands that arrive, one after the other.
async fn serve(link: Arc<Link>, mut sent: UnboundedReceiver<Sent>) {
    let mut decoder = Decoder::new(Limits::default());
    let mut buffer = BytesMut::new();
    let mut session = Session::new(link.number);
    while let Some(Sent { arrives, stamp, bytes }) = sent.recv().await {
        sleep(arrives.saturating_sub(elapsed())).await;
        buffer.extend_from_slice(&bytes);
        while let Ok(Some(frame)) = decoder.decode(&mut buffer) {
            link.world.served(link.server).await;
            if link.is_void.load(Ordering::Relaxed) {
                return;
            }
            let Frame::Array(words) = frame else { continue };
            let words: Vec<Bytes> =
                words.iter().filter_map(|word| word.as_bytes().cloned()).collect();
            let world = &link.world;
            let asked =
                Asked { server: link.server, client: link.client, stamp, is_cut: link.is_cut() };
            let words = meddle::told(asked, words);
            let reply = witness::run(world, asked, &mut session, &words);
            let reply = meddle::replied(world, asked, &words, reply);
            if matches!(reply, Frame::Push(_)) {
                link.send(&reply);
                continue;
            }
            link.harm.note_sent(&words);
            link.answer(&reply);
            meddle::note_arrival(link.server, &words, *lock(&link.last_delivery));
        }
    }
    link.world.forget_link(link.server, link.number);
}

async fn deliver(link: Weak<Link>, mut replies: UnboundedReceiver<Told>) {
    let mut next = replies.recv().await;
    while let Some(Told { arrives, bytes, mut is_proof_of_harm }) = next {
        sleep(arrives.saturating_sub(elapsed())).await;
        // Bytes that arrive at one time are read at one time.
        let mut bytes = BytesMut::from(bytes);
        next = replies.try_recv().ok();
        while let Some(more) = next.take_if(|more| more.arrives <= elapsed()) {
            bytes.extend_from_slice(&more.bytes);
            is_proof_of_harm |= more.is_proof_of_harm;
            next = replies.try_recv().ok();
        }
        let Some(link) = link.upgrade() else { return };
        if link.is_cut() {
            return;
        }
        // Sometimes in two pieces, cut anywhere.
        let half = if link.world.prng().percent(10) { bytes.len() / 2 } else { 0 };
        link.inbox.put(&bytes[..half]);
        tokio::task::yield_now().await;
        link.inbox.put(&bytes[half..]);
        if is_proof_of_harm {
            link.expect_end_now().await;
        }
        drop(link);
        if next.is_none() {
            next = replies.recv().await;
        }
    }
}

impl Link {
    /// A client connects.
    pub(super) async fn dial(
        world: Arc<World>,
        client: Arc<Client>,
        server: usize,
    ) -> io::Result<(ReadHalf, WriteHalf)> {
        let until = elapsed() + world.latency() * 2;
        let until = until.max(world.blocked_until(client.number, server));
        sleep(until - elapsed()).await;
        if world.server(server).is_down() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok(Self::open(&world, client.number, server))
    }

    fn open(world: &Arc<World>, client: usize, server: usize) -> (ReadHalf, WriteHalf) {
        let number = world.next_link();
        let (to_server, sent) = unbounded_channel();
        let (to_client, replies) = unbounded_channel();
        let run = world.server(server).run;
        let inbox = Arc::new(Inbox::default());
        let link = Arc::new(Self {
            number,
            client,
            server,
            run,
            world: Arc::clone(world),
            inbox: Arc::clone(&inbox),
            is_cut: AtomicBool::new(false),
            is_void: AtomicBool::new(false),
            last_arrival: Mutex::default(),
            last_delivery: Mutex::default(),
            harm: Harm::default(),
            to_server: Mutex::new(Some(to_server)),
            to_client,
        });
        tokio::spawn(serve(Arc::clone(&link), sent));
        tokio::spawn(deliver(Arc::downgrade(&link), replies));
        let line: Weak<dyn Line> = Arc::downgrade(&link) as _;
        world.add_link(number, line);
        (ReadHalf(inbox), WriteHalf(link))
    }

    /// Sends a reply, with the planned fault.
    fn answer(self: &Arc<Self>, reply: &Frame) {
        let Some(harm) = self.harm.take(&self.world, reply) else { return self.send(reply) };
        if harm == Fault::Twice {
            // The first of two equal replies is in its place.
            self.send(reply);
        }
        if self.harm.begin() {
            tokio::spawn(expect_end(Arc::downgrade(self)));
            if harm == Fault::OnlyPushes {
                tokio::spawn(push_until_the_end(Arc::downgrade(self)));
            }
        }
        let what = match harm {
            Fault::Twice => {
                self.send(reply);
                "replies repeated"
            }
            Fault::Stray => {
                let stray = stray(&mut self.world.prng(), reply);
                self.send(&stray);
                self.send(reply);
                "replies joined by a stray"
            }
            Fault::OnlyPushes => "replies swallowed",
            _ => "replies lost",
        };
        self.world.history().count(what);
    }

    /// After bytes that show that replies are out of place, the connection has to end before more is read.
    async fn expect_end_now(&self) {
        sleep(TICK).await;
        if !self.is_cut() && !self.world.plan.has(Fault::Pause) {
            let text = format!("of connection {} more is read", self.number);
            self.world.history().breach("read on", text);
        }
    }
}

/// Pushes again and again that locks have changed; some have.
async fn push_until_the_end(link: Weak<Link>) {
    while let Some(link) = link.upgrade().filter(|link| !link.is_cut()) {
        let name = link.world.prng().index(link.world.plan.names);
        let keys = Frame::Array([Frame::Bulk(key(name).into())].into());
        link.send(&Frame::Push([Frame::Bulk("invalidate".into()), keys].into()));
        let pause = command_timeout(&link.world.plan) / PUSHES_PER_TIMEOUT;
        drop(link);
        sleep(pause).await;
    }
}

/// A harmed connection has to end soon.
async fn expect_end(link: Weak<Link>) {
    let Some(harmed) = link.upgrade() else { return };
    let most = command_timeout(&harmed.world.plan) * TIMEOUTS_UNTIL_ENDED;
    let arrives = *lock(&harmed.last_delivery);
    drop(harmed);
    sleep(arrives.saturating_sub(elapsed()) + most + CONNECT_TIMEOUT).await;
    // A client that stands still cannot end the connection.
    let is_kept = |link: &Arc<Link>| !link.is_cut() && !link.world.plan.has(Fault::Pause);
    if let Some(link) = link.upgrade().filter(is_kept) {
        let text =
            format!("connection {} is kept, though its replies are out of place", link.number);
        link.world.history().breach("kept", text);
    }
}

impl Line for Link {
    fn server(&self) -> usize {
        self.server
    }

    fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    fn cut(&self, is_void: bool) {
        self.is_cut.store(true, Ordering::Relaxed);
        self.is_void.fetch_or(is_void, Ordering::Relaxed);
        self.inbox.end();
        lock(&self.to_server).take();
    }

    fn is_harmed(&self) -> bool {
        self.harm.is_done()
    }

    fn wish_harm(&self, fault: Option<Fault>) {
        self.harm.wish(fault);
    }

    fn send(&self, frame: &Frame) {
        let mut bytes = BytesMut::new();
        encode_frame(&mut bytes, &meddle::pushed(self.client, frame));
        let at = elapsed() + self.world.latency();
        let at = at.max(self.world.blocked_until(self.client, self.server));
        let mut last = lock(&self.last_delivery);
        *last = at.max(*last);
        let is_proof_of_harm = self.harm.is_shown_by(frame);
        let told = Told { arrives: *last, bytes: bytes.freeze(), is_proof_of_harm };
        // Once the connection has ended, nobody receives.
        let _ = self.to_client.send(told);
    }
}

impl Wire for Link {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let to_server = lock(&self.to_server);
        let Some(to_server) =
            to_server.as_ref().filter(|_| self.run == self.world.server(self.server).run)
        else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let arrives = elapsed() + self.world.latency();
        let arrives = arrives.max(self.world.blocked_until(self.client, self.server));
        let mut last = lock(&self.last_arrival);
        *last = arrives.max(*last);
        let by_client = Client::current().map_or_else(clock::now, |client| client.now());
        let stamp = Stamp { by_client, at: elapsed() };
        let asked =
            Asked { server: self.server, client: self.client, stamp, is_cut: self.is_cut() };
        meddle::note_written(&self.world, asked, bytes);
        let sent = Sent { arrives: *last, stamp, bytes: Bytes::copy_from_slice(bytes) };
        to_server.send(sent).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn close(&self) {
        let plan = &self.world.plan;
        let has_reason = self.is_cut()
            || self.harm.is_done()
            || plan.has_silences()
            || plan.has(Fault::Newcomer)
            || plan.has(Fault::Demotion);
        if !has_reason && !self.world.is_closing.load(Ordering::Relaxed) {
            let text = format!("client {} from server {}", self.client, self.server);
            self.world.history().breach("hung up for nothing", text);
        }
        self.is_cut.store(true, Ordering::Relaxed);
        self.inbox.end();
        lock(&self.to_server).take();
    }
}

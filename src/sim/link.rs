//! One connection of a client to a server, and what is on its way in both directions.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits, encode_frame};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::harm::Harm;
use super::history::At;
use super::plan::Fault;
use super::server::Session;
use super::witness;
use super::world::{World, lock};
use crate::clock;
use crate::clock::simulated::{Client, elapsed};
use crate::net::transport::simulated::{Inbox, ReadHalf, Wire};
use crate::policy::Moment;

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
    /// They show that replies before them are out of place.
    is_proof_of_harm: bool,
}

/// When bytes were written: by the client's clock and in truth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) by_client: Moment,
    pub(crate) at: At,
}

/// By whom a command was sent, and how.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) server: usize,
    pub(crate) client: usize,
    pub(crate) stamp: Stamp,
    /// Its connection has ended meanwhile.
    pub(crate) is_cut: bool,
}

/// One connection of a client to a server.
pub(crate) struct Link {
    pub(super) number: u64,
    client: usize,
    pub(super) server: usize,
    run: u64,
    pub(super) world: Arc<World>,
    inbox: Arc<Inbox>,
    /// Nothing is delivered to the client any more.
    is_cut: AtomicBool,
    /// What is still under way to the server is lost.
    is_void: AtomicBool,
    last_arrival: Mutex<At>,
    pub(super) last_delivery: Mutex<At>,
    pub(super) harm: Harm,
    to_server: Mutex<Option<UnboundedSender<Sent>>>,
    to_client: UnboundedSender<Told>,
}

/// Carries out what comes, one after the other.
async fn serve(link: Arc<Link>, mut sent: UnboundedReceiver<Sent>) {
    let mut decoder = Decoder::new(Limits::default());
    let mut buffer = BytesMut::new();
    let mut session = Session { link: link.number, is_tracking: false };
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
            let reply = witness::run(world, asked, &mut session, &words);
            link.harm.note_sent(&words);
            link.answer(&reply);
        }
    }
    link.world.server(link.server).forget_link(link.number);
    lock(&link.world.links).remove(&link.number);
}

async fn deliver(link: Weak<Link>, mut replies: UnboundedReceiver<Told>) {
    let mut next = replies.recv().await;
    while let Some(Told { arrives, bytes, mut is_proof_of_harm }) = next {
        sleep(arrives.saturating_sub(elapsed())).await;
        // What arrives at one time is read at one time.
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
        // In two pieces now and then, however it falls.
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
    /// One that a client has opened, and what the client reads of it.
    pub(super) fn open(
        world: Arc<World>,
        client: usize,
        server: usize,
        number: u64,
    ) -> (Arc<Self>, ReadHalf) {
        let (to_server, sent) = unbounded_channel();
        let (to_client, replies) = unbounded_channel();
        let run = world.server(server).run;
        let inbox = Arc::new(Inbox::default());
        let link = Arc::new(Self {
            number,
            client,
            server,
            run,
            world,
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
        (link, ReadHalf(inbox))
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    pub(super) fn cut(&self, is_void: bool) {
        self.is_cut.store(true, Ordering::Relaxed);
        self.is_void.fetch_or(is_void, Ordering::Relaxed);
        self.inbox.end();
        lock(&self.to_server).take();
    }

    /// Sends a reply or a push to the client.
    pub(super) fn send(&self, frame: &Frame) {
        let mut bytes = BytesMut::new();
        encode_frame(&mut bytes, frame);
        let at = elapsed() + self.world.latency();
        let at = at.max(self.world.blocked_until(self.client, self.server));
        let mut last = lock(&self.last_delivery);
        *last = at.max(*last);
        let is_proof_of_harm = self.harm.is_shown_by(frame);
        let told = Told { arrives: *last, bytes: bytes.freeze(), is_proof_of_harm };
        // Nobody is there to hear it once the connection has ended.
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
        let sent = Sent { arrives: *last, stamp, bytes: Bytes::copy_from_slice(bytes) };
        to_server.send(sent).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn close(&self) {
        let plan = &self.world.plan;
        let has_reason = self.is_cut()
            || self.harm.is_done()
            || plan.has_silences()
            || plan.has(Fault::Newcomer);
        if !has_reason && !self.world.is_closing.load(Ordering::Relaxed) {
            let text = format!("client {} from server {}", self.client, self.server);
            self.world.history().breach("hung up for nothing", text);
        }
        self.is_cut.store(true, Ordering::Relaxed);
        self.inbox.end();
        lock(&self.to_server).take();
    }
}

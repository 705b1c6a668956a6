//! Servers and the network between them and the clients.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits, encode_frame};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::history::{At, History};
use super::plan::{Fault, Plan};
use super::prng::Prng;
use super::server::{Server, Session, Told};
use super::witness;
use crate::clock;
use crate::clock::simulated::{Client, elapsed};
use crate::net::transport::simulated::{Inbox, ReadHalf, Wire, WriteHalf};
use crate::policy::Moment;

pub(crate) struct World {
    pub(crate) plan: Plan,
    prng: Mutex<Prng>,
    servers: Vec<Mutex<Server>>,
    thawed: Vec<Notify>,
    /// Wakes whoever expires keys.
    awaited: Vec<Notify>,
    links: Mutex<BTreeMap<u64, Weak<Link>>>,
    links_made: AtomicU64,
    /// Up to when nothing gets through between a client and a server.
    blocked: Mutex<BTreeMap<(usize, usize), At>>,
    history: Mutex<History>,
    pub(crate) counters_lost: Mutex<BTreeSet<usize>>,
    pub(crate) is_over: AtomicBool,
    /// Nothing is held up before.
    pub(crate) has_begun: AtomicBool,
    /// Clients end.
    pub(crate) is_closing: AtomicBool,
    /// Notes every command.
    pub(crate) is_verbose: bool,
}

/// Bytes on their way to a server.
struct Sent {
    arrives: At,
    stamp: Stamp,
    bytes: Bytes,
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
    number: u64,
    client: usize,
    server: usize,
    run: u64,
    world: Arc<World>,
    inbox: Arc<Inbox>,
    /// Nothing is delivered to the client any more.
    is_cut: AtomicBool,
    /// What is still under way to the server is lost.
    is_void: AtomicBool,
    last_arrival: Mutex<At>,
    last_delivery: Mutex<At>,
    to_server: Mutex<Option<UnboundedSender<Sent>>>,
    to_client: UnboundedSender<(At, Bytes)>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The host of a server, and back.
pub(crate) fn host(server: usize) -> String {
    format!("server-{server}")
}

impl World {
    pub(crate) fn new(plan: Plan, mut prng: Prng) -> Arc<Self> {
        let drifts = plan.has(Fault::Drift);
        let servers = (0..plan.servers)
            .map(|number| Mutex::new(Server::new(number, drift(&mut prng, drifts))))
            .collect();
        let notifies = || (0..plan.servers).map(|_| Notify::new()).collect();
        Arc::new(Self {
            servers,
            thawed: notifies(),
            awaited: notifies(),
            plan,
            prng: Mutex::new(prng),
            links: Mutex::default(),
            links_made: AtomicU64::new(0),
            blocked: Mutex::default(),
            history: Mutex::default(),
            counters_lost: Mutex::default(),
            is_over: AtomicBool::new(false),
            has_begun: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            is_verbose: std::env::var_os("LEASEHOLD_SIM_SEED").is_some(),
        })
    }

    pub(crate) fn prng(&self) -> MutexGuard<'_, Prng> {
        lock(&self.prng)
    }

    pub(crate) fn server(&self, number: usize) -> MutexGuard<'_, Server> {
        lock(&self.servers[number])
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// How long a message takes, at the least one that is not held up.
    fn latency(&self) -> Duration {
        let most = u64::try_from(self.plan.latency.as_millis()).expect("it is short");
        let mut prng = self.prng();
        let is_calm = self.is_over() || !self.has_begun.load(Ordering::Relaxed);
        if self.plan.has(Fault::Delay) && !is_calm && prng.percent(3) {
            let ttl = u64::try_from(self.plan.longest_ttl.as_millis()).expect("it is short");
            let most = if prng.percent(20) { ttl * 2 } else { ttl / 20 };
            return prng.millis(0..most + 1);
        }
        prng.millis(0..most + 1)
    }

    pub(crate) fn block(&self, client: usize, server: usize, until: At) {
        lock(&self.blocked).insert((client, server), until);
    }

    pub(crate) fn unblock(&self) {
        lock(&self.blocked).clear();
    }

    fn blocked_until(&self, client: usize, server: usize) -> At {
        lock(&self.blocked).get(&(client, server)).copied().unwrap_or_default()
    }

    pub(crate) fn thaw(&self, server: usize) {
        let mut it = self.server(server);
        (it.is_frozen, it.is_busy) = (false, false);
        drop(it);
        self.thawed[server].notify_waiters();
    }

    async fn served(&self, server: usize) {
        loop {
            let thawed = self.thawed[server].notified();
            if !self.server(server).is_frozen {
                return;
            }
            thawed.await;
        }
    }

    fn links_of(&self, server: usize) -> Vec<Arc<Link>> {
        let links = lock(&self.links);
        let links = links.values().filter_map(Weak::upgrade);
        links.filter(|link| link.server == server).collect()
    }

    /// Ends one connection of a server; what is under way is carried out all the same, or not.
    pub(crate) fn cut_one(&self, server: usize) {
        let mut links = self.links_of(server);
        links.retain(|link| !link.is_cut());
        if links.is_empty() {
            return;
        }
        let (index, is_void) = {
            let mut prng = self.prng();
            (prng.index(links.len()), !(self.plan.has(Fault::Ghost) && prng.percent(60)))
        };
        links[index].cut(is_void);
    }

    pub(crate) fn stop(&self, server: usize, remembers: bool) {
        self.links_of(server).iter().for_each(|link| link.cut(true));
        self.server(server).stop(remembers);
    }

    /// Starts a server that is down, with its wall clock so far behind.
    pub(crate) fn start(&self, server: usize, behind_micros: i64) {
        let mut it = self.server(server);
        if it.start() {
            it.step_wall(-behind_micros);
            drop(it);
            self.thawed[server].notify_waiters();
        }
    }

    pub(crate) fn tell(&self, told: Vec<Told>) {
        for (number, key) in told {
            let link = lock(&self.links).get(&number).and_then(Weak::upgrade);
            let Some(link) = link else { continue };
            let keys = match key {
                Some(key) => Frame::Array(vec![Frame::Bulk(key)]),
                None => Frame::Null,
            };
            link.reply(&Frame::Push(vec![Frame::Bulk("invalidate".into()), keys]));
        }
    }

    /// Deletes what has expired, as soon as somebody waits for it.
    pub(crate) async fn expire(self: Arc<Self>, server: usize) {
        loop {
            let (told, next) = self.server(server).expire();
            self.tell(told);
            let awaited = self.awaited[server].notified();
            match next {
                Some(next) => {
                    let _ = tokio::time::timeout(next, awaited).await;
                }
                None => awaited.await,
            }
        }
    }

    pub(crate) fn look_at_expiry(&self, server: usize) {
        self.awaited[server].notify_one();
    }

    /// A client connects.
    pub(crate) async fn dial(
        self: Arc<Self>,
        client: Arc<Client>,
        server: usize,
    ) -> io::Result<(ReadHalf, WriteHalf)> {
        let until = elapsed() + self.latency() * 2;
        let until = until.max(self.blocked_until(client.number, server));
        sleep(until - elapsed()).await;
        if self.server(server).is_down() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (to_server, sent) = unbounded_channel();
        let (to_client, replies) = unbounded_channel();
        let number = self.links_made.fetch_add(1, Ordering::Relaxed);
        let run = self.server(server).run;
        let inbox = Arc::new(Inbox::default());
        let link = Arc::new(Link {
            number,
            client: client.number,
            server,
            run,
            world: Arc::clone(&self),
            inbox: Arc::clone(&inbox),
            is_cut: AtomicBool::new(false),
            is_void: AtomicBool::new(false),
            last_arrival: Mutex::default(),
            last_delivery: Mutex::default(),
            to_server: Mutex::new(Some(to_server)),
            to_client,
        });
        lock(&self.links).insert(number, Arc::downgrade(&link));
        tokio::spawn(serve(Arc::clone(&link), sent));
        tokio::spawn(deliver(Arc::downgrade(&link), replies));
        Ok((ReadHalf(inbox), WriteHalf(link)))
    }
}

pub(crate) fn drift(prng: &mut Prng, drifts: bool) -> i64 {
    let ppm = i64::try_from(prng.within(0..6001)).expect("it is small") - 3000;
    if drifts { ppm } else { 0 }
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
            link.reply(&reply);
        }
    }
    link.world.server(link.server).forget_link(link.number);
    lock(&link.world.links).remove(&link.number);
}

async fn deliver(link: Weak<Link>, mut replies: UnboundedReceiver<(At, Bytes)>) {
    while let Some((at, bytes)) = replies.recv().await {
        sleep(at.saturating_sub(elapsed())).await;
        let Some(link) = link.upgrade() else { return };
        if link.is_cut() {
            return;
        }
        // In two pieces now and then, however it falls.
        let half = if link.world.prng().percent(10) { bytes.len() / 2 } else { 0 };
        link.inbox.put(&bytes[..half]);
        tokio::task::yield_now().await;
        link.inbox.put(&bytes[half..]);
    }
}

impl Link {
    fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    fn cut(&self, is_void: bool) {
        self.is_cut.store(true, Ordering::Relaxed);
        self.is_void.fetch_or(is_void, Ordering::Relaxed);
        self.inbox.end();
        lock(&self.to_server).take();
    }

    fn reply(&self, frame: &Frame) {
        let mut bytes = BytesMut::new();
        encode_frame(&mut bytes, frame);
        let at = elapsed() + self.world.latency();
        let at = at.max(self.world.blocked_until(self.client, self.server));
        let mut last = lock(&self.last_delivery);
        *last = at.max(*last);
        // Nobody is there to hear it once the connection has ended.
        let _ = self.to_client.send((*last, bytes.freeze()));
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
        let has_reason = self.is_cut() || plan.has_silences() || plan.has(Fault::Newcomer);
        if !has_reason && !self.world.is_closing.load(Ordering::Relaxed) {
            let text = format!("client {} from server {}", self.client, self.server);
            self.world.history().breach("hung up for nothing", text);
        }
        self.is_cut.store(true, Ordering::Relaxed);
        self.inbox.end();
        lock(&self.to_server).take();
    }
}

//! One server in memory, and its connections.
//!
//! The server carries out a command in the task that writes it, so only a test's delays take time: bytes on a delayed
//! connection wait in order, in both directions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Decoder, Frame, Limits, encode_frame};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::clock;
use crate::net::transport::simulated::{
    DOMAIN, Host, Inbox, Opening, ReadHalf, Wire, WriteHalf, listen,
};
use crate::sim::server::{Server, Session, Told};

pub(super) struct Machine {
    name: String,
    state: Mutex<State>,
    /// Notified if the next expiry may have changed, or a process is reachable again.
    changed: Arc<Notify>,
}

struct State {
    server: Server,
    connections: BTreeMap<u64, Connection>,
    connections_made: u64,
    /// Processes that are cut off, by their names.
    cut_off: BTreeSet<String>,
    crashed: BTreeSet<String>,
}

struct Connection {
    process: Option<String>,
    session: Session,
    decoder: Decoder,
    /// Received bytes that were not carried out yet.
    received: BytesMut,
    /// Delayed bytes to the client.
    held: BytesMut,
    inbox: Arc<Inbox>,
}

/// The client's end of a connection.
struct Socket {
    machine: Arc<Machine>,
    number: u64,
}

impl Machine {
    pub(super) fn start() -> Arc<Self> {
        static MADE: AtomicUsize = AtomicUsize::new(1);
        let true_wall = || i64::try_from(clock::wall_micros()).unwrap_or(i64::MAX);

        clock::go_by_the_runtime();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let state = State {
            server: Server::new(number, true_wall, 0, false),
            connections: BTreeMap::new(),
            connections_made: 0,
            cut_off: BTreeSet::new(),
            crashed: BTreeSet::new(),
        };
        let name = format!("server-{number}");
        let machine =
            Arc::new(Self { name, state: Mutex::new(state), changed: Arc::new(Notify::new()) });
        let host: Weak<dyn Host> = Arc::downgrade(&machine) as _;
        listen(&machine.name, host);
        machine
    }

    /// The URL of this server for this process, or for one without a name.
    pub(super) fn url(&self, process: Option<&str>) -> String {
        let mut url = String::from("redis://");
        if let Some(process) = process {
            // Writing to a string cannot fail.
            let _ = write!(url, "{process}.");
        }
        url + &self.name + "." + DOMAIN
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.state().server.has(key)
    }

    pub(super) fn lose(&self, key: &[u8]) {
        let mut state = self.state();
        let told = state.server.lose(key);
        state.tell(told);
    }

    /// Stops carrying out commands, or goes on.
    pub(super) fn hang(&self, hangs: bool) {
        let mut state = self.state();
        state.server.is_frozen = hangs;
        state.serve_all();
        drop(state);
        self.changed.notify_waiters();
    }

    pub(super) fn stop(&self, remembers: bool) {
        let mut state = self.state();
        state.server.stop(remembers);
        state.end_all(|_| true);
    }

    pub(super) fn run(&self) {
        self.state().server.start();
    }

    /// Cuts a process off.
    pub(super) fn cut_off(&self, process: &str) {
        self.state().cut_off.insert(process.to_owned());
    }

    /// Delivers what was delayed, and ends the cut.
    pub(super) fn let_through(&self, process: &str) {
        let mut state = self.state();
        state.cut_off.remove(process);
        for connection in state.connections.values_mut() {
            if connection.process.as_deref() == Some(process) {
                connection.inbox.put(&connection.held.split());
            }
        }
        state.serve_all();
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends all connections of a process, and refuses others.
    pub(super) fn crash(&self, process: &str) {
        let mut state = self.state();
        state.crashed.insert(process.to_owned());
        state.end_all(|of| of == Some(process));
        drop(state);
        self.changed.notify_waiters();
    }

    /// A new connection; none while the process is cut off.
    fn open(self: &Arc<Self>, process: Option<&str>) -> Option<io::Result<(ReadHalf, WriteHalf)>> {
        let mut state = self.state();
        if is_among(&state.crashed, process) {
            let why = "this process has crashed";
            return Some(Err(io::Error::new(io::ErrorKind::ConnectionRefused, why)));
        }
        if is_among(&state.cut_off, process) {
            return None;
        }
        if state.server.is_down() {
            return Some(Err(io::ErrorKind::ConnectionRefused.into()));
        }
        state.connections_made += 1;
        let number = state.connections_made;
        let inbox = Arc::new(Inbox::default());
        let connection = Connection {
            process: process.map(str::to_owned),
            session: Session::new(number),
            decoder: Decoder::new(Limits::default()),
            received: BytesMut::new(),
            held: BytesMut::new(),
            inbox: Arc::clone(&inbox),
        };
        state.connections.insert(number, connection);
        drop(state);
        clock::spawn(expire(Arc::downgrade(self), number));
        let socket = Socket { machine: Arc::clone(self), number };
        Some(Ok((ReadHalf(inbox), WriteHalf(Arc::new(socket)))))
    }
}

fn is_among(processes: &BTreeSet<String>, process: Option<&str>) -> bool {
    process.is_some_and(|process| processes.contains(process))
}

impl Host for Machine {
    fn dial(self: Arc<Self>, process: Option<&str>) -> Opening {
        let process = process.map(str::to_owned);
        Box::pin(async move {
            loop {
                let changed = self.changed.notified();
                if let Some(opened) = self.open(process.as_deref()) {
                    return opened;
                }
                changed.await;
            }
        })
    }
}

/// Deletes expired keys that a connection tracks, so that the client gets a push, while the connection is open.
async fn expire(machine: Weak<Machine>, number: u64) {
    loop {
        let Some(strong) = machine.upgrade() else { return };
        let changed = Arc::clone(&strong.changed);
        let changed = changed.notified();
        let next = {
            let mut state = strong.state();
            if !state.connections.contains_key(&number) {
                return;
            }
            if state.server.is_frozen {
                None
            } else {
                let (told, next) = state.server.expire();
                state.tell(told);
                next
            }
        };
        drop(strong);
        match next {
            // The expiry, or a change before it.
            Some(next) => drop(timeout(next, changed).await),
            None => changed.await,
        }
    }
}

impl State {
    fn serve_all(&mut self) {
        let numbers: Vec<u64> = self.connections.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.serve(number));
    }

    /// Carries out the received bytes of a connection, unless it is delayed.
    fn serve(&mut self, number: u64) {
        while let Some(connection) = self.connections.get_mut(&number) {
            let is_cut_off = is_among(&self.cut_off, connection.process.as_deref());
            if self.server.is_frozen || is_cut_off {
                return;
            }
            let Ok(Some(frame)) = connection.decoder.decode(&mut connection.received) else {
                return;
            };
            let Frame::Array(words) = frame else { continue };
            let words: Vec<Bytes> =
                words.iter().filter_map(|word| word.as_bytes().cloned()).collect();
            let (reply, told) = self.server.run(&mut connection.session, &words);
            self.send(number, &reply);
            self.tell(told);
        }
    }

    fn tell(&mut self, told: Vec<Told>) {
        for (number, push) in told {
            self.send(number, &push);
        }
    }

    fn send(&mut self, number: u64, frame: &Frame) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        encode_frame(&mut connection.held, frame);
        if !is_among(&self.cut_off, connection.process.as_deref()) {
            connection.inbox.put(&connection.held.split());
        }
    }

    fn end(&mut self, number: u64) {
        if let Some(connection) = self.connections.remove(&number) {
            self.server.forget_link(number);
            connection.inbox.end();
        }
    }

    fn end_all(&mut self, ends: impl Fn(Option<&str>) -> bool) {
        let ended = self.connections.iter();
        let ended = ended.filter(|(_, connection)| ends(connection.process.as_deref()));
        let ended: Vec<u64> = ended.map(|(number, _)| *number).collect();
        ended.into_iter().for_each(|number| self.end(number));
    }
}

impl Wire for Socket {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.machine.state();
        let Some(connection) = state.connections.get_mut(&self.number) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        connection.received.extend_from_slice(bytes);
        state.serve(self.number);
        let is_tracking = state.connections.get(&self.number);
        let is_tracking = is_tracking.is_some_and(|connection| connection.session.is_tracking);
        drop(state);
        if is_tracking {
            self.machine.changed.notify_waiters();
        }
        Ok(bytes.len())
    }

    fn close(&self) {
        self.machine.state().end(self.number);
        self.machine.changed.notify_waiters();
    }
}

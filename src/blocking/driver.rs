//! Moves bytes and time between the machine and blocking sockets, by threads.
//!
//! The machine is behind one mutex with short sections, as in [`crate::driver`]. One thread for each server dials and
//! reads, and one has the timer. A caller writes its own command, and is parked until the machine wakes it.

use std::io;
use std::mem;
use std::net;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use bytes::BytesMut;

use super::dial::{Dial, READ_BYTES, Socket};
use super::threads::{park, spawn};
use crate::clock;
use crate::driver::opening::{Opened, Unopened};
use crate::driver::servers::login_of;
use crate::driver::{STALL, Servers};
use crate::endpoint::Login as Source;
use crate::error::Report;
use crate::machine::{Effect, Fault, LeaseId, Machine};
use crate::net::fault::Fault as NetFault;
use crate::net::open_error::OpenError;
use crate::net::transport::LINGER;
use crate::policy::Moment;
use crate::shutdown::Shutdown;

/// Pause before unsent bytes are written again.
const WRITE_AGAIN: Duration = Duration::from_millis(10);
/// Maximum time between two checks of a waiting thread, even without a notification.
const LOOKED_AT_EACH: Duration = Duration::from_secs(3600);

/// After a stall the clock gives readers at most this many pauses, each of this time, before it judges.
const LOOKS_MAX: u32 = 50;
const LOOK: Duration = Duration::from_millis(1);

/// What handles and threads share.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Notified if a dial is wanted, something is due earlier than the clock knew, or the driver has ended.
    news: Condvar,
    servers: Servers,
}

struct State {
    machine: Machine,
    wires: Box<[Wire]>,
    /// When the clock's thread looks at the machine next; zero while it does.
    planned: Moment,
    is_over: bool,
}

#[derive(Default)]
struct Wire {
    socket: Option<Arc<Socket>>,
    /// A thread is writing, and will write new output too.
    is_writing: bool,
    /// Bytes that the socket did not take yet.
    rest: BytesMut,
    /// The time for a dial that the machine wants.
    dial: Option<Duration>,
    /// Why there is no socket, or why the last one ended.
    why: Option<OpenError>,
}

/// The handles' side of a driver; dropping it ends the threads.
pub(super) struct Driver {
    shared: Arc<Shared>,
}

impl Driver {
    /// # Errors
    ///
    /// A thread cannot be started.
    pub(super) fn start(machine: Machine, servers: Servers) -> io::Result<Self> {
        let wires = servers.endpoints.iter().map(|_| Wire::default()).collect();
        let planned = Moment::from_nanos(0);
        let state = Mutex::new(State { machine, wires, planned, is_over: false });
        let shared = Arc::new(Shared { state, news: Condvar::new(), servers });
        // From here on dropping it ends the threads that were started.
        let driver = Self { shared: Arc::clone(&shared) };
        // The clock first, because it ends the sockets.
        let keeper = Arc::clone(&shared);
        spawn("leasehold-clock", move || keeper.keep_time())?;
        for link in 0..shared.servers.endpoints.len() {
            let shared = Arc::clone(&shared);
            spawn("leasehold-server", move || shared.serve(link))?;
        }
        Ok(driver)
    }

    /// Calls the machine, and carries out its effects.
    pub(super) fn with<T>(&self, call: impl FnOnce(&mut Machine, Moment) -> T) -> T {
        let now = clock::now();
        let mut state = self.shared.lock();
        let result = call(&mut state.machine, now);
        self.shared.carry_out(state, now);
        result
    }

    /// Each server's last answer to a request that is not forgotten yet.
    pub(super) fn report(&self, id: LeaseId) -> Report {
        let state = self.shared.lock();
        let why = |link: usize| state.wires[link].why.clone();
        self.shared.servers.report(&state.machine, id, &why)
    }

    /// Ends the machine, and waits for all releases, at most `within`.
    pub(super) fn shut_down(&self, within: Duration) -> Shutdown {
        let until = clock::now().after(within);
        let ended = self.with(Machine::shut_down);
        self.wait(Some(until), |machine, context| machine.poll_shut_down(context));
        let state = self.shared.lock();
        let why = |link: usize| state.wires[link].why.clone();
        self.shared.servers.ending(&state.machine, &ended, &why)
    }

    /// Reads the machine, without effects.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        look(&self.shared.lock().machine)
    }

    /// Parks the thread until `poll` is ready, or until this moment.
    pub(super) fn wait<T>(
        &self,
        until: Option<Moment>,
        mut poll: impl FnMut(&mut Machine, &mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        park(until, |context| poll(&mut self.shared.lock().machine, context))
    }

    /// Waits until each server was dialled once, and reports those that do not serve.
    pub(super) fn meet(&self) -> Report {
        self.wait(None, |machine, context| machine.poll_met(context));
        let state = self.shared.lock();
        self.shared.servers.unmet(&state.machine, &|link| state.wires[link].why.clone())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let (now, mut state) = (clock::now(), self.shared.lock());
        state.is_over = true;
        state.machine.is_unread(now);
        // The process may end.
        self.shared.carry_out(state, now);
        self.shared.news.notify_all();
        let (mut state, until) = (self.shared.lock(), now.after(LINGER));
        while clock::now() < until && state.is_owing() {
            state = self.shared.wait_for_news(state, until.since(clock::now()));
        }
    }
}

impl State {
    /// Whether a server may not have taken all that it was sent.
    fn is_owing(&self) -> bool {
        let is_owing = |(link, wire): (usize, &Wire)| {
            wire.socket.is_some() && self.machine.in_flight(link) > 0
        };
        self.wires.iter().enumerate().any(is_owing)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_news<'a>(
        &self,
        state: MutexGuard<'a, State>,
        within: Duration,
    ) -> MutexGuard<'a, State> {
        let waited = self.news.wait_timeout(state, within);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Unlocks the mutex, then writes and wakes.
    fn carry_out<'a>(&'a self, mut state: MutexGuard<'a, State>, now: Moment) {
        let (mut woken, mut closed) = (None, Vec::new());
        let mut more = Vec::new();
        let mut is_news = false;
        let State { machine, wires, .. } = &mut *state;
        for effect in machine.take_effects().drain(..) {
            match effect {
                Effect::Wake(waker) if woken.is_none() => woken = Some(waker),
                Effect::Wake(waker) | Effect::Drop(waker) => more.push(waker),
                Effect::Close(link, _) => closed.extend(mem::take(&mut wires[link]).socket),
                Effect::Dial(link, within) => {
                    wires[link].dial = Some(within);
                    is_news = true;
                }
                // Fixed credentials do not expire.
                #[cfg(any(test, feature = "credentials"))]
                Effect::Login(_) => {}
                // The servers' addresses are fixed.
                Effect::Demoted(_) => {}
                // There is no observer.
                Effect::Tell(_) => {}
            }
        }
        for link in 0..self.servers.endpoints.len() {
            state = self.write(state, link, now);
        }
        // A written command has a deadline for its reply. The clock may be late: its wait stands still while the
        // computer sleeps.
        is_news |= state.machine.due() < state.planned.max(now);
        drop(state);
        if is_news {
            self.news.notify_all();
        }
        woken.into_iter().chain(more).for_each(Waker::wake);
        closed.iter().for_each(|socket| socket.shut_down(net::Shutdown::Both));
    }

    /// Writes a link's output, outside of the mutex, unless another thread is writing it.
    fn write<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        link: usize,
        now: Moment,
    ) -> MutexGuard<'a, State> {
        loop {
            let State { machine, wires, .. } = &mut *state;
            let wire = &mut wires[link];
            let Some(socket) = wire.socket.clone().filter(|_| !wire.is_writing) else {
                return state;
            };
            if machine.output_bytes(link).is_none() && wire.rest.is_empty() {
                return state;
            }
            let mut bytes = mem::take(&mut wire.rest);
            let output = machine.output(link, now);
            if bytes.is_empty() {
                mem::swap(&mut bytes, output);
            } else {
                bytes.extend_from_slice(output);
                output.clear();
            }
            wire.is_writing = true;
            drop(state);
            let is_blocked = socket.write(&mut bytes);
            state = self.lock();
            let wire = &mut state.wires[link];
            if !wire.is(&socket) {
                return state;
            }
            (wire.is_writing, wire.rest) = (false, bytes);
            if is_blocked {
                self.news.notify_all();
                return state;
            }
        }
    }

    /// The clock's thread.
    fn keep_time(&self) {
        let mut state = self.lock();
        let mut looks = 0;
        while !state.is_over {
            let now = clock::now();
            let due = state.machine.due();
            if due <= now {
                // The process stood still: replies that came meanwhile are read before the clock judges. When a look
                // finds a socket empty, its reader is done by the next look.
                let is_unread =
                    |wire: &Wire| wire.socket.as_ref().is_some_and(|it| it.has_unread());
                let is_read = looks > 1 && !state.wires.iter().any(is_unread);
                if due.after(STALL) <= now && looks < LOOKS_MAX && !is_read {
                    looks += 1;
                    drop(state);
                    thread::park_timeout(LOOK);
                    state = self.lock();
                    continue;
                }
                looks = 0;
                state.machine.tick(now);
                self.carry_out(state, now);
                state = self.lock();
                continue;
            }
            let is_left = state.wires.iter().any(|wire| !wire.is_writing && !wire.rest.is_empty());
            let longest = if is_left { WRITE_AGAIN } else { state.machine.beat() };
            state.planned = state.machine.due().min(now.after(longest));
            let within = state.planned.since(now);
            state = self.wait_for_news(state, within);
            state.planned = Moment::from_nanos(0);
            if is_left {
                self.carry_out(state, clock::now());
                state = self.lock();
            }
        }
        // Writes the rest, then reads up to the server's end: a socket that is closed with unread bytes loses what it
        // has not sent.
        let until = clock::now().after(self.servers.dead_after);
        while clock::now() < until && state.wires.iter().any(|wire| wire.socket.is_some()) {
            for link in 0..state.wires.len() {
                state = self.write(state, link, clock::now());
                let wire = &state.wires[link];
                let written =
                    wire.socket.iter().filter(|_| !wire.is_writing && wire.rest.is_empty());
                written.for_each(|socket| socket.shut_down(net::Shutdown::Write));
            }
            state = self.wait_for_news(state, WRITE_AGAIN);
        }
        let sockets = state.wires.iter().flat_map(|wire| &wire.socket);
        sockets.for_each(|socket| socket.shut_down(net::Shutdown::Both));
    }

    /// A server's thread: dials when the machine wants a connection, and reads until that ends.
    fn serve(&self, link: usize) {
        loop {
            let mut state = self.lock();
            let within = loop {
                if state.is_over {
                    return;
                }
                match state.wires[link].dial.take() {
                    Some(within) => break within,
                    None => state = self.wait_for_news(state, LOOKED_AT_EACH),
                }
            };
            drop(state);
            let dialled = self.dial(link, within);
            let (mut state, now) = (self.lock(), clock::now());
            // The clock is gone, so nothing would end the socket.
            if state.is_over {
                return;
            }
            match dialled {
                Ok(Opened { socket, bytes, handshake }) => {
                    let socket = Arc::new(socket);
                    state.wires[link] = Wire { socket: Some(socket.clone()), ..Wire::default() };
                    state.machine.connected(link, handshake.into_inner(), now);
                    self.carry_out(state, now);
                    self.read(link, &socket, bytes);
                }
                Err(Unopened { fault, why }) => {
                    state.wires[link].why = why;
                    state.machine.disconnected(link, fault, now);
                    self.carry_out(state, now);
                }
            }
        }
    }

    fn dial(&self, link: usize, within: Duration) -> Result<Opened<Socket>, Unopened> {
        let endpoint = &self.servers.endpoints[link];
        if endpoint.tls {
            return Err(OpenError::NoTls.into());
        }
        let dial = Dial {
            address: endpoint.address.clone(),
            // The builder refuses a provider.
            login: login_of(endpoint, endpoint.login.as_ref().and_then(Source::fixed)),
            settings: *self.lock().machine.settings(),
            dead_after: self.servers.dead_after,
            until: clock::now().after(within),
            within,
        };
        Arc::new(dial).open()
    }

    fn read(&self, link: usize, socket: &Arc<Socket>, mut bytes: BytesMut) {
        let mut room = [0; READ_BYTES];
        loop {
            let read = socket.read(&mut room);
            let (mut state, now) = (self.lock(), clock::now());
            // The machine has closed the socket.
            if !state.wires[link].is(socket) {
                return;
            }
            match read {
                Ok(1..) if state.is_over => {}
                Ok(count @ 1..) => {
                    bytes.extend_from_slice(&room[..count]);
                    state.machine.received(link, &mut bytes, now);
                    self.carry_out(state, now);
                }
                ended => {
                    let fault = ended.map_or_else(NetFault::from, |_| NetFault::ClosedByServer);
                    let why = Some(OpenError::from(fault));
                    state.wires[link] = Wire { why, ..Wire::default() };
                    state.machine.disconnected(link, Fault::Closed, now);
                    self.news.notify_all();
                    return self.carry_out(state, now);
                }
            }
        }
    }
}

impl Wire {
    fn is(&self, socket: &Arc<Socket>) -> bool {
        self.socket.as_ref().is_some_and(|present| Arc::ptr_eq(present, socket))
    }
}

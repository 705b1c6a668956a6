//! Carries bytes and time into the machine, and out of it: threads and blocking sockets.
//!
//! The machine is behind one mutex with short sections, as in [`crate::driver`]. One thread for each server dials and
//! reads, and one has the clock. A caller writes what it asks for, and is parked until the machine wakes it.

use std::io::{self, Read, Write};
use std::mem;
use std::net::{self, SocketAddr, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use bytes::{Buf, BytesMut};

use crate::clock;
use crate::driver::Servers;
use crate::driver::dialling::{login_of, undialled};
use crate::driver::report::Ending;
use crate::error::Report;
use crate::machine::{Effect, Fault, LeaseId, Login, Machine};
use crate::net::handshake::OpenError;
use crate::net::outcome::{Failure, Fault as NetFault};
use crate::net::transport::lookup::lookup_host;
use crate::net::transport::{Address, watch_for_death};
use crate::policy::Moment;
use crate::server::credentials::Login as Source;

/// One read of a socket; most replies are below 100 bytes.
const READ_BYTES: usize = 4096;
/// A writer waits no longer than this for room in a socket: other servers are to be written to.
const WRITE_MAX: Duration = Duration::from_millis(1);
/// After this time the rest is tried again.
const WRITE_AGAIN: Duration = Duration::from_millis(10);
/// The clock is looked at no later than this, whatever is due.
const LOOKED_AT_EACH: Duration = Duration::from_secs(3600);

/// What handles and threads share.
pub(super) struct Shared {
    state: Mutex<State>,
    /// A dial is asked for, something is due earlier than the clock knew, or all is over.
    news: Condvar,
    servers: Servers,
}

struct State {
    machine: Machine,
    wires: Box<[Wire]>,
    /// When the clock's thread looks at the machine next; the beginning of time while it does.
    planned: Moment,
    is_over: bool,
}

#[derive(Default)]
struct Wire {
    socket: Option<Arc<Socket>>,
    /// A thread writes, and looks for more when that is done.
    is_writing: bool,
    /// What the socket did not take yet.
    rest: BytesMut,
    /// The machine wants a connection, within this time.
    dial: Option<Duration>,
    /// Why there is no socket, or was none the last time.
    why: Option<OpenError>,
}

enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// The handles' end of a driver: its threads end with it.
pub(super) struct Driver {
    shared: Arc<Shared>,
}

impl Driver {
    /// # Errors
    ///
    /// Where a thread cannot be started.
    pub(super) fn start(machine: Machine, servers: Servers) -> io::Result<Self> {
        let wires = servers.endpoints.iter().map(|_| Wire::default()).collect();
        let planned = Moment::from_nanos(0);
        let state = Mutex::new(State { machine, wires, planned, is_over: false });
        let shared = Arc::new(Shared { state, news: Condvar::new(), servers });
        // From here on its end ends those threads that there are.
        let driver = Self { shared: Arc::clone(&shared) };
        for link in 0..shared.servers.endpoints.len() {
            let shared = Arc::clone(&shared);
            spawn("leasehold-server", move || shared.serve(link))?;
        }
        spawn("leasehold-clock", move || shared.keep_time())?;
        Ok(driver)
    }

    /// Calls the machine, and does what comes of that.
    pub(super) fn with<T>(&self, call: impl FnOnce(&mut Machine, Moment) -> T) -> T {
        let now = clock::now();
        let mut state = self.shared.lock();
        let result = call(&mut state.machine, now);
        self.shared.carry_out(state, now);
        result
    }

    /// What each server said to the last question of a request that is not forgotten yet.
    pub(super) fn report(&self, id: LeaseId) -> Report {
        let state = self.shared.lock();
        let why = |link: usize| state.wires[link].why.clone();
        self.shared.servers.report(&state.machine, id, why)
    }

    /// Ends the machine, and waits until all is given back, for this time at most.
    pub(super) fn shut_down(&self, within: Duration) -> Ending {
        let until = clock::now().after(within);
        let ended = self.with(Machine::shut_down);
        self.wait(Some(until), |machine, context| machine.poll_shut_down(context));
        let state = self.shared.lock();
        let why = |link: usize| state.wires[link].why.clone();
        self.shared.servers.ending(&state.machine, &ended, why)
    }

    /// Looks at the machine, where nothing can come of that.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        look(&self.shared.lock().machine)
    }

    /// Parks the thread until `poll` is ready, or until then.
    pub(super) fn wait<T>(
        &self,
        until: Option<Moment>,
        mut poll: impl FnMut(&mut Machine, &mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        park(until, |context| poll(&mut self.shared.lock().machine, context))
    }

    /// Waits until each server has been tried: what is wrong with those that do not serve.
    pub(super) fn meet(&self) -> Report {
        self.wait(None, |machine, context| machine.poll_met(context));
        let state = self.shared.lock();
        self.shared.servers.unmet(&state.machine, |link| state.wires[link].why.clone())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_over = true;
        // A thread that writes ends its socket when it has done so.
        let idle = state.wires.iter().filter(|wire| !wire.is_writing);
        let sockets: Vec<_> = idle.filter_map(|wire| wire.socket.clone()).collect();
        drop(state);
        self.shared.news.notify_all();
        sockets.iter().for_each(|socket| socket.shut_down());
    }
}

/// Wakes a thread that is parked.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Parks the thread until `poll` is ready, or until then.
fn park<T>(until: Option<Moment>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(ready) = poll(&mut context) {
            return Some(ready);
        }
        match until.map(|until| until.since(clock::now())) {
            None => thread::park(),
            Some(Duration::ZERO) => return None,
            Some(left) => thread::park_timeout(left),
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
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

    /// Lets the mutex go, and writes and wakes behind it.
    fn carry_out<'a>(&'a self, mut state: MutexGuard<'a, State>, now: Moment) {
        let (mut woken, mut closed) = (None, Vec::new());
        let mut more = Vec::new();
        let mut is_news = state.machine.due() < state.planned;
        let State { machine, wires, .. } = &mut *state;
        for effect in machine.take_effects().drain(..) {
            match effect {
                Effect::Wake(waker) if woken.is_none() => woken = Some(waker),
                Effect::Wake(waker) => more.push(waker),
                Effect::Close(link, _) => closed.extend(mem::take(&mut wires[link]).socket),
                Effect::Dial(link, within) => {
                    wires[link].dial = Some(within);
                    is_news = true;
                }
                // Credentials that are given once do not end.
                Effect::Login(_) => {}
                // Nobody observes it.
                Effect::Tell(_) => {}
            }
        }
        for link in 0..self.servers.endpoints.len() {
            state = self.write(state, link, now);
        }
        drop(state);
        if is_news {
            self.news.notify_all();
        }
        woken.into_iter().chain(more).for_each(Waker::wake);
        closed.iter().for_each(|socket| socket.shut_down());
    }

    /// Writes what a link has, outside of the mutex, unless another thread does.
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
            if !machine.has_output(link) && wire.rest.is_empty() {
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
            if state.is_over {
                socket.shut_down();
            }
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
        while !state.is_over {
            let now = clock::now();
            if state.machine.due() <= now {
                state.machine.tick(now);
                self.carry_out(state, now);
                state = self.lock();
                continue;
            }
            let is_left = state.wires.iter().any(|wire| !wire.is_writing && !wire.rest.is_empty());
            let longest = if is_left { WRITE_AGAIN } else { LOOKED_AT_EACH };
            state.planned = state.machine.due().min(now.after(longest));
            let within = state.planned.since(now);
            state = self.wait_for_news(state, within);
            state.planned = Moment::from_nanos(0);
            if is_left {
                self.carry_out(state, clock::now());
                state = self.lock();
            }
        }
    }

    /// A server's thread: dials when the machine wants a connection, and reads it to its end.
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
            match dialled {
                Ok((socket, login)) => {
                    let socket = Arc::new(socket);
                    state.wires[link] = Wire { socket: Some(socket.clone()), ..Wire::default() };
                    state.machine.connected(link, login, now);
                    self.carry_out(state, now);
                    self.read(link, &socket);
                }
                Err(why) => {
                    let fault = undialled(&why);
                    state.wires[link].why = Some(why);
                    state.machine.disconnected(link, fault, now);
                    self.carry_out(state, now);
                }
            }
        }
    }

    fn dial(&self, link: usize, within: Duration) -> Result<(Socket, Login), OpenError> {
        let endpoint = &self.servers.endpoints[link];
        if endpoint.tls {
            return Err(OpenError::NoTls);
        }
        let credentials = match &endpoint.login {
            Some(Source::Fixed(credentials)) => Some(credentials),
            // The builder refuses a provider.
            Some(Source::Provided(_)) | None => None,
        };
        let login = login_of(endpoint, credentials);
        let dialled = dial(&endpoint.address, within, self.servers.dead_after);
        dialled.map(|socket| (socket, login)).map_err(OpenError::of_dial)
    }

    fn read(&self, link: usize, socket: &Arc<Socket>) {
        let (mut bytes, mut room) = (BytesMut::new(), [0; READ_BYTES]);
        loop {
            let read = socket.read(&mut room);
            let (mut state, now) = (self.lock(), clock::now());
            // The machine has closed it, or all is over.
            if !state.wires[link].is(socket) || state.is_over {
                return;
            }
            match read {
                Ok(count @ 1..) => {
                    bytes.extend_from_slice(&room[..count]);
                    state.machine.received(link, &mut bytes, now);
                    self.carry_out(state, now);
                }
                ended => {
                    let fault = ended.map_or_else(NetFault::from, |_| NetFault::ClosedByServer);
                    let why = Some(OpenError::from(Failure::Unknown(fault)));
                    state.wires[link] = Wire { why, ..Wire::default() };
                    state.machine.disconnected(link, Fault::Closed, now);
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

impl Socket {
    fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Self::Tcp(stream) => (&mut &*stream).read(room),
                #[cfg(unix)]
                Self::Unix(stream) => (&mut &*stream).read(room),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Takes what the socket has room for off `bytes`; whether there is none now. An error is the reader's to find.
    fn write(&self, bytes: &mut BytesMut) -> bool {
        while !bytes.is_empty() {
            let written = match self {
                Self::Tcp(stream) => (&mut &*stream).write(bytes),
                #[cfg(unix)]
                Self::Unix(stream) => (&mut &*stream).write(bytes),
            };
            match written.map_err(|error| error.kind()) {
                Ok(count) => bytes.advance(count),
                Err(io::ErrorKind::Interrupted) => {}
                Err(io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => return true,
                Err(_) => bytes.clear(),
            }
        }
        false
    }

    /// Its reader finds the end.
    fn shut_down(&self) {
        // Where it has ended already, there is nothing to do.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(net::Shutdown::Both),
            #[cfg(unix)]
            Self::Unix(stream) => stream.shutdown(net::Shutdown::Both),
        };
    }
}

fn dial(address: &Address, within: Duration, dead_after: Duration) -> io::Result<Socket> {
    match address {
        Address::Tcp { host, port } => {
            let until = clock::now().after(within);
            let stream = dial_each(&resolve(host, *port, until)?, until)?;
            stream.set_nodelay(true)?;
            watch_for_death(&stream, dead_after)?;
            stream.set_write_timeout(Some(WRITE_MAX))?;
            Ok(Socket::Tcp(stream))
        }
        #[cfg(unix)]
        Address::Unix { path } => {
            let stream = UnixStream::connect(path)?;
            stream.set_write_timeout(Some(WRITE_MAX))?;
            Ok(Socket::Unix(stream))
        }
    }
}

fn resolve(host: &str, port: u16, until: Moment) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let mut looked_up = pin!(lookup_host((host, port)));
    let resolved = park(Some(until), |context| looked_up.as_mut().poll(context));
    resolved.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
}

/// Each address has a fair share of the time that is left.
fn dial_each(addresses: &[SocketAddr], until: Moment) -> io::Result<TcpStream> {
    let mut last = io::ErrorKind::NotFound.into();
    for (tried, address) in addresses.iter().enumerate() {
        let others = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let share = until.since(clock::now()) / others;
        match TcpStream::connect_timeout(address, share.max(WRITE_MAX)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

//! From an address to a connection after its handshake, as in [`crate::driver::opening`]: each address of a name is
//! tried on a thread of its own, which ends at the dial's deadline at the latest.

use std::io::{self, Read, Write};
use std::net::{self, SocketAddr, TcpStream};
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::{Buf, BytesMut};

use super::threads::{park, spawn};
use crate::box_future::Heaped;
use crate::clock;
use crate::driver::opening::{Candidates, Opened, Unopened, is_closed};
use crate::machine::{Handshake, Login, Settings};
use crate::net::fault::Fault as NetFault;
use crate::net::open_error::OpenError;
#[cfg(unix)]
use crate::net::transport::connect_unix;
use crate::net::transport::lookup::in_order;
#[cfg(not(test))]
use crate::net::transport::lookup::lookup_host;
#[cfg(test)]
use crate::net::transport::names::lookup_host;
use crate::net::transport::{Address, watch_for_death};
use crate::policy::Moment;

/// Bytes of one read of a socket; most replies are below 100 bytes.
pub(super) const READ_BYTES: usize = 4096;
/// How long a write may block, because other servers wait for the same thread. Longer on Windows, where a write that
/// times out ends the connection.
const WRITE_MAX: Duration = Duration::from_millis(if cfg!(windows) { 500 } else { 1 });

/// A TCP or Unix socket; unlike the standard library's Unix sockets, it raises no SIGPIPE.
pub(super) struct Socket(pub(super) TcpStream);

impl Socket {
    pub(super) fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&self.0).read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Whether the socket has bytes that were not read yet. Always false on systems that cannot say.
    pub(super) fn has_unread(&self) -> bool {
        #[cfg(unix)]
        {
            use rustix::net::{RecvFlags, recv};
            let (flags, room) = (RecvFlags::PEEK | RecvFlags::DONTWAIT, &mut [0; 1][..]);
            recv(&self.0, room, flags).is_ok()
        }
        #[cfg(not(unix))]
        false
    }

    /// Removes from `bytes` what the socket takes; returns whether it is full. An error shuts the socket down, which
    /// the reader notices: a part of a command may have been sent. So does a write that times out on Windows, which
    /// cannot say how much was sent.
    pub(super) fn write(&self, bytes: &mut BytesMut) -> bool {
        while !bytes.is_empty() {
            match (&self.0).write(bytes).map_err(|error| error.kind()) {
                Ok(count) => bytes.advance(count),
                Err(io::ErrorKind::Interrupted) => {}
                Err(io::ErrorKind::WouldBlock) => return true,
                Err(_) => {
                    self.shut_down(net::Shutdown::Both);
                    bytes.clear();
                }
            }
        }
        false
    }

    /// Shuts the socket down, which the peer notices, and the reader too if in both directions.
    pub(super) fn shut_down(&self, how: net::Shutdown) {
        // Fails only if the socket was shut down before.
        let _ = self.0.shutdown(how);
    }
}

/// How to open a connection to one server.
pub(super) struct Dial {
    pub(super) address: Address,
    pub(super) login: Login,
    pub(super) settings: Settings,
    pub(super) dead_after: Duration,
    /// The deadline, and the time from the dial to it.
    pub(super) until: Moment,
    pub(super) within: Duration,
}

impl Dial {
    pub(super) fn open(self: &Arc<Self>) -> Result<Opened<Socket>, Unopened> {
        let (host, port) = match &self.address {
            Address::Tcp { host, port } => (host, *port),
            #[cfg(unix)]
            Address::Unix { path } => {
                return self.greet(|| {
                    let stream = TcpStream::from(connect_unix(path)?);
                    stream.set_nonblocking(false)?;
                    stream.set_write_timeout(Some(WRITE_MAX))?;
                    Ok(Socket(stream))
                });
            }
        };
        match host.parse() {
            Ok(ip) => self.open_at(SocketAddr::new(ip, port)),
            Err(_) => self.open_one(self.resolve(host, port).map_err(OpenError::of_dial)?),
        }
    }

    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let mut looked_up = pin!(lookup_host((host, port)));
        let resolved = park(Some(self.until), |context| looked_up.as_mut().poll(context));
        let resolved = resolved.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))?;
        if resolved.is_empty() {
            Err(io::ErrorKind::NotFound.into())
        } else {
            Ok(in_order((host, port), resolved))
        }
    }

    fn open_one(self: &Arc<Self>, of: Vec<SocketAddr>) -> Result<Opened<Socket>, Unopened> {
        let (tell, told) = mpsc::channel();
        let mut candidates = Candidates::new(&self.address, of.into_iter().map(Some).collect());
        loop {
            if let Some(at) = candidates.next().flatten() {
                let (dial, tell) = (Arc::clone(self), tell.clone());
                // After another address has served, the receiver is gone.
                let run = move || drop(tell.send((Some(at), dial.open_at(at))));
                spawn("leasehold-dial", run).map_err(OpenError::of_dial)?;
            }
            let Ok((at, outcome)) = told.recv_timeout(candidates.head_start()) else { continue };
            if let Some(outcome) = candidates.ended(at, outcome) {
                return outcome;
            }
        }
    }

    fn open_at(&self, at: SocketAddr) -> Result<Opened<Socket>, Unopened> {
        self.greet(|| self.connect(at).map(Socket))
    }

    fn connect(&self, at: SocketAddr) -> io::Result<TcpStream> {
        let left = self.until.since(clock::now());
        let stream = TcpStream::connect_timeout(&at, left.max(Duration::from_millis(1)))?;
        stream.set_nodelay(true)?;
        watch_for_death(&stream, self.dead_after)?;
        stream.set_write_timeout(Some(WRITE_MAX))?;
        Ok(stream)
    }

    /// Makes the handshake.
    fn greet(&self, connect: impl Fn() -> io::Result<Socket>) -> Result<Opened<Socket>, Unopened> {
        let Self { login, settings, until, within, .. } = self;
        let mut socket = connect().map_err(OpenError::of_dial)?;
        let handshake = Handshake::new(*settings, login.clone(), *until, clock::now());
        let mut handshake = Heaped::new(handshake);
        let (mut bytes, mut room) = (BytesMut::new(), [0; READ_BYTES]);
        loop {
            let left = handshake.ends_at().since(clock::now());
            if left.is_zero() {
                return Err(Unopened::late(&handshake, *within));
            }
            if socket.write(handshake.output()) {
                continue;
            }
            let read = socket.0.set_read_timeout(Some(left)).and_then(|()| socket.read(&mut room));
            let fault = match read {
                Ok(0) => NetFault::ClosedByServer,
                Ok(count) => {
                    bytes.extend_from_slice(&room[..count]);
                    if handshake.received(&mut bytes, clock::now())? {
                        socket.0.set_read_timeout(None).map_err(OpenError::of_dial)?;
                        return Ok(Opened { socket, bytes, handshake });
                    }
                    continue;
                }
                Err(error) if is_late(&error) => continue,
                Err(error) => error.into(),
            };
            if is_closed(&fault) && handshake.begins_again(clock::now()) {
                bytes.clear();
                socket = connect().map_err(OpenError::of_dial)?;
                continue;
            }
            let may_be_tls = matches!(self.address, Address::Tcp { .. });
            return Err(Unopened::ended(&handshake, fault, may_be_tls));
        }
    }
}

/// Whether a read has timed out, as systems report it.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

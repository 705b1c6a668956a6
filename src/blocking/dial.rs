//! From an address to a connection whose handshake is over, as in [`crate::driver::opening`]: each address of a name is
//! tried on a thread of its own, which ends with its time at the latest.

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

/// One read of a socket; most replies are below 100 bytes.
pub(super) const READ_BYTES: usize = 4096;
/// A writer waits no longer than this for room in a socket: other servers are to be written to. On Windows, where that ends
/// the connection, it has the time of a long way.
const WRITE_MAX: Duration = Duration::from_millis(if cfg!(windows) { 500 } else { 1 });

/// Of a Unix socket too, which is read and written as any other; unlike the standard library's own, without SIGPIPE.
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

    /// Whether it has something that its reader has not read. Where a system does not say, it has not.
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

    /// Takes what the socket has room for off `bytes`; whether there is none now. An error ends the socket, which the reader
    /// finds: a part of a command may have gone out. So it does where a write has timed out on Windows, which cannot say what.
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

    /// The peer finds the end; its reader, too, where it ends in both directions.
    pub(super) fn shut_down(&self, how: net::Shutdown) {
        // Where it has ended already, there is nothing to do.
        let _ = self.0.shutdown(how);
    }
}

/// How to open a connection to one server.
pub(super) struct Dial {
    pub(super) address: Address,
    pub(super) login: Login,
    pub(super) settings: Settings,
    pub(super) dead_after: Duration,
    /// All has to be over by then, and may take so long.
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
                // Where another serves already, nobody is told.
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

/// As the system says of a read that has waited in vain.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

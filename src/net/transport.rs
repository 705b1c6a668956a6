//! Sockets: TCP, TLS over TCP, Unix, and a caller's own, behind one pair of halves.

mod dial;
pub(crate) mod lookup;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod simulated;

use std::fmt;
use std::io;
#[cfg(windows)]
use std::net::Shutdown;
use std::net::{IpAddr, SocketAddr};
#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};
#[cfg(windows)]
use std::os::windows::io::AsSocket;
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, ready};
#[cfg(unix)]
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
#[cfg(unix)]
use rustix::{
    io::Errno,
    net::{RecvFlags, Shutdown, sockopt},
};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, tcp};

#[cfg(test)]
pub(crate) use self::dial::names;
#[cfg(feature = "streams")]
use super::streams;
use super::streams::Connector;
use super::tls;
use crate::clock;
use crate::policy::Moment;
use crate::policy::parts::{has, parted};

/// Dial and TLS may take all of a dial's time but this part of it, which is left for the handshake after them, or for
/// the error that says what was slow.
pub(crate) const GREETING_SHARE: u32 = 10;
/// How long one address of a name is tried alone before the next one is tried too: RFC 8305, "Connection Attempt
/// Delay".
pub(crate) const HEAD_START: Duration = Duration::from_millis(250);

/// How long a program's end waits for a server to take what it was sent: a socket that is closed with unread bytes, or
/// that then receives some, may lose what the server has not read.
pub(crate) const LINGER: Duration = Duration::from_millis(100);
/// How often it looks meanwhile.
#[cfg(unix)]
const LOOK: Duration = Duration::from_millis(1);

/// Where a server listens.
#[derive(Clone, Debug, Eq)]
pub enum Address {
    /// A host name or IP address (IPv6 without brackets) and a port.
    Tcp {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// The path of a Unix socket.
    #[cfg(unix)]
    Unix {
        /// The path.
        path: PathBuf,
    },
}

/// Compares paths as bytes: by components takes more code.
impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp { host, port }, Self::Tcp { host: its, port: its_port }) => {
                (host, port) == (its, its_port)
            }
            #[cfg(unix)]
            (Self::Unix { path }, Self::Unix { path: its }) => path.as_os_str() == its.as_os_str(),
            #[cfg(unix)]
            _ => false,
        }
    }
}

impl Address {
    /// What is displayed, by code that is compiled once.
    #[inline(never)]
    pub(crate) fn text(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if has(host, ":") => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            #[cfg(unix)]
            Self::Unix { path } => write!(f, "{}", path.display()),
        }
    }
}

/// The standard library's text, without its padding, which is more code than a dial.
impl From<SocketAddr> for Address {
    fn from(at: SocketAddr) -> Self {
        let host = match (at.ip().to_canonical(), at) {
            (IpAddr::V4(ip), _) => {
                let [a, b, c, d] = ip.octets();
                format!("{a}.{b}.{c}.{d}")
            }
            (IpAddr::V6(ip), SocketAddr::V6(at)) if at.scope_id() != 0 => {
                format!("{}%{}", spelt(ip.segments()), at.scope_id())
            }
            (IpAddr::V6(ip), _) => spelt(ip.segments()),
        };
        Self::Tcp { host, port: at.port() }
    }
}

/// By RFC 5952: omits the first of the longest runs of zeros.
fn spelt(groups: [u16; 8]) -> String {
    const ZEROS: &str = ":0:0:0:0:0:0:0:0:";
    let mut text = ":".to_owned();
    groups.iter().for_each(|group| text += &format!("{group:x}:"));
    let mut count = groups.len();
    while count > 1 {
        if let Some((before, behind)) = parted(&text, &ZEROS[..=2 * count]) {
            text = format!("{before}::{behind}");
            break;
        }
        count -= 1;
    }
    let start = usize::from(!text.starts_with("::"));
    let end = text.len() - usize::from(!text.ends_with("::"));
    text[start..end].to_owned()
}

/// Opens a socket to one of the [`candidates`] of `address`, by the connector if there is one.
///
/// `dead_after` bounds how long the kernel lets sent bytes go unacknowledged (`TCP_USER_TIMEOUT`). A failure of TLS is
/// inside the error, as a fault of its own ([`tls`]).
#[cfg_attr(not(feature = "streams"), allow(unused_variables, reason = "there is no connector"))]
pub(crate) async fn open(
    address: &Address,
    at: Option<SocketAddr>,
    connector: Option<&Connector>,
    tls: Option<&tls::Client>,
    dead_after: Duration,
    within: Duration,
) -> io::Result<(ReadHalf, WriteHalf)> {
    #[cfg(feature = "streams")]
    if let (Some(connector), Address::Tcp { host, port }) = (connector, address) {
        let (read, write) = connector.open((host, *port), tls, dead_after, within).await?;
        return Ok((ReadHalf::Streamed(read), WriteHalf::Tcp(write)));
    }
    #[cfg(any(test, feature = "testing"))]
    if let Address::Tcp { host, .. } = address {
        if let Some(opening) = simulated::dial(host) {
            let (read, write) = opening.await?;
            return Ok((ReadHalf::Simulated(read), WriteHalf::Simulated(write)));
        }
    }
    match address {
        Address::Tcp { host, port } => {
            let until = clock::now().after(within);
            let at = at.map_or_else(|| dial::itself(host, *port), Ok)?;
            let stream = dial::connect(at, within).await?;
            prepare(stream, host, tls, dead_after, until).await
        }
        #[cfg(unix)]
        // As a TCP stream, so that there is one kind of halves.
        Address::Unix { path } => TcpStream::from_std(connect_unix(path)?.into()).map(halves),
    }
}

/// The addresses of a name, the last that served first; one none for an IP address, a socket's path or a connector.
pub(crate) async fn candidates(
    address: &Address,
    connector: Option<&Connector>,
    within: Duration,
) -> io::Result<Vec<Option<SocketAddr>>> {
    let (Address::Tcp { host, port }, None) = (address, connector) else { return Ok(vec![None]) };
    #[cfg(any(test, feature = "testing"))]
    if simulated::is_simulated(host) {
        return Ok(vec![None]);
    }
    if dial::itself(host, *port).is_ok() {
        return Ok(vec![None]);
    }
    let addresses = dial::candidates(host, *port, within).await?;
    Ok(addresses.into_iter().map(Some).collect())
}

/// Notes that this one of the [`candidates`] served: the next dial tries it first.
pub(crate) fn prefer(address: &Address, at: SocketAddr) {
    if let Address::Tcp { host, port } = address {
        lookup::prefer((host, *port), at);
    }
}

#[cfg_attr(not(feature = "tls"), allow(unused_variables, reason = "TLS alone needs them"))]
async fn prepare(
    stream: TcpStream,
    host: &str,
    tls: Option<&tls::Client>,
    dead_after: Duration,
    until: Moment,
) -> io::Result<(ReadHalf, WriteHalf)> {
    stream.set_nodelay(true)?;
    watch_for_death(&stream, dead_after)?;
    match tls {
        None => Ok(halves(stream)),
        #[cfg(feature = "tls")]
        Some(client) => {
            let (read, write) = client.agree(host, stream, until).await?;
            Ok((ReadHalf::Tls(read), WriteHalf::Tls(write)))
        }
        #[cfg(not(feature = "tls"))]
        Some(client) => match *client {},
    }
}

/// After how long without bytes from the peer the kernel probes the connection.
#[cfg(any(target_os = "linux", target_os = "android", windows))]
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(15);
/// How often it probes then.
#[cfg(any(target_os = "linux", target_os = "android", windows))]
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Lets the kernel find out that a peer is gone, idle or not: half-open connections otherwise
/// live for a quarter of an hour.
#[cfg(unix)]
pub(crate) fn watch_for_death(stream: &impl AsFd, dead_after: Duration) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        const PROBES: u32 = 3;
        sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(stream, PROBES)?;
        let millis = u32::try_from(dead_after.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(stream, millis)?;
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = dead_after;
    Ok(())
}

/// Windows has no limit for what is sent and not acknowledged: the limits of calls find that out.
#[cfg(windows)]
pub(crate) fn watch_for_death(stream: &impl AsSocket, _: Duration) -> io::Result<()> {
    let keep_alive =
        socket2::TcpKeepalive::new().with_time(KEEP_ALIVE_IDLE).with_interval(KEEP_ALIVE_INTERVAL);
    socket2::SockRef::from(stream).set_tcp_keepalive(&keep_alive)
}

#[cfg(not(any(unix, windows)))]
pub(crate) fn watch_for_death<S>(_: &S, _: Duration) -> io::Result<()> {
    Ok(())
}

/// Does not wait for a listener whose queue is full: that is an error at once.
#[cfg(unix)]
pub(crate) fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    };

    // With this flag a program started meanwhile does not inherit the socket.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let flags = SocketFlags::CLOEXEC;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let flags = SocketFlags::empty();
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    ioctl_fionbio(&socket, true)?;
    // On other systems each write has a flag for that.
    #[cfg(target_vendor = "apple")]
    sockopt::set_socket_nosigpipe(&socket, true)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn halves(stream: TcpStream) -> (ReadHalf, WriteHalf) {
    let (read, write) = stream.into_split();
    (ReadHalf::Tcp(read), WriteHalf::Tcp(write))
}

/// The half that the reader owns.
pub(crate) enum ReadHalf {
    Tcp(tcp::OwnedReadHalf),
    #[cfg(feature = "tls")]
    Tls(tls::ReadHalf),
    #[cfg(feature = "streams")]
    Streamed(streams::ReadHalf),
    #[cfg(any(test, feature = "testing"))]
    Simulated(simulated::ReadHalf),
}

impl ReadHalf {
    /// Waits for bytes and appends them to `buffer`; 0 is the end of the stream.
    pub(crate) async fn read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Tcp(half) => half.read_buf(buffer).await,
            #[cfg(feature = "tls")]
            Self::Tls(half) => half.read(buffer).await,
            #[cfg(feature = "streams")]
            Self::Streamed(half) => half.read(buffer).await,
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(half) => half.read(buffer).await,
        }
    }

    /// Whether there may be something to read; if not, the task is woken once there is. Cheaper than
    /// [`ReadHalf::read`].
    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Tcp(half) => half.as_ref().poll_read_ready(context).map(drop),
            #[cfg(feature = "streams")]
            Self::Streamed(half) => half.socket().poll_read_ready(context).map(drop),
            // Decrypted bytes may wait in the session, which the socket cannot show.
            #[cfg(feature = "tls")]
            Self::Tls(_) => Poll::Ready(()),
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(_) => Poll::Ready(()),
        }
    }
}

/// The half that the holder of the writer role uses.
pub(crate) enum WriteHalf {
    Tcp(tcp::OwnedWriteHalf),
    #[cfg(feature = "tls")]
    Tls(tls::WriteHalf),
    #[cfg(any(test, feature = "testing"))]
    Simulated(simulated::WriteHalf),
}

impl WriteHalf {
    /// Writes what the kernel takes now; `WouldBlock` if nothing. After that the same bytes have to be offered again,
    /// because TLS may have begun to send them.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(half) => half.try_write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(half) => half.try_write(bytes),
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(half) => half.try_write(bytes),
        }
    }

    /// Ready once [`WriteHalf::try_write`] is worth trying again, for one task.
    pub(crate) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(half) => half.as_ref().poll_write_ready(context),
            #[cfg(feature = "tls")]
            Self::Tls(half) => half.poll_writable(context),
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(_) => Poll::Ready(Ok(())),
        }
    }

    /// Shuts the writing half down, and reads up to the peer's end: a socket that is closed with unread bytes, or that
    /// then receives some, loses what it has not sent.
    pub(crate) fn poll_closed(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(socket) = self.shut_down_writing() else { return Poll::Ready(Ok(())) };
        loop {
            ready!(socket.poll_read_ready(context))?;
            match socket.try_read(&mut [0; 1024]) {
                Ok(0) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                _ => {}
            }
        }
    }

    /// As [`WriteHalf::poll_closed`], where the runtime has ended: keeps the thread, for at most this time.
    #[cfg_attr(unix, expect(clippy::disallowed_methods, reason = "no task is blocked any more"))]
    #[cfg_attr(not(unix), expect(unused_variables, reason = "the system ends the connection"))]
    pub(crate) fn wait_closed(&self, within: Duration) {
        let socket = self.shut_down_writing();
        #[cfg(unix)]
        if let Some(socket) = socket {
            let until = clock::now().after(within);
            while clock::now() < until {
                match rustix::net::recv(socket, &mut [0; 1024], RecvFlags::empty()) {
                    Ok((1.., _)) => {}
                    Err(Errno::AGAIN) => thread::sleep(LOOK),
                    _ => return,
                }
            }
        }
    }

    /// Sends the end of the stream. Fails only if it was sent before, or the connection has ended.
    pub(crate) fn shut_down_writing(&self) -> Option<&TcpStream> {
        let socket = match self {
            Self::Tcp(half) => half.as_ref(),
            #[cfg(feature = "tls")]
            Self::Tls(half) => half.say_farewell(),
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(_) => return None,
        };
        #[cfg(any(unix, windows))]
        let _ = shut_down(socket, Shutdown::Write);
        Some(socket)
    }

    /// Ends the connection in both directions, even if the other half is still in use.
    pub(crate) fn shut_down(&self) {
        #[cfg(any(unix, windows))]
        {
            // Fails only if the connection has already ended.
            let _ = match self {
                Self::Tcp(half) => shut_down(half.as_ref(), Shutdown::Both),
                #[cfg(feature = "tls")]
                Self::Tls(half) => shut_down(half.say_farewell(), Shutdown::Both),
                #[cfg(any(test, feature = "testing"))]
                Self::Simulated(half) => {
                    half.shut_down();
                    Ok(())
                }
            };
        }
    }
}

#[cfg(unix)]
fn shut_down(socket: &impl AsFd, how: Shutdown) -> rustix::io::Result<()> {
    rustix::net::shutdown(socket, how)
}

#[cfg(windows)]
fn shut_down(socket: &impl AsSocket, how: Shutdown) -> io::Result<()> {
    socket2::SockRef::from(socket).shutdown(how)
}

#[cfg(test)]
mod tests;

//! Uses streams that a caller opens: `Builder::connector`.
//!
//! The driver writes without waiting, from any task, and polls sockets for what can be read. A caller's stream supports
//! neither, and may panic or hang. So each stream has a task of its own, which copies between the stream and one socket
//! of a pair, and the driver has the pair's other socket. The task ends with the stream, or soon after the driver has
//! dropped its socket.

use std::fmt;
use std::future::{Future, pending};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::{TcpStream, tcp};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::tls::Client;
use crate::box_future::BoxFuture;
use crate::clock;
use crate::policy::Units;
use crate::race::{First, caught, race, timeout};

/// Bytes copied at a time.
const ROOM_BYTES: usize = 8 * 1024;

/// What a caller's stream must support.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Opened = io::Result<Box<dyn Stream>>;
type Connect = dyn Fn(String, u16) -> BoxFuture<'static, Opened> + Send + Sync;

/// The caller's function that opens a stream to a host and a port.
#[derive(Clone)]
pub struct Connector(Arc<Connect>);

impl Connector {
    pub(crate) fn new<C, S>(connect: impl Fn(String, u16) -> C + Send + Sync + 'static) -> Self
    where
        C: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let connect = Arc::new(connect);
        Self(Arc::new(move |host, port| {
            let connect = Arc::clone(&connect);
            // Called inside the future, so that its own panic is caught too.
            Box::pin(async move { Ok(Box::new(connect(host, port).await?) as Box<dyn Stream>) })
        }))
    }

    /// Opens a caller's stream, and returns the halves of a socket to it: see [`crate::net::transport::open`].
    pub(super) async fn open(
        &self,
        (host, port): (&str, u16),
        tls: Option<&Client>,
        dead_after: Duration,
        within: Duration,
    ) -> io::Result<(ReadHalf, tcp::OwnedWriteHalf)> {
        #[cfg(feature = "tls")]
        let until = clock::now().after(within);
        let connecting = caught((self.0)(host.to_owned(), port));
        let stream = match timeout(within, pin!(connecting)).await {
            Ok(Some(Ok(stream))) => stream,
            Ok(Some(Err(error))) => {
                return Err(at_fault(error.kind(), format_args!("failed: {error}")));
            }
            Ok(None) => return Err(at_fault(io::ErrorKind::Other, format_args!("panicked"))),
            Err(_) => {
                let (kind, within) = (io::ErrorKind::TimedOut, Units(within));
                return Err(at_fault(kind, format_args!("gave no stream within {within:.1}")));
            }
        };
        let stream = match tls {
            None => stream,
            #[cfg(feature = "tls")]
            Some(client) => match caught(pin!(client.agree_over(host, stream, until))).await {
                Some(agreed) => Box::new(agreed?),
                None => return Err(panicked()),
            },
            #[cfg(not(feature = "tls"))]
            Some(client) => match *client {},
        };
        let (ours, theirs) = pair().await?;
        let (tell, why) = oneshot::channel();
        drop(clock::spawn(carry(stream, theirs, tell, dead_after)));
        let (half, write) = ours.into_split();
        Ok((ReadHalf { half, why }, write))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

fn at_fault(kind: io::ErrorKind, what: fmt::Arguments<'_>) -> io::Error {
    io::Error::new(kind, format!("the connector (Builder::connector) {what}"))
}

fn panicked() -> io::Error {
    at_fault(io::ErrorKind::Other, format_args!("gave a stream that panicked"))
}

/// A pair of Unix sockets, used like TCP sockets.
#[cfg(unix)]
async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    use std::os::{fd::OwnedFd, unix::net::UnixStream};

    let registered = |socket: UnixStream| {
        socket.set_nonblocking(true)?;
        // On other systems each write has a flag for that.
        #[cfg(target_vendor = "apple")]
        rustix::net::sockopt::set_socket_nosigpipe(&socket, true)?;
        TcpStream::from_std(OwnedFd::from(socket).into())
    };
    let (ours, theirs) = UnixStream::pair()?;
    Ok((registered(ours)?, registered(theirs)?))
}

/// A pair by a TCP listener; another program's connection to that is closed.
#[cfg(not(unix))]
async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = tokio::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
    let ours = TcpStream::connect(listener.local_addr()?).await?;
    loop {
        let (theirs, from) = listener.accept().await?;
        if from == ours.local_addr()? {
            ours.set_nodelay(true)?;
            theirs.set_nodelay(true)?;
            return Ok((ours, theirs));
        }
    }
}

/// Copies to the end of `from`, and returns how that ended; or until an error of `to`.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<io::Result<()>> {
    let mut room = vec![0; ROOM_BYTES];
    loop {
        match from.read(&mut room).await {
            Ok(count @ 1..) => to.write_all(&room[..count]).await?,
            ended => return Ok(ended.map(drop)),
        }
        to.flush().await?;
    }
}

/// Copies both ways until the stream ends, or the driver drops its socket; the driver's last bytes may then take this
/// long.
async fn carry(
    stream: Box<dyn Stream>,
    socket: TcpStream,
    mut tell: oneshot::Sender<io::Error>,
    last_words_within: Duration,
) {
    let (mut from_stream, mut to_stream) = split(stream);
    let (mut from_driver, mut to_driver) = socket.into_split();
    let ended = {
        let down = pin!(async {
            match copy(&mut from_stream, &mut to_driver).await {
                Ok(ended) => ended,
                // The driver has dropped its socket: its last bytes are still copied up.
                Err(_) => pending().await,
            }
        });
        let up = pin!(async {
            // If the driver has not read all, the end of its socket is an error.
            let _ = copy(&mut from_driver, &mut to_stream).await?;
            to_stream.shutdown().await
        });
        // Downwards first: a server that closes the connection may have sent the reason.
        let copying = pin!(async {
            match race(down, up).await {
                First::One(ended) | First::Other(ended) => ended,
            }
        });
        let left = pin!(async {
            tell.closed().await;
            sleep(last_words_within).await;
        });
        match race(pin!(caught(copying)), left).await {
            First::One(Some(ended)) => ended,
            First::One(None) => Err(panicked()),
            First::Other(()) => Ok(()),
        }
    };
    match ended {
        // An end without TLS's close message is an end as well.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            #[cfg(feature = "tls")]
            let error = super::tls::TlsFault::explained(error);
            // The driver may have dropped its half.
            let _ = tell.send(error);
        }
        _ => {}
    }
}

/// The half that the reader owns.
pub(crate) struct ReadHalf {
    half: tcp::OwnedReadHalf,
    /// Why the stream has ended, if known. Dropping it tells the task that the driver is gone.
    why: oneshot::Receiver<io::Error>,
}

impl ReadHalf {
    /// As [`crate::net::transport::ReadHalf::read`].
    pub(super) async fn read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        let read = self.half.read_buf(buffer).await;
        match read {
            Ok(1..) => read,
            _ => self.why.try_recv().map_or(read, Err),
        }
    }

    /// The socket.
    pub(super) fn socket(&self) -> &TcpStream {
        self.half.as_ref()
    }
}

#[cfg(test)]
mod tests;

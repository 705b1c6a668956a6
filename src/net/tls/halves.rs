//! The two halves of a connection over TLS: one session, and the two halves of its socket.

use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, tcp};
use tokio_rustls::rustls::{self, ClientConnection};

use super::fault::TlsFault;
use crate::mutex::lock;

/// Maximum bytes encrypted at a time: whole records, within the session's buffer.
const PLAIN_BYTES: usize = 32 * 1024;
/// Bytes of one read of the socket: a whole record of at most 16 KiB, and its overhead.
const CIPHER_BYTES: usize = 17 * 1024;

/// Shared by both halves, under a mutex that is never held over an await.
struct Session {
    connection: ClientConnection,
    /// Bytes of the writer's offer that are encrypted, but not all sent yet.
    begun: usize,
}

type Shared = Arc<Mutex<Session>>;

/// The halves of a connection after its handshake.
pub(super) fn split(stream: TcpStream, connection: ClientConnection) -> (ReadHalf, WriteHalf) {
    let (read, write) = stream.into_split();
    let session = Arc::new(Mutex::new(Session { connection, begun: 0 }));
    let reader = ReadHalf {
        socket: read,
        session: Arc::clone(&session),
        cipher: BytesMut::new(),
        end: None,
    };
    (reader, WriteHalf { socket: write, session })
}

/// Writes what the socket takes now. A vectored write could raise SIGPIPE, so there is none.
struct Unblocking<'a>(&'a TcpStream);

impl Write for Unblocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Session {
    /// Sends encrypted bytes; `WouldBlock` if some are left.
    fn flush(&mut self, socket: &TcpStream) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Unblocking(socket)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Appends decrypted bytes to `plain`; returns whether the stream has ended.
    fn drain(&mut self, plain: &mut BytesMut) -> bool {
        let mut reader = self.connection.reader();
        loop {
            // The only error is that nothing is decrypted yet.
            let Ok(piece) = reader.fill_buf() else { return false };
            let length = piece.len();
            if length == 0 {
                return true;
            }
            plain.extend_from_slice(piece);
            reader.consume(length);
        }
    }

    /// Decrypts `cipher` and appends to `plain`; returns whether the stream has ended.
    fn decrypt(&mut self, cipher: &mut BytesMut, plain: &mut BytesMut) -> io::Result<bool> {
        loop {
            // First, because a full session takes no more.
            if self.drain(plain) {
                return Ok(true);
            }
            if cipher.is_empty() {
                return Ok(false);
            }
            let taken = self.connection.read_tls(&mut &cipher[..])?;
            if taken == 0 {
                return Ok(true);
            }
            cipher.advance(taken);
            if let Err(error) = self.connection.process_new_packets() {
                self.drain(plain);
                return Err(TlsFault::from(&error).into());
            }
        }
    }
}

/// The half that the reader owns.
pub(crate) struct ReadHalf {
    socket: tcp::OwnedReadHalf,
    session: Shared,
    /// Received bytes that are not decrypted yet.
    cipher: BytesMut,
    /// The stream's end, kept while bytes before it were returned.
    end: Option<io::Result<()>>,
}

impl ReadHalf {
    /// As [`crate::net::transport::ReadHalf::read`].
    pub(in crate::net) async fn read(&mut self, plain: &mut BytesMut) -> io::Result<usize> {
        loop {
            if let Some(end) = self.end.take() {
                return end.map(|()| 0);
            }
            // Before reading: the handshake may have received bytes of the stream.
            let before = plain.len();
            let end = self.decrypt(plain);
            let read = plain.len() - before;
            match end {
                Ok(false) => {}
                Ok(true) => self.end = Some(Ok(())),
                Err(error) => self.end = Some(Err(error)),
            }
            if read > 0 {
                return Ok(read);
            }
            if self.end.is_none() {
                self.cipher.reserve(CIPHER_BYTES);
                if self.socket.read_buf(&mut self.cipher).await? == 0 {
                    return Ok(0);
                }
            }
        }
    }

    fn decrypt(&mut self, plain: &mut BytesMut) -> io::Result<bool> {
        let mut session = lock(&self.session);
        let decrypted = session.decrypt(&mut self.cipher, plain);
        // TLS may have an alert to send. What the socket does not take now goes with the next write, which also finds a
        // broken socket.
        let _ = session.flush(self.socket.as_ref());
        decrypted
    }
}

/// The half that the holder of the writer role uses.
pub(crate) struct WriteHalf {
    socket: tcp::OwnedWriteHalf,
    session: Shared,
}

impl WriteHalf {
    /// As [`crate::net::transport::WriteHalf::try_write`]. Bytes count as written once all of their encrypted form is
    /// sent; after `WouldBlock` some may be encrypted, so the next writer has to offer the same bytes again.
    pub(in crate::net) fn try_write(&self, plain: &[u8]) -> io::Result<usize> {
        let mut session = lock(&self.session);
        let written = session.try_write(plain, self.socket.as_ref());
        written.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => error,
            _ => session.last_words(self.socket.as_ref()).unwrap_or(error),
        })
    }

    pub(in crate::net) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.as_ref().poll_write_ready(context)
    }

    /// Sends TLS's close message, if the socket takes it now; returns the socket, for the caller to shut down.
    pub(in crate::net) fn say_farewell(&self) -> &TcpStream {
        let mut session = lock(&self.session);
        session.connection.send_close_notify();
        // Sending may fail: an end without the message is an end as well.
        let _ = session.flush(self.socket.as_ref());
        self.socket.as_ref()
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        self.say_farewell();
    }
}

impl Session {
    fn try_write(&mut self, plain: &[u8], socket: &TcpStream) -> io::Result<usize> {
        self.flush(socket)?;
        if self.begun == 0 {
            let piece = &plain[..plain.len().min(PLAIN_BYTES)];
            self.begun = self.connection.writer().write(piece)?;
            self.flush(socket)?;
        }
        debug_assert!(self.begun <= plain.len(), "other bytes than before were offered");
        Ok(std::mem::take(&mut self.begun).min(plain.len()))
    }

    /// The alert that the server sent before it closed the connection, if the reader has not read it.
    fn last_words(&mut self, socket: &TcpStream) -> Option<io::Error> {
        let mut cipher = BytesMut::zeroed(CIPHER_BYTES);
        let read = socket.try_read(&mut cipher).ok()?;
        self.connection.read_tls(&mut &cipher[..read]).ok()?;
        match self.connection.process_new_packets() {
            // Other errors may arise because the reader is in the middle of a record.
            Err(error @ rustls::Error::AlertReceived(_)) => Some(TlsFault::from(&error).into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;

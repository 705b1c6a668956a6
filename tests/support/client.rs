//! A plain blocking Redis client for tests to look at a server: no pipeline, no recovery.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::BytesMut;
use leasehold_resp::{Decoder, Frame, Limits, encode_command};

use super::STUCK;

pub struct Client {
    stream: TcpStream,
    decoder: Decoder,
    received: BytesMut,
}

impl Client {
    /// Connects, and logs in if there is a password.
    pub fn connect(address: SocketAddr, password: Option<&str>) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(STUCK))?;
        let decoder = Decoder::new(Limits::default());
        let mut client = Self { stream, decoder, received: BytesMut::new() };
        if let Some(password) = password {
            client.try_call(&["AUTH", password])?;
        }
        Ok(client)
    }

    /// Sends a command and returns its reply, an error reply included.
    pub fn try_call(&mut self, command: &[&str]) -> io::Result<Frame> {
        self.send(command)?;
        self.next_frame()
    }

    /// As [`Self::try_call`]; panics when the connection fails.
    #[track_caller]
    pub fn call(&mut self, command: &[&str]) -> Frame {
        self.try_call(command).unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// As [`Self::call`], as text; nil is "". Panics at a reply that is no single value.
    #[track_caller]
    pub fn text(&mut self, command: &[&str]) -> String {
        match self.call(command) {
            Frame::Null => String::new(),
            Frame::Integer(number) => number.to_string(),
            Frame::Simple(text) | Frame::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
            other => panic!("{command:?}: {other:?}"),
        }
    }

    /// The reply after `ASKING`, from a node that a slot is moving to.
    #[track_caller]
    pub fn text_after_asking(&mut self, command: &[&str]) -> String {
        self.text(&["ASKING"]);
        self.text(command)
    }

    /// Sends a command without reading its reply.
    pub fn send(&mut self, command: &[&str]) -> io::Result<()> {
        let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
        let mut encoded = BytesMut::new();
        encode_command(&mut encoded, &words);
        self.stream.write_all(&encoded)
    }

    /// The next frame, such as a push.
    pub fn next_frame(&mut self) -> io::Result<Frame> {
        let mut chunk = [0; 4096];
        loop {
            if let Some(frame) =
                self.decoder.decode(&mut self.received).map_err(io::Error::other)?
            {
                return Ok(frame);
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                // The end of another test's child interrupts the read, and the system does not resume one with a
                // timeout.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

//! The least that can be done: a blocking socket, with no runtime in the way.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::BytesMut;

use crate::contender::{Contender, NAME};
use crate::wire::{Keys, Pen};

pub struct Blocking {
    stream: TcpStream,
    pen: Pen,
    keys: Keys,
    out: BytesMut,
}

impl Blocking {
    pub fn connect(address: SocketAddr, pen: Pen) -> Self {
        let stream = TcpStream::connect(address).expect("the server is up");
        stream.set_nodelay(true).expect("a TCP stream has the option");
        Self { stream, pen, keys: Keys::of(NAME), out: BytesMut::new() }
    }

    fn round_trip(&mut self, expected: &[u8]) {
        self.stream.write_all(&self.out).expect("the server reads");
        let mut chunk = [0; 256];
        let mut length = 0;
        while !chunk[..length].ends_with(b"\r\n") {
            let read = self.stream.read(&mut chunk[length..]).expect("the server answers");
            assert_ne!(read, 0, "the server hung up");
            length += read;
        }
        assert!(chunk.starts_with(expected), "{}", chunk[..length].escape_ascii());
    }
}

impl Contender for Blocking {
    async fn pair(&mut self, _: &str) {
        self.out.clear();
        let granted = self.pen.acquire(&mut self.out, &self.keys);
        self.round_trip(granted);
        self.out.clear();
        let released = self.pen.release(&mut self.out, &self.keys);
        self.round_trip(released);
    }
}

//! The server's own ceiling: commands that were encoded before, sent without waiting for any reply.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use bytes::BytesMut;

use super::wire::{Keys, Pen};

const NAMES: usize = 64;

/// A pile of pairs for distinct locks.
pub struct Blast {
    stream: TcpStream,
    pen: Pen,
    keys: Vec<Keys>,
    bytes: BytesMut,
    pairs: usize,
}

impl Blast {
    pub fn new(address: SocketAddr, pen: Pen, pairs: usize) -> Self {
        let stream = TcpStream::connect(address).expect("the server is up");
        stream.set_nodelay(true).expect("a TCP stream has the option");
        let keys = (0..NAMES).map(|name| Keys::of(&format!("blast:{name:02}"))).collect();
        Self { stream, pen, keys, bytes: BytesMut::new(), pairs }
    }

    /// Sends it all and reads every reply; returns pairs a second.
    pub fn run(&mut self) -> f64 {
        self.write_down();
        let started = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| (&self.stream).write_all(&self.bytes).expect("the server reads"));
            self.read_replies();
        });
        self.pairs as f64 / started.elapsed().as_secs_f64()
    }

    /// Again each time: the tokens of the last time are used up.
    fn write_down(&mut self) {
        self.bytes.clear();
        for keys in self.keys.iter().cycle().take(self.pairs) {
            self.pen.acquire(&mut self.bytes, keys);
            self.pen.release(&mut self.bytes, keys);
        }
    }

    /// A reply that is not a yes has what no yes has, or is shorter, and leaves the rest to wait for.
    fn read_replies(&self) {
        let mut chunk = [0; 64 * 1024];
        let mut expected = self.pairs * self.pen.bytes_of_replies();
        while expected > 0 {
            let read = (&self.stream).read(&mut chunk).expect("the server answers");
            assert_ne!(read, 0, "the server hung up");
            let text = &chunk[..read];
            let is_yes = !text.iter().any(|byte| b"-*".contains(byte));
            assert!(is_yes, "{}", text.escape_ascii());
            expected = expected.checked_sub(read).expect("the server says no more than yes");
        }
    }
}

//! The server's own ceiling: commands that were all written down before, sent without waiting for
//! a single reply.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use bytes::BytesMut;

use super::wire::{Keys, Pen};

const NAMES: usize = 64;

/// A pile of pairs for distinct locks, ready to be sent.
pub struct Blast {
    stream: TcpStream,
    bytes: BytesMut,
    pairs: usize,
}

impl Blast {
    pub fn new(address: SocketAddr, mut pen: Pen, pairs: usize) -> Self {
        let stream = TcpStream::connect(address).expect("the server is up");
        stream.set_nodelay(true).expect("a TCP stream has the option");
        let mut bytes = BytesMut::new();
        for pair in 0..pairs {
            let keys = Keys::of(&format!("blast:{:02}", pair % NAMES));
            pen.acquire(&mut bytes, &keys);
            pen.release(&mut bytes, &keys);
        }
        Self { stream, bytes, pairs }
    }

    /// Sends it all and reads every reply; returns pairs a second.
    pub fn run(&self) -> f64 {
        let started = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| (&self.stream).write_all(&self.bytes).expect("the server reads"));
            self.read_replies();
        });
        self.pairs as f64 / started.elapsed().as_secs_f64()
    }

    /// Every reply is one line; an error begins with what no other reply of ours has.
    fn read_replies(&self) {
        let mut chunk = [0; 64 * 1024];
        let mut expected = 2 * self.pairs;
        while expected > 0 {
            let read = (&self.stream).read(&mut chunk).expect("the server answers");
            assert_ne!(read, 0, "the server hung up");
            let text = &chunk[..read];
            assert!(!text.contains(&b'-'), "{}", text.escape_ascii());
            expected -= text.iter().filter(|&&byte| byte == b'\n').count();
        }
    }
}

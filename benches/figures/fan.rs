//! The minimum of a Redlock: bare streams to all servers, which go on once a quorum has replied.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use crate::support::{Fleet, RedisServer};
use crate::wire::{Keys, Kind, Pen, Scripts, YES};

/// Another than Leasehold's: tokens of two clocks would get in each other's way.
const NAME: &str = "invoice:43";

pub struct Fan {
    lines: Vec<Line>,
    pen: Pen,
    keys: Keys,
    /// How many of the servers answer.
    live: usize,
    out: BytesMut,
}

struct Line {
    stream: TcpStream,
    /// Replies that have not come.
    owed: usize,
    /// No more can be written: the server is dead, or has been frozen for long.
    is_broken: bool,
}

impl Fan {
    pub fn prepare(fleet: &Fleet, kind: Kind) -> (Vec<SocketAddr>, Pen) {
        let load = |server: &RedisServer| Scripts::load(&mut server.client());
        let scripts = fleet.iter().map(load).next_back().expect("there is a server");
        (fleet.iter().map(RedisServer::address).collect(), Pen::of_several(kind, &scripts))
    }

    /// Of the servers, `live` go on answering.
    pub async fn connect(addresses: Vec<SocketAddr>, pen: Pen, live: usize) -> Self {
        let mut lines = Vec::new();
        for address in addresses {
            let stream = TcpStream::connect(address).await.expect("the server is up");
            stream.set_nodelay(true).expect("a TCP stream has the option");
            lines.push(Line { stream, owed: 0, is_broken: false });
        }
        Self { lines, pen, keys: Keys::of(NAME), live, out: BytesMut::new() }
    }

    pub async fn acquire(&mut self) {
        self.out.clear();
        self.pen.acquire(&mut self.out, &self.keys);
        self.send();
        self.replies(self.lines.len() / 2 + 1).await;
    }

    pub async fn release(&mut self) {
        self.out.clear();
        self.pen.release(&mut self.out, &self.keys);
        self.send();
        self.replies(self.lines.len() / 2 + 1).await;
    }

    /// Waits for all servers that live.
    pub async fn settle(&mut self) {
        self.replies(self.live).await;
    }

    fn send(&mut self) {
        for line in &mut self.lines {
            if !line.is_broken {
                let written = line.stream.try_write(&self.out);
                line.is_broken = written.ok() != Some(self.out.len());
                line.owed += 1;
            }
        }
    }

    /// Waits until this number of servers owe nothing.
    async fn replies(&mut self, wanted: usize) {
        poll_fn(|context| {
            let mut done = 0;
            for line in &mut self.lines {
                done += usize::from(!line.is_broken && line.poll_replies(context).is_ready());
            }
            if done >= wanted { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Line {
    /// A reply is short enough to come whole. All that may come say yes.
    fn poll_replies(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.owed > 0 {
            let mut bytes = [0; 256];
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
            if ready!(read).is_err() || buffer.filled().is_empty() {
                self.is_broken = true;
                return Poll::Pending;
            }
            let mut said = buffer.filled();
            while !said.is_empty() {
                let yes = YES.iter().find(|yes| said.starts_with(yes));
                said = &said[yes.unwrap_or_else(|| panic!("{}", said.escape_ascii())).len()..];
                self.owed -= 1;
            }
        }
        Poll::Ready(())
    }
}

//! The least of a Redlock: five bare streams, and on with it at three replies.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use leasehold_resp::{Decimal, encode_command};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use crate::contender::{Owner, TTL_MS};
use crate::support::{Fleet, RedisServer};
use crate::wire::Kind;

const QUORUM: usize = 3;
/// Its own, since its tokens are not the clock's.
const NAME: &str = "invoice:43";
const FENCE: &str = "{invoice:43}:fence";
const WAITERS: &str = "{invoice:43}:waiters";
/// With as many digits as a clock's microseconds have.
const FIRST_TOKEN: u64 = 1_000_000_000_000_000;

pub struct Fan {
    lines: Vec<Line>,
    kind: Kind,
    scripts: Scripts,
    /// How many of the servers answer.
    live: usize,
    owner: String,
    out: BytesMut,
}

/// The digests.
#[derive(Clone)]
pub struct Scripts {
    acquire: String,
    release: String,
}

struct Line {
    stream: TcpStream,
    /// Replies that have not come.
    owed: usize,
    /// No more can be written: the server is dead, or has been frozen for long.
    is_broken: bool,
}

impl Fan {
    pub fn prepare(fleet: &Fleet) -> (Vec<SocketAddr>, Scripts) {
        let load = |script: &str| fleet.cli_all(&["SCRIPT", "LOAD", script]).swap_remove(0);
        let acquire = load(include_str!("../../../scripts/acquire.lua"));
        let release = load(include_str!("../../../scripts/release.lua"));
        (fleet.iter().map(RedisServer::address).collect(), Scripts { acquire, release })
    }

    pub async fn connect(
        addresses: Vec<SocketAddr>,
        scripts: Scripts,
        kind: Kind,
        live: usize,
    ) -> Self {
        let mut lines = Vec::new();
        for address in addresses {
            let stream = TcpStream::connect(address).await.expect("the server is up");
            stream.set_nodelay(true).expect("a TCP stream has the option");
            lines.push(Line { stream, owed: 0, is_broken: false });
        }
        Self { lines, kind, scripts, live, owner: String::new(), out: BytesMut::new() }
    }

    pub async fn acquire(&mut self) {
        // As long as Leasehold's, with its fingerprint of the servers.
        self.owner = format!("{}@01234567", Owner::new().as_str());
        self.out.clear();
        let (name, owner, ttl) = (NAME.as_bytes(), self.owner.as_bytes(), Decimal::new(TTL_MS));
        match self.kind {
            Kind::Fenced => {
                let (script, token) = (self.scripts.acquire.as_bytes(), Decimal::new(next_token()));
                let keys: [&[u8]; 4] = [b"3", name, FENCE.as_bytes(), WAITERS.as_bytes()];
                let mut words: Vec<&[u8]> = vec![b"EVALSHA", script];
                words.extend(keys);
                words.extend::<[&[u8]; 6]>([owner, &ttl, &token, b"vote", b"turn", b""]);
                encode_command(&mut self.out, &words);
            }
            Kind::Unfenced => {
                encode_command(&mut self.out, &[b"SET", name, owner, b"NX", b"PX", &ttl]);
            }
        }
        self.send();
        self.replies(QUORUM).await;
    }

    pub async fn release(&mut self) {
        self.out.clear();
        let (script, owner) = (self.scripts.release.as_bytes(), self.owner.as_bytes());
        encode_command(&mut self.out, &[b"EVALSHA", script, b"1", NAME.as_bytes(), owner]);
        self.send();
        self.replies(QUORUM).await;
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

    /// Waits until so many owe nothing.
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

/// Above all before it.
fn next_token() -> u64 {
    static TOKEN: AtomicU64 = AtomicU64::new(FIRST_TOKEN);
    TOKEN.fetch_add(1, Ordering::Relaxed)
}

impl Line {
    /// A reply is one line, and short enough to come whole. All that may come say yes.
    fn poll_replies(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.owed > 0 {
            let mut bytes = [0; 256];
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
            if ready!(read).is_err() || buffer.filled().is_empty() {
                self.is_broken = true;
                return Poll::Pending;
            }
            let text = buffer.filled();
            let is_granted = text.starts_with(b"+OK") || text.starts_with(b":");
            assert!(is_granted && text != b":0\r\n", "{}", text.escape_ascii());
            self.owed -= text.iter().filter(|&&byte| byte == b'\n').count();
        }
        Poll::Ready(())
    }
}

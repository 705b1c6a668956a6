//! The bytes that a lock and its release are made of, and the least that can send them.

use std::io::Write as _;
use std::net::SocketAddr;

use bytes::BytesMut;
use leasehold_resp::{Decimal, encode_command};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::Client;

/// Of all leases measured here: [`leasehold::Locker`]'s default.
const TTL_MS: u64 = 10_000;
/// With as many digits as a clock's microseconds have.
const FIRST_TOKEN: u64 = 1_000_000_000_000_000;
/// As long as Leasehold's.
const STAMP: &[u8] = b"1234567890123456";
const READ_BUFFER_BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Fenced,
    Unfenced,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Fenced, Self::Unfenced];

    pub fn name(self) -> &'static str {
        match self {
            Self::Fenced => "fenced",
            Self::Unfenced => "unfenced",
        }
    }
}

/// Leasehold's scripts, loaded into the server.
#[derive(Clone)]
pub struct Scripts {
    acquire: String,
    release: String,
}

impl Scripts {
    pub fn load(client: &mut Client) -> Self {
        let mut load = |source: &str| client.text(&["SCRIPT", "LOAD", &without_comments(source)]);
        Self {
            acquire: load(include_str!("../../scripts/acquire.lua")),
            release: load(include_str!("../../scripts/release.lua")),
        }
    }
}

/// As Leasehold sends them: the digest is of this text.
fn without_comments(source: &str) -> String {
    let lines = source.lines().map(str::trim);
    let code: Vec<&str> =
        lines.filter(|line| !line.is_empty() && !line.starts_with("--")).collect();
    code.join("\n")
}

/// The keys of one lock, written down once, as Leasehold does.
pub struct Keys {
    lock: String,
    fence: String,
    waiters: String,
}

impl Keys {
    /// Of a name without braces.
    pub fn of(name: &str) -> Self {
        let beside = |suffix| format!("{{{name}}}:{suffix}");
        Self { lock: name.to_owned(), fence: beside("fence"), waiters: beside("waiters") }
    }
}

/// Writes commands of leases of one kind, each by an owner of its own.
#[derive(Clone)]
pub struct Pen {
    kind: Kind,
    scripts: Scripts,
    serial: u64,
    token: u64,
}

impl Pen {
    pub fn new(kind: Kind, scripts: &Scripts) -> Self {
        Self { kind, scripts: scripts.clone(), serial: 0, token: FIRST_TOKEN }
    }

    /// The next owner asks for the lock; returns the start of a reply that grants it.
    pub fn acquire(&mut self, out: &mut BytesMut, keys: &Keys) -> &'static [u8] {
        self.serial += 1;
        self.token += 1;
        let (name, owner, ttl) = (keys.lock.as_bytes(), self.owner(), Decimal::new(TTL_MS));
        match self.kind {
            Kind::Fenced => {
                let (script, token) = (self.scripts.acquire.as_bytes(), Decimal::new(self.token));
                encode_command(
                    out,
                    &[
                        b"EVALSHA",
                        script,
                        b"3",
                        name,
                        keys.fence.as_bytes(),
                        keys.waiters.as_bytes(),
                        &owner,
                        &ttl,
                        &token,
                        b"mint",
                        b"turn",
                        b"",
                        STAMP,
                    ],
                );
                b":"
            }
            Kind::Unfenced => {
                encode_command(out, &[b"SET", name, &owner, b"NX", b"PX", &ttl]);
                b"+OK\r\n"
            }
        }
    }

    /// The same owner gives the lock back; returns the reply that says so.
    pub fn release(&self, out: &mut BytesMut, keys: &Keys) -> &'static [u8] {
        let script = self.scripts.release.as_bytes();
        encode_command(
            out,
            &[b"EVALSHA", script, b"1", keys.lock.as_bytes(), &self.owner(), STAMP],
        );
        b":1234567890123456\r\n"
    }

    fn owner(&self) -> [u8; 32] {
        let mut owner = [0; 32];
        write!(&mut owner[..], "{:032x}", self.serial).expect("it has 32 digits");
        owner
    }
}

/// One lock over a bare tokio stream: what every client on tokio pays at the least.
pub struct Bare {
    stream: TcpStream,
    pen: Pen,
    keys: Keys,
    out: BytesMut,
    received: BytesMut,
}

impl Bare {
    pub async fn connect(address: SocketAddr, pen: Pen, name: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server is up");
        stream.set_nodelay(true).expect("a TCP stream has the option");
        let received = BytesMut::with_capacity(READ_BUFFER_BYTES);
        Self { stream, pen, keys: Keys::of(name), out: BytesMut::new(), received }
    }

    pub async fn pair(&mut self) {
        self.out.clear();
        let granted = self.pen.acquire(&mut self.out, &self.keys);
        self.round_trip(granted).await;
        self.out.clear();
        let released = self.pen.release(&mut self.out, &self.keys);
        self.round_trip(released).await;
    }

    async fn round_trip(&mut self, expected: &[u8]) {
        self.stream.write_all(&self.out).await.expect("the server reads");
        self.received.clear();
        while !self.received.ends_with(b"\r\n") {
            let read = self.stream.read_buf(&mut self.received).await.expect("the server answers");
            assert_ne!(read, 0, "the server hung up");
        }
        assert!(self.received.starts_with(expected), "{:?}", self.received);
    }
}

//! The bytes of a lock and its release, and the least code that can send them.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::SystemTime;

use bytes::BytesMut;
use leasehold_resp::{Decimal, encode_command};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Client, whole};

/// Of all leases measured here: [`leasehold::Locker`]'s default.
const TTL_MS: u64 = 10_000;
/// The last word of each script's command, as long as Leasehold's.
pub const STAMP: &str = "1234567890123456";
/// Both replies that grant a lock, the second of which says also that it is given back.
pub const YES: [&[u8]; 2] = [b"+OK\r\n", b"$16\r\n1234567890123456\r\n"];
const OWNER_DIGITS: usize = 32;
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
    pub acquire: String,
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
pub fn without_comments(source: &str) -> String {
    let source = whole(source);
    let lines = source.lines().map(str::trim);
    let code: Vec<&str> =
        lines.filter(|line| !line.is_empty() && !line.starts_with("--")).collect();
    code.join("\n")
}

/// The keys of one lock, written down once, as Leasehold does.
pub struct Keys {
    lock: String,
    fence: String,
    queue: String,
}

impl Keys {
    /// Of a name without braces.
    pub fn of(name: &str) -> Self {
        let beside = |suffix| format!("{{{name}}}:{suffix}");
        Self { lock: name.to_owned(), fence: beside("fence"), queue: beside("queue") }
    }
}

/// Writes commands of leases of one kind, each by an owner of its own.
#[derive(Clone)]
pub struct Pen {
    kind: Kind,
    scripts: Scripts,
    serial: u64,
    owner: Vec<u8>,
    token: u64,
}

impl Pen {
    /// Of plain locks on one server, which ours are measured against, fenced or not.
    pub fn new(scripts: &Scripts) -> Self {
        let (kind, owner) = (Kind::Unfenced, vec![b'0'; OWNER_DIGITS]);
        Self { kind, scripts: scripts.clone(), serial: 0, owner, token: 0 }
    }

    /// Of leases on several servers, of which their owners carry a fingerprint.
    pub fn of_several(kind: Kind, scripts: &Scripts) -> Self {
        let mut pen = Self { kind, ..Self::new(scripts) };
        pen.owner.extend(b"@01234567");
        pen
    }

    /// The next owner asks for the lock; returns the reply that grants it.
    pub fn acquire(&mut self, out: &mut BytesMut, keys: &Keys) -> &'static [u8] {
        self.serial += 1;
        // A server takes no token that is far from its clock for the first.
        self.token = micros_of_the_clock().max(self.token + 1);
        write!(&mut self.owner[..OWNER_DIGITS], "{:032x}", self.serial).expect("there is room");
        let (name, owner, ttl) = (keys.lock.as_bytes(), &self.owner[..], Decimal::new(TTL_MS));
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
                        keys.queue.as_bytes(),
                        owner,
                        &ttl,
                        &token,
                        b"vote",
                        b"turn",
                        STAMP.as_bytes(),
                    ],
                );
                YES[1]
            }
            Kind::Unfenced => {
                encode_command(out, &[b"SET", name, owner, b"NX", b"PX", &ttl]);
                YES[0]
            }
        }
    }

    /// Of the two replies of a pair that is granted.
    pub fn bytes_of_replies(&self) -> usize {
        let acquired = if self.kind == Kind::Fenced { YES[1] } else { YES[0] };
        acquired.len() + YES[1].len()
    }

    /// The same owner gives the lock back; returns the reply that says so.
    pub fn release(&self, out: &mut BytesMut, keys: &Keys) -> &'static [u8] {
        let (script, name) = (self.scripts.release.as_bytes(), keys.lock.as_bytes());
        encode_command(
            out,
            &[b"EVALSHA", script, b"1", name, &self.owner, b"free", STAMP.as_bytes()],
        );
        YES[1]
    }
}

fn micros_of_the_clock() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("the clock is set");
    u64::try_from(since.as_micros()).expect("it is not that late")
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
        while self.received.len() < expected.len() {
            let read = self.stream.read_buf(&mut self.received).await.expect("the server answers");
            assert_ne!(read, 0, "the server hung up");
        }
        assert_eq!(self.received, expected);
    }
}

//! Redlock over five: an acquire beside the same bytes over five bare streams, and with one server
//! frozen beside five that answer.
//!
//! Only the acquire is timed, until three have granted. Between two of them both sides give back
//! and rest for a millisecond, so that no late reply is read on somebody else's time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use leasehold::Locker;
use leasehold_resp::{Decimal, encode_command};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::runtimes::{Shape, Stage};
use super::statistics::Samples;
use super::wire::Kind;
use crate::support::{Fleet, RedisServer};

const SERVERS: usize = 5;
const QUORUM: usize = 3;
const ACQUIRES_PER_BLOCK: usize = 50;
const WARM_UP_BLOCKS: usize = 2;
const NAME: &str = "invoice:42";
/// The bare streams' own, since their tokens are not the clock's.
const BARE_NAME: &str = "invoice:43";
const BARE_FENCE: &str = "{invoice:43}:fence";
const BARE_WAITERS: &str = "{invoice:43}:waiters";
const TTL_MS: u64 = 10_000;
/// With as many digits as a clock's microseconds have.
const FIRST_TOKEN: u64 = 1_000_000_000_000_000;
/// As long as Leasehold's.
const STAMP: &[u8] = b"1234567890123456";
const REST: Duration = Duration::from_millis(1);

const OVER_BARE_MAX: f64 = 1.15;
const FROZEN_OVER_HEALTHY_MAX: f64 = 1.2;

/// One runtime and one kind of lease, and what was measured of it.
struct Cell {
    kind: Kind,
    healthy: Locker,
    frozen: Locker,
    bare: Option<Fan>,
    of_healthy: Side,
    of_frozen: Side,
    of_bare: Side,
}

/// Microseconds an acquire.
#[derive(Default)]
struct Side {
    /// Of each block, the median.
    medians: Samples,
    all: Vec<f64>,
}

impl Side {
    fn push(&mut self, micros: Vec<f64>) {
        self.medians.push(quantile(&micros, 0.5));
        self.all.extend(micros);
    }

    fn p99(&self) -> f64 {
        quantile(&self.all, 0.99)
    }
}

fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

pub fn run(rounds: usize) {
    let healthy = Fleet::start(SERVERS);
    let with_a_frozen = Fleet::start(SERVERS);
    let mut stages: Vec<(Stage, Vec<Cell>)> = [Shape::CurrentThread, Shape::Worker]
        .into_iter()
        .map(|shape| {
            let stage = Stage::new(shape);
            let cells = Kind::ALL.map(|kind| Cell::new(&stage, kind, &healthy, &with_a_frozen));
            (stage, cells.into())
        })
        .collect();
    with_a_frozen[0].stop();
    for round in 0..WARM_UP_BLOCKS + rounds {
        for (stage, cells) in &mut stages {
            cells.iter_mut().for_each(|cell| cell.round(stage, round));
        }
    }
    print(&stages, rounds);
}

impl Cell {
    fn new(stage: &Stage, kind: Kind, healthy: &Fleet, with_a_frozen: &Fleet) -> Self {
        let connect = |fleet: &Fleet| {
            let builder = Locker::builder().nodes(fleet.urls()).restart_guard(false);
            stage.run(async move { builder.connect().await.expect("the servers are up") })
        };
        let bare = Fan::connect(stage, kind, healthy);
        let (of_healthy, of_frozen, of_bare) = Default::default();
        let (healthy, frozen) = (connect(healthy), connect(with_a_frozen));
        Self { kind, healthy, frozen, bare: Some(bare), of_healthy, of_frozen, of_bare }
    }

    /// All three, beginning with another one each time; the first rounds warm up.
    fn round(&mut self, stage: &Stage, round: usize) {
        for turn in 0..3 {
            let (side, micros) = match (round + turn) % 3 {
                0 => (&mut self.of_healthy, time_ours(stage, &self.healthy, self.kind)),
                1 => (&mut self.of_frozen, time_ours(stage, &self.frozen, self.kind)),
                _ => {
                    let bare = self.bare.take().expect("it is put back");
                    let (bare, micros) = stage.run(bare.time());
                    self.bare = Some(bare);
                    (&mut self.of_bare, micros)
                }
            };
            if round >= WARM_UP_BLOCKS {
                side.push(micros);
            }
        }
    }
}

fn time_ours(stage: &Stage, locker: &Locker, kind: Kind) -> Vec<f64> {
    let locker = locker.clone();
    stage.run(async move {
        let mut micros = Vec::with_capacity(ACQUIRES_PER_BLOCK);
        for _ in 0..ACQUIRES_PER_BLOCK {
            let started = Instant::now();
            match kind {
                Kind::Fenced => {
                    let guard = locker.lock(NAME).await.expect("it is free");
                    micros.push(micros_since(started));
                    guard.release().await.expect("it is held");
                }
                Kind::Unfenced => {
                    let guard = locker.lock(NAME).unfenced().await.expect("it is free");
                    micros.push(micros_since(started));
                    guard.release().await.expect("it is held");
                }
            }
            tokio::time::sleep(REST).await;
        }
        micros
    })
}

fn micros_since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e6
}

/// Five bare streams: what every client on tokio pays at the least.
struct Fan {
    lines: Vec<Line>,
    kind: Kind,
    /// The digests of the scripts.
    acquire: String,
    release: String,
    serial: u64,
    out: BytesMut,
}

struct Line {
    stream: TcpStream,
    /// Replies that have not come.
    owed: usize,
}

impl Fan {
    fn connect(stage: &Stage, kind: Kind, fleet: &Fleet) -> Self {
        let load = |script: &str| fleet.cli_all(&["SCRIPT", "LOAD", script]).swap_remove(0);
        let acquire = load(include_str!("../../scripts/acquire.lua"));
        let release = load(include_str!("../../scripts/release.lua"));
        let addresses: Vec<_> = fleet.iter().map(RedisServer::address).collect();
        stage.run(async move {
            let mut lines = Vec::new();
            for address in addresses {
                let stream = TcpStream::connect(address).await.expect("the server is up");
                stream.set_nodelay(true).expect("a TCP stream has the option");
                lines.push(Line { stream, owed: 0 });
            }
            Self { lines, kind, acquire, release, serial: 0, out: BytesMut::new() }
        })
    }

    async fn time(mut self) -> (Self, Vec<f64>) {
        let mut micros = Vec::with_capacity(ACQUIRES_PER_BLOCK);
        for _ in 0..ACQUIRES_PER_BLOCK {
            let started = Instant::now();
            let granted = self.acquire().await;
            micros.push(micros_since(started));
            self.replies(granted, SERVERS).await;
            self.release().await;
            tokio::time::sleep(REST).await;
        }
        (self, micros)
    }

    /// Returns when three have granted, with how a grant's reply begins.
    async fn acquire(&mut self) -> u8 {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        self.serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        self.out.clear();
        let (owner, ttl) = (self.owner(), Decimal::new(TTL_MS));
        let name = BARE_NAME.as_bytes();
        let granted = match self.kind {
            Kind::Fenced => {
                let token = Decimal::new(FIRST_TOKEN + self.serial);
                let script = self.acquire.as_bytes();
                let words: [&[u8]; 13] = [
                    b"EVALSHA",
                    script,
                    b"3",
                    name,
                    BARE_FENCE.as_bytes(),
                    BARE_WAITERS.as_bytes(),
                    owner.as_bytes(),
                    &ttl,
                    &token,
                    b"vote",
                    b"turn",
                    b"",
                    STAMP,
                ];
                encode_command(&mut self.out, &words);
                b':'
            }
            Kind::Unfenced => {
                let words: [&[u8]; 6] = [b"SET", name, owner.as_bytes(), b"NX", b"PX", &ttl];
                encode_command(&mut self.out, &words);
                b'+'
            }
        };
        self.send().await;
        self.replies(granted, QUORUM).await;
        granted
    }

    async fn release(&mut self) {
        self.out.clear();
        let (script, owner) = (self.release.as_bytes(), self.owner());
        let words: [&[u8]; 6] =
            [b"EVALSHA", script, b"1", BARE_NAME.as_bytes(), owner.as_bytes(), STAMP];
        encode_command(&mut self.out, &words);
        self.send().await;
        self.replies(b':', SERVERS).await;
    }

    /// As long as Leasehold's, with its fingerprint of the servers.
    fn owner(&self) -> String {
        format!("{:032x}@01234567", self.serial)
    }

    async fn send(&mut self) {
        for line in &mut self.lines {
            line.stream.write_all(&self.out).await.expect("the server reads");
            line.owed += 1;
        }
    }

    /// Waits until so many owe nothing.
    async fn replies(&mut self, start: u8, wanted: usize) {
        poll_fn(|context| {
            let mut done = 0;
            for line in &mut self.lines {
                done += usize::from(line.poll_replies(start, context).is_ready());
            }
            if done >= wanted { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Line {
    /// A reply is one line, and short enough to come whole.
    fn poll_replies(&mut self, start: u8, context: &mut Context<'_>) -> Poll<()> {
        while self.owed > 0 {
            let mut bytes = [0; 256];
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
            ready!(read).expect("the server answers");
            let text = buffer.filled();
            assert!(text.first() == Some(&start) && text.ends_with(b"\n"), "{text:?}");
            self.owed -= text.iter().filter(|&&byte| byte == b'\n').count();
        }
        Poll::Ready(())
    }
}

fn print(stages: &[(Stage, Vec<Cell>)], rounds: usize) {
    println!("\nRedlock over {SERVERS}, uncontended acquire, one task, microseconds:");
    println!("median (10th to 90th percentile) of the medians of {rounds} rounds of");
    println!("{ACQUIRES_PER_BLOCK}, and the 99th percentile of all; frozen: one by SIGSTOP\n");
    for (stage, cells) in stages {
        for cell in cells {
            let Cell { kind, of_healthy, of_frozen, of_bare, .. } = cell;
            println!("{}, {}", stage.shape().name(), kind.name());
            for (name, side) in
                [("bare fan-out", of_bare), ("leasehold", of_healthy), ("one frozen", of_frozen)]
            {
                println!("  {name:<14}{:>24.1}   p99 {:>7.1}", side.medians.summary(), side.p99());
            }
            let over_bare = of_healthy.medians.over(&of_bare.medians).summary();
            let frozen = of_frozen.medians.over(&of_healthy.medians).summary();
            let p99 = of_frozen.p99() / of_healthy.p99();
            let bare_p99 = of_healthy.p99() / of_bare.p99();
            println!("  over bare     {over_bare:>24.2}   p99 {bare_p99:>7.2}");
            println!("    {}", judge(over_bare.median, OVER_BARE_MAX));
            println!("  frozen / all  {frozen:>24.2}   p99 {p99:>7.2}");
            println!("    {}", judge(frozen.median.max(p99), FROZEN_OVER_HEALTHY_MAX));
        }
    }
}

fn judge(ratio: f64, max: f64) -> String {
    format!("at most {max}: {}", if ratio <= max { "yes" } else { "NO" })
}

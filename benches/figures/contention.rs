//! Tasks of one process that contend for one lock: how long the lock is idle between two holders, and whether all tasks
//! are granted it equally often.
//!
//! A gap is from before one holder's release until after the next grant. Its unit is a bare round trip: the same
//! acquire over a bare stream, measured in turn with the contention, on the same runtime and in the same rhythm,
//! because an idle processor needs time to wake. Beside it is the gap of a bare hand-over by `BLPOP` in the same round.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use leasehold::{LockRequest, Locker};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::list;
use super::processes;
use super::report::{Cell, Report};
use super::runtimes::{Shape, Stage};
use super::statistics::Samples;
use super::way::{Network, Way};
use super::wire::{Keys, Pen, Scripts};
use crate::support::RedisServer;

pub const NAME: &str = "contended";
#[cfg(feature = "full")]
const PERMIT: &str = "contended permit";
pub const HOLD: Duration = Duration::from_millis(1);
const TASKS: usize = 8;
/// Of a round, in each of which all is measured that is compared; what is left over when it ends
/// is little beside so much.
const ROUND: Duration = Duration::from_millis(500);
const ROUND_TRIPS: usize = 60;
const READ_BUFFER_BYTES: usize = 4096;

/// When one holder had the lock, in microseconds of one clock.
pub type Held = (f64, f64);

/// What all of a crowd want, and one has at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    Lock,
    /// The whole of a lock that readers may share.
    #[cfg(feature = "full")]
    Writer,
    /// The one permit of a semaphore.
    #[cfg(feature = "full")]
    Permit,
}

impl Lease {
    pub const ALL: &[Self] = &[
        Self::Lock,
        #[cfg(feature = "full")]
        Self::Writer,
        #[cfg(feature = "full")]
        Self::Permit,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            #[cfg(feature = "full")]
            Self::Writer => "writer",
            #[cfg(feature = "full")]
            Self::Permit => "permit",
        }
    }

    fn request(self, locker: &Locker) -> LockRequest {
        match self {
            Self::Lock => locker.lock(NAME),
            #[cfg(feature = "full")]
            Self::Writer => locker.write(NAME),
            #[cfg(feature = "full")]
            Self::Permit => locker.semaphore(PERMIT, 1).acquire(1),
        }
    }
}

/// One crowd that wants the lock, for the table of hand-overs.
pub const COLUMNS: [&str; 10] = [
    "who",
    "way",
    "bare round trip, µs",
    "gap, round trips",
    "means of the rounds",
    "gap over BLPOP's",
    "a lone acquire, round trips",
    "scripts a hand-over",
    "to the same again, %",
    "most over least",
];

pub fn run(time: Duration) -> Report {
    let mut rows = tasks(time);
    rows.extend(processes::rows(time));
    Report {
        scenario: "hand-over",
        notes: vec![
            format!(
                "Contention for one lock, held for {} ms: how long it lies idle between two",
                HOLD.as_millis()
            ),
            "holders, in bare round trips on the same way and in the same rhythm; median (10th to"
                .into(),
            "90th percentile) of the hands, and of the means of the rounds. Beside it the median gap of a"
                .into(),
            "round over that of a bare hand-over by `BLPOP` among as many, each with a connection.".into(),
        ],
        columns: COLUMNS.into(),
        rows,
    }
}

fn tasks(time: Duration) -> Vec<Vec<Cell>> {
    let server = RedisServer::start();
    let network = Network::before(&server);
    let crowds = [
        (Shape::CurrentThread, Way::direct(&server)),
        (Shape::Worker, Way::direct(&server)),
        (Shape::CurrentThread, network.way()),
    ];
    let rows = crowds.map(|(shape, way)| {
        let stage = Stage::new(shape);
        let mut yardstick = Yardstick::new(&stage, &server, way.address);
        let url = way.url();
        let locker = stage.run(async move { Locker::connect(&url).await });
        let locker = locker.expect("the server is up");
        let (mut lone, mut tally) = (Samples::default(), Tally::new(TASKS));
        let (rounds, round) = rounds_in(time);
        let mut scripts = 0;
        for _ in 0..rounds {
            let round_trip = yardstick.measure(&stage);
            lone.push(stage.run(lone_acquire(locker.clone())) / round_trip);
            let before = processes::scripts_run(&server);
            let held = stage.run(contend(locker.clone(), Lease::Lock, TASKS, round));
            scripts += processes::scripts_run(&server) - before;
            list::begin(&server);
            let by_list = stage.run(list::contend(way.address, TASKS, round));
            tally.add(&held, &by_list, round_trip);
        }
        let who = format!("{TASKS} tasks, {}", shape.name());
        tally.row(who, way.name, Cell::spread(&lone, 2), scripts)
    });
    rows.into()
}

/// How many rounds, and how long each is.
pub fn rounds_in(time: Duration) -> (u32, Duration) {
    let rounds = (time.as_millis() / ROUND.as_millis()).max(1) as u32;
    (rounds, time / rounds)
}

/// What a round trip costs that nothing of ours has a part in.
pub struct Yardstick {
    bare: Option<Bare>,
}

struct Bare {
    stream: TcpStream,
    pen: Pen,
    keys: Keys,
    out: BytesMut,
    received: BytesMut,
}

impl Yardstick {
    pub fn new(stage: &Stage, server: &RedisServer, address: SocketAddr) -> Self {
        let pen = Pen::new(&Scripts::load(&mut server.client()));
        let bare = stage.run(async move {
            let stream = TcpStream::connect(address).await.expect("the server is up");
            stream.set_nodelay(true).expect("a TCP stream has the option");
            let (out, received) = (BytesMut::new(), BytesMut::with_capacity(READ_BUFFER_BYTES));
            Bare { stream, pen, keys: Keys::of("bare"), out, received }
        });
        Self { bare: Some(bare) }
    }

    /// The median of some, in microseconds.
    pub fn measure(&mut self, stage: &Stage) -> f64 {
        let mut bare = self.bare.take().expect("it is put back");
        let (bare, round_trip) = stage.run(async move {
            let mut round_trips = Samples::default();
            for _ in 0..ROUND_TRIPS {
                bare.out.clear();
                let granted = bare.pen.acquire(&mut bare.out, &bare.keys);
                tokio::time::sleep(HOLD).await;
                let started = Instant::now();
                bare.ask(granted).await;
                round_trips.push(started.elapsed().as_secs_f64() * 1e6);
                bare.out.clear();
                let released = bare.pen.release(&mut bare.out, &bare.keys);
                bare.ask(released).await;
            }
            (bare, round_trips.summary().median)
        });
        self.bare = Some(bare);
        round_trip
    }
}

impl Bare {
    async fn ask(&mut self, expected: &[u8]) {
        self.stream.write_all(&self.out).await.expect("the server reads");
        self.received.clear();
        while !self.received.ends_with(b"\r\n") {
            let read = self.stream.read_buf(&mut self.received).await.expect("the server answers");
            assert_ne!(read, 0, "the server hung up");
        }
        assert_eq!(self.received, expected);
    }
}

/// The median of some, in microseconds.
async fn lone_acquire(locker: Locker) -> f64 {
    let mut times = Samples::default();
    for _ in 0..ROUND_TRIPS {
        tokio::time::sleep(HOLD).await;
        let started = Instant::now();
        let guard = locker.lock("lone").await.expect("it is free");
        times.push(started.elapsed().as_secs_f64() * 1e6);
        guard.release().await.expect("it is held");
    }
    times.summary().median
}

pub fn micros() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Has this number of tasks contend on one locker; returns when each of them held the lock.
pub async fn contend(locker: Locker, lease: Lease, tasks: usize, time: Duration) -> Vec<Vec<Held>> {
    let end = Instant::now() + time;
    let contenders: Vec<_> = (0..tasks)
        .map(|_| {
            let locker = locker.clone();
            tokio::spawn(async move {
                let mut held = Vec::new();
                while Instant::now() < end {
                    let guard = lease.request(&locker).await.expect("the server is well");
                    let from = micros();
                    tokio::time::sleep(HOLD).await;
                    held.push((from, micros()));
                    guard.release().await.expect("it is held");
                }
                held
            })
        })
        .collect();
    let mut all = Vec::new();
    for contender in contenders {
        all.push(contender.await.expect("a contender does not panic"));
    }
    all
}

/// What came of contention, round after round.
pub struct Tally {
    gaps: Samples,
    /// The means of the rounds: what the machine does besides spoils few of them.
    means: Samples,
    over_list: Samples,
    counts: Vec<usize>,
    round_trips: Samples,
    again: usize,
    hands: usize,
}

impl Tally {
    pub fn new(contenders: usize) -> Self {
        let (gaps, means, over_list, round_trips) = Default::default();
        let counts = vec![0; contenders];
        Self { gaps, means, over_list, counts, round_trips, again: 0, hands: 0 }
    }

    /// A round, with a place for each contender; by the lock, and by a list.
    pub fn add(&mut self, held: &[Vec<Held>], by_list: &[Vec<Held>], round_trip: f64) {
        let hands = in_order(held);
        hands.iter().for_each(|(who, _)| self.counts[*who] += 1);
        self.again += hands.windows(2).filter(|pair| pair[0].0 == pair[1].0).count();
        let (mut sum, mut ours, mut bare) = (0.0, Samples::default(), Samples::default());
        for gap in gaps(&hands) {
            sum += gap / round_trip;
            self.gaps.push(gap / round_trip);
            ours.push(gap);
        }
        gaps(&in_order(by_list)).for_each(|gap| bare.push(gap));
        self.over_list.push(ours.summary().median / bare.summary().median);
        self.means.push(sum / hands.len().saturating_sub(1).max(1) as f64);
        self.round_trips.push(round_trip);
        self.hands += hands.len();
    }

    pub fn row(&self, who: String, way: &str, lone: Cell, scripts: u64) -> Vec<Cell> {
        let most = self.counts.iter().max().unwrap_or(&0);
        let least = self.counts.iter().min().unwrap_or(&0);
        let hands = self.hands.max(1) as f64;
        vec![
            Cell::Text(who),
            Cell::text(way),
            Cell::spread(&self.round_trips, 0),
            Cell::spread(&self.gaps, 2),
            Cell::spread(&self.means, 2),
            Cell::spread(&self.over_list, 2),
            lone,
            Cell::Number(scripts as f64 / hands, 2),
            Cell::Number(100.0 * self.again as f64 / hands, 0),
            Cell::Number(*most as f64 / *least as f64, 2),
        ]
    }
}

/// All hands in the order of time, with the place of the contender.
fn in_order(held: &[Vec<Held>]) -> Vec<(usize, Held)> {
    let each = held.iter().enumerate();
    let mut hands: Vec<(usize, Held)> =
        each.flat_map(|(who, held)| held.iter().map(move |held| (who, *held))).collect();
    hands.sort_by(|(_, one), (_, other)| one.0.total_cmp(&other.0));
    hands
}

fn gaps(hands: &[(usize, Held)]) -> impl Iterator<Item = f64> {
    hands.windows(2).map(|pair| {
        let gap = pair[1].1.0 - pair[0].1.1;
        assert!(gap >= 0.0, "two held the lock at once");
        gap
    })
}

//! Eight that want the same lock and hold it for a millisecond: how long it lies idle between two
//! of them, and whether all get it equally often. Tasks of one process, and processes.
//!
//! A gap is from before one holder gives back to after the next one has it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold::{Guard, Locker};
use redis::aio::MultiplexedConnection;
use redis::{Client, Value, cmd};
use rslock::{LockGuard, LockManager};

use crate::contender::{NAME, Owner, RELEASED, TTL_MS};
use crate::contenders::without_delay;
use crate::measure::{Start, cpu_micros_of, monotonic};
use crate::placement::Placement;
use crate::report::{Cell, Report};
use crate::runtimes::{Shape, Stage};
use crate::statistics::Samples;
use crate::support::RedisServer;
use crate::wire::STAMP;

const CHILD: &str = "contend";
const CONTENDERS: usize = 8;
const HOLD: Duration = Duration::from_millis(1);
/// Until then all processes have started and are connected.
const START_MICROS: f64 = 300_000.0;
const TTL: Duration = Duration::from_millis(TTL_MS);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Ours,
    Rslock,
    Polling,
}

impl Who {
    const ALL: [Self; 3] = [Self::Ours, Self::Rslock, Self::Polling];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "leasehold",
            Self::Rslock => "rslock, by default",
            Self::Polling => "redis-rs, trying each millisecond",
        }
    }

    async fn connect(self, url: &str) -> Waiter {
        let client = || Client::open(without_delay(url)).expect("a URL");
        match self {
            Self::Ours => Waiter::Ours(Locker::connect(url).await.expect("the server is up")),
            Self::Rslock => Waiter::Rslock(LockManager::from_clients(vec![client()])),
            Self::Polling => {
                let connection = client().get_multiplexed_async_connection().await;
                let mut connection = connection.expect("the server is up");
                let mut load = cmd("SCRIPT");
                load.arg("LOAD").arg(include_str!("../../../../scripts/release.lua"));
                let release = load.query_async(&mut connection).await.expect("it loads");
                Waiter::Polling(connection, release)
            }
        }
    }
}

#[derive(Clone)]
enum Waiter {
    Ours(Locker),
    Rslock(LockManager),
    Polling(MultiplexedConnection, String),
}

enum Held {
    Ours(Guard),
    Rslock(LockGuard),
    Polling(Owner),
}

impl Waiter {
    async fn lock(&mut self) -> Held {
        match self {
            Self::Ours(locker) => Held::Ours(locker.lock(NAME).await.expect("the server is well")),
            Self::Rslock(manager) => {
                let guard = manager.acquire(NAME.as_bytes(), TTL).await;
                Held::Rslock(guard.expect("the server is well"))
            }
            Self::Polling(connection, _) => {
                let owner = Owner::new();
                // Owners of other processes have the same numbers.
                let value = format!("{}-{}", owner.as_str(), std::process::id());
                loop {
                    let mut set = cmd("SET");
                    set.arg(NAME).arg(&value).arg("NX").arg("PX").arg(TTL_MS);
                    let reply: Value = set.query_async(connection).await.expect("it answers");
                    if reply == Value::Okay {
                        return Held::Polling(owner);
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    }

    async fn unlock(&mut self, held: Held) {
        match (self, held) {
            (_, Held::Ours(guard)) => guard.release().await.expect("it is held"),
            (_, Held::Rslock(guard)) => guard.release().await,
            (Self::Polling(connection, release), Held::Polling(owner)) => {
                let value = format!("{}-{}", owner.as_str(), std::process::id());
                let mut evalsha = cmd("EVALSHA");
                evalsha.arg(release.as_str()).arg(1).arg(NAME).arg(value).arg(STAMP);
                let reply: i64 = evalsha.query_async(connection).await.expect("it answers");
                assert_eq!(reply, RELEASED);
            }
            (_, Held::Polling(_)) => unreachable!("it was taken by another kind of client"),
        }
    }
}

/// When a contender had the lock, in microseconds of one clock.
type Spans = Vec<(f64, f64)>;

async fn contend(mut waiter: Waiter, time: Duration) -> Spans {
    let end = Instant::now() + time;
    let mut spans = Vec::new();
    while Instant::now() < end {
        let held = waiter.lock().await;
        let from = monotonic();
        tokio::time::sleep(HOLD).await;
        spans.push((from, monotonic()));
        waiter.unlock(held).await;
    }
    spans
}

fn tasks(stage: &Stage, server: &RedisServer, who: Who, time: Duration) -> Vec<Spans> {
    let url = server.url();
    stage.run(async move {
        let waiter = who.connect(&url).await;
        let tasks: Vec<_> =
            (0..CONTENDERS).map(|_| tokio::spawn(contend(waiter.clone(), time))).collect();
        let mut all = Vec::new();
        for task in tasks {
            all.push(task.await.expect("a task does not panic"));
        }
        all
    })
}

/// This program runs itself again as each of them. All begin at a time of the clock they share.
fn processes(server: &RedisServer, who: Who, time: Duration) -> Vec<Spans> {
    let begin = monotonic() + START_MICROS;
    let child = || {
        Command::new(std::env::current_exe().expect("this program has a path"))
            .args([CHILD, who.name(), &server.url(), &begin.to_string()])
            .arg(time.as_millis().to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs again")
    };
    let children: Vec<_> = (0..CONTENDERS).map(|_| child()).collect();
    let read = |line: &str| {
        let (from, until) = line.split_once(' ').expect("two numbers");
        (from.parse().expect("a number"), until.parse().expect("a number"))
    };
    let spans = children.into_iter().map(|child| {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "a contender failed");
        let text = String::from_utf8(output.stdout).expect("it writes numbers");
        text.lines().map(read).collect()
    });
    spans.collect()
}

/// Contends and ends, if this process was told to.
pub fn is_child(arguments: &[String]) -> bool {
    let [child, who, url, begin, millis] = arguments else { return false };
    if child != CHILD {
        return false;
    }
    let who = Who::ALL.into_iter().find(|known| known.name() == who).expect("a contender");
    let (url, begin) = (url.clone(), begin.parse::<f64>().expect("a number"));
    let time = Duration::from_millis(millis.parse().expect("a number"));
    let spans = Stage::new(Shape::CurrentThread).run(async move {
        let waiter = who.connect(&url).await;
        let left = (begin - monotonic()).max(0.0);
        tokio::time::sleep(Duration::from_secs_f64(left / 1e6)).await;
        contend(waiter, time).await
    });
    spans.iter().for_each(|(from, until)| println!("{from} {until}"));
    true
}

/// What came of it, over all rounds.
#[derive(Default)]
struct Tally {
    gaps: Samples,
    hands: [usize; CONTENDERS],
    /// How often the lock went to the one that had just given it back.
    again: usize,
    seconds: f64,
    /// Microseconds, as below.
    cpu: f64,
    server_cpu: f64,
}

impl Tally {
    fn add(&mut self, spans: &[Spans], time: Duration) {
        let each = spans.iter().enumerate();
        let mut all: Vec<(usize, (f64, f64))> =
            each.flat_map(|(who, spans)| spans.iter().map(move |span| (who, *span))).collect();
        all.sort_by(|one, other| one.1.0.total_cmp(&other.1.0));
        all.iter().for_each(|(who, _)| self.hands[*who] += 1);
        for pair in all.windows(2) {
            let gap = pair[1].1.0 - pair[0].1.1;
            assert!(gap >= 0.0, "two held the lock at once");
            self.gaps.push(gap);
            self.again += usize::from(pair[0].0 == pair[1].0);
        }
        self.seconds += time.as_secs_f64();
    }
}

/// Where contenders are: tasks of one process, or processes.
const PLACES: [&str; 3] = ["tasks, current_thread", "tasks, two workers", "processes"];

/// A server and runtimes, each on its CPUs, and what came of each contender in each place.
struct Room {
    placement: Placement,
    server: RedisServer,
    stages: [Stage; 2],
    tallies: Vec<(&'static str, Who, Tally)>,
}

pub fn run(quick: bool) -> Report {
    report("contention", quick, &[Placement::Anywhere])
}

pub fn pinned(quick: bool) -> Report {
    report("contention-pinned", quick, &Placement::pinned())
}

impl Room {
    fn new(placement: Placement) -> Self {
        let server = placement.start_servers(RedisServer::start);
        let stages = [Shape::CurrentThread, Shape::Worker].map(Stage::new);
        let tally = |place| Who::ALL.map(|who| (place, who, Tally::default()));
        let tallies = PLACES.into_iter().flat_map(tally).collect();
        Self { placement, server, stages, tallies }
    }

    fn round(&mut self, time: Duration) {
        self.placement.enter();
        for (place, who, tally) in &mut self.tallies {
            let (client, server) = (Start::now(), cpu_micros_of(self.server.pid()));
            let spans = match PLACES.iter().position(|known| known == place) {
                Some(stage @ 0..2) => tasks(&self.stages[stage], &self.server, *who, time),
                _ => processes(&self.server, *who, time),
            };
            tally.cpu += client.cost().cpu;
            tally.server_cpu += cpu_micros_of(self.server.pid()) - server;
            tally.add(&spans, time);
            let exists = self.server.cli_text(&["EXISTS", NAME]);
            assert_eq!(exists, "0", "a lock was left behind");
        }
    }
}

fn report(scenario: &'static str, quick: bool, placements: &[Placement]) -> Report {
    let (rounds, time) =
        if quick { (1, Duration::from_millis(500)) } else { (5, Duration::from_secs(2)) };
    let mut rooms: Vec<Room> = placements.iter().map(|placement| Room::new(*placement)).collect();
    for _ in 0..rounds {
        rooms.iter_mut().for_each(|room| room.round(time));
    }
    Report {
        scenario,
        notes: vec![
            format!(
                "{CONTENDERS} that want one lock and hold it for {HOLD:?}; {rounds} rounds of {time:?}, in"
            ),
            "turns. Gap: from before a release to after the next acquire, median (10th to 90th"
                .into(),
            "percentile). CPU of clients is told where all are tasks of one process.".into(),
        ],
        columns: vec![
            "placement",
            "who",
            "contender",
            "gap, µs",
            "hands a second",
            "to the same again, %",
            "most / least",
            "CPU, µs a hand",
            "server CPU, µs a hand",
        ],
        rows: rooms.iter().flat_map(Room::rows).collect(),
    }
}

impl Room {
    fn rows(&self) -> Vec<Vec<Cell>> {
        let rows = self.tallies.iter().map(|(place, who, tally)| {
            let hands: usize = tally.hands.iter().sum();
            let (most, least) = (tally.hands.iter().max(), tally.hands.iter().min());
            let a_hand = |micros: f64| Cell::Number(micros / hands.max(1) as f64, 0);
            vec![
                Cell::text(self.placement.name()),
                Cell::text(*place),
                Cell::text(who.name()),
                Cell::spread(&tally.gaps, 0),
                Cell::Number(hands as f64 / tally.seconds, 0),
                Cell::Number(100.0 * tally.again as f64 / hands.max(1) as f64, 0),
                Cell::Text(format!("{} / {}", most.unwrap_or(&0), least.unwrap_or(&0))),
                if *place == PLACES[2] { Cell::Nothing } else { a_hand(tally.cpu) },
                a_hand(tally.server_cpu),
            ]
        });
        rows.collect()
    }
}

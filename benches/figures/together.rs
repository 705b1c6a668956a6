//! Requests for several locks at once beside requests for one: for how much of the time locks are held, and how
//! long each kind waits.
//!
//! This program runs itself again as each process. The share is that of all locks together, from when the tasks begin
//! until they stop making requests; a request that still waits then counts with its wait so far.

use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold::Locker;

use super::contention::micros;
use super::report::{Cell, Report};
use super::runtimes::{Shape, Stage};
use super::statistics::quantile;
use crate::support::RedisServer;

/// Set in a process that contends: where the server is, which process it is, how many requests there are for each
/// one that wants several locks, when to begin, and for how long.
const CHILD: &str = "LEASEHOLD_BENCH_TOGETHER";
const PROCESSES: usize = 8;
const TASKS_EACH: usize = 12;
const LOCKS: usize = 6;
/// Locks of a request for several: one number or the other.
const SEVERAL: [u64; 2] = [2, 3];
/// How long locks are held, in milliseconds.
const HOLDS: std::ops::Range<u64> = 2..11;
/// Until then all processes have started and are connected.
const START: Duration = Duration::from_millis(500);
/// Of this number of requests one wants several locks; 0 where none does.
const KINDS: [u64; 3] = [0, 40, 6];

/// One request: which locks, and in microseconds of one clock, since when it waited, from when on it held them, and
/// until when. A request that never had them ended its wait when it would have begun to hold.
struct Request {
    locks: Vec<usize>,
    asked: f64,
    from: f64,
    until: f64,
}

pub fn run(time: Duration) -> Report {
    let rows = KINDS.map(|one_in| row(one_in, &requests(one_in, time), time));
    Report {
        scenario: "together",
        notes: vec![
            format!(
                "{} tasks in {PROCESSES} processes that ask for {LOCKS} locks for {time:?}; each holds what it",
                PROCESSES * TASKS_EACH
            ),
            format!(
                "gets for {} to {} ms, and some want {} or {} locks at once.",
                HOLDS.start,
                HOLDS.end - 1,
                SEVERAL[0],
                SEVERAL[1]
            ),
        ],
        columns: vec![
            "requests for several",
            "locks are held, %",
            "granted",
            "one: median wait, ms",
            "99th percentile",
            "several: granted",
            "median wait, ms",
            "99th percentile",
        ],
        rows: rows.into(),
    }
}

fn row(one_in: u64, requests: &[Request], time: Duration) -> Vec<Cell> {
    for lock in 0..LOCKS {
        let of_lock = requests.iter().filter(|it| it.locks.contains(&lock) && it.until > it.from);
        let mut held: Vec<_> = of_lock.map(|it| (it.from, it.until)).collect();
        held.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!(!held.is_empty(), "nobody got lock {lock}");
        assert!(held.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two held lock {lock} at once");
    }
    let held: f64 = requests.iter().map(|it| (it.until - it.from) * it.locks.len() as f64).sum();
    let share = 100.0 * held / (time.as_secs_f64() * 1e6 * LOCKS as f64);
    let kind = if one_in == 0 { "none".to_owned() } else { format!("1 in {one_in}") };
    let mut cells = vec![Cell::Text(kind), Cell::Number(share, 1)];
    for is_several in [false, true] {
        let of_kind = || requests.iter().filter(move |it| (it.locks.len() > 1) == is_several);
        let mut waits: Vec<f64> = of_kind().map(|it| (it.from - it.asked) / 1e3).collect();
        waits.sort_by(f64::total_cmp);
        cells.push(Cell::Number(of_kind().filter(|it| it.until > it.from).count() as f64, 0));
        cells.extend([0.5, 0.99].map(|share| match quantile(&waits, share) {
            wait if wait.is_nan() => Cell::Nothing,
            wait => Cell::Number(wait, 0),
        }));
    }
    cells
}

fn requests(one_in: u64, time: Duration) -> Vec<Request> {
    let server = RedisServer::start();
    let begin = micros() + START.as_secs_f64() * 1e6;
    let children: Vec<_> = (0..PROCESSES)
        .map(|process| {
            let address = server.address();
            let told = format!("{address} {process} {one_in} {begin} {}", time.as_millis());
            Command::new(std::env::current_exe().expect("this program has a path"))
                .env(CHILD, told)
                .stdout(Stdio::piped())
                .spawn()
                .expect("it runs again")
        })
        .collect();
    let outputs = children.into_iter().flat_map(|child| {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "a contender failed");
        let text = String::from_utf8(output.stdout).expect("it writes numbers");
        text.lines().map(Request::read).collect::<Vec<_>>()
    });
    outputs.collect()
}

impl Request {
    fn write(&self) {
        let Self { locks, asked, from, until } = self;
        let locks: Vec<String> = locks.iter().map(usize::to_string).collect();
        println!("{} {asked} {from} {until}", locks.join(","));
    }

    fn read(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let [locks, asked, from, until] = words[..] else { panic!("four words: {line}") };
        let locks = locks.split(',').map(|lock| lock.parse().expect("a lock")).collect();
        let [asked, from, until] = [asked, from, until].map(|it| it.parse().expect("a time"));
        Self { locks, asked, from, until }
    }
}

/// A process that contends, if this is one.
pub fn contend_if_told() -> bool {
    let Ok(told) = std::env::var(CHILD) else { return false };
    let words: Vec<&str> = told.split(' ').collect();
    let [address, process, one_in, begin, millis] = words[..] else { panic!("five words: {told}") };
    let url = format!("redis://{address}");
    let [process, one_in, millis] =
        [process, one_in, millis].map(|it| it.parse().expect("a number"));
    let begin: f64 = begin.parse().expect("a number");
    let end = begin + millis as f64 * 1e3;
    Stage::new(Shape::CurrentThread).run(async move {
        let locker = Locker::connect(&url).await.expect("the server is up");
        until(begin).await;
        let tasks: Vec<_> = (0..TASKS_EACH as u64)
            .map(|task| {
                let dice = Dice(1 + process * TASKS_EACH as u64 + task);
                tokio::spawn(contend(locker.clone(), dice, one_in, end))
            })
            .collect();
        for task in tasks {
            task.await.expect("a task does not panic").iter().for_each(Request::write);
        }
    });
    true
}

async fn contend(locker: Locker, mut dice: Dice, one_in: u64, end: f64) -> Vec<Request> {
    let mut requests = Vec::new();
    while micros() < end {
        let locks = dice.locks(one_in);
        let hold = Duration::from_millis(HOLDS.start + dice.below(HOLDS.end - HOLDS.start));
        let names: Vec<String> = locks.iter().map(|lock| format!("together:{lock}")).collect();
        let asked = micros();
        let request = async {
            match &names[..] {
                [name] => locker.lock(name).await,
                _ => locker.lock_all(&names).await,
            }
        };
        let left = Duration::from_secs_f64((end - asked).max(0.0) / 1e6);
        let Ok(guard) = tokio::time::timeout(left, request).await else {
            requests.push(Request { locks, asked, from: end, until: end });
            break;
        };
        let guard = guard.expect("the server is well");
        let from = micros();
        until(end.min(from + hold.as_secs_f64() * 1e6)).await;
        requests.push(Request { locks, asked, from, until: micros().min(end).max(from) });
        guard.release().await.expect("it is held");
    }
    requests
}

async fn until(when: f64) {
    tokio::time::sleep(Duration::from_secs_f64((when - micros()).max(0.0) / 1e6)).await;
}

/// Numbers by the linear congruences of Knuth's MMIX.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn locks(&mut self, one_in: u64) -> Vec<usize> {
        let is_several = one_in > 0 && self.below(one_in) == 0;
        let count = if is_several { SEVERAL[self.below(2) as usize] as usize } else { 1 };
        let mut locks = Vec::new();
        while locks.len() < count {
            let lock = self.below(LOCKS as u64) as usize;
            if !locks.contains(&lock) {
                locks.push(lock);
            }
        }
        locks
    }
}

//! What connections cost a server: those that do nothing, and those over which locks are taken.
//!
//! This program runs itself again as processes with lockers, of a connection each.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use leasehold::Locker;
use tokio::task::JoinSet;

use super::super::cost::{cpu_seconds, told};
use super::super::ours;
use super::super::report::{Cell, Report};
use super::super::runtimes::{Shape, Stage};
use super::super::wire::Kind;
use super::{Plan, lockers};
use crate::support::RedisServer;

/// Set in a process with lockers: the server's URL, the number of this process, and how many lockers.
const CHILD: &str = "LEASEHOLD_BENCH_CONNECTIONS";
const PROCESSES: usize = 8;
/// Of each process; each locker is used by one of them alone.
const TASKS: usize = 8;

pub fn run(plan: &Plan) -> Report {
    let seconds = plan.time.as_secs_f64();
    Report {
        scenario: "growth-connections",
        notes: vec![
            format!("Lockers of up to {PROCESSES} processes, each with a connection of its own to one server. First none does"),
            format!("anything for {seconds} s; then, for as long, each process takes locks by {TASKS} tasks, over all of its"),
            "connections in turn. The server's bytes are those that it has once all are quiet, less those".into(),
            "before the first came; its CPU while all are quiet is less that of a server without clients.".into(),
        ],
        columns: vec![
            "connections",
            "processes",
            "bytes a connection",
            "CPU while quiet, µs a second and connection",
            "pairs a second",
            "CPU, µs a pair",
        ],
        rows: plan.connections.iter().map(|connections| row(*connections, plan.time)).collect(),
    }
}

fn row(connections: usize, time: Duration) -> Vec<Cell> {
    // More than its default allows, with the connections that look on.
    let server = RedisServer::builder().arg("--maxclients").arg("12000").start();
    // The first connection makes scripts and keys that later ones share.
    let warm_up = Process::start(&server, 0, 1);
    drop(warm_up);
    let alone = cpu_while_quiet(&server, time);
    let bytes = told(&server, "memory", "used_memory");
    let count = PROCESSES.min(connections);
    let shares = (0..count).map(|number| (connections - number).div_ceil(count));
    let mut processes: Vec<Process> = shares
        .enumerate()
        .map(|(number, lockers)| Process::start(&server, number, lockers))
        .collect();
    processes.iter_mut().for_each(Process::wait_until_ready);
    let quiet = cpu_while_quiet(&server, time);
    let bytes = told(&server, "memory", "used_memory") - bytes;

    let (began, before) = (Instant::now(), cpu_seconds(server.pid()));
    processes.iter_mut().for_each(|process| process.go(time));
    let pairs: u64 = processes.iter_mut().map(Process::pairs).sum();
    let seconds = began.elapsed().as_secs_f64();
    let cpu = cpu_seconds(server.pid()) - before;
    let each = connections as f64;
    vec![
        Cell::Number(each, 0),
        Cell::Number(count as f64, 0),
        Cell::Number(bytes / each, 0),
        Cell::Number((quiet - alone).max(0.0) * 1e6 / (time.as_secs_f64() * each), 2),
        Cell::Number(pairs as f64 / seconds, 0),
        Cell::Number(cpu * 1e6 / pairs as f64, 1),
    ]
}

fn cpu_while_quiet(server: &RedisServer, time: Duration) -> f64 {
    let before = cpu_seconds(server.pid());
    std::thread::sleep(time);
    cpu_seconds(server.pid()) - before
}

/// A process with lockers, which ends with this one: its input does.
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(server: &RedisServer, number: usize, lockers: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program has a path"))
            .env(CHILD, format!("{} {number} {lockers}", server.url()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs again");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        Self { child, input, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it writes lines");
        line.trim().to_owned()
    }

    fn wait_until_ready(&mut self) {
        assert_eq!(self.line(), "ready", "a process with lockers failed");
    }

    fn go(&mut self, time: Duration) {
        let input = self.input.as_mut().expect("it is open until the end");
        writeln!(input, "{}", time.as_millis()).expect("it reads");
    }

    fn pairs(&mut self) -> u64 {
        self.line().parse().expect("it counts its pairs")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.input = None;
        self.child.wait().expect("it ends with its input");
    }
}

/// A process with lockers, if this is one.
pub fn connect_if_told() -> bool {
    let Ok(told) = std::env::var(CHILD) else { return false };
    let words: Vec<&str> = told.split(' ').collect();
    let [url, number, count] = words[..] else { panic!("three words: {told}") };
    let stage = Stage::new(Shape::CurrentThread);
    let (url, count) = (url.to_owned(), count.parse().expect("a number"));
    let lockers = stage.run(async move { lockers::connect(&url, count).await });
    println!("ready");
    // Their connections are read meanwhile.
    let next_line = || stage.run(async { tokio::task::spawn_blocking(read_line).await });
    while let Ok(Some(line)) = next_line() {
        let time = Duration::from_millis(line.parse().expect("a number"));
        println!("{}", stage.run(take_turns(lockers.clone(), number.to_owned(), time)));
    }
    true
}

fn read_line() -> Option<String> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    Some(line.trim().to_owned())
}

/// Pairs over one locker after another.
async fn take_turns(lockers: Vec<Locker>, number: String, time: Duration) -> u64 {
    let end = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS.min(lockers.len()) {
        let own: Vec<Locker> = lockers.iter().skip(task).step_by(TASKS).cloned().collect();
        let name = format!("invoice:{number}:{task}");
        tasks.spawn(async move {
            let mut pairs = 0;
            for locker in own.iter().cycle() {
                if Instant::now() >= end {
                    break;
                }
                ours::pair(locker, Kind::Fenced, &name).await;
                pairs += 1;
            }
            pairs
        });
    }
    tasks.join_all().await.into_iter().sum()
}

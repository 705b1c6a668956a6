//! What a share of a lock, a permit of a semaphore, a token of a limit and a party of a latch cost the server,
//! beside others that are there, by each library that has them: see `members/sharers.rs`; and what is used by
//! one at a time: see `members/family.rs`.

use std::time::{Duration, Instant};

use crate::measure::cpu_micros_of;
use crate::report::{Cell, Report};
use crate::statistics::Samples;
use crate::support::RedisServer;

mod family;
mod node;
mod sharer;
mod sharers;

use sharer::Sharer;

/// Tasks that take and give back at the same time, of each library.
const TASKS: usize = 64;
const MEMBERS: [usize; 3] = [10, 1_000, 10_000];

pub fn run(quick: bool) -> Report {
    let (rounds, length) =
        if quick { (1, Duration::from_millis(20)) } else { (7, Duration::from_millis(150)) };
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_all().build().expect("a runtime starts");
    let mut sharers = runtime.block_on(sharers::all(&server.url()));
    let wanted: Vec<(usize, usize)> = (0..sharers.len())
        .flat_map(|number| {
            let members: &[usize] = if sharers[number].has_members { &MEMBERS } else { &[0] };
            members.iter().map(move |&members| (number, members))
        })
        .collect();
    let mut samples = vec![Samples::default(); wanted.len()];
    let mut client = server.client();
    for _ in 0..rounds {
        for (&(number, members), samples) in wanted.iter().zip(&mut samples) {
            client.call(&["FLUSHALL"]);
            client.call(&["SET", sharer::COUNTER, sharers::LIMIT_TEXT]);
            let sharer = &mut sharers[number];
            runtime.block_on(sharer.take(members, true));
            // The first of them load scripts, and open what is opened late.
            runtime.block_on(sharer.take(TASKS, false));
            samples.push(micros(&runtime, sharer, &server, length));
        }
    }
    let rows = wanted.iter().zip(&samples).map(|(&(number, members), its)| {
        vec![
            Cell::text(sharers[number].what),
            Cell::text(sharers[number].library),
            Cell::Number(members as f64, 0),
            Cell::spread(its, 1),
            Cell::spread(&its.over(&samples[0]), 2),
        ]
    });
    Report {
        scenario: "members",
        notes: vec![
            "The server's CPU to acquire and release, to start and finish, or for one call, in microseconds, beside".into(),
            format!("members that stay; {TASKS} tasks of each library on one connection, system calls included; {rounds} rounds;"),
            "median (10th to 90th percentile), ratios round by round. Plain: redis-rs, SET NX PX and a script that".into(),
            "compares and deletes. Redisson's structures: the same Redis commands as its published descriptions tell,".into(),
            "in scripts that were written for this table and are called by redis-rs; its own scripts do more.".into(),
            "Election: campaign and resign, of 64 offices that nobody else wants. Once: a slot of a job, each later".into(),
            "than the last, at least once. Idempotent: a request that nobody made before, and one whose result is".into(),
            "kept. Latch and barrier: a party that counts down or arrives, of 10,000; 64 come again and again.".into(),
        ],
        columns: vec!["what", "library", "members", "CPU, µs a pair", "over plain"],
        rows: rows.collect(),
    }
}

/// The server's microseconds a pair, over at least this time.
fn micros(
    runtime: &tokio::runtime::Runtime,
    sharer: &mut Sharer,
    server: &RedisServer,
    length: Duration,
) -> f64 {
    let (started, before) = (Instant::now(), cpu_micros_of(server.pid()));
    let mut pairs = 0;
    while started.elapsed() < length {
        runtime.block_on(sharer.take(TASKS, false));
        pairs += TASKS;
    }
    (cpu_micros_of(server.pid()) - before) / pairs as f64
}

//! The cost of an idle locker.

use std::time::Duration;

use allocation_counter::measure;
use leasehold::Locker;
use tokio::runtime::Handle;

use super::cost::{cpu_seconds, told};
use super::report::{Cell, Report};
use super::runtimes::{Shape, Stage};
#[cfg(feature = "full")]
use crate::support::Cluster;
use crate::support::RedisServer;

const FIVE: usize = 5;
/// Taken and released once, so that whatever connects at the first need is connected: enough names to
/// reach each master.
const NAMES: usize = 64;
/// Threads that have looked a name up stay for 10 s.
const REST: Duration = Duration::from_secs(11);

/// Watched for this long each, with a Cluster of this many masters.
pub fn run(time: Duration, #[cfg(feature = "full")] masters: usize) -> Report {
    let servers: Vec<RedisServer> = (0..FIVE).map(|_| RedisServer::start()).collect();
    let urls = |servers: &[RedisServer]| servers.iter().map(RedisServer::url).collect();
    let by_name = format!("redis://localhost:{}", servers[0].port());
    let (one, five): (Vec<_>, Vec<_>) = (vec![&servers[0]], servers.iter().collect());
    #[allow(unused_mut, reason = "there is one more with all features")]
    let mut rows = vec![
        row("one server", urls(&servers[..1]), &one, time),
        row("one server, by a name", vec![by_name], &one, time),
        row("five servers", urls(&servers), &five, time),
    ];
    #[cfg(feature = "full")]
    rows.push(of_cluster(time, masters));
    Report {
        scenario: "idle",
        notes: vec![
            format!("A locker with default settings, which has taken and released {NAMES} locks, and is then left alone for"),
            format!("{} s, on one thread. Threads: those beside the thread of the runtime. Bytes of heap: what was", time.as_secs_f64()),
            "asked of the allocator and not given back since before the locker connected. Bytes a second: what the".into(),
            "servers have read and written, in both directions together, less what they do without it.".into(),
        ],
        columns: vec![
            "of what",
            "tasks",
            "threads",
            "connections",
            "bytes of heap",
            "bytes a second",
            "CPU here, µs a second",
        ],
        rows,
    }
}

#[cfg(feature = "full")]
fn of_cluster(time: Duration, masters: usize) -> Vec<Cell> {
    let cluster = Cluster::of_masters(masters);
    let nodes: Vec<_> = (0..masters).map(|node| &cluster[node]).collect();
    let url = vec![cluster.seed_url(masters)];
    row(&format!("Cluster of {masters} masters"), url, &nodes, time)
}

fn row(what: &str, urls: Vec<String>, servers: &[&RedisServer], time: Duration) -> Vec<Cell> {
    let without = traffic_in(servers, || std::thread::sleep(time));
    let connected = connections(servers);
    // All tasks of this runtime run on this thread, where what they allocate is counted.
    let stage = Stage::new(Shape::CurrentThread);
    let threads = threads();
    let mut locker = None;
    let allocated = measure(|| locker = Some(stage.run(prepare(urls, REST.min(time)))));
    let own = connections(servers) - connected;
    let here = cpu_seconds(std::process::id());
    let rest = || stage.run(async move { tokio::time::sleep(time).await });
    let with = traffic_in(servers, rest);
    let here = cpu_seconds(std::process::id()) - here;
    let tasks = stage.run(async { Handle::current().metrics().num_alive_tasks() });
    let threads = self::threads() - threads;
    drop(locker);
    let seconds = time.as_secs_f64();
    vec![
        Cell::text(what),
        Cell::Number(tasks as f64, 0),
        Cell::Number(threads as f64, 0),
        Cell::Number(own, 0),
        Cell::Number(allocated.bytes_current as f64, 0),
        Cell::Number((with - without).max(0.0) / seconds, 1),
        Cell::Number(here * 1e6 / seconds, 0),
    ]
}

async fn prepare(urls: Vec<String>, rest: Duration) -> Locker {
    let locker = Locker::builder().nodes(urls).connect().await.expect("the servers are up");
    for number in 0..NAMES {
        let guard = locker.lock(format!("invoice:{number}")).await.expect("it is free");
        guard.release().await.expect("it was held");
    }
    tokio::time::sleep(rest).await;
    locker
}

/// Bytes that these servers read and write for clients meanwhile, the questions about it included.
fn traffic_in(servers: &[&RedisServer], meanwhile: impl FnOnce()) -> f64 {
    let sum = || {
        let both = |server: &&RedisServer| {
            ["total_net_input_bytes", "total_net_output_bytes"]
                .map(|name| told(server, "stats", name))
                .iter()
                .sum::<f64>()
        };
        servers.iter().map(both).sum::<f64>()
    };
    let before = sum();
    meanwhile();
    sum() - before
}

fn connections(servers: &[&RedisServer]) -> f64 {
    servers.iter().map(|server| told(server, "clients", "connected_clients")).sum()
}

/// Of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

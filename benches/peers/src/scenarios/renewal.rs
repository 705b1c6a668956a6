//! What it costs to keep leases: heap, and CPU of this process and of the server. No peer renews
//! by itself, so Leasehold is alone here.

use std::time::Duration;

use leasehold::Locker;

use crate::alloc;
use crate::leases::take;
use crate::measure::{Start, cpu_seconds_of};
use crate::report::{Cell, Report};
use crate::runtimes::{Shape, Stage};
use crate::support::RedisServer;

pub fn run(quick: bool) -> Report {
    let (leases, ttl, time): (&[usize], _, _) = if quick {
        (&[10_000], Duration::from_secs(6), Duration::from_secs(4))
    } else {
        (&[10_000, 100_000], Duration::from_secs(30), Duration::from_secs(30))
    };
    let mut rows = Vec::new();
    for &leases in leases {
        let kept = keep(leases, ttl, time);
        rows.push(vec![
            Cell::Number(leases as f64, 0),
            Cell::Number(kept.bytes, 0),
            Cell::Number(kept.cpu, 2),
            Cell::Number(kept.server_cpu, 2),
            Cell::Number(kept.renewals, 0),
        ]);
    }
    Report {
        scenario: "renewal",
        notes: vec![
            format!(
                "Leases of {ttl:?} on one locker, renewed every third of that, watched for {time:?};"
            ),
            "bytes are live heap, names and guards included.".into(),
        ],
        columns: vec![
            "leases",
            "bytes a lease",
            "CPU here, %",
            "CPU of the server, %",
            "renewals a second",
        ],
        rows,
    }
}

struct Kept {
    bytes: f64,
    /// Percent of one core, and so below.
    cpu: f64,
    server_cpu: f64,
    renewals: f64,
}

fn keep(leases: usize, ttl: Duration, time: Duration) -> Kept {
    let server = RedisServer::start();
    let stage = Stage::new(Shape::Worker);
    let builder = Locker::builder().node(server.url()).ttl(ttl);
    let locker = stage.run(async move { builder.connect().await }).expect("the server is up");
    alloc::start();
    let takers = locker.clone();
    let guards = stage.run(async move { take(&takers, leases).await });
    let bytes = alloc::stop().live as f64 / leases as f64;
    let (start, there, renewed) =
        (Start::now(), cpu_seconds_of(server.pid()), locker.stats().renewed);
    std::thread::sleep(time);
    let cost = start.cost();
    let seconds = cost.wall / 1e6;
    let stats = locker.stats();
    assert_eq!(stats.lost(), 0, "a lease was lost");
    assert!(guards.iter().all(|guard| !guard.is_lost()), "a lease was lost");
    assert!(stats.renewed > renewed, "nothing was renewed");
    let kept = Kept {
        bytes,
        cpu: 100.0 * cost.cpu / cost.wall,
        server_cpu: 100.0 * (cpu_seconds_of(server.pid()) - there) / seconds,
        renewals: (stats.renewed - renewed) as f64 / seconds,
    };
    stage.run(async move { locker.shutdown(Duration::from_secs(30)).await });
    kept
}

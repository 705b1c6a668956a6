//! System calls a pair, counted by strace: this program runs itself under it, twice with different
//! numbers of pairs, and what more pairs cost more is theirs.

use std::net::SocketAddr;
use std::process::Command;

use crate::contender::{Site, Who};
use crate::report::{Cell, Report};
use crate::runtimes::{Shape, Stage};
use crate::support::RedisServer;

const CHILD: &str = "pairs-for-strace";
const WARM_UP: u32 = 200;
/// Told one by one; the others are in the sum.
const TOLD: [&str; 8] =
    ["recvfrom", "sendto", "writev", "epoll_wait", "futex", "write", "getrandom", "clock_gettime"];

pub fn run(quick: bool) -> Option<Report> {
    if Command::new("strace").args(["-c", "true"]).output().is_ok_and(|it| it.status.success()) {
        Some(count(if quick { 100 } else { 2_000 }))
    } else {
        eprintln!("syscalls: skipped, because strace is missing or may not trace here");
        None
    }
}

fn count(pairs: u32) -> Report {
    let server = RedisServer::start();
    let site = Site::of(&server);
    let mut rows = Vec::new();
    for shape in Shape::ALL {
        for who in Who::ALL {
            let few = Calls::of(&server, &site, shape, who, WARM_UP);
            let many = Calls::of(&server, &site, shape, who, WARM_UP + pairs);
            let per_pair = |name: &str| (many.named(name) - few.named(name)) / f64::from(pairs);
            let mut row = vec![Cell::text(shape.name()), Cell::text(who.name())];
            row.push(Cell::Number(per_pair("total"), 2));
            row.extend(TOLD.map(|name| Cell::Number(per_pair(name), 2)));
            rows.push(row);
        }
    }
    let mut columns = vec!["runtime", "contender", "system calls a pair"];
    columns.extend(TOLD);
    Report {
        scenario: "syscalls",
        notes: vec![
            format!("Of all threads, by strace, over {pairs} pairs of one task. Tracing slows the"),
            "client down, and so may change how its threads meet.".into(),
        ],
        columns,
        rows,
    }
}

/// By name, as strace sums them up.
struct Calls(String);

impl Calls {
    fn of(server: &RedisServer, site: &Site, shape: Shape, who: Who, pairs: u32) -> Self {
        let summary = server.directory().join("strace");
        let program = std::env::current_exe().expect("this program has a path");
        let output = Command::new("strace")
            .args(["-f", "-c", "-o"])
            .arg(&summary)
            .arg(program)
            .args([CHILD, &site.address.to_string(), &(shape as u8).to_string(), who.name()])
            .arg(pairs.to_string())
            .output()
            .expect("strace starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(std::fs::read_to_string(summary).expect("strace sums up"))
    }

    /// A line is: percent, seconds, microseconds a call, calls, errors if any, name.
    fn named(&self, name: &str) -> f64 {
        let line = self.0.lines().find(|line| line.split_whitespace().next_back() == Some(name));
        let calls = line.and_then(|line| line.split_whitespace().nth(3));
        calls.map_or(0.0, |calls| calls.parse().expect("a number of calls"))
    }
}

/// Runs pairs and ends, if this process was told to.
pub fn is_child(arguments: &[String]) -> bool {
    let [child, address, shape, who, pairs] = arguments else { return false };
    if child != CHILD {
        return false;
    }
    let shape = Shape::ALL.into_iter().find(|it| (*it as u8).to_string() == *shape);
    let who = Who::by_name(who).expect("a contender");
    let address: SocketAddr = address.parse().expect("an address");
    let pairs = pairs.parse().expect("a number");
    Stage::new(shape.expect("a shape")).run(async move {
        who.connect(site_at(address)).await.pairs(pairs).await;
    });
    true
}

fn site_at(address: SocketAddr) -> Site {
    let client = crate::support::Client::connect(address, None);
    Site::through(&mut client.expect("the server is up"), address)
}

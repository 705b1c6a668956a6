//! One node of a Cluster, its view of the others, and a limit on the number of Clusters.

use std::ops::RangeInclusive;
use std::sync::{Condvar, Mutex, PoisonError};

use super::super::server::Builder;
use super::super::{RedisServer, binary, ports};

/// Time of silence after which a node counts as dead.
const NODE_TIMEOUT_MS: &str = "1500";
/// The Cluster bus's port minus the node's, where it cannot be chosen.
const BUS_PORT_OFFSET: u16 = 10_000;
/// Maximum Clusters at a time in one test program: with more, on a few cores, slow nodes would count as dead.
const AT_A_TIME: usize = 2;

pub(super) struct Node {
    pub(super) server: RedisServer,
    pub(super) bus_port: u16,
    pub(super) id: String,
    /// Whether it runs, neither killed nor stopped.
    pub(super) answers: bool,
}

/// The right to run one of these Clusters.
pub(super) struct Turn;

static RUNNING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

impl Turn {
    pub(super) fn wait() -> Self {
        let (running, ended) = &RUNNING;
        let running = running.lock().unwrap_or_else(PoisonError::into_inner);
        let free = ended.wait_while(running, |running| *running >= AT_A_TIME);
        *free.unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        RUNNING.1.notify_one();
    }
}

/// One node's line about a node.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) id: String,
    pub(super) flags: Vec<String>,
    /// The id of a replica's master.
    pub(super) master: String,
    pub(super) slots: Vec<RangeInclusive<u16>>,
}

impl Line {
    /// Reads "id address flags master ping pong epoch link slot...", of `CLUSTER NODES`.
    fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let range = |word: &&str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some(first.parse().ok()?..=last.parse().ok()?)
        };
        Self {
            id: words[0].to_owned(),
            flags: words[2].split(',').map(str::to_owned).collect(),
            master: words[3].to_owned(),
            slots: words[8..].iter().filter_map(range).collect(),
        }
    }

    pub(super) fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }

    pub(super) fn serves(&self, slot: u16) -> bool {
        self.is("master") && self.slots.iter().any(|slots| slots.contains(&slot))
    }
}

impl Node {
    pub(super) fn start(builder: &Builder) -> Self {
        let arguments = [
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            NODE_TIMEOUT_MS,
            "--cluster-replica-validity-factor",
            "0",
            "--repl-diskless-sync-delay",
            "0",
        ]
        .map(str::to_owned);
        let mut builder = arguments.iter().fold(builder.clone(), Builder::arg);
        // A chosen bus port stays free over a restart, like the node's own.
        let bus_port = binary::is_seven().then(ports::free);
        if let Some(port) = bus_port {
            builder = builder.arg("--cluster-port").arg(port.to_string());
        }
        let server = builder.start();
        let bus_port = bus_port.unwrap_or(server.port() + BUS_PORT_OFFSET);
        let id = server.cli_text(&["CLUSTER", "MYID"]);
        Self { server, bus_port, id, answers: true }
    }

    #[track_caller]
    pub(super) fn ok(&self, command: &[&str]) {
        assert_eq!(self.server.cli_text(command), "OK", "{command:?}");
    }

    /// Assigns it all slots from the first to the last.
    pub(super) fn own(&self, first: u16, last: u16) {
        self.server.own_slots(first..=last);
    }

    pub(super) fn meet(&self, other: &Self) {
        let [port, bus_port] = [other.server.port(), other.bus_port].map(|port| port.to_string());
        self.ok(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port]);
    }

    pub(super) fn view(&self) -> Vec<Line> {
        self.server.cli_text(&["CLUSTER", "NODES"]).lines().map(Line::parse).collect()
    }

    pub(super) fn myself(&self) -> Line {
        let line = self.view().into_iter().find(|line| line.is("myself"));
        line.expect("a node knows itself")
    }

    pub(super) fn follows(&self, master: &str) -> bool {
        self.myself().master == master
    }
}

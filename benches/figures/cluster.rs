//! The cost of a Cluster: a pair routed through the map beside one over a direct connection to the same node. And for
//! how long no lock is granted after a master was killed, beside the time that the servers themselves need: until the
//! successor reports by `ROLE` that it is a master, and until other nodes report it to clients. Sentinels too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold::Locker;
use leasehold_resp::Frame;

use super::ours;
use super::report::{Cell as Told, Report};
use super::runtimes::{Shape, Stage};
use super::statistics::Samples;
use super::uncontended::{Micros, PAIRS_PER_BLOCK, Start};
use super::wire::Kind;
use crate::support::sentinel::{SERVICE, Setup};
use crate::support::{Client, Cluster, Sentinels};

/// Between two looks at the servers from the side.
const LOOK: Duration = Duration::from_millis(1);
const SHORT: Duration = Duration::from_secs(1);
const AFTERMATH: Duration = Duration::from_millis(50);
const TASKS: usize = 8;

/// One runtime and one kind of lease.
struct Cell {
    kind: Kind,
    routed: Locker,
    direct: Locker,
    latency: [Samples; 2],
    cpu: [Samples; 2],
}

pub fn run(rounds: usize, failovers: usize) -> [Report; 2] {
    let routing = routing(rounds);
    let of_cluster: Vec<_> = (0..failovers).map(|_| cluster_failover()).collect();
    let of_service: Vec<_> = (0..failovers).map(|_| service_failover()).collect();
    let rows = vec![outage_row("Cluster", &of_cluster), outage_row("Sentinel", &of_service)];
    let failover = Report {
        scenario: "failover",
        notes: vec![
            format!("A master is killed under load, {failovers} times each; milliseconds, median (10th to 90th"),
            "percentile). Its word: when other servers, or more than half of the Sentinels, name the".into(),
            "successor.".into(),
        ],
        columns: vec![
            "what",
            "successor's role after the kill",
            "its word after the kill",
            "our first grant after the kill",
            "our first grant after the role",
            "our first grant after the word",
        ],
        rows,
    };
    [routing, failover]
}

fn routing(rounds: usize) -> Report {
    let cluster = Cluster::start();
    let name = name_at(&cluster, 0);
    let mut stages: Vec<(Stage, Vec<Cell>)> = Shape::ALL
        .into_iter()
        .map(|shape| {
            let stage = Stage::new(shape);
            let cells = Kind::ALL.map(|kind| Cell::new(&stage, &cluster, kind));
            (stage, cells.into())
        })
        .collect();
    for round in 0..=rounds {
        for (stage, cells) in &mut stages {
            cells.iter_mut().for_each(|cell| cell.round(stage, &name, round));
        }
    }
    let rows = stages
        .iter()
        .flat_map(|(stage, cells)| cells.iter().map(|cell| cell.row(stage)).collect::<Vec<_>>());
    Report {
        scenario: "cluster-routing",
        notes: vec![
            "The same pair to the same node of a Cluster, routed and direct, microseconds: median"
                .into(),
            format!("(10th to 90th percentile) of {rounds} rounds of {PAIRS_PER_BLOCK} pairs."),
        ],
        columns: vec![
            "runtime",
            "lease",
            "direct, µs",
            "CPU, µs",
            "routed, µs",
            "CPU routed, µs",
            "routed over direct",
        ],
        rows: rows.collect(),
    }
}

/// The name of a lock that is with this node.
fn name_at(cluster: &Cluster, node: usize) -> String {
    let mut names = (0..).map(|number| format!("invoice:{number}"));
    let found = names.find(|name| cluster.master_of(cluster.slot(name)) == node);
    found.expect("there are enough numbers")
}

impl Cell {
    fn new(stage: &Stage, cluster: &Cluster, kind: Kind) -> Self {
        let (routed, direct) = (cluster.seed_url(3), cluster[0].url());
        let connect = async |url: String| Locker::connect(&url).await.expect("the nodes are up");
        let (routed, direct) =
            stage.run(async move { (connect(routed).await, connect(direct).await) });
        let (latency, cpu) = Default::default();
        Self { kind, routed, direct, latency, cpu }
    }

    /// Both, the first of them changing from round to round; round 0 warms up.
    fn round(&mut self, stage: &Stage, name: &str, round: usize) {
        for side in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let locker = [&self.direct, &self.routed][side].clone();
            let (kind, name) = (self.kind, name.to_owned());
            let Micros { latency, cpu } = stage.run(async move {
                let started = Start::now();
                for _ in 0..PAIRS_PER_BLOCK {
                    ours::pair(&locker, kind, &name).await;
                }
                started.micros_per_pair()
            });
            if round > 0 {
                self.latency[side].push(latency);
                self.cpu[side].push(cpu);
            }
        }
    }

    fn row(&self, stage: &Stage) -> Vec<Told> {
        let [direct, routed] = &self.latency;
        let [direct_cpu, routed_cpu] = &self.cpu;
        vec![
            Told::text(stage.shape().name()),
            Told::text(self.kind.name()),
            Told::spread(direct, 1),
            Told::spread(direct_cpu, 1),
            Told::spread(routed, 1),
            Told::spread(routed_cpu, 1),
            Told::spread(&routed.over(direct), 3),
        ]
    }
}

/// Since the kill.
struct Outage {
    role: Duration,
    /// Until other servers, or more than half of the Sentinels, name the successor.
    word: Duration,
    ours: Duration,
}

fn outage_row(what: &str, outages: &[Outage]) -> Vec<Told> {
    let mut columns: [Samples; 5] = Default::default();
    for Outage { role, word, ours } in outages {
        let [role, word, ours] = [role, word, ours].map(|it| it.as_secs_f64() * 1e3);
        let figures = [role, word, ours, ours - role, ours - word];
        columns.iter_mut().zip(figures).for_each(|(column, figure)| column.push(figure));
    }
    let mut row = vec![Told::text(what)];
    row.extend(columns.iter().map(|column| Told::spread(column, 0)));
    row
}

fn cluster_failover() -> Outage {
    let mut cluster = Cluster::start();
    let name = name_at(&cluster, 0);
    let replica = cluster.replica_of(0);
    let [address, another] = [replica, 1].map(|node| cluster[node].address());
    let url = cluster.seed_url(3);
    // A key of the slot that nobody takes.
    let probe = format!("{{{name}}}:probe");
    let moved = format!("MOVED {} {address}", cluster.slot(&name));
    let is_promoted = move || is_master(address);
    let is_known = move || {
        let mut client = Client::connect(another, None).expect("it is up");
        client.call(&["GET", &probe]).error().is_some_and(|error| error[..] == *moved.as_bytes())
    };
    outage(url, name, [Box::new(is_promoted), Box::new(is_known)], || cluster.kill(0))
}

fn service_failover() -> Outage {
    // A second, as in the recorded tables: each outage is that much longer, whatever the client does.
    let mut sentinels = Sentinels::start_as(Setup { down_after_ms: 1_000, ..Setup::default() });
    let first = sentinels.master_port();
    let others: Vec<_> = sentinels.servers().iter().filter(|it| it.port() != first).collect();
    let addresses: Vec<_> = others.iter().map(|server| server.address()).collect();
    let is_promoted = move || addresses.iter().any(|address| is_master(*address));
    let ports = sentinels.sentinel_ports();
    let is_known = move || {
        let knowing = ports.iter().filter(|port| names_another_than(first, **port));
        2 * knowing.count() > ports.len()
    };
    let url = sentinels.url();
    outage(url, "invoice".to_owned(), [Box::new(is_promoted), Box::new(is_known)], || {
        sentinels.kill_master();
    })
}

/// Whether the Sentinel at this port has told of another master.
fn names_another_than(first: u16, port: u16) -> bool {
    let mut client = Client::connect(([127, 0, 0, 1], port).into(), None).expect("it is up");
    let question = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE];
    let Frame::Array(address) = client.call(&question) else { return false };
    let first = first.to_string();
    let port = address.get(1).and_then(Frame::as_bytes);
    port.is_some_and(|port| port != first.as_bytes())
}

/// Whether the server says so. A Sentinel that changes a server's role ends all connections to it.
fn is_master(address: SocketAddr) -> bool {
    let role = Client::connect(address, None).and_then(|mut client| client.try_call(&["ROLE"]));
    let Ok(Frame::Array(role)) = role else { return false };
    role[0].as_bytes().is_some_and(|role| role[..] == *b"master")
}

/// Something that becomes true.
type Sign = Box<dyn FnMut() -> bool + Send>;

/// Tasks take and release locks of one slot all the while; the times from the kill on.
fn outage(url: String, name: String, signs: [Sign; 2], kill: impl FnOnce()) -> Outage {
    let stage = Stage::new(Shape::Worker);
    let granted = Arc::<AtomicU64>::default();
    let tasks = stage.run({
        let granted = Arc::clone(&granted);
        async move {
            let locker = Locker::builder().node(url).ttl(SHORT).connect().await;
            let locker = locker.expect("the servers are up");
            let names = (0..TASKS).map(|task| format!("{{{name}}}:{}", task / 2));
            let begin = |name| tokio::spawn(work(locker.clone(), name, Arc::clone(&granted)));
            names.map(begin).collect::<Vec<_>>()
        }
    });
    std::thread::sleep(SHORT);
    kill();
    let killed_at = Instant::now();
    let looking = signs.map(|mut sign| {
        std::thread::spawn(move || {
            while !sign() {
                std::thread::sleep(LOOK);
            }
            killed_at.elapsed()
        })
    });
    // By now all has come that it had granted.
    std::thread::sleep(AFTERMATH);
    granted.store(0, Ordering::SeqCst);
    while granted.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(LOOK);
    }
    let ours = killed_at.elapsed();
    let [role, word] = looking.map(|it| it.join().expect("there is a successor"));
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    Outage { role, word, ours }
}

async fn work(locker: Locker, name: String, granted: Arc<AtomicU64>) {
    loop {
        let Ok(guard) = locker.lock(&name).await else { continue };
        granted.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(LOOK).await;
        let _ = guard.release().await;
    }
}

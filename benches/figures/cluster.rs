//! What a Cluster costs: a pair routed through the map beside one over a direct connection, to the
//! same node; and how long nothing is granted once a master is killed, beside how long the servers
//! themselves need: until the successor says by `ROLE` that it is a master, and until clients can learn
//! of it from others. Sentinels too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold::Locker;
use leasehold_resp::Frame;

use super::ours;
use super::runtimes::{Shape, Stage};
use super::statistics::Samples;
use super::uncontended::{Micros, PAIRS_PER_BLOCK, Start};
use super::wire::Kind;
use crate::support::sentinel::SERVICE;
use crate::support::{Client, Cluster, Sentinels};

const RATIO_MAX: f64 = 1.03;
/// The longest pause between two goes at the map, or at the Sentinels.
const REFRESH: Duration = Duration::from_millis(200);
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

pub fn run(rounds: usize, failovers: usize) {
    routing(rounds);
    let of_cluster: Vec<_> = (0..failovers).map(|_| cluster_failover()).collect();
    print_outages("Cluster", &of_cluster);
    let of_service: Vec<_> = (0..failovers).map(|_| service_failover()).collect();
    print_outages("Sentinel", &of_service);
}

fn routing(rounds: usize) {
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
    println!("\nThe same pair to the same node of a Cluster, routed and direct, microseconds:");
    println!("median (10th to 90th percentile) of {rounds} rounds of {PAIRS_PER_BLOCK} pairs\n");
    println!(
        "{:<26} {:<9} {:>23} {:>5} {:>23} {:>5} {:>22}",
        "runtime", "lease", "direct", "cpu", "routed", "cpu", "ratio"
    );
    for (stage, cells) in &stages {
        cells.iter().for_each(|cell| cell.print(stage));
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

    fn print(&self, stage: &Stage) {
        let [direct, routed] = &self.latency;
        let [direct_cpu, routed_cpu] = self.cpu.each_ref().map(|cpu| cpu.summary().median);
        let ratio = routed.over(direct).summary();
        println!(
            "{:<26} {:<9} {:>23.1} {direct_cpu:>5.1} {:>23.1} {routed_cpu:>5.1} {ratio:>22.3}  \
             at most {RATIO_MAX}: {}",
            stage.shape().name(),
            self.kind.name(),
            direct.summary(),
            routed.summary(),
            if ratio.median <= RATIO_MAX { "yes" } else { "NO" },
        );
    }
}

/// Since the kill.
struct Outage {
    role: Duration,
    /// Until other servers, or more than half of the Sentinels, name the successor.
    word: Duration,
    ours: Duration,
}

fn print_outages(what: &str, outages: &[Outage]) {
    println!("\n{what}, its master killed under load, ms after the kill:\n");
    println!(
        "{:>14} {:>10} {:>16} {:>16} {:>16}",
        "successor role", "its word", "our first grant", "behind its role", "behind its word"
    );
    let (mut behind_role, mut behind_word) = (Samples::default(), Samples::default());
    for Outage { role, word, ours } in outages {
        let [role, word, ours] = [role, word, ours].map(|it| it.as_secs_f64() * 1e3);
        let (of_role, of_word) = (ours - role, ours - word);
        behind_role.push(of_role);
        behind_word.push(of_word);
        println!("{role:>14.0} {word:>10.0} {ours:>16.0} {of_role:>16.0} {of_word:>16.0}");
    }
    println!("median {:.0} behind its word", behind_word.summary());
    let behind = behind_role.summary();
    let is_soon = behind.median <= REFRESH.as_secs_f64() * 1e3;
    let verdict = if is_soon { "yes" } else { "NO" };
    println!("median {behind:.0} behind its role, at most one refresh ({REFRESH:?}): {verdict}");
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
    let mut sentinels = Sentinels::start();
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

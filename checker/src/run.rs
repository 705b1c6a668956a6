//! One run: servers, ways, clients, faults, and the verdict on their history.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use leasehold_testing::{FaultProxy, RedisServer};

use crate::adapter::Adapter;
use crate::client::{Client, Stage};
use crate::faults::Injector;
use crate::history::Recorder;
use crate::plan::Plan;
use crate::prng::Prng;
use crate::register::Register;
use crate::verdict::Verdict;

const CLIENTS: usize = 4;
const NAMES: usize = 2;

pub(crate) fn run(plan: &Plan) -> Verdict {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let _inside = runtime.enter();
    let mut prng = Prng::new(plan.seed);
    let servers: Vec<RedisServer> = (0..plan.servers).map(|_| RedisServer::start()).collect();
    let way = || servers.iter().map(|server| FaultProxy::start(server.address())).collect();
    let ways: Vec<Vec<FaultProxy>> = (0..CLIENTS).map(|_| way()).collect();
    let adapters: Vec<Adapter> = ways
        .iter()
        .map(|way| {
            let urls: Vec<String> = way.iter().map(FaultProxy::url).collect();
            Adapter::start(&plan.adapter, &urls)
        })
        .collect();
    let library = adapters[0].library.clone();
    let processes = adapters.iter().map(Adapter::process_id).collect();
    let stage = Arc::new(Stage {
        kind: plan.kind,
        recorder: Recorder::new(),
        registers: std::iter::repeat_with(Register::default).take(NAMES).collect(),
        is_over: AtomicBool::new(false),
    });
    let clients = adapters.into_iter().enumerate().map(|(number, adapter)| {
        let client = Client { number, adapter, stage: Arc::clone(&stage), prng: prng.fork() };
        std::thread::spawn(move || client.run())
    });
    let clients: Vec<_> = clients.collect();
    let mut injector =
        Injector { stage: Arc::clone(&stage), servers, ways, processes, prng: prng.fork() };
    injector.run(plan.length);
    // Servers and ways go on until the clients have ended.
    let mut leases = Vec::new();
    for client in clients {
        leases.extend(client.join().expect("a client ends well"));
    }
    Verdict::of(plan, library, &stage, &leases, None)
}

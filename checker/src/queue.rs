//! Many processes that wait for a few locks, at servers of one kind, while processes, connections and
//! servers fail. Beside what [`Verdict`] checks of every history: nobody waits for ever, the queue keeps
//! its order among processes that live, and nothing of it is left once all processes are gone.

mod faults;
mod look;
mod order;
mod waiter;
mod world;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use self::faults::Injector;
use self::look::Looker;
use self::order::{Disturbed, Granted, Snapshot, Who};
use self::waiter::{Process, Waiter};
use self::world::World;
use crate::adapter::Adapter;
use crate::client::{Client, Stage};
use crate::history::Recorder;
use crate::plan::Plan;
use crate::prng::Prng;
use crate::register::Register;
use crate::verdict::Verdict;

pub(crate) const NAMES: usize = 4;
/// What is promised of a queue whose last process has gone.
const LEFT_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
/// Minimum waiters in a queue when all are killed in the end, for something to be left there.
const KILLED_WAITING: usize = 8;

/// What all threads share.
pub(crate) struct Scene {
    pub(crate) stage: Arc<Stage>,
    /// By client.
    processes: Vec<Process>,
    grants: Mutex<HashMap<Who, Granted>>,
    snapshots: Mutex<Vec<Snapshot>>,
    disturbed: Mutex<Vec<Disturbed>>,
    /// Since when nothing fails any more.
    healed: Mutex<Option<Instant>>,
    is_looking: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn key(name: usize) -> String {
    format!("lock:{name}")
}

pub(crate) fn run(plan: &Plan, waiters: usize) -> Verdict {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let _inside = runtime.enter();
    let mut prng = Prng::new(plan.seed);
    let world = World::start(plan.setting, plan.servers);
    let urls = world.urls();
    let scene = Arc::new(Scene {
        stage: Arc::new(Stage {
            kind: plan.kind,
            recorder: Recorder::new(),
            registers: std::iter::repeat_with(Register::default).take(NAMES).collect(),
            is_over: AtomicBool::new(false),
        }),
        processes: std::iter::repeat_with(Process::default).take(waiters).collect(),
        grants: Mutex::default(),
        snapshots: Mutex::default(),
        disturbed: Mutex::default(),
        healed: Mutex::default(),
        is_looking: AtomicBool::new(true),
    });
    let threads: Vec<_> = (0..waiters)
        .map(|number| {
            let (command, urls) = (plan.adapter.clone(), urls.clone());
            let (scene, prng) = (Arc::clone(&scene), prng.fork());
            std::thread::spawn(move || {
                let adapter = Adapter::start(&command, &urls);
                let stage = Arc::clone(&scene.stage);
                let client = Client { number, adapter, stage, prng };
                Waiter { client, scene, command, urls, attempt: 0 }.run()
            })
        })
        .collect();
    let looker = Looker { scene: Arc::clone(&scene), addresses: world.addresses() };
    let looker = std::thread::spawn(move || looker.run());
    let mut injector =
        Injector::new(Arc::clone(&scene), world, prng.fork(), runtime.handle().clone());
    injector.run(plan.length);

    let mut leases = Vec::new();
    let mut clients = Vec::new();
    for thread in threads {
        let (client, its) = thread.join().expect("a client ends well");
        leases.extend(its);
        clients.push(client);
    }
    let library = clients[0].adapter.library.clone();
    let left = leave(&scene, clients, &injector.world);
    scene.is_looking.store(false, Ordering::Relaxed);
    looker.join().expect("the looker ends well");

    let (snapshots, grants) = (lock(&scene.snapshots), lock(&scene.grants));
    let overtaken = order::overtaken(&snapshots, &grants, &lock(&scene.disturbed));
    let pairs = order::compared(&snapshots, &grants);
    for (what, count) in [("looks at a queue", snapshots.len()), ("places compared", pairs)] {
        let count = u64::try_from(count).expect("it fits");
        scene.stage.recorder.history().counts.insert(what, count);
    }
    // Over several servers the order is a courtesy.
    let more = (plan.servers == 1).then_some(("a place in a queue that was lost", overtaken));
    let mut verdict = Verdict::of(plan, library, &scene.stage, &leases, more);
    verdict.add(
        "keys of a queue or of a lock that are left when all are gone, or live for ever",
        &left,
    );
    verdict
}

/// Kills all processes while they wait; says which keys are left later than is promised.
fn leave(scene: &Scene, mut clients: Vec<Client>, world: &World) -> Vec<String> {
    for client in &mut clients {
        let key = key(client.number % NAMES);
        client.adapter.tell(&format!("wait {key} 3000 60000 last"));
    }
    let started = Instant::now();
    while !clients.is_empty() {
        let queued = lock(&scene.snapshots)
            .iter()
            .rev()
            .take(NAMES)
            .map(|it| it.places.len())
            .sum::<usize>();
        if queued >= KILLED_WAITING.min(clients.len() / 2) || started.elapsed() > LEFT_MAX {
            break;
        }
        sleep(POLL);
    }
    drop(clients);
    let gone = Instant::now();
    loop {
        let left = world.keys();
        let mut late: Vec<String> = left
            .iter()
            .filter(|(key, _)| !key.ends_with(":fence"))
            .map(|(key, _)| key.clone())
            .collect();
        if late.is_empty() || gone.elapsed() > LEFT_MAX {
            late.extend(left.into_iter().filter(|(_, ttl)| *ttl == -1).map(|(key, _)| key));
            return late;
        }
        sleep(POLL);
    }
}

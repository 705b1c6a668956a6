//! One seed, from fresh servers to the verdict on its history.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::actor::{Actor, connect};
use super::callers;
use super::checks;
use super::history::{At, Breach, Part};
use super::injector::{Injector, Setbacks};
use super::link::Link;
use super::meddle;
use super::plan::{Fault, LIMIT, Plan, host, key};
use super::prng::Prng;
use super::register::Register;
use super::sharing;
use super::world::{World, drift, lock};
use crate::clock::simulated::{Client, Simulation, elapsed};
use crate::locker::Locker;
use crate::net::transport::simulated::set_dialer;

/// Reconnections and owed releases take less than this once all is well.
const QUIET: Duration = Duration::from_secs(8);
/// Time for a waiter to get a lock, beyond the TTLs that it may have to wait for.
const LIVENESS_SLACK: Duration = Duration::from_secs(12);

/// Maximum delay of a message whose lease is certainly released.
const LATE: Duration = Duration::from_secs(60);

/// Silences last for some TTLs, one after the other; from this TTL on that may be more than a minute,
/// after which releases are no longer repeated.
const SILENT_FOR_LONG: Duration = Duration::from_secs(10);

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    pub(crate) breaches: Vec<Breach>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    pub(crate) simulated: Duration,
    pub(crate) digest: u64,
    pub(crate) notes: Vec<(At, String)>,
    /// Increments that the unfenced control lost.
    pub(crate) control_lost: u64,
}

/// Runs one seed on this thread.
pub(crate) fn run(plan: Plan) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime can be had");
    runtime.block_on(async {
        let _simulation = Simulation::begin(plan.seed ^ 0x51D);
        meddle::begin();
        let outcome = simulate(plan).await;
        set_dialer(None);
        outcome
    })
}

async fn simulate(plan: Plan) -> Outcome {
    let mut prng = Prng::new(plan.seed).fork();
    let drifts = plan.has(Fault::Drift);
    let clients: Vec<Arc<Client>> = (0..plan.clients)
        .map(|number| {
            let booted_before = prng.millis(1_000_000..100_000_000);
            Client::new(number, booted_before, drift(&mut prng, drifts))
        })
        .collect();
    let world = World::new(plan.clone(), prng.fork());
    let mut background = JoinSet::new();
    for server in 0..plan.servers {
        background.spawn(Arc::clone(&world).expire(server));
    }
    let registers: Arc<Vec<Register>> =
        Arc::new((0..=plan.elected().unwrap_or(plan.names)).map(|_| Register::default()).collect());
    install(&world);
    let mut lockers = Vec::new();
    for client in &clients {
        let locker = client.run(connect(Arc::clone(&world))).await;
        match locker {
            Ok(locker) => lockers.push(locker),
            // All servers are well at first.
            Err(error) => {
                world.history().breach("no connection", error.to_string());
                return verdict(&world, &registers);
            }
        }
    }
    world.has_begun.store(true, Ordering::Relaxed);
    let mut actors = JoinSet::new();
    for (client, locker) in clients.iter().zip(&lockers) {
        for _ in 0..plan.tasks + usize::from(plan.has_one_ttl) {
            let (world, locker, registers) =
                (Arc::clone(&world), locker.clone(), Arc::clone(&registers));
            let prng = prng.fork();
            let actor = Actor { world, client: Arc::clone(client), locker, registers, prng };
            actors.spawn(client.run(actor.run()));
        }
    }
    let injector = Injector {
        world: Arc::clone(&world),
        clients: clients.clone(),
        prng: prng.fork(),
        losses: Vec::new(),
        setbacks: Setbacks::new(&plan),
    };
    injector.run().await;
    heal(&world, &clients);
    let all = async { while actors.join_next().await.is_some_and(|ended| ended.is_ok()) {} };
    if timeout(plan.longest_ttl * 30, all).await.is_err() {
        world.history().breach("liveness", "an actor is stuck".into());
    }
    while (0..plan.servers).any(|server| world.server(server).is_replica()) {
        sleep(QUIET).await;
    }
    sleep(QUIET).await;
    nothing_is_left(&world);
    for (client, locker) in clients.iter().zip(&lockers) {
        client.run(all_can_be_taken(&world, locker, client.number)).await;
    }
    // A late acquire is undone after about as much time again.
    sleep(if plan.has(Fault::Ghost) { LATE } else { QUIET }).await;
    all_is_given_back(&world);
    world.is_closing.store(true, Ordering::Relaxed);
    // Each is dropped by its own client.
    for (client, locker) in clients.iter().zip(lockers) {
        client.run(async move { drop(locker) }).await;
    }
    verdict(&world, &registers)
}

/// Makes this thread's sockets lead to this world.
fn install(world: &Arc<World>) {
    let world = Arc::clone(world);
    set_dialer(Some(Box::new(move |name| {
        let server = (0..world.plan.servers).find(|number| host(*number) == name);
        let client = Client::current().expect("a client dials");
        Box::pin(Link::dial(Arc::clone(&world), client, server.expect("it is a server")))
    })));
}

/// Ends all faults.
fn heal(world: &Arc<World>, clients: &[Arc<Client>]) {
    world.is_over.store(true, Ordering::Relaxed);
    world.unblock();
    world.harm_no_more();
    (0..world.plan.servers).for_each(|server| {
        world.start(server, 0);
        // A grace does not protect from a promotion right away: the injector does that in time.
        if !world.plan.has_grace {
            world.server(server).promote();
        }
        world.thaw(server);
    });
    clients.iter().for_each(|client| client.resume());
    world.history().note("all is well".into());
}

/// Checks that no server has a lock any more, although TTLs may not be over: every lease was released, unless it is
/// left to a lock-delay. Commands of a connection that ended long ago may leave a lock.
fn nothing_is_left(world: &World) {
    let excused = [
        Fault::Ghost,
        Fault::Delay,
        Fault::Partition,
        Fault::Freeze,
        Fault::StepBack,
        Fault::Outage,
        Fault::Newcomer,
        Fault::Snapshot,
        Fault::Demotion,
    ];
    if excused.into_iter().any(|fault| world.plan.has(fault)) {
        return;
    }
    for server in 0..world.plan.servers {
        for name in world.plan.locks() {
            let left = world.server(server).peek(name.as_bytes());
            let is_left = |value: &Bytes| {
                // A byte 0 after the owner means that there are waiters.
                let owner = value.strip_suffix(b"\0").unwrap_or(value);
                let held = (name.clone().into_bytes(), owner.to_vec());
                world.history().questions.is_left(&held)
            };
            if let Some(owner) = left.filter(|owner| !is_left(owner)) {
                let text = format!("lock {name} on server {server}, of {owner:?}");
                world.history().breach("left behind", text);
            }
        }
    }
}

/// How long keys of an earlier state may live: by the server's wall clock, which may have been set back many times.
fn older_keys_live(world: &World) -> Duration {
    if ![Fault::Snapshot, Fault::Demotion].into_iter().any(|fault| world.plan.has(fault)) {
        return Duration::ZERO;
    }
    let behind = (0..world.plan.servers).map(|server| world.server(server).is_behind_by());
    behind.max().unwrap_or_default()
}

async fn all_can_be_taken(world: &Arc<World>, locker: &Locker, client: usize) {
    let limit = world.plan.longest_ttl * 5 + LIVENESS_SLACK + older_keys_live(world);
    for name in 0..world.plan.names {
        match locker.lock(key(name)).wait_at_most(limit).await {
            Ok(guard) => {
                let _ = guard.release().await;
            }
            Err(error) => {
                let text = format!("client {client} cannot take lock {name}: {error}");
                world.history().breach("liveness", text);
            }
        }
    }
    sharing::all_can_be_taken(world, locker, client, limit).await;
    callers::all_are_served(world, locker, limit).await;
}

/// Checks that each owner that a server granted a lock was released there, and once more if the grant was late;
/// unless a release has been pointless for long when the server can be reached again, or the owner's process has
/// ended.
fn all_is_given_back(world: &World) {
    let Plan { longest_ttl, .. } = world.plan;
    let refusing = [Fault::Outage, Fault::Refuse, Fault::Demotion];
    let is_silent =
        world.plan.has_silences() || refusing.into_iter().any(|fault| world.plan.has(fault));
    if is_silent && longest_ttl >= SILENT_FOR_LONG || world.plan.has(Fault::Newcomer) {
        return;
    }
    let (kept, late) = {
        let questions = &mut world.history().questions;
        let (mut kept, late) =
            (std::mem::take(&mut questions.kept), std::mem::take(&mut questions.left_late));
        kept.retain(|(held, _)| !questions.is_left(held));
        (kept, late)
    };
    let all = kept.into_iter().map(|left| ("never given back", left));
    for (check, ((lock, owner), server)) in all.chain(late.into_iter().map(|it| ("left late", it)))
    {
        let (lock, owner) = (String::from_utf8_lossy(&lock), String::from_utf8_lossy(&owner));
        let text = format!("{lock} on server {server}, of {owner}");
        world.history().breach(check, text);
    }
}

fn verdict(world: &World, registers: &[Register]) -> Outcome {
    let plan = &world.plan;
    let mut history = std::mem::take(&mut *world.history());
    let mut breaches = std::mem::take(&mut history.breaches);
    // A thief holds the lock beside the former holder until that one learns of it.
    if !plan.has_steals && !plan.grants_again() {
        breaches.extend(checks::crowds(&history.leases, 1));
        breaches.extend(checks::rests_are_broken(&history.rests, &history.leases));
    }
    if !plan.grants_again() {
        breaches.extend(checks::crowds(&history.shares, LIMIT));
    }
    // Tokens need counters, or wall clocks that are right.
    let counters_lost = lock(&world.counters_lost).len();
    let counters_live = counters_lost < 2 * plan.quorum - plan.servers || plan.is_beyond;
    if counters_live || plan.servers == 1 && plan.has_right_clocks() {
        // With several servers each permit has a counter of its own.
        history.shares.retain(|share| plan.servers == 1 || share.part.weight() == 0);
        if plan.forgets_alone() {
            // A reader that joins readers of an older state gets their token.
            history.shares.retain(|share| share.part != Part::Reader);
        }
        for leases in [&history.leases, &history.shares] {
            breaches.extend(checks::tokens_repeat(leases));
            breaches.extend(checks::tokens_disobey_time(leases));
        }
        for (name, register) in registers.iter().enumerate() {
            let lost = register.fenced().lost();
            if lost > 0 {
                breaches.push(Breach { check: "register", text: format!("{lost} lost of {name}") });
            }
        }
    }
    breaches.extend(callers::broken(world));
    breaches.extend(checks::claims_too_long(&history.claims));
    breaches.extend(checks::signals_too_late(&history.signals));
    Outcome {
        plan: plan.clone(),
        breaches,
        counts: history.counts,
        simulated: elapsed(),
        digest: history.digest,
        notes: history.notes,
        control_lost: registers.iter().map(|register| register.control().lost()).sum(),
    }
}

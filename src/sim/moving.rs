//! A name that changes its server while connections to the one before live, and one that leads to two servers in
//! turn: safety rule 18.
//!
//! Apart from the runs of `plan`, because exclusion holds here only where each client has yet to make a
//! connection: a client that has all of its own goes on at the server before (`policy::moved`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::link::Link;
use super::plan::{CONNECT_TIMEOUT, Plan, command_timeout, key};
use super::prng::Prng;
use super::world::{World, drift};
use crate::clock::simulated::{Client, Simulation};
use crate::locker::Locker;
use crate::net::transport::simulated::set_dialer;
use crate::policy::mutants::{self, Mutant};

const SEEDS: u64 = 300;
/// What `warnings()` says.
const TOLD: &str = "another server";

/// Where the name leads.
#[derive(Default)]
struct Name {
    server: AtomicUsize,
    /// It leads to the other server from one connection to the next.
    is_balanced: bool,
    dialed: AtomicUsize,
}

struct Stage {
    plan: Plan,
    prng: Prng,
    name: Arc<Name>,
    clients: [Arc<Client>; 2],
    _expiring: JoinSet<()>,
}

impl Stage {
    fn set(seed: u64, is_balanced: bool) -> Self {
        let plan = Plan { servers: 2, quorum: 2, faults: Vec::new(), ..Plan::new(seed, false) };
        let mut prng = Prng::new(seed).fork();
        let clients = [0, 1].map(|number| {
            let drift = drift(&mut prng, true);
            Client::new(number, prng.millis(1_000_000..100_000_000), drift)
        });
        let world = World::new(plan.clone(), prng.fork());
        let mut expiring = JoinSet::new();
        (0..2).for_each(|server| _ = expiring.spawn(Arc::clone(&world).expire(server)));
        let name = Arc::new(Name { is_balanced, ..Name::default() });
        let leads = Arc::clone(&name);
        set_dialer(Some(Box::new(move |_| {
            let number = leads.dialed.fetch_add(1, Ordering::Relaxed);
            let server = if leads.is_balanced { number % 2 } else { leads.server() };
            let client = Client::current().expect("a client dials");
            Box::pin(Link::dial(Arc::clone(&world), client, server))
        })));
        Self { plan, prng, name, clients, _expiring: expiring }
    }

    async fn connect(&self, client: usize) -> Locker {
        let builder = Locker::builder()
            .node("redis://the-name")
            .ttl(self.plan.longest_ttl)
            .command_timeout(command_timeout(&self.plan))
            .connect_timeout(CONNECT_TIMEOUT);
        let connecting = self.clients[client].run(async move { builder.connect().await });
        connecting.await.expect("all is well")
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        self.prng.millis(0..u64::try_from(most.as_millis()).expect("it is short") + 1)
    }
}

impl Name {
    fn server(&self) -> usize {
        self.server.load(Ordering::Relaxed)
    }

    fn moves(&self) {
        self.server.store(1, Ordering::Relaxed);
    }
}

fn is_told(locker: &Locker) -> bool {
    locker.warnings().iter().any(|warning| warning.contains(TOLD))
}

fn simulate<T>(seed: u64, scene: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime can be had");
    runtime.block_on(async {
        let _simulation = Simulation::begin(seed ^ 0x51D);
        let outcome = scene.await;
        set_dialer(None);
        outcome
    })
}

/// A client holds a lock, or is granted it just after the name has moved, and another one, or the same,
/// waits for it: what is wrong with that.
async fn a_wait(seed: u64) -> Result<(), &'static str> {
    let mut stage = Stage::set(seed, false);
    let (lock, ttl) = (key(0), stage.plan.longest_ttl);
    let holding = stage.connect(0).await;
    let is_one = stage.prng.percent(30);
    let waiting = if is_one { holding.clone() } else { stage.connect(1).await };
    let [holder, waiter] = [0, usize::from(!is_one)].map(|at| Arc::clone(&stage.clients[at]));
    let is_late = stage.prng.percent(30);
    if is_late {
        stage.name.moves();
    }
    let request = holding.try_lock(&lock);
    let request = if stage.prng.percent(80) { request } else { request.no_renewal() };
    let guard = holder.run(request.into_future()).await.map_err(|_| "it was not free")?;
    let guard = Arc::new(guard);
    // A renewal makes the last of the connections.
    sleep(stage.up_to(ttl / 4)).await;
    stage.name.moves();
    let request = waiting.lock(&lock).wait_at_most(ttl * 5);
    let second = waiter.run(request.into_future()).await.map_err(|_| "it is never free")?;
    let former = Arc::clone(&guard);
    let is_lost = holder.run(async move { former.is_lost() }).await;
    let told = is_told(&waiting);
    holder.run(async move { drop((guard, holding)) }).await;
    waiter.run(async move { drop((second, waiting)) }).await;
    match (is_lost, told) {
        (false, _) => Err("two holders"),
        (true, false) => Err("nothing is told"),
        (true, true) => Ok(()),
    }
}

#[test]
fn a_name_that_moves_makes_no_second_holder() {
    for seed in 0..SEEDS {
        let outcome = simulate(seed, a_wait(seed));
        assert_eq!(outcome, Ok(()), "seed {seed}: {}", Plan::new(seed, false));
    }
}

#[test]
fn what_is_done_about_a_name_that_moves_is_needed() {
    for mutant in Mutant::OF_MOVES {
        mutants::set(Some(mutant));
        let outcomes: BTreeSet<_> =
            (0..SEEDS).filter_map(|seed| simulate(seed, a_wait(seed)).err()).collect();
        mutants::set(None);
        assert!(outcomes.contains("two holders"), "{mutant:?}: {outcomes:?}");
    }
}

/// A client of a balancer grants nothing, says why, and does not dial without end.
#[test]
fn a_name_that_leads_to_two_servers_in_turn_grants_nothing_and_is_dialed_seldom() {
    const FOR_SECS: u32 = 600;
    // Each of two lanes dials once a second, more or less, and more often at first.
    const DIALS_MAX: usize = 4 * FOR_SECS as usize;
    for seed in 0..20 {
        simulate(seed, async {
            let stage = Stage::set(seed, true);
            let (client, locker) = (Arc::clone(&stage.clients[0]), stage.connect(0).await);
            let guard = client.run(locker.try_lock(key(0)).into_future()).await;
            let guard = guard.expect("one connection leads to one server");
            let for_long = Duration::from_secs(FOR_SECS.into());
            let request = locker.lock(key(0)).wait_at_most(for_long);
            let outcome = client.run(request.into_future()).await;
            // A TTL may be over before the next connection is made.
            if stage.plan.longest_ttl >= Duration::from_secs(10) {
                assert!(outcome.is_err(), "seed {seed}");
            }
            assert!(is_told(&locker), "seed {seed}");
            let dialed = stage.name.dialed.load(Ordering::Relaxed);
            assert!(dialed < DIALS_MAX, "seed {seed}: {dialed}");
            client.run(async move { drop((guard, outcome, locker)) }).await;
        });
    }
}

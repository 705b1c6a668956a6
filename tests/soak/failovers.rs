//! Counters that are set back, again and again, while clients take locks, shares and permits: a replica that
//! has not heard all is promoted, or a server begins with an older snapshot. No token comes twice, and none
//! falls.
//!
//! A few failovers are a test; `scripts/soak.sh --failovers COUNT` makes more. Its environment:
//! `LEASEHOLD_SOAK_FAILOVERS` for how many failovers by Sentinels, with the other kinds beside them,
//! `LEASEHOLD_SOAK_KIND` for one kind alone (`sentinel`, `cluster`, `replicaof`, `snapshot`), whose number it is then,
//! and `LEASEHOLD_SOAK_SEED`. With `LEASEHOLD_SOAK_GRACE=on` (`scripts/soak.sh --graces COUNT`) Sentinels and Clusters
//! make as many failovers each, lockers have `Builder::failover_grace`, leases outlive a failover, none is stolen, none
//! of them may overlap, and of locks none may be lost whose holder reached the successor in time: `course.rs`. With `off`
//! it is counted how many overlap without.
//!
//! The plan keeps out what docs/guarantees.md does: no server's clock is set back; one clock serves all, and goes on
//! by two seconds between a server's last grant and the first one after its counters were set back (but for
//! Sentinels); no lease is passed on within a process. Without a grace it is not checked which leases overlap: nothing
//! is promised of that after a failover.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use leasehold_testing::STUCK;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use self::caller::Caller;
use self::course::watch_for_stalls;
use self::issued::Stage;
use self::sets::{Kind, Servers};
use crate::prng::Prng;
use crate::setting;

#[path = "failovers/caller.rs"]
mod caller;
#[path = "failovers/course.rs"]
mod course;
#[path = "failovers/issued.rs"]
mod issued;
#[path = "failovers/service.rs"]
mod service;
#[path = "failovers/sets.rs"]
mod sets;

/// Lockers of one set of servers.
const PROCESSES: usize = 3;
/// Failovers of one set, which has a history of its own, in a long run and in a short one.
const LIFE: usize = 20;
const LIFE_SHORT: usize = 2;
/// Sets at a time in a long run: they wait for most of their time.
const SETS_AT_ONCE: usize = 6;
/// The same where nothing is granted for most of the time.
const SETS_LONG_AT_ONCE: usize = 20;
/// Of a long run, in this order. The first are those that take longest.
const KINDS: [Kind; 5] =
    [Kind::Sentinels, Kind::Sentinels, Kind::Sentinels, Kind::ReplicaOf, Kind::Snapshot];
/// Of one with leases that outlive a failover.
const KINDS_LONG: [Kind; 2] = [Kind::Cluster, Kind::Sentinels];
/// Of a short one.
const KINDS_SHORT: [Kind; 3] = [Kind::Snapshot, Kind::ReplicaOf, Kind::Sentinels];

/// Has all callers end, however it is dropped.
struct Over(Arc<Stage>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.is_night.store(false, Ordering::Relaxed);
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// Whether leases outlive a failover: then it is checked, or counted, which of them overlap.
fn is_long() -> bool {
    setting::<String>("LEASEHOLD_SOAK_GRACE").is_some()
}

fn has_grace() -> bool {
    setting::<String>("LEASEHOLD_SOAK_GRACE").is_some_and(|how| how == "on")
}

/// Panics at a token that comes twice or falls, with the part of the history that shows it.
async fn run(kind: Kind, seed: u64, failovers: usize) -> BTreeMap<&'static str, u64> {
    let mut prng = Prng::new(seed);
    let mut servers = spawn_blocking(move || Servers::start(kind)).await.expect("servers start");
    let stage = Arc::new(Stage::new(is_long()));
    let mut callers: JoinSet<()> = JoinSet::new();
    let mut number = 0;
    for process in 0..PROCESSES {
        let locker = servers.locker(process, &stage).await;
        for name in issued::duties(process) {
            let (locker, stage, prng) = (locker.clone(), Arc::clone(&stage), prng.fork());
            callers.spawn(Caller { number, name, process, locker, stage, prng, lease: 0 }.run());
            number += 1;
        }
    }
    let probe = if is_long() { Some(servers.locker(PROCESSES, &stage).await) } else { None };
    let driven = Arc::clone(&stage);
    // The thread that makes failovers ends with this too.
    let over = Over(Arc::clone(&stage));
    let driver = spawn_blocking(move || {
        for _ in 0..failovers {
            servers.fail_over(&driven, &mut prng, probe.as_ref());
        }
        servers
    });
    let servers = driver.await.expect("the failovers are made");
    drop(over);
    while let Some(ended) = timeout(STUCK, callers.join_next()).await.expect("all callers end") {
        ended.expect("a caller ends well");
    }
    drop(servers);
    let (report, mut counts) = stage.verdict();
    let again = format!("LEASEHOLD_SOAK_SEED={seed}, {failovers} failovers");
    assert!(report.is_empty(), "{kind:?}, {again}:\n{report}");
    counts.insert(kind.counted_as(), u64::try_from(failovers).expect("a count fits"));
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failovers_and_older_snapshots_repeat_no_token_and_let_none_fall() {
    let kind: Option<Kind> = setting("LEASEHOLD_SOAK_KIND");
    // No two seconds pass there between grants of the one node and of the other.
    assert!(kind != Some(Kind::Cluster) || is_long(), "a Cluster needs LEASEHOLD_SOAK_GRACE");
    let wanted: Option<usize> = setting("LEASEHOLD_SOAK_FAILOVERS");
    let life = wanted.unwrap_or(LIFE_SHORT).min(LIFE);
    let seed = setting("LEASEHOLD_SOAK_SEED")
        .unwrap_or_else(|| RandomState::new().hash_one(0) % 1_000_000_000);
    println!("soak of failovers, LEASEHOLD_SOAK_SEED={seed}");
    watch_for_stalls();
    let (kinds, at_once) = match wanted {
        Some(_) if is_long() => (&KINDS_LONG[..], SETS_LONG_AT_ONCE),
        Some(_) => (&KINDS[..], SETS_AT_ONCE),
        None => (&KINDS_SHORT[..], KINDS_SHORT.len()),
    };
    let mut kinds = kind.as_ref().map_or(kinds, std::slice::from_ref).iter().copied().cycle();
    let counted = kind.unwrap_or(Kind::Sentinels);
    let mut left = wanted.unwrap_or(life).div_ceil(life);
    let (mut seeds, mut seed) = (Prng::new(seed), seed);
    let mut totals: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut sets, started) = (JoinSet::new(), Instant::now());
    loop {
        while left > 0 && sets.len() < at_once {
            let kind = kinds.next().expect("they come again");
            left -= usize::from(kind == counted);
            sets.spawn(async move { (kind, seed, run(kind, seed, life).await) });
            seed = seeds.within(0..1_000_000_000);
        }
        let Some(ended) = sets.join_next().await else { break };
        let (kind, seed, counts) = ended.expect("no token comes twice or falls");
        println!("{:4} s, {kind:?}, seed {seed}: {life} failovers", started.elapsed().as_secs());
        for (what, count) in counts {
            let total = totals.entry(what).or_default();
            *total = if what.starts_with("longest") { count.max(*total) } else { count + *total };
        }
    }
    println!("in {:.0?}:", started.elapsed());
    totals.iter().for_each(|(what, count)| println!("{count:10} {what}"));
}

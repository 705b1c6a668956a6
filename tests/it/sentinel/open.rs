//! A failover that stays open: a replica is promoted while the old master goes on granting, one Sentinel is gone, and
//! another replica does not answer, so that the leading Sentinel never finishes.
//!
//! `LEASEHOLD_FAILOVERS=10` repeats it with each choice of Sentinels and prints its observations, and rows for
//! docs/evidence.md; see `scripts/failovers.sh`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold::Locker;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::history::{History, Span};
use leasehold_testing::sentinel::Setup;
use leasehold_testing::{RedisServer, Sentinels, binary, soon};

const LOCKERS: usize = 4;
const LOCKS: usize = 6;
/// One is killed, one is asked to lead, and one learns from that one.
const KILLED: usize = 0;
const LEADER: usize = 1;
const OBSERVER: usize = 2;
const PATIENCE: Duration = Duration::from_secs(2);
/// The first locks are held until their leases are renewed, the others change hands at once.
const LONG: std::ops::Range<usize> = 0..3;
const HELD_FOR: [Duration; 2] = [Duration::from_secs(5), Duration::from_millis(10)];

/// What was seen of one failover.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) doubly_held: Vec<(usize, Duration)>,
    pub(crate) pause: Duration,
    pub(crate) lost: u64,
}

struct Load {
    history: History,
    is_over: watch::Sender<bool>,
    lost: Arc<AtomicU64>,
    tasks: JoinSet<()>,
}

impl Load {
    /// Lockers that know nothing of each other want the same locks.
    async fn start(url: &str) -> Self {
        let (history, lost) = Default::default();
        let mut load =
            Self { history, is_over: watch::Sender::new(false), lost, tasks: JoinSet::new() };
        for locker in 0..LOCKERS {
            let connected = soon("it connects", Locker::connect(url)).await.expect("all are up");
            for lock in 0..LOCKS {
                load.begin(locker, connected.clone(), lock);
            }
        }
        load
    }

    fn begin(&mut self, number: usize, locker: Locker, lock: usize) {
        let (history, mut is_over) = (self.history.clone(), self.is_over.subscribe());
        let lost = Arc::clone(&self.lost);
        self.tasks.spawn(async move {
            while !*is_over.borrow() {
                let wanted = locker.lock(format!("lock:{lock}")).wait_at_most(PATIENCE);
                let Ok(guard) = wanted.await else { continue };
                let from = Instant::now();
                let held = tokio::time::sleep(HELD_FOR[usize::from(!LONG.contains(&lock))]);
                let is_lost = tokio::select! {
                    () = held => false,
                    _ = guard.lost() => true,
                    _ = is_over.wait_for(|is_over| *is_over) => false,
                };
                history.note(Span { lock, locker: number, from, to: Instant::now() });
                lost.fetch_add(is_lost.into(), Ordering::Relaxed);
                let _ = guard.release().await;
            }
        });
    }

    async fn end(mut self) -> (History, u64) {
        self.is_over.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
        (self.history, self.lost.load(Ordering::Relaxed))
    }
}

/// Lockers that know `named` of the Sentinels take locks until the old master has been demoted.
pub(crate) async fn failover(named: &[usize]) -> Outcome {
    let (down_after_ms, failover_timeout_ms) = (30_000, 20_000);
    let setup = Setup { down_after_ms, failover_timeout_ms, ..Setup::default() };
    let mut sentinels = Sentinels::start_as(setup);
    let [old, new, other] = sentinels.servers() else { panic!("there are three") };
    let [old, new, other] = [old, new, other].map(RedisServer::port);
    let load = Load::start(&sentinels.url_of(named.iter().copied())).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    sentinels.kill_sentinel(KILLED);
    sentinels.server(other).stop();
    sentinels.failover().await;
    sentinels.wait_until_replication_shows(new, "role:master").await;
    assert!(sentinels.replication_shows(old, "role:master"), "for a while there are two");
    sentinels.wait_until_replication_shows(old, "role:slave").await;
    tokio::time::sleep(PATIENCE).await;
    let (history, lost) = load.end().await;
    Outcome {
        doubly_held: history.doubly_held(),
        pause: history.longest_pause(LOCKERS, |lock| !LONG.contains(&lock)),
        lost,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_stays_open_gives_no_lock_to_two() {
    let runs = std::env::var("LEASEHOLD_FAILOVERS").ok().and_then(|runs| runs.parse().ok());
    let choices = [
        ("all three", &[KILLED, LEADER, OBSERVER][..]),
        ("the one that leads", &[LEADER]),
        ("another one", &[OBSERVER]),
    ];
    // One after the other is long: the suite takes the first, where there are most.
    let choices = &choices[..if runs.is_some() { choices.len() } else { 1 }];
    let mut outcomes: Vec<Vec<Outcome>> = choices.iter().map(|_| Vec::new()).collect();
    for run in 0..runs.unwrap_or(1) {
        for ((named, sentinels), outcomes) in choices.iter().zip(&mut outcomes) {
            let outcome = failover(sentinels).await;
            println!("{run}, {named}: {outcome:?}");
            assert!(runs.is_some() || outcome.doubly_held.is_empty(), "{outcome:?}");
            outcomes.push(outcome);
        }
    }
    for ((named, _), outcomes) in choices.iter().zip(&outcomes) {
        println!("{}", row(named, outcomes));
    }
}

/// Of the table in docs/evidence.md.
fn row(named: &str, outcomes: &[Outcome]) -> String {
    let doubly_held: usize = outcomes.iter().map(|outcome| outcome.doubly_held.len()).sum();
    let pause = outcomes.iter().map(|outcome| outcome.pause).max().unwrap_or_default();
    let lost: u64 = outcomes.iter().map(|outcome| outcome.lost).sum();
    let (server, runs, pause) = (binary::version(), outcomes.len(), pause.as_secs_f64());
    format!("| {server} | {named} | {runs} | {doubly_held} | {pause:.2} | {lost} |")
}

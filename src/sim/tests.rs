//! Seeds, few or many.

use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::thread::{available_parallelism, scope};
use std::time::{Duration, Instant};

use super::plan::Plan;
use super::run::{Outcome, run};
use super::world::lock;

/// How long seeds are run, unless the caller sets another time.
const SHORT: Duration = Duration::from_secs(6);

/// Seeds that failed once, each with the fault, of the library or of a check.
const FOUND: [(u64, &str); 12] = [
    (456_467_028, "a lease between two connections was not given back to that server"),
    (947_951_785, "nor was one that was handed over just then, to one who gave up"),
    (14_660_893, "of two hand-overs in a row, the first was not given back where it had no answer"),
    (643_037_050, "where one server had lost a lease, who waited woke one another without end"),
    (643_036_895, "and had its holder renew without end"),
    (33_538_575, "so they did where too few servers might vote"),
    (438_107_384, "and where two servers named two holders"),
    (279_534_884, "each renewal woke who waited, who was let in by a server, which had it renewed"),
    (142, "a release that was answered on a second connection settled an acquire of the first"),
    (655_954_956, "a renewal repeated for want of its script was taken for one after the release"),
    (346_525_479, "renewal left for another connection one on which an acquire was unanswered"),
    (967_866_870, "a draw that was not answered in time kept its caller past the limit"),
];

const FOUND_SINCE: [(u64, &str); 2] = [
    (923_925_646, "a share that was repaired on a connection that ended came behind its release"),
    (
        11_961_851,
        "a writer that read on left to its TTL what a busy server had of the owner before it",
    ),
];

pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

pub(crate) fn show(outcome: &Outcome) -> String {
    let mut text = format!("{}\n", outcome.plan);
    for breach in outcome.breaches.iter().take(5) {
        text += &format!("{}: {}\n", breach.check, breach.text);
    }
    if number("LEASEHOLD_SIM_SEED").is_some() {
        for (at, note) in &outcome.notes {
            text += &format!("{at:>12.3?} {note}\n");
        }
    }
    text
}

#[test]
fn one_seed_is_one_history() {
    for seed in [2, 5, 10] {
        let digests = [(); 2].map(|()| run(Plan::new(seed, false)).digest);
        assert_eq!(digests[0], digests[1], "seed {seed}");
    }
}

#[test]
fn what_was_found_once_stays_mended() {
    // They were found when there were only locks, and leases were not passed on.
    let alone = |seed| Plan { has_family: false, ..Plan::new(seed, false) }.without_setbacks();
    let before = |seed| Plan { has_shares: false, has_one_ttl: false, ..alone(seed) };
    let then = FOUND.into_iter().map(|(seed, what)| (before(seed), what));
    let now = FOUND_SINCE.into_iter().map(|(seed, what)| (alone(seed), what));
    for (plan, what) in then.chain(now) {
        let outcome = run(plan);
        assert!(outcome.breaches.is_empty(), "{what}\n{}", show(&outcome));
    }
}

/// Runs `work` on every core, until all have ended.
pub(crate) fn on_all_cores(work: impl Fn() + Sync) {
    scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(&work);
        }
    });
}

/// The results of many seeds.
#[derive(Default)]
struct Total {
    seeds: u64,
    simulated: Duration,
    grants: u64,
    lost: u64,
    /// A digest of all events, independent of the order in which the runs ended.
    digest: u64,
    /// The first that broke a promise.
    broken: Option<Outcome>,
}

impl Total {
    fn add(&mut self, outcome: Outcome) {
        self.simulated += outcome.simulated;
        self.grants += outcome.counts.get("grants").copied().unwrap_or(0);
        self.lost += outcome.control_lost;
        let mut hasher = std::hash::DefaultHasher::new();
        (outcome.plan.seed, outcome.digest, &outcome.counts).hash(&mut hasher);
        self.digest ^= hasher.finish();
        if !outcome.breaches.is_empty() {
            self.broken.get_or_insert(outcome);
        }
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "it is told how long to run, and says how far it came"
)]
fn no_promise_is_broken_within_the_budget() {
    if let Some(seed) = number("LEASEHOLD_SIM_SEED") {
        let outcome = run(Plan::new(seed, false));
        eprintln!("{}{:?}", show(&outcome), outcome.counts);
        assert!(outcome.breaches.is_empty());
        return;
    }
    let wished = number("LEASEHOLD_SIM_SECONDS").map(Duration::from_secs);
    let seeds = number("LEASEHOLD_SIM_SEEDS");
    let is_random = wished.is_some() && seeds.is_none();
    let first = if is_random { crate::clock::random_bits() % 1_000_000_000 } else { 0 };
    let (started, total) = (Instant::now(), Mutex::new(Total::default()));
    let next = || {
        let mut total = lock(&total);
        let is_over = seeds.map_or_else(
            || started.elapsed() >= wished.unwrap_or(SHORT),
            |seeds| total.seeds == seeds,
        );
        if total.broken.is_some() || is_over {
            return None;
        }
        total.seeds += 1;
        Some(first + total.seeds - 1)
    };
    on_all_cores(|| {
        while let Some(seed) = next() {
            let (began, outcome) = (Instant::now(), run(Plan::new(seed, false)));
            if number("LEASEHOLD_SIM_VERBOSE").is_some() {
                eprintln!("{:.2?} {} {:?}", began.elapsed(), outcome.plan, outcome.counts);
            }
            lock(&total).add(outcome);
        }
    });
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(outcome) = total.broken {
        panic!("LEASEHOLD_SIM_SEED={}\n{}", outcome.plan.seed, show(&outcome));
    }
    eprintln!(
        "simulation: {:.1} hours in {:.0?}, seeds {first}.., {} of them, {} grants, 0 violations, \
         {} increments lost by the control, digest {:016x}",
        total.simulated.as_secs_f64() / 3600.0,
        started.elapsed(),
        total.seeds,
        total.grants,
        total.lost,
        total.digest,
    );
    assert!(total.grants > 0 && total.lost > 0, "nothing happened");
}

/// If checks noticed nothing when all servers lose keys, they would notice nothing elsewhere either.
#[test]
fn promises_are_broken_beyond_the_budget() {
    let is_broken = |seed: &u64| {
        let outcome = run(Plan::new(*seed, true));
        outcome.breaches.iter().any(|breach| breach.check == "two holders")
    };
    assert!(
        (0..40).any(|seed| is_broken(&seed)),
        "no two held a lock that was taken from the first"
    );
}

/// If a single primary with a grace fails over, no two clients hold a lock.
#[test]
#[expect(clippy::print_stderr, reason = "it says how far it came")]
fn no_lock_is_held_twice_over_failovers_with_a_grace() {
    let seeds = number("LEASEHOLD_SIM_FAILOVERS").unwrap_or(16);
    let first = number("LEASEHOLD_SIM_SEED").unwrap_or(0);
    let (next, found) = (Mutex::new(first), Mutex::new(Vec::new()));
    on_all_cores(|| {
        let take = || {
            let mut next = lock(&next);
            *next += 1;
            *next - 1
        };
        for seed in std::iter::from_fn(|| Some(take()).filter(|seed| *seed < first + seeds)) {
            let outcome = run(Plan::of_failovers(seed));
            lock(&found).push(outcome);
        }
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let broken: Vec<_> = found.iter().filter(|it| !it.breaches.is_empty()).collect();
    let count = |name| found.iter().filter_map(|it| it.counts.get(name)).sum::<u64>();
    eprintln!(
        "{} runs, {} grants, {} repairs",
        found.len(),
        count("grants"),
        count("commands: repair")
    );
    assert!(broken.is_empty(), "{} of {seeds} broken, {}", broken.len(), show(broken[0]));
}

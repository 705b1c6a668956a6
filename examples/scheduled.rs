//! A job that many hosts are told to run at every tick, and one of them does.
//!
//! `cargo run --example scheduled [redis://host:port]`, in as many terminals as you like; the URL may
//! also stand in LEASEHOLD_URL. It ends after LEASEHOLD_TICKS ticks (5 by default), or with Ctrl-C.
//!
//! - The lock is named after the tick. A lock named after the job alone would only keep two hosts
//!   from running it at the same time: the second would run it after the first.
//! - It is not given back when the job is done, but when the tick is over on every host. A host
//!   whose clock is late comes later, finds the lock free if it was given back, and runs the job of
//!   this tick once more. (With LEASEHOLD_RELEASE_EARLY it is given back at once; LEASEHOLD_LATE_MS
//!   makes this host's clock late. Together they show it.)
//! - Its TTL lasts as long, so that it holds others off also when this host dies. Then nobody runs
//!   the job of this tick again, done or not: a lock alone makes it at most once. Who needs it to be
//!   done again has to note what was done, in the same transaction as the job's own work.
//! - A host may be paused between its last look at the clock and its work. So whatever the job
//!   writes to is given a stamp, and refuses one that is older than another it has seen.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]
#![allow(clippy::disallowed_methods, reason = "a schedule is by the wall clock")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::{Error, FencingToken, Guard, Locker};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Short, so that there is something to see.
const PERIOD: Duration = Duration::from_secs(1);
/// What two hosts' clocks may differ by.
const SKEW_MAX: Duration = Duration::from_millis(500);
/// From the first host's start of a tick to the last one's end.
const TICK_EVERYWHERE: Duration = PERIOD.saturating_add(SKEW_MAX.saturating_mul(2));

/// In order of time, whichever host it is from. Tokens are in order for one lock, and each tick has
/// a lock of its own; so the tick comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    tick: u64,
    token: FencingToken,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let given = std::env::args().nth(1).or_else(|| std::env::var("LEASEHOLD_URL").ok());
    let url = given.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let ticks = number("LEASEHOLD_TICKS").unwrap_or(5);
    let clock = Clock { late: Duration::from_millis(number("LEASEHOLD_LATE_MS").unwrap_or(0)) };
    let releases_early = std::env::var_os("LEASEHOLD_RELEASE_EARLY").is_some();
    let locker = Locker::builder().node(url).ttl(TICK_EVERYWHERE).connect().await?;

    let first = clock.tick() + 1;
    println!("ready for tick {first}");
    let mut runs = JoinSet::new();
    for tick in first..first + ticks {
        tokio::select! {
            () = clock.reach(tick) => {}
            // No shutdown of the locker here: it would give back locks of a tick that is not over.
            _ = tokio::signal::ctrl_c() => break,
        }
        match locker.try_lock(format!("example:scheduled:{tick}")).await {
            Ok(guard) => drop(runs.spawn(run(clock, tick, guard, releases_early))),
            Err(error) if error.is_contended() => {}
            Err(error) => println!("tick {tick} is not run here: {error}"),
        }
    }
    runs.join_all().await;
    println!("done");
    Ok(())
}

/// Runs the job, and keeps its lock until the tick is over everywhere.
async fn run(clock: Clock, tick: u64, guard: Guard, releases_early: bool) {
    // Whoever was held up until its tick was over may have got a lock that was given back.
    if clock.tick() > tick {
        println!("tick {tick} is over before it could run here");
        return;
    }
    let stamp = Stamp { tick, token: guard.fence() };
    match guard.run(job(stamp)).await {
        Ok(()) if releases_early => {}
        Ok(()) => sleep(clock.until(tick + 1) + 2 * SKEW_MAX).await,
        Err(error) => println!("tick {tick} was not finished: {error}"),
    }
}

async fn job(stamp: Stamp) {
    println!("tick {} runs here, under token {}", stamp.tick, stamp.token);
    sleep(PERIOD / 20).await;
}

/// This host's.
#[derive(Clone, Copy)]
struct Clock {
    late: Duration,
}

impl Clock {
    fn since_1970(self) -> Duration {
        let now = SystemTime::now() - self.late;
        now.duration_since(UNIX_EPOCH).expect("it is later than 1970")
    }

    /// Which tick it is.
    fn tick(self) -> u64 {
        self.since_1970().as_secs() / PERIOD.as_secs()
    }

    /// How long it is to a tick's beginning.
    fn until(self, tick: u64) -> Duration {
        Duration::from_secs(tick * PERIOD.as_secs()).saturating_sub(self.since_1970())
    }

    /// Waits until the tick has begun by this clock, which may be set meanwhile.
    async fn reach(self, tick: u64) {
        while self.tick() < tick {
            sleep(self.until(tick)).await;
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

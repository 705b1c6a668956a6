//! `leasehold bench`: how fast the servers that will keep the locks grant and release them.

mod chart;
mod show;
mod tally;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasehold::{Error, ErrorKind, Fencing, Guard, Locker, Unfenced};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::tally::{Outcome, Sample, Tally};
use crate::exit::{End, Failure};
use crate::output::report;
use crate::servers::{PIPES_WITHIN, Servers};
use crate::signals::Signals;
use crate::times::{TTL, duration};
use crate::words::{complain, hint, host, label_of, plain};

/// Maximum tasks: more would measure the queue in this process, not the servers.
const TASKS_MAX: u32 = 10_000;
/// How long to wait at the end for pairs under way, and then for the servers to confirm all releases.
const FAREWELL: Duration = Duration::from_secs(2);
/// Maximum measurements at once on one host.
const RUNS_MAX: u32 = 100;
/// Pause after an error, so that servers that are down are not flooded.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(20);

/// Measures how fast the servers grant and release locks.
///
/// Each task acquires a lock of its own, releases it, and begins again: no task waits for another.
/// The locks' names begin with --name-prefix, the host name and a number that no other measurement
/// has, so no other lock is touched. All tasks run on one thread, over one connection to each server.
/// One fence counter per task stays for a week; with --unfenced, none.
///
/// Errors are counted and named. Ctrl-C ends the measurement and prints the figures so far.
///
/// Exit code: 0 if anything could be measured; else as for run: 69 if too few servers answer, 77 if
/// they refuse the login or a right, 78 if an option or URL is wrong; 73 if the chart cannot be
/// written; 128 and the signal's number if a signal ended it.
#[derive(Debug, clap::Args)]
pub struct Bench {
    /// Number of tasks that hold locks at the same time
    #[arg(short, long, value_name = "TASKS", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(TASKS_MAX)))]
    pub tasks: u32,

    /// Duration of the measurement
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub duration: Duration,

    /// Without fencing tokens: a plain SET NX PX
    #[arg(long)]
    pub unfenced: bool,

    /// TTL of the locks
    #[arg(long, value_name = "TIME", default_value = TTL, value_parser = duration)]
    pub ttl: Duration,

    /// Prefix of the locks' names, after the key prefix
    #[arg(long, value_name = "TEXT", default_value = "leasehold-bench:")]
    pub name_prefix: String,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Draw latencies by percentile into this SVG file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Shared by all tasks.
struct Course {
    locker: Locker,
    is_fenced: bool,
    is_over: AtomicBool,
    tally: Mutex<Tally>,
}

pub async fn bench(servers: &Servers, bench: Bench) -> Result<End, Failure> {
    let mut signals = Signals::catch()?;
    if let Some(file) = &bench.svg {
        chart::check(file).map_err(|error| unwritable(file, error))?;
    }
    let connecting = async {
        let builder = servers.builder(Some(PIPES_WITHIN)).await?.ttl(bench.ttl);
        Ok::<_, Failure>(builder.label(label_of(std::process::id())).connect().await?)
    };
    let locker = match signals.interrupt(connecting).await {
        Ok(connected) => connected?,
        Err(signal) => return Ok(signal.into()),
    };
    let course = Arc::new(Course {
        locker,
        is_fenced: !bench.unfenced,
        is_over: AtomicBool::new(false),
        tally: Mutex::default(),
    });
    let measured = measure(&course, &bench, &mut signals).await;
    // Releases locks that are still held after a signal or an error.
    let left = course.locker.shutdown(FAREWELL).await.unreleased.len();
    if left > 0 {
        complain(&format!("{left} of its locks may stay taken until their TTL is over"));
    }
    let (elapsed, end) = measured?;
    let tally = std::mem::take(&mut *course.tally()).unless_all_failed()?;
    let (servers, is_fenced) = (servers.urls.len(), course.is_fenced);
    let outcome = Outcome { servers, tasks: bench.tasks, is_fenced, elapsed, tally };
    report(&if bench.json { show::in_json(&outcome) } else { show::in_words(&outcome) })?;
    if let Some(file) = &bench.svg {
        chart::write(&outcome, file).map_err(|error| unwritable(file, error))?;
    }
    Ok(end)
}

fn unwritable(file: &Path, error: std::io::Error) -> Failure {
    Failure::File(plain(file.as_os_str().as_encoded_bytes()), error)
}

/// Runs all tasks until the time is up or a signal comes; returns how long that was, and how to end.
async fn measure(
    course: &Arc<Course>,
    bench: &Bench,
    signals: &mut Signals,
) -> Result<(Duration, End), Failure> {
    let claimed = match signals.interrupt(claim(&course.locker, &bench.name_prefix)).await {
        Ok(claimed) => claimed?,
        Err(signal) => return Ok((Duration::ZERO, signal.into())),
    };
    let (run, _claim) = claimed;
    let names: Vec<String> = (0..bench.tasks).map(|task| format!("{run}:{task}")).collect();
    // Connections and scripts of a first request are not measured; and a setup that cannot work fails early.
    match signals.interrupt(warm_up(course, &names)).await {
        Ok(warm) => warm?,
        Err(signal) => return Ok((Duration::ZERO, signal.into())),
    }
    hint(&format!("measuring for {:?}; Ctrl-C ends it", bench.duration));
    let mut tasks = JoinSet::new();
    let started = now();
    for name in names {
        tasks.spawn(go_round(Arc::clone(course), name));
    }
    let end = match signals.interrupt(sleep(bench.duration)).await {
        Ok(()) => End::Code(0),
        Err(signal) => signal.into(),
    };
    course.is_over.store(true, Ordering::Relaxed);
    let _ = timeout(FAREWELL, async { while tasks.join_next().await.is_some() {} }).await;
    let elapsed = now().duration_since(started);
    // Dropping the other tasks releases their locks.
    tasks.shutdown().await;
    Ok((elapsed, end))
}

/// The beginning of this measurement's names, and the lock that reserves it: numbers are reused, so that what stays on
/// the servers does not grow with every measurement.
async fn claim(locker: &Locker, prefix: &str) -> Result<(String, Guard<Unfenced>), Error> {
    let mut number = 0;
    loop {
        let run = format!("{prefix}{}:{number}", host());
        match locker.try_lock(&run).unfenced().await {
            Ok(guard) => return Ok((run, guard)),
            Err(error) if error.kind() != ErrorKind::Contended || number == RUNS_MAX => {
                return Err(error);
            }
            Err(_) => number += 1,
        }
    }
}

/// Acquires and releases each lock once; one success is enough.
async fn warm_up(course: &Arc<Course>, names: &[String]) -> Result<(), Failure> {
    let mut tasks = JoinSet::new();
    for name in names {
        let (course, name) = (Arc::clone(course), name.clone());
        tasks.spawn(async move { course.pair(&name).await });
    }
    let mut first = None;
    let mut is_any_had = false;
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok(Ok(_)) => is_any_had = true,
            Ok(Err(error)) => first = first.or(Some(error)),
            // No task panics or is aborted.
            Err(_) => {}
        }
    }
    match first {
        Some(error) if !is_any_had => Err(Failure::Lock(error)),
        _ => Ok(()),
    }
}

/// Acquires and releases one lock again and again until the end.
async fn go_round(course: Arc<Course>, name: String) {
    while !course.is_over.load(Ordering::Relaxed) {
        match course.pair(&name).await {
            Ok(sample) => course.tally().add(sample),
            Err(error) => {
                course.tally().add_error(error);
                sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }
}

impl Course {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires and releases a lock.
    async fn pair(&self, name: &str) -> Result<Sample, Error> {
        let request = self.locker.try_lock(name);
        if self.is_fenced { timed(request).await } else { timed(request.unfenced()).await }
    }
}

async fn timed<F: Fencing>(
    request: impl IntoFuture<Output = Result<Guard<F>, Error>>,
) -> Result<Sample, Error> {
    let asked_at = now();
    let guard = request.await?;
    let had_at = now();
    guard.release().await?;
    Ok(Sample { acquire: had_at - asked_at, release: now() - had_at })
}

#[expect(clippy::disallowed_methods, reason = "it is measured, and no lease depends on it")]
fn now() -> Instant {
    Instant::now()
}

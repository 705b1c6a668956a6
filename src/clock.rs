//! The only file that reads clocks and randomness.

#[cfg(feature = "testing")]
mod movable;
mod owners;
#[cfg(test)]
pub(crate) mod simulated;

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Sleep;

use crate::box_future::BoxFuture;
use crate::policy::Moment;

/// The present, on a clock that also counts suspension of the machine.
///
/// `CLOCK_BOOTTIME` on Linux and Android; `CLOCK_MONOTONIC` on Apple's systems, where it counts
/// sleep; elsewhere the standard library's monotonic clock, which may stop in sleep.
// Not inlined: the search for the kernel's clock is larger than a call.
#[inline(never)]
pub(crate) fn now() -> Moment {
    #[cfg(test)]
    if let Some(now) = simulated::now() {
        return now;
    }
    #[cfg(feature = "testing")]
    if let Some(now) = movable::moment(of_the_runtime) {
        return now;
    }
    of_the_system()
}

#[inline]
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn of_the_system() -> Moment {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const COUNTS_SUSPENSION: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    #[cfg(target_vendor = "apple")]
    const COUNTS_SUSPENSION: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

    let time = rustix::time::clock_gettime(COUNTS_SUSPENSION);
    let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    Moment::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
#[expect(clippy::disallowed_methods, reason = "the one place that may read the clock")]
fn of_the_system() -> Moment {
    use std::sync::OnceLock;
    use std::time::Instant;

    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    // Not 0: moment 0 is before all others, as on clocks that count from the machine's start.
    const BEGIN: Moment = Moment::from_nanos(1_000_000_000);
    let since = Instant::now().duration_since(*ORIGIN.get_or_init(Instant::now));
    BEGIN.after(since)
}

/// A timer on the clock of [`now`], except that it may not count suspension.
pub(crate) fn sleep(span: Duration) -> Sleep {
    #[cfg(test)]
    let span = simulated::true_span(span);
    tokio::time::sleep(span)
}

/// The wall clock in microseconds since 1970, only for token proposals, and to compare it with servers' clocks.
#[expect(clippy::disallowed_methods, reason = "the one place that may read the clock")]
pub(crate) fn wall_micros() -> u64 {
    #[cfg(test)]
    if let Some(micros) = simulated::wall_micros() {
        return micros;
    }
    #[cfg(feature = "testing")]
    if let Some(micros) = movable::wall_micros(of_the_runtime) {
        return micros;
    }
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// A unique id of 128 bits for one attempt of one owner at `now`: see [`owners`].
///
/// # Panics
///
/// As [`random_id`].
pub(crate) fn owner_id(now: Moment) -> u128 {
    thread_local! {
        static OWNERS: Cell<owners::Owners> = const { Cell::new(owners::Owners::NONE) };
    }
    #[cfg(test)]
    if let Some(id) = simulated::owner_id() {
        return u128::from_be_bytes(id);
    }
    let mut owners = OWNERS.get();
    let id = owners.next(now, || u128::from_ne_bytes(random_id()));
    OWNERS.set(owners);
    id
}

/// 128 random bits.
///
/// # Panics
///
/// If the operating system has no randomness: without it two owners could have the same id.
#[expect(clippy::disallowed_methods, reason = "the one place that may read randomness")]
#[inline(never)]
pub(crate) fn random_id() -> [u8; 16] {
    #[cfg(test)]
    if let Some(id) = simulated::random_id() {
        return id;
    }
    let mut id = [0; 16];
    getrandom::fill(&mut id).expect("the operating system gives randomness");
    id
}

/// 64 random bits, for jitter.
#[inline(never)]
pub(crate) fn random_bits() -> u64 {
    u64::from_le_bytes(random_id()[..8].try_into().expect("eight of sixteen bytes"))
}

/// Starts a task on the current runtime. In a simulation it has the clock of the task that starts it.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    spawn_on(&Handle::current(), task)
}

/// As [`spawn`], on this runtime.
pub(crate) fn spawn_on(
    runtime: &Handle,
    task: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    #[cfg(test)]
    let task = simulated::owned(task);
    spawn_boxed(runtime, Box::pin(task))
}

/// One type for all tasks, as tokio's code is compiled once for each type.
#[inline(never)]
fn spawn_boxed(runtime: &Handle, task: BoxFuture<'static, ()>) -> JoinHandle<()> {
    runtime.spawn(task)
}

/// The clock of the current tokio runtime, which a test may have paused; outside a runtime the system's.
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::disallowed_methods, reason = "the one place that may read the clock")]
fn of_the_runtime() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Makes the current tokio runtime's clock that of the whole program, for good.
#[cfg(feature = "testing")]
#[expect(clippy::disallowed_methods, reason = "the one place that may read the clock")]
pub(crate) fn go_by_the_runtime() {
    movable::begin(|| movable::Origin {
        // The standard library's clock, which no runtime has paused.
        instant: std::time::Instant::now().into(),
        moment: now(),
        wall_micros: wall_micros(),
    });
}

/// Tokio's clock, which a simulation pauses, since the thread's first call.
#[cfg(test)]
fn true_time() -> std::time::Duration {
    use tokio::time::Instant;

    thread_local! {
        static ORIGIN: std::cell::Cell<Option<Instant>> = const { std::cell::Cell::new(None) };
    }
    let now = of_the_runtime();
    let origin = ORIGIN.get().filter(|origin| *origin <= now).unwrap_or(now);
    ORIGIN.set(Some(origin));
    now - origin
}

#[cfg(test)]
mod tests;

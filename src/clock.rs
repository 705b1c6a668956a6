//! The only file that reads clocks and randomness.

#[cfg(test)]
pub(crate) mod simulated;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::task::JoinHandle;

use crate::policy::Moment;

/// The present, on a clock that goes on while the machine is suspended.
///
/// `CLOCK_BOOTTIME` on Linux and Android; `CLOCK_MONOTONIC` on Apple's systems, where it counts
/// sleep; elsewhere the standard library's monotonic clock, which may stop in sleep.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(crate) fn now() -> Moment {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const COUNTS_SUSPENSION: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    #[cfg(target_vendor = "apple")]
    const COUNTS_SUSPENSION: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

    #[cfg(test)]
    if let Some(now) = simulated::now() {
        return now;
    }
    let time = rustix::time::clock_gettime(COUNTS_SUSPENSION);
    let nanos = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    Moment::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
#[expect(clippy::disallowed_methods, reason = "the one place that may read the clock")]
pub(crate) fn now() -> Moment {
    use std::sync::OnceLock;
    use std::time::Instant;

    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let since = Instant::now().duration_since(*ORIGIN.get_or_init(Instant::now));
    Moment::from_nanos(0).after(since)
}

/// The wall clock in microseconds since 1970, for token proposals and nothing else.
#[expect(clippy::disallowed_methods, reason = "the one place that may read the clock")]
pub(crate) fn wall_micros() -> u64 {
    #[cfg(test)]
    if let Some(micros) = simulated::wall_micros() {
        return micros;
    }
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// 128 bits that nobody else has: what an owner id is made of.
///
/// # Panics
///
/// When the operating system has no randomness to give: a lock whose owner others could share
/// would be no lock.
pub(crate) fn random_id() -> [u8; 16] {
    #[cfg(test)]
    if let Some(id) = simulated::random_id() {
        return id;
    }
    let mut id = [0; 16];
    fill(&mut id);
    id
}

#[expect(clippy::disallowed_methods, reason = "the one place that may read randomness")]
fn fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system gives randomness");
}

/// Ids that nobody else has, a few of them fetched ahead: each by itself would be a system call.
///
/// What is fetched ahead is used at once or not at all. So the copies of a process that is
/// duplicated, with its machine perhaps, share no more ids than they share attempts under way.
#[derive(Debug, Default)]
pub(crate) struct Ids(Mutex<Ahead>);

#[derive(Debug, Default)]
struct Ahead {
    ids: [[u8; 16]; AHEAD],
    left: usize,
    fetched_at: Option<Moment>,
}

/// So many are fetched together: as many as a system call gives in one step.
const AHEAD: usize = 16;
/// What was fetched longer ago than this is not used: a burst of attempts takes less.
const AHEAD_MAX: Duration = Duration::from_millis(2);

impl Ids {
    /// As [`random_id`].
    ///
    /// # Panics
    ///
    /// As [`random_id`].
    pub(crate) fn next(&self) -> [u8; 16] {
        #[cfg(test)]
        if let Some(id) = simulated::random_id() {
            return id;
        }
        let mut ahead = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now();
        let is_fresh = |at: Moment| now.since(at) <= AHEAD_MAX;
        if ahead.left == 0 || !ahead.fetched_at.is_some_and(is_fresh) {
            // None is left should this panic.
            ahead.left = 0;
            fill(ahead.ids.as_flattened_mut());
            (ahead.left, ahead.fetched_at) = (AHEAD, Some(now));
        }
        ahead.left -= 1;
        ahead.ids[ahead.left]
    }
}

/// 64 random bits, for jitter.
pub(crate) fn random_bits() -> u64 {
    u64::from_le_bytes(random_id()[..8].try_into().expect("eight of sixteen bytes"))
}

/// Starts a task on the current runtime. In a simulation it goes by the clock of whoever starts it.
pub(crate) fn spawn<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    #[cfg(test)]
    let task = simulated::owned(task);
    tokio::spawn(task)
}

/// Tokio's clock, which a simulation pauses; since the thread first asked.
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the one place that may read the clock")]
fn true_time() -> std::time::Duration {
    use tokio::time::Instant;

    thread_local! {
        static ORIGIN: std::cell::Cell<Option<Instant>> = const { std::cell::Cell::new(None) };
    }
    let now = Instant::now();
    let origin = ORIGIN.get().filter(|origin| *origin <= now).unwrap_or(now);
    ORIGIN.set(Some(origin));
    now - origin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_run_backwards() {
        let earlier = now();
        assert!(now() >= earlier);
        assert!(earlier > Moment::from_nanos(0));
    }

    #[test]
    fn ids_differ() {
        assert_ne!(random_id(), random_id());
    }

    #[test]
    fn ids_that_are_fetched_ahead_are_each_used_once() {
        let ids = Ids::default();
        let mut drawn: Vec<_> = (0..3 * AHEAD).map(|_| ids.next()).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 3 * AHEAD);
    }

    #[test]
    fn an_id_that_was_fetched_long_ago_is_not_used() {
        let ids = Ids::default();
        ids.next();
        let before = ids.0.lock().unwrap().ids;
        ids.0.lock().unwrap().fetched_at = Some(Moment::from_nanos(0));
        assert!(!before.contains(&ids.next()));
        assert_eq!(ids.0.lock().unwrap().left, AHEAD - 1);
    }
}

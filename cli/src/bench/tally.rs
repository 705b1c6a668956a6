//! The figures of a measurement: how many pairs, how long, and which errors.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use leasehold::{Error, ErrorKind, FailureKind};

/// Maximum time recorded, a minute; longer times count as this.
const LONGEST_NS: u64 = 60_000_000_000;
/// Significant digits of recorded times.
const DIGITS: u8 = 3;

/// The times of one acquire and release.
#[derive(Clone, Copy)]
pub struct Sample {
    pub acquire: Duration,
    pub release: Duration,
}

pub struct Tally {
    pub acquire: Times,
    pub release: Times,
    pub pair: Times,
    errors: BTreeMap<&'static str, Errors>,
}

/// Errors of one kind.
pub struct Errors {
    pub count: u64,
    pub first: Error,
}

/// Times, in nanoseconds.
pub struct Times(Histogram<u64>);

impl Default for Tally {
    fn default() -> Self {
        let [acquire, release, pair] = [(); 3].map(|()| Times::default());
        Self { acquire, release, pair, errors: BTreeMap::new() }
    }
}

impl Tally {
    pub fn add(&mut self, sample: Sample) {
        self.acquire.add(sample.acquire);
        self.release.add(sample.release);
        self.pair.add(sample.acquire + sample.release);
    }

    pub fn add_error(&mut self, error: Error) {
        let known = self.errors.entry(kind(&error));
        known.and_modify(|errors| errors.count += 1).or_insert(Errors { count: 1, first: error });
    }

    /// Errors by the name of their kind.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, &Errors)> {
        self.errors.iter().map(|(kind, errors)| (*kind, errors))
    }

    /// Number of locks that were acquired and released.
    pub fn pairs(&self) -> u64 {
        self.pair.0.len()
    }

    /// The most frequent error, if no pair succeeded.
    pub fn unless_all_failed(self) -> Result<Self, Error> {
        if self.pairs() > 0 || self.errors.is_empty() {
            return Ok(self);
        }
        let most_frequent = self.errors.into_values().max_by_key(|errors| errors.count);
        Err(most_frequent.expect("there is one").first)
    }
}

impl Default for Times {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        Self(histogram.expect("the bounds and digits are within what it takes"))
    }
}

impl Times {
    pub fn add(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(LONGEST_NS));
    }

    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    pub fn min(&self) -> Duration {
        Duration::from_nanos(self.0.min())
    }

    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean() as u64)
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// All times, each with its count, from the shortest.
    pub fn all(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.0.iter_recorded().map(|recorded| {
            let time = self.0.lowest_equivalent(recorded.value_iterated_to());
            (Duration::from_nanos(time), recorded.count_at_value())
        })
    }
}

/// The kind's stable name.
fn kind(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::Auth => "auth",
        ErrorKind::Misuse => "misuse",
        ErrorKind::Contended => "contended",
        ErrorKind::Lost => "lost",
        _ if error.report().has_failure(FailureKind::RestartQuarantine) => "restart-quarantine",
        _ if error.is_unknown() => "unknown",
        ErrorKind::Unavailable => "unavailable",
        _ if error.is_timeout() => "timeout",
        _ => "other",
    }
}

/// A measurement's settings and figures.
pub struct Outcome {
    pub servers: usize,
    pub tasks: u32,
    pub is_fenced: bool,
    pub elapsed: Duration,
    pub tally: Tally,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_three_digits_and_have_a_longest() {
        let mut times = Times::default();
        for micros in 1..=1000 {
            times.add(Duration::from_micros(micros));
        }
        let close = |time: Duration, micros: u64| {
            time.as_nanos().abs_diff(u128::from(micros * 1000)) <= u128::from(micros)
        };
        assert!(close(times.quantile(0.5), 500) && close(times.quantile(0.99), 990));
        assert!(close(times.max(), 1000) && close(times.mean(), 501) && close(times.min(), 1));
        times.add(Duration::from_secs(3600));
        assert!(times.max() >= Duration::from_secs(60) && times.max() < Duration::from_secs(61));
        assert_eq!(times.count(), 1001);
        assert_eq!(times.all().map(|(_, count)| count).sum::<u64>(), 1001);
    }

    #[test]
    fn a_pair_is_an_acquire_and_a_release() {
        let mut tally = Tally::default();
        let [acquire, release] = [300, 200].map(Duration::from_micros);
        tally.add(Sample { acquire, release });
        assert_eq!(tally.pairs(), 1);
        assert!(tally.pair.max() >= acquire + release && tally.acquire.max() < acquire * 2);
        assert!(tally.unless_all_failed().is_ok());
    }
}

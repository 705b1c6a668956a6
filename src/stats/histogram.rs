//! Histograms of durations: recorded without a lock, read as quantiles.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::policy::Units;

/// Each power of two is split into 2^3 = 8 buckets, so that a bucket is at most an eighth, 12.5 %, wider than its
/// durations.
const SPLIT_BITS: u32 = 3;
const SPLIT: usize = 1 << SPLIT_BITS;
/// The first bucket begins at 2^9 ns, about half a microsecond: below any round trip.
const FIRST_BIT: u32 = 9;
/// The last bucket ends at 2^47 ns, 39 hours, above the longest TTL of a day. Longer durations are of leases renewed
/// for very long; of these only the maximum is exact.
const END_BIT: u32 = 47;
const BUCKETS: usize = (END_BIT - FIRST_BIT) as usize * SPLIT;
/// The sum is kept in ticks of 2^6 ns: 64 bits of ticks last for 37,000 years of held leases; nanoseconds would last
/// for seven months of a thousand leases.
const TICK_BITS: u32 = 6;

/// Counts durations in log-linear buckets, from a microsecond to a day.
///
/// Every access is relaxed, so a reader may see a part of a record: [`Histogram::snapshot`] corrects for that.
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    ticks: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            ticks: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    pub(crate) fn record(&self, duration: Duration) {
        let nanos = nanos(duration);
        self.buckets[bucket_of(nanos)].fetch_add(1, Relaxed);
        self.ticks.fetch_add(nanos >> TICK_BITS, Relaxed);
        // A load is far cheaper than a write, and a new maximum is rare.
        if nanos > self.max_ns.load(Relaxed) {
            self.max_ns.fetch_max(nanos, Relaxed);
        }
    }

    /// The durations so far; reads every bucket, so it is for occasional use.
    pub(crate) fn snapshot(&self) -> Latencies {
        let counts = self.buckets.iter().map(|count| count.load(Relaxed)).enumerate();
        let buckets: Vec<_> = counts.filter(|&(_, count)| count > 0).collect();
        // A half-seen record may be missing from the maximum, but it is in its bucket.
        let longest_ns = match buckets.last() {
            Some(&(bucket, _)) if bucket > 0 => begin_of(bucket),
            _ => 0,
        };
        Latencies {
            count: buckets.iter().map(|&(_, count)| count).sum(),
            buckets,
            ticks: self.ticks.load(Relaxed),
            max_ns: self.max_ns.load(Relaxed).max(longest_ns),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(duration.subsec_nanos()))
}

fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.clamp(1 << FIRST_BIT, (1 << END_BIT) - 1);
    let top_bit = nanos.ilog2();
    let split = (nanos >> (top_bit - SPLIT_BITS)) as usize % SPLIT;
    (top_bit - FIRST_BIT) as usize * SPLIT + split
}

/// The shortest duration of a bucket. (The first bucket also has shorter ones.)
const fn begin_of(bucket: usize) -> u64 {
    ((SPLIT + bucket % SPLIT) as u64) << (bucket / SPLIT + (FIRST_BIT - SPLIT_BITS) as usize)
}

/// A snapshot of durations over the life of a locker.
///
/// Quantiles are exact to 12.5 % from a microsecond to 39 hours, the maximum is exact, and the mean
/// to a ten millionth of a second.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// The buckets that are not empty, from the shortest, each with its count.
    buckets: Vec<(usize, u64)>,
    count: u64,
    ticks: u64,
    max_ns: u64,
}

impl Latencies {
    /// The number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The average; none without durations.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let ticks = self.ticks.checked_div(self.count)?;
        Some(Duration::from_nanos((ticks << TICK_BITS).min(self.max_ns)))
    }

    /// The maximum; none without durations.
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        (self.count > 0).then_some(Duration::from_nanos(self.max_ns))
    }

    /// The duration that this share of all, from 0 to 1, did not exceed; none without durations.
    ///
    /// Never below the true quantile, and at most 12.5 % above it. A share below 0 counts as 0, and one above 1 as 1.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(locker: leasehold::Locker) {
    /// let wait = locker.stats().wait;
    /// println!("99 % of grants came within {:?}", wait.quantile(0.99));
    /// # }
    /// ```
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = rank_of(share, self.count);
        let mut up_to_here = 0;
        let (bucket, _) = self.buckets.iter().find(|(_, count)| {
            up_to_here += count;
            up_to_here >= rank
        })?;
        let is_last = bucket + 1 == BUCKETS;
        // The last bucket also has longer durations.
        let end = if is_last { self.max_ns } else { begin_of(bucket + 1) - 1 };
        Some(Duration::from_nanos(end.min(self.max_ns)))
    }
}

/// The rank of a quantile among `count`: at least 1, and at most `count`.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and the clamp follows")]
fn rank_of(share: f64, count: u64) -> u64 {
    ((share * count as f64).ceil() as u64).clamp(1, count.max(1))
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(mean), Some(half), Some(most), Some(max)) =
            (self.mean(), self.quantile(0.5), self.quantile(0.99), self.max())
        else {
            return f.write_str("none");
        };
        let count = self.count;
        let [mean, half, most, max] = [mean, half, most, max].map(Units);
        write!(f, "{count}, mean {mean:.1}, median at most {half:.1}, 99 % at most {most:.1}, ")?;
        write!(f, "maximum {max:.1}")
    }
}

#[cfg(test)]
mod tests;

//! How many tokens come back in a period, and the maximum number of tokens.

use std::fmt;
use std::time::Duration;

use crate::policy::Units;

/// Shorter periods are a mistake more often than a rate; the scripts count microseconds.
const PERIOD_MIN: Duration = Duration::from_millis(1);
/// Maximum time until all tokens are back, which is the longest life of a limit's key.
const REFILL_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A rate of tokens: how many come back in a period, evenly over it, and the maximum number of tokens.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use leasehold::limits::Rate;
///
/// // One every 600 ms, and up to 20 at once after 12 s without any.
/// let rate = Rate::new(100, Duration::from_secs(60)).burst(20);
/// assert_eq!(rate.to_string(), "100 per 1 min with bursts of 20");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    count: u32,
    period: Duration,
    burst: u32,
}

impl Rate {
    /// `count` tokens per `period`, at least 1 and 1 ms. All of them may be taken at once after a period
    /// without any: [`Rate::burst`] makes that fewer.
    #[must_use]
    pub const fn new(count: u32, period: Duration) -> Self {
        Self { count, period, burst: count }
    }

    /// Sets how many tokens may be taken at once, after enough time without any: at least 1. In any span
    /// of time, at most these and the rate's share of the span are let through.
    #[must_use]
    pub const fn burst(mut self, tokens: u32) -> Self {
        self.burst = tokens;
        self
    }

    /// How many tokens may be taken at once.
    #[must_use]
    pub const fn tokens_max(&self) -> u32 {
        self.burst
    }

    /// The share of each of `servers`, so that all of them together give no more than this.
    pub(super) fn shared_by(self, servers: usize) -> Result<Self, String> {
        let servers = u32::try_from(servers).unwrap_or(u32::MAX);
        if self.count == 0 || self.burst == 0 {
            return Err(format!("a rate of {self} lets nothing through: both must be at least 1"));
        }
        let longest = REFILL_MAX / servers;
        if self.period < PERIOD_MIN || self.period > longest {
            let [least, longest, period] = [PERIOD_MIN, longest, self.period].map(Units);
            let what = "the period of a rate must be between";
            return Err(format!("{what} {least} and {longest}, not {period}"));
        }
        if self.burst < servers {
            return Err(format!(
                "a burst of {} cannot be shared by {servers} servers, which each decide alone: it must \
                 be at least {servers}",
                self.burst
            ));
        }
        let share = Self { period: self.period * servers, burst: self.burst / servers, ..self };
        if share.time_of(share.burst).is_none_or(|refill| refill > REFILL_MAX) {
            let longest = Units(REFILL_MAX);
            return Err(format!("a rate of {self} takes longer than {longest} to refill"));
        }
        Ok(share)
    }

    /// The time in which this many tokens come back, unless it is too long for a `Duration`.
    pub(super) fn time_of(self, tokens: u32) -> Option<Duration> {
        let nanos = self.period.as_nanos().checked_mul(tokens.into())?.div_ceil(self.count.into());
        Some(Duration::from_nanos(u64::try_from(nanos).ok()?))
    }

    /// The arguments of scripts: count, period in microseconds (rounded up), burst.
    pub(super) fn arguments(self) -> [String; 3] {
        let micros = self.period.as_nanos().div_ceil(1000);
        [self.count.to_string(), micros.to_string(), self.burst.to_string()]
    }

    /// Reads another rate from a script's reply.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('/').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let (count, micros, burst) = (next()?, next()?, next()?);
        let period = Duration::from_micros(micros);
        let is_whole = numbers.next().is_none();
        let small = |number| u32::try_from(number).ok();
        is_whole.then_some(Self { count: small(count)?, period, burst: small(burst)? })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, period, burst } = self;
        write!(f, "{count} per {} with bursts of {burst}", Units(*period))
    }
}

#[cfg(test)]
mod tests;

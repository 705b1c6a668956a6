use std::time::Duration;

use super::backoff::jittered;
use super::{Backoff, Units};

/// Maximum pause after the end of the holder's lease, before jitter, so that waiters do not all come at
/// once.
const BEHIND_END_MAX: Duration = Duration::from_millis(4);

/// How long a waiting request pauses between its tries, and how many tries it has.
///
/// The policy governs tries by the clock: while another client holds the lock and no server can tell
/// that it is free, and while servers fail. If the holder's lease ends sooner than the next pause, the
/// try comes right after that end. A request that does not wait has one attempt. A server's message
/// ends a pause early if the last try was longer ago than the pause; no server can make a request try
/// more often than that.
///
/// A request in the queue of a server also asks to keep its place there, whatever the policy says: after each
/// third of the TTL, at least every 10 s, and at least every second with several servers.
///
/// The timer rounds delays below a millisecond up to one. The default is [`Retry::exponential`] from 4
/// ms to 128 ms, with no limit on attempts.
///
/// A delay of zero, a longest delay below the first and a limit of zero attempts are errors of the
/// request when it is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a retry policy does nothing until a request uses it"]
pub struct Retry {
    growth: Growth,
    first: Duration,
    longest: Duration,
    attempts: Option<u32>,
    jitter: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Linear,
    Exponential,
}

impl Retry {
    /// The same delay before every try.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::Retry;
    ///
    /// // The same load on the servers however long it lasts.
    /// let retry = Retry::fixed(Duration::from_millis(100));
    /// # let _ = retry;
    /// ```
    pub const fn fixed(delay: Duration) -> Self {
        Self::growing(Growth::Linear, delay, delay)
    }

    /// A delay that begins with `first` and grows by it at each try, up to `longest`.
    pub const fn linear(first: Duration, longest: Duration) -> Self {
        Self::growing(Growth::Linear, first, longest)
    }

    /// A delay that begins with `first` and doubles at each try, up to `longest`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::Retry;
    ///
    /// // Quick where locks are held briefly, cheap where they are not.
    /// let retry = Retry::exponential(Duration::from_millis(5), Duration::from_secs(1));
    /// # let _ = retry;
    /// ```
    pub const fn exponential(first: Duration, longest: Duration) -> Self {
        Self::growing(Growth::Exponential, first, longest)
    }

    const fn growing(growth: Growth, first: Duration, longest: Duration) -> Self {
        Self { growth, first, longest, attempts: None, jitter: true }
    }

    /// Sets the maximum number of attempts, the first one included; no limit by default. The request's
    /// error is that of the last attempt. Such a request polls: its process waits in no queue, and others
    /// may be served before it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::Retry;
    ///
    /// let retry = Retry::fixed(Duration::from_millis(100)).attempts(3); // at most 200 ms of pauses
    /// # let _ = retry;
    /// ```
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts);
        self
    }

    /// Sets whether each delay is drawn at random, from half of it to all of it. On by default.
    ///
    /// The random part is drawn after the delay was limited to the longest: otherwise clients that have
    /// reached the longest delay would all try at once. Turn it off for tests and for a single client.
    pub const fn jitter(mut self, on: bool) -> Self {
        self.jitter = on;
        self
    }

    /// Whether the settings are valid.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { first, longest, .. } = *self;
        if first.is_zero() || longest.is_zero() {
            let why = "retries without one would flood the servers";
            return Err(format!("retry delay must be above 0: {why}"));
        }
        if longest < first {
            let (first, longest) = (Units(first), Units(longest));
            return Err(format!(
                "longest retry delay {longest} is shorter than the first, {first}"
            ));
        }
        if self.attempts == Some(0) {
            return Err("attempts must be at least 1".to_owned());
        }
        Ok(())
    }

    /// Whether there is a maximum number of attempts.
    pub(crate) fn is_counted(&self) -> bool {
        self.attempts.is_some()
    }

    /// Whether there is no attempt left after `tried` of them.
    pub(super) fn is_spent(self, tried: u32) -> bool {
        self.attempts.is_some_and(|attempts| tried >= attempts)
    }

    /// As [`Backoff::delay`].
    #[inline(never)]
    pub(crate) fn delay(self, failed: u32, random: u64) -> Duration {
        self.spread(self.whole(failed), random)
    }

    /// As [`Retry::delay`], but only shortly after `ends_in`, when the holder's lease ends.
    pub(super) fn delay_until(
        self,
        failed: u32,
        ends_in: Option<Duration>,
        random: u64,
    ) -> Duration {
        let delay = self.delay(failed, random);
        match ends_in {
            Some(ends_in) if ends_in < delay => {
                let behind = self.spread(self.first.min(BEHIND_END_MAX), random);
                ends_in.saturating_add(behind)
            }
            _ => delay,
        }
    }

    fn whole(self, failed: u32) -> Duration {
        let Self { growth, first, longest, .. } = self;
        match growth {
            Growth::Linear => first.saturating_mul(failed.saturating_add(1)).min(longest),
            Growth::Exponential => Backoff { first, longest }.whole(failed),
        }
    }

    fn spread(self, whole: Duration, random: u64) -> Duration {
        if self.jitter { jittered(whole, random) } else { whole }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self::exponential(Duration::from_millis(4), Duration::from_millis(128))
    }
}

#[cfg(test)]
mod tests;

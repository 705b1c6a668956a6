use std::time::Duration;

use super::{Moment, Retry};

/// How often a watched lock is asked for, beside the server's pushes and the end of its TTL: a
/// connection can die unnoticed.
const WATCHED: Retry = Retry::exponential(Duration::from_millis(4), Duration::from_secs(5));

/// Why a try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setback {
    /// Another owner holds the lock; its lease ends in this time at the latest, if known.
    Held(Option<Duration>),
    /// As above, and a server will push its end.
    Watched(Option<Duration>),
    /// The lock was granted with too little validity left.
    TooLate,
    /// Too few servers may vote, because they restarted; the first of them may after this time.
    Quarantined(Duration),
    /// Too few servers served; another try may find them better.
    Failing,
    /// No further try can end otherwise.
    Hopeless,
}

/// What to do after a setback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Try again after this rest.
    Rest(Rest),
    /// Give up: the setback is the result.
    GiveUp,
    /// The request's limit is over.
    OutOfTime,
}

/// A pause between two tries. News of the lock ends it, but not before `least` is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) least: Duration,
    pub(crate) most: Duration,
}

/// How long an acquire goes on in the face of setbacks.
///
/// With a limit, only that ends the wait for another holder or for servers that fail. Without a limit,
/// servers may fail for `grace` in a row: so a request outlasts a restart or a failover, and does not
/// wait for a wrong address for ever. The caller's [`Retry`] has the pauses in between, and the maximum
/// number of attempts.
///
/// Before a limit ends, the servers are asked once more, soon enough for a timeout to pass: so the error tells a lock
/// that is still held from servers that do not answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryState {
    began_at: Moment,
    ends_at: Option<Moment>,
    last_word_at: Option<Moment>,
    waits: bool,
    retry: Retry,
    grace: Duration,
    tries: u32,
    last_try: Option<Moment>,
    failing_since: Option<Moment>,
}

/// How long a caller waits for another holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Never,
    AtMost(Duration),
    Forever,
}

impl RetryState {
    /// The state of a new request. One that does not wait has one attempt, of at most `attempt_max`.
    pub(crate) fn new(
        wait: Wait,
        retry: Retry,
        grace: Duration,
        attempt_max: Duration,
        now: Moment,
    ) -> Self {
        let (waits, most) = match wait {
            Wait::Never | Wait::AtMost(Duration::ZERO) => (false, Some(attempt_max)),
            Wait::AtMost(limit) => (true, Some(limit)),
            Wait::Forever => (true, None),
        };
        let ends_at = most.map(|most| now.after(most));
        let last_word_at = match wait {
            Wait::AtMost(limit) if limit > attempt_max && !retry.is_counted() => {
                Some(now.after(limit - attempt_max))
            }
            _ => None,
        };
        Self {
            began_at: now,
            ends_at,
            last_word_at,
            waits,
            retry,
            grace,
            tries: 0,
            last_try: None,
            failing_since: None,
        }
    }

    /// Whether the request may have more than one attempt.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// When the request is over, whatever is under way then; none if it has no limit.
    pub(crate) fn ends_at(&self) -> Option<Moment> {
        self.ends_at
    }

    /// When the last try before the limit is due, if that is later than `now`.
    pub(crate) fn last_word_at(&self, now: Moment) -> Option<Moment> {
        self.last_word_at.filter(|at| *at > now)
    }

    /// Whether the limit has passed.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        self.ends_at.is_some_and(|end| now >= end)
    }

    /// Whether there is a maximum number of attempts.
    pub(crate) fn is_counted(&self) -> bool {
        self.retry.is_counted()
    }

    /// The first pause between two tries, given 64 random bits.
    #[inline(never)]
    pub(crate) fn pause(&self, random: u64) -> Duration {
        self.retry.delay(0, random)
    }

    /// For how long servers have failed in a row.
    pub(crate) fn failing_for(&self, now: Moment) -> Duration {
        self.failing_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Servers have served: they no longer fail in a row.
    pub(crate) fn is_served(&mut self) {
        self.failing_since = None;
    }

    /// Takes over the time since which servers have failed from the request before it in the line, but not from before
    /// this one began.
    pub(crate) fn goes_on_from(&mut self, first: &Self) {
        self.failing_since = first.failing_since.map(|since| since.max(self.began_at));
    }

    /// What to do after `setback` at `now`, given 64 random bits.
    pub(crate) fn after(&mut self, setback: Setback, now: Moment, random: u64) -> Next {
        self.failing_since = match setback {
            Setback::Failing => self.failing_since.or(Some(now)),
            _ => None,
        };
        let has_enough = self.ends_at.is_none() && self.failing_for(now) > self.grace;
        let tried = self.tries;
        self.tries = tried.saturating_add(1);
        let last_try = self.last_try.replace(now);
        if !self.waits
            || setback == Setback::Hopeless
            || has_enough
            || self.retry.is_spent(self.tries)
        {
            return Next::GiveUp;
        }
        if self.is_over(now) {
            return Next::OutOfTime;
        }
        let pause = self.retry.delay(tried, random);
        let most = match setback {
            Setback::Held(frees_in) => self.retry.delay_until(tried, frees_in, random),
            Setback::Watched(frees_in) => WATCHED.delay_until(u32::MAX, frees_in, random),
            // Nothing can change before, so tries in between are useless.
            Setback::Quarantined(wait) => wait.saturating_add(self.retry.delay(0, random)),
            _ => pause,
        };
        let is_rare = last_try.is_none_or(|last| now.since(last) >= pause);
        let least = match setback {
            Setback::Held(_) | Setback::Watched(_) if is_rare => Duration::ZERO,
            Setback::Held(_) | Setback::Watched(_) => pause,
            _ => most,
        };
        let left = self.last_word_at(now).or(self.ends_at);
        let left = left.map_or(Duration::MAX, |at| at.since(now));
        Next::Rest(Rest { least: least.min(left), most: most.max(least).min(left) })
    }
}

#[cfg(test)]
mod tests;

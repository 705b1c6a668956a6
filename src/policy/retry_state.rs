use std::time::Duration;

use super::{Moment, Retry};

/// How often a watched lock is asked for, beside the server's word and the end of its TTL: a
/// connection can have died without a word.
const WATCHED: Retry = Retry::exponential(Duration::from_millis(4), Duration::from_secs(5));

/// What stood in the way of one try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setback {
    /// Another holds the lock, whose lease ends in this time at the latest, where that is known.
    Held(Option<Duration>),
    /// As above, and a server will tell of its end.
    Watched(Option<Duration>),
    /// It was granted with too little validity left.
    TooLate,
    /// Too few servers may vote, since they restarted; the first of them may in this time.
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
    /// The setback is the answer.
    GiveUp,
    /// The wait that was allowed is over.
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
/// A caller that sets a limit is the only one to set it: until then another holder is waited for, and
/// so are servers that fail. Where there is no limit, servers that fail are put up with for `grace`
/// in a row, so that a restart or a failover is ridden out, and a wrong address is not waited on for
/// ever. The caller's [`Retry`] says how long to wait in between, and how many
/// attempts there are at most.
///
/// Where a limit ends the wait, the servers are asked once more before that, soon enough for a timeout to pass: the caller is
/// told of a holder that they know still, and of servers that stand still as such.
///
/// News of the lock is worth a try at once where the last one was long ago. Any other try waits for as long as the [`Retry`]
/// says, whatever a server tells: so no server can have a caller ask faster than it set out to.
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

/// How long a caller is willing to wait for another holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Never,
    AtMost(Duration),
    Forever,
}

impl RetryState {
    /// A request that does not wait has one attempt. Each may take `attempt_max`.
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

    /// Whether there is more than one attempt.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// When it is over, whatever is under way then; none where it has no end.
    pub(crate) fn ends_at(&self) -> Option<Moment> {
        self.ends_at
    }

    /// When the next question is due, if nothing happens before: the last one before the limit.
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

    /// The pause between two questions, given 64 random bits.
    #[inline(never)]
    pub(crate) fn pause(&self, random: u64) -> Duration {
        self.retry.delay(0, random)
    }

    /// For how long servers have failed in a row.
    pub(crate) fn failing_for(&self, now: Moment) -> Duration {
        self.failing_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// The one before it in its line has gone, to which servers have failed: it has put up with them, too, while it
    /// waited.
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
            // Nothing can change before, so no try in between is worth its commands.
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

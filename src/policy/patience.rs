use std::time::Duration;

use super::{Moment, Retry};

/// A lock of which a server tells is asked for at its TTL's end too, and at least so often: a
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
    /// Try again after this time.
    TryIn(Duration),
    /// The setback is the answer.
    GiveUp,
    /// The wait that was allowed, this long, is over.
    OutOfTime(Duration),
}

/// How long an acquire goes on in the face of setbacks.
///
/// Waiting for another holder is bounded by the caller alone. Servers that fail are put up with
/// for `grace` in a row, so that a restart or a failover is ridden out, and a wrong address is not
/// waited on for ever. The caller's [`Retry`] says how long to wait in between, and how many
/// attempts there are at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    began_at: Moment,
    ends_at: Option<Moment>,
    retry: Retry,
    grace: Duration,
    tries: u32,
    failing_since: Option<Moment>,
}

/// How long a caller is willing to wait for another holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Never,
    AtMost(Duration),
    Forever,
}

impl Patience {
    pub(crate) fn new(wait: Wait, retry: Retry, grace: Duration, now: Moment) -> Self {
        let ends_at = match wait {
            Wait::Never => Some(now),
            Wait::AtMost(limit) => Some(now.after(limit)),
            Wait::Forever => None,
        };
        Self { began_at: now, ends_at, retry, grace, tries: 0, failing_since: None }
    }

    /// How much of the wait is left; none where it has no end.
    pub(crate) fn left(&self, now: Moment) -> Option<Duration> {
        self.ends_at.map(|end| end.since(now))
    }

    /// For how long servers have failed in a row.
    pub(crate) fn failing_for(&self, now: Moment) -> Duration {
        self.failing_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// What to do after `setback` at `now`, given 64 random bits.
    pub(crate) fn after(&mut self, setback: Setback, now: Moment, random: u64) -> Next {
        self.failing_since = match setback {
            Setback::Failing => self.failing_since.or(Some(now)),
            _ => None,
        };
        let failing_for = self.failing_for(now);
        let tried = self.tries;
        self.tries = tried.saturating_add(1);
        if setback == Setback::Hopeless
            || failing_for > self.grace
            || self.retry.is_spent(self.tries)
        {
            return Next::GiveUp;
        }
        let delay = match setback {
            Setback::Held(frees_in) => self.retry.delay_until(tried, frees_in, random),
            Setback::Watched(frees_in) => WATCHED.delay_until(u32::MAX, frees_in, random),
            // Nothing can change before, so no try in between is worth its commands.
            Setback::Quarantined(wait) => wait + self.retry.delay(0, random),
            _ => self.retry.delay(tried, random),
        };
        match self.ends_at {
            None => Next::TryIn(delay),
            Some(end) if end == self.began_at => Next::GiveUp,
            Some(end) if now >= end => Next::OutOfTime(end.since(self.began_at)),
            Some(end) => Next::TryIn(delay.min(end.since(now))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest that the default adds to a time that is known.
    const BEHIND: Duration = ms(4);
    const GRACE: Duration = Duration::from_secs(10);

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Moment {
        Moment::from_nanos(0).after(ms(n))
    }

    fn delay(next: Next) -> Duration {
        match next {
            Next::TryIn(delay) => delay,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_does_not_wait_gets_the_first_setback_as_the_answer() {
        for setback in [Setback::Held(None), Setback::TooLate, Setback::Failing] {
            let mut patience = Patience::new(Wait::Never, Retry::default(), GRACE, at(5));
            assert_eq!(patience.after(setback, at(6), 0), Next::GiveUp);
        }
    }

    #[test]
    fn a_waiter_backs_off_but_is_there_when_the_holders_lease_ends() {
        let mut patience = Patience::new(Wait::Forever, Retry::default(), GRACE, at(0));
        let first = delay(patience.after(Setback::Held(Some(ms(5000))), at(0), 0));
        let second = delay(patience.after(Setback::Held(Some(ms(5000))), at(9), 0));
        assert!(second > first);
        let last = delay(patience.after(Setback::Held(Some(ms(1))), at(99), 0));
        assert!(last >= ms(1) && last <= ms(1) + BEHIND);
    }

    #[test]
    fn a_limited_wait_ends_with_one_last_try_at_its_end() {
        let mut patience = Patience::new(Wait::AtMost(ms(10)), Retry::default(), GRACE, at(0));
        assert_eq!(patience.after(Setback::Held(None), at(9), u64::MAX), Next::TryIn(ms(1)));
        assert_eq!(patience.after(Setback::Held(None), at(10), 0), Next::OutOfTime(ms(10)));
    }

    #[test]
    fn failing_servers_are_put_up_with_for_the_grace_in_a_row() {
        let mut patience = Patience::new(Wait::Forever, Retry::default(), ms(100), at(0));
        assert!(matches!(patience.after(Setback::Failing, at(0), 0), Next::TryIn(_)));
        assert!(matches!(patience.after(Setback::Failing, at(100), 0), Next::TryIn(_)));
        assert!(matches!(patience.after(Setback::Held(None), at(101), 0), Next::TryIn(_)));
        assert!(matches!(patience.after(Setback::Failing, at(150), 0), Next::TryIn(_)));
        assert_eq!(patience.after(Setback::Failing, at(251), 0), Next::GiveUp);
    }

    #[test]
    fn a_quarantine_is_waited_out_in_one_go() {
        let mut patience = Patience::new(Wait::Forever, Retry::default(), ms(100), at(0));
        let wait = delay(patience.after(Setback::Quarantined(ms(7000)), at(0), 0));
        assert!(wait > ms(7000) && wait <= ms(7000) + BEHIND);
        assert!(matches!(patience.after(Setback::Quarantined(ms(1)), at(7100), 0), Next::TryIn(_)));
    }

    #[test]
    fn the_setback_of_the_last_attempt_is_the_answer() {
        let retry = Retry::fixed(ms(7)).attempts(3).jitter(false);
        let mut patience = Patience::new(Wait::Forever, retry, GRACE, at(0));
        assert_eq!(patience.after(Setback::Held(None), at(1), 0), Next::TryIn(ms(7)));
        assert_eq!(patience.after(Setback::TooLate, at(8), 0), Next::TryIn(ms(7)));
        assert_eq!(patience.after(Setback::Held(None), at(15), 0), Next::GiveUp);
    }

    #[test]
    fn the_hopeless_is_never_tried_again() {
        let mut patience = Patience::new(Wait::Forever, Retry::default(), GRACE, at(0));
        assert_eq!(patience.after(Setback::Hopeless, at(0), 0), Next::GiveUp);
    }
}

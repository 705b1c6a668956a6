//! When the front asks the keeper how long the lease is valid, and when it stops waiting for the answer.
//!
//! The answer counts from before the request, as a lease does.

use std::time::Duration;

/// How long a keeper may take to answer even if the lease is over by the front's clock: perhaps only the front was
/// stopped.
const PATIENCE_MAX: Duration = Duration::from_secs(1);
/// The same limit, as the TTL divided by this.
const PATIENCE_PART: u32 = 4;
/// Minimum pause between two requests.
const PAUSE: Duration = Duration::from_millis(10);

/// What to do next about the keeper.
#[derive(Debug, PartialEq, Eq)]
pub enum Due {
    Nothing,
    Ask,
    /// End all: it has not answered, and the lease is about to end.
    End,
}

/// The state for a held lease.
#[derive(Debug)]
pub struct Watch {
    patience: Duration,
    good_until: Duration,
    asked_at: Duration,
    is_answered: bool,
    ask_at: Duration,
}

impl Watch {
    /// For a lease with this TTL; nothing else is known yet.
    pub fn begin(ttl: Duration, now: Duration) -> Self {
        let patience = PATIENCE_MAX.min(ttl / PATIENCE_PART);
        Self { patience, good_until: now, asked_at: now, is_answered: true, ask_at: now }
    }

    /// Notes how long the lease is valid, by the keeper.
    pub fn answered(&mut self, left: Duration, now: Duration) {
        self.good_until = self.asked_at + left;
        self.is_answered = true;
        self.ask_at = now + PAUSE.max(self.good_until.saturating_sub(now) / 2);
    }

    /// What to do now. After `Ask` the caller has to send the request.
    pub fn due(&mut self, now: Duration) -> Due {
        if self.is_answered && now >= self.ask_at {
            self.asked_at = now;
            self.is_answered = false;
            return Due::Ask;
        }
        if now >= self.next() { Due::End } else { Due::Nothing }
    }

    /// When to do something next.
    pub fn next(&self) -> Duration {
        if self.is_answered {
            return self.ask_at;
        }
        self.good_until.max(self.asked_at + self.patience)
    }

    /// How long the lease is still valid, by the last answer.
    pub fn left(&self, now: Duration) -> Duration {
        self.good_until.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn one_that_answers_is_asked_again_and_again() {
        let mut watch = Watch::begin(ms(3000), ms(100));
        for at in [100, 1600, 3100, 4600] {
            assert_eq!(watch.due(ms(at)), Due::Ask, "{at}");
            watch.answered(ms(3000), ms(at));
            assert_eq!(watch.due(ms(at + 1499)), Due::Nothing, "{at}");
        }
    }

    #[test]
    fn one_that_is_silent_has_until_the_end_of_the_lease_counted_from_the_question() {
        let mut watch = Watch::begin(ms(3000), ms(0));
        assert_eq!(watch.due(ms(0)), Due::Ask);
        watch.answered(ms(3000), ms(400));
        assert_eq!(watch.left(ms(500)), ms(2500));
        assert_eq!(watch.due(ms(1700)), Due::Ask);
        assert_eq!(watch.due(ms(2999)), Due::Nothing);
        assert_eq!(watch.due(ms(3000)), Due::End);
    }

    #[test]
    fn one_that_was_stopped_itself_asks_before_it_ends_anything() {
        let mut watch = Watch::begin(ms(3000), ms(0));
        assert_eq!(watch.due(ms(0)), Due::Ask);
        watch.answered(ms(3000), ms(1));
        assert_eq!(watch.due(ms(60_000)), Due::Ask);
        assert_eq!(watch.due(ms(60_749)), Due::Nothing);
        assert_eq!(watch.due(ms(60_750)), Due::End);
    }

    #[test]
    fn one_that_answers_that_nothing_is_left_is_not_ended() {
        let mut watch = Watch::begin(ms(3000), ms(0));
        for round in 0..5 {
            assert_eq!(watch.due(ms(round * 10)), Due::Ask);
            watch.answered(ms(0), ms(round * 10));
            assert_eq!(watch.due(ms(round * 10 + 9)), Due::Nothing);
        }
    }
}

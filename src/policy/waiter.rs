//! One process that waits in the queue of a lock: what it may believe, and when.
//!
//! ```text
//!             Answered(Waiting)             Pushed, or
//!   Asking ─────────────────────▶ Waiting ───────────────▶ held, from a moment
//!      │                           │   ▲    Answered(Yours)   that is known
//!      │ Answered(Yours)           ╰───╯
//!      ╰───▶ held                Answered(Waiting)
//! ```
//!
//! A waiter has one owner for all of its wait, which the server grants at most once. The server hands
//! the lock to the first in the queue by a push. A push travels on another connection than the
//! questions, so its arrival says nothing of when the lease began. What says it is the last question
//! that the server answered with "still waiting": the grant came after that answer, so the lease ends
//! no earlier than a TTL after that question was sent. Where there is no such answer, or too little is
//! left of the lease by then, the waiter asks: a server that finds the lock to be the asking owner's
//! gives it a whole TTL again, which counts from before that question was sent.
//!
//! A push is a message, and any user that may publish can forge one. So its token is believed only where this server
//! could have minted it ([`Shown`]); the waiter asks about any other, and what it is told then counts.

use std::time::Duration;

use super::fence::{DAY_MICROS, SECOND_MICROS};
use super::{Moment, Term};

/// The longest that an entry of the queue lives without a word from its waiter: so nothing of the queue
/// is left a minute after the last waiter has gone.
const ENTRY_MAX: Duration = Duration::from_secs(30);
/// Questions within the life of an entry: one may be lost, and another one late.
const BEATS: u32 = 3;
/// Several servers can do without the one with the queue. That one tells of nothing once it stands still, and its
/// connection lives on: so it keeps a waiter for this long at the most.
const STANDS_STILL_MAX: Duration = Duration::from_secs(1);
/// How often the first in the queue at one of several servers asks all of them: the one with the queue may keep a
/// lease that the others have lost.
pub(crate) const ASK_ALL_EACH: Duration = Duration::from_secs(1);

/// Where a waiter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaiterState {
    /// The server has answered no question of this owner's.
    Asking,
    /// The server has answered a question that was sent at `since`: the owner waits still.
    Waiting { since: Moment, shown: Option<Shown> },
}

/// What the server showed of its tokens with its last answer that did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shown {
    /// The lock's counter.
    pub(crate) counter: u64,
    /// The server's clock in microseconds.
    pub(crate) clock: u64,
    /// Before the question was sent.
    pub(crate) asked_at: Moment,
}

impl Shown {
    /// Whether the server could have minted this token by `now`: at most a second above its counter and its
    /// clock, and not below the counter. A reader is told the counter itself, which is never further than a day behind
    /// the clock.
    fn allows(self, token: u64, now: Moment) -> bool {
        let Self { counter, clock, asked_at } = self;
        let since = u64::try_from(now.since(asked_at).as_micros()).unwrap_or(u64::MAX);
        let least = counter.max(clock.saturating_sub(DAY_MICROS));
        let most = counter.max(clock).saturating_add(since).saturating_add(SECOND_MICROS);
        (least..=most).contains(&token)
    }
}

/// What the waiter hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaiterEvent {
    /// The answer to the question that was sent at `asked_at`.
    Answered { answer: QueueAnswer, asked_at: Moment },
    /// A message says that the lock was handed to this owner, with this token.
    Pushed { token: u64 },
}

/// What a server says to a question of a waiter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueAnswer {
    /// The lock is the owner's, for a whole TTL.
    Yours,
    /// The owner is in the queue.
    Waiting { shown: Option<Shown> },
    /// The owner is not in the queue, and is not granted the lock any more.
    Gone,
}

/// What the waiter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaiterAction {
    Wait,
    /// Ask at once.
    Ask,
    /// Enter the queue again, with a fresh owner.
    ComeBack,
    /// The lock is held; the lease counts from then.
    Hold {
        counts_from: Moment,
    },
}

impl WaiterState {
    /// Of an owner that enters the queue.
    pub(crate) fn begin() -> Self {
        Self::Asking
    }

    /// Makes the transition, and says what to do.
    pub(crate) fn happens(&mut self, event: WaiterEvent, term: Term, now: Moment) -> WaiterAction {
        let counts_from = match (event, *self) {
            (WaiterEvent::Answered { answer: QueueAnswer::Gone, .. }, _) => {
                return WaiterAction::ComeBack;
            }
            (WaiterEvent::Answered { answer: QueueAnswer::Waiting { shown }, asked_at }, state) => {
                let before = match state {
                    Self::Waiting { shown, .. } => shown,
                    Self::Asking => None,
                };
                *self = Self::Waiting { since: asked_at, shown: shown.or(before) };
                return WaiterAction::Wait;
            }
            (WaiterEvent::Answered { answer: QueueAnswer::Yours, asked_at }, _) => asked_at,
            (WaiterEvent::Pushed { token }, Self::Waiting { since, shown: Some(shown) })
                if shown.allows(token, now) =>
            {
                since
            }
            (WaiterEvent::Pushed { .. }, _) => return WaiterAction::Ask,
        };
        if term.is_worthwhile(term.deadline(counts_from), now) {
            WaiterAction::Hold { counts_from }
        } else {
            WaiterAction::Ask
        }
    }

    /// Whether the entry lives yet, whatever became of later questions: the server wrote its deadline when it
    /// answered that the owner waits.
    pub(crate) fn has_place(self, term: Term, now: Moment) -> bool {
        matches!(self, Self::Waiting { since, .. } if now < since.after(entry_life(term)))
    }
}

/// How long an entry of the queue lives without a word from its waiter.
pub(crate) fn entry_life(term: Term) -> Duration {
    term.ttl().min(ENTRY_MAX)
}

/// How long after one question a waiter asks the next: of one server alone, or of one that others can do without.
pub(crate) fn beat(term: Term, is_alone: bool) -> Duration {
    let beat = entry_life(term) / BEATS;
    if is_alone { beat } else { beat.min(STANDS_STILL_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(6);

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(0).after(Duration::from_millis(ms))
    }

    fn term() -> Term {
        Term::new(TTL, None).unwrap()
    }

    fn answered(answer: QueueAnswer, ms: u64) -> WaiterEvent {
        WaiterEvent::Answered { answer, asked_at: at(ms) }
    }

    /// The server's clock when `at` is 0, in microseconds.
    const CLOCK: u64 = 1_763_800_000_000_000;
    /// What is pushed at any time in these tests that is not about tokens.
    const PUSHED: WaiterEvent = WaiterEvent::Pushed { token: CLOCK };

    fn waits(ms: u64) -> WaiterEvent {
        let shown = Some(Shown { counter: CLOCK - 1, clock: CLOCK, asked_at: at(ms) });
        answered(QueueAnswer::Waiting { shown }, ms)
    }

    #[test]
    fn a_pushed_lease_counts_from_the_last_question_that_was_answered() {
        let mut state = WaiterState::Asking;
        assert_eq!(state.happens(waits(10), term(), at(12)), WaiterAction::Wait);
        assert_eq!(state.happens(waits(2010), term(), at(2012)), WaiterAction::Wait);
        let pushed = state.happens(PUSHED, term(), at(3000));
        assert_eq!(pushed, WaiterAction::Hold { counts_from: at(2010) });
    }

    #[test]
    fn a_push_is_confirmed_where_no_answer_dates_it_or_too_little_is_left() {
        let mut state = WaiterState::Asking;
        assert_eq!(state.happens(PUSHED, term(), at(1)), WaiterAction::Ask);
        state.happens(waits(10), term(), at(12));
        assert_eq!(state.happens(PUSHED, term(), at(5900)), WaiterAction::Ask);
        let yours = state.happens(answered(QueueAnswer::Yours, 5901), term(), at(5902));
        assert_eq!(yours, WaiterAction::Hold { counts_from: at(5901) });
    }

    /// Safety rule 20.
    #[test]
    fn the_token_of_a_push_is_one_that_the_server_could_have_minted() {
        let pushed = |shown, token, ms| {
            let mut state = WaiterState::begin();
            state.happens(answered(QueueAnswer::Waiting { shown }, 0), term(), at(1));
            // An answer that shows nothing leaves what is known.
            state.happens(answered(QueueAnswer::Waiting { shown: None }, 1), term(), at(2));
            state.happens(WaiterEvent::Pushed { token }, term(), at(ms))
        };
        let believed = WaiterAction::Hold { counts_from: at(1) };
        let (second, day) = (SECOND_MICROS, DAY_MICROS);
        let shown = |counter| Some(Shown { counter, clock: CLOCK, asked_at: at(0) });
        let (behind, ahead) = (CLOCK - 5 * second, CLOCK + 60 * second);
        for (counter, token) in [
            (behind, behind),
            (behind, CLOCK + 3 * second),
            (behind, CLOCK + 4 * second),
            (ahead, ahead),
            (ahead, ahead + 1),
            (0, CLOCK),
            (0, CLOCK - day),
        ] {
            assert_eq!(pushed(shown(counter), token, 3000), believed, "{counter} {token}");
        }
        for (counter, token) in [
            (behind, behind - 1),
            (behind, CLOCK + 4 * second + 1),
            (behind, (1 << 53) - 1),
            (behind, u64::MAX),
            (ahead, CLOCK),
            (ahead, ahead + 4 * second + 1),
            (0, CLOCK - day - 1),
            (0, 1),
        ] {
            assert_eq!(pushed(shown(counter), token, 3000), WaiterAction::Ask, "{counter} {token}");
        }
        assert_eq!(pushed(None, CLOCK, 3000), WaiterAction::Ask);
    }

    #[test]
    fn an_answer_that_comes_too_late_is_asked_for_again() {
        let mut state = WaiterState::Asking;
        let late = state.happens(answered(QueueAnswer::Yours, 0), term(), at(5990));
        assert_eq!(late, WaiterAction::Ask);
    }

    #[test]
    fn an_entry_lives_from_the_last_answer_that_the_owner_waits() {
        assert!(!WaiterState::Asking.has_place(term(), at(0)));
        let waits = WaiterState::Waiting { since: at(10), shown: None };
        assert!(waits.has_place(term(), at(6009)));
        assert!(!waits.has_place(term(), at(6010)));
    }

    #[test]
    fn an_owner_that_is_gone_is_never_used_again() {
        let mut state = WaiterState::Waiting { since: at(1), shown: None };
        let gone = state.happens(answered(QueueAnswer::Gone, 5), term(), at(6));
        assert_eq!(gone, WaiterAction::ComeBack);
    }

    #[test]
    fn entries_outlive_two_late_questions_and_no_minute() {
        assert_eq!((entry_life(term()), beat(term(), true)), (TTL, TTL / 3));
        let long = Term::new(Duration::from_secs(3600), None).unwrap();
        assert_eq!(entry_life(long), ENTRY_MAX);
        assert!(beat(long, true) * BEATS <= ENTRY_MAX);
    }

    #[test]
    fn a_server_that_others_can_do_without_is_asked_more_often() {
        assert_eq!(beat(term(), false), STANDS_STILL_MAX);
        let short = Term::new(Duration::from_millis(600), None).unwrap();
        assert_eq!(beat(short, false), Duration::from_millis(200));
    }
}

//! One process that waits in the queue of a lock: what it may believe, and when.
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
mod tests;

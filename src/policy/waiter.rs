//! One process that waits in the queue of a lock: what it may believe, and when.
//!
//! A waiter has one owner for all of its wait, which the server grants at most once. The server hands
//! the lock to the first in the queue by a push. A push travels on another connection than the commands,
//! so its arrival does not tell when the lease began. The last command that the server answered with
//! "still waiting" does: the grant came after that answer, so the lease ends no earlier than a TTL after
//! that command was sent. Without such an answer, or if too little is left of the lease by then, the
//! waiter asks: if its owner has the lock, the server gives it a whole TTL again, which counts from
//! before that command was sent.
//!
//! A push is a message, and any user that may publish can forge one. So its token is believed only if this server
//! could have minted it ([`Shown`]); for any other the waiter asks, and the reply counts.

use std::time::Duration;

use super::fence::{DAY_MICROS, SECOND_MICROS};
use super::{Moment, Term};

/// Maximum life of an entry of the queue without a command of its waiter: so nothing of the queue is left
/// a minute after the last waiter has gone.
const ENTRY_MAX: Duration = Duration::from_secs(30);
/// Commands within the life of an entry: one may be lost, and another one late.
const BEATS: u32 = 3;
/// With several servers, one that has the queue and stands still delays a waiter by at most this: it pushes nothing,
/// and its connection stays, but the others can do without it.
const STANDS_STILL_MAX: Duration = Duration::from_secs(1);
/// How often the first in the queue at one of several servers asks all of them: the one with the queue may keep a lease that
/// the others have lost.
pub(crate) const ASK_ALL_EACH: Duration = Duration::from_secs(1);

/// The state of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaiterState {
    /// The server has answered no command of this owner.
    Asking,
    /// The server has answered a command that was sent at `since`: the owner still waits.
    Waiting { since: Moment, shown: Option<Shown> },
}

/// The server's counter and clock, by its last answer that had them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shown {
    /// The lock's counter.
    pub(crate) counter: u64,
    /// The server's clock in microseconds.
    pub(crate) clock: u64,
    /// Before the command was sent.
    pub(crate) asked_at: Moment,
}

impl Shown {
    /// Whether the server could have minted this token by `now`: at most a second above its counter and its
    /// clock, and not below the counter. A reader gets the counter itself, which is never more than a day behind
    /// the clock.
    fn allows(self, token: u64, now: Moment) -> bool {
        let Self { counter, clock, asked_at } = self;
        let since = u64::try_from(now.since(asked_at).as_micros()).unwrap_or(u64::MAX);
        let least = counter.max(clock.saturating_sub(DAY_MICROS));
        let most = counter.max(clock).saturating_add(since).saturating_add(SECOND_MICROS);
        (least..=most).contains(&token)
    }
}

/// What happens to the waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaiterEvent {
    /// The answer to a command that was sent at `asked_at`.
    Answered { answer: QueueAnswer, asked_at: Moment },
    /// A push: the lock was handed to this owner, with this token.
    Pushed { token: u64 },
}

/// A server's answer to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueAnswer {
    /// The owner has the lock, for a whole TTL.
    Yours,
    /// The owner is in the queue.
    Waiting { shown: Option<Shown> },
    /// The owner is not in the queue, and will never be granted the lock.
    Gone,
}

/// What the waiter has to do.
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
    /// The state of an owner that enters the queue.
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

    /// Whether the entry still lives, whatever became of later commands: the server wrote its deadline when it
    /// answered that the owner waits.
    pub(crate) fn has_place(self, term: Term, now: Moment) -> bool {
        matches!(self, Self::Waiting { since, .. } if now < since.after(entry_life(term)))
    }
}

/// How long an entry of the queue lives without a command of its waiter.
pub(crate) fn entry_life(term: Term) -> Duration {
    term.ttl().min(ENTRY_MAX)
}

/// The pause between two commands of a waiter, of one server alone or of one among several.
pub(crate) fn beat(term: Term, is_alone: bool) -> Duration {
    let beat = entry_life(term) / BEATS;
    if is_alone { beat } else { beat.min(STANDS_STILL_MAX) }
}

#[cfg(test)]
mod tests;

//! The life of one lease for its holder: every change of its state is here.
//!
//! ```text
//!                 Release
//!         Held ─────────────▶ Releasing ──────▶ Released
//!        │ ▲ │ ◀──────────────  │        Ended
//! Extended╰╯ │ Lost,   Stays    │Ended(Lost):
//!            │ or its time      │the key was
//!            │ is over          │not there
//!            ╰─────▶ Lost ◀─────╯
//! ```
//!
//! Three rules hold in every order of events. A lease that anybody was told is lost stays lost, for
//! the same reason (safety rule 7). Its end never moves to an earlier moment (safety rule 6). And of
//! a lease that was held, one transition and no other says how it [`End`]ed: the code that makes that
//! transition counts the end and tells of it.

use super::{Loss, Moment};

/// Where a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LeaseState {
    /// It is its holder's `until` then.
    Held { until: Moment },
    /// Its holder gives it back, and does not know yet what becomes of that.
    Releasing,
    /// It was given back, or handed on.
    Released,
    /// It ended before it was given back.
    Lost(Loss),
}

/// What happens to a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseEvent {
    /// A quorum extended it.
    Extended { until: Moment },
    /// Time went by.
    Passed,
    /// Servers, or the locker, ended it before its time.
    Lost(Loss),
    /// Its holder gives it back. Nothing that could take its locks again is sent after this.
    Release,
    /// Servers gave its holder nothing in its place: it is its holder's until then, as before.
    Stays { until: Moment },
    /// What became of giving it back.
    Ended(End),
}

/// How a lease ended that was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Given back: a quorum said so, or the release is queued and nobody waits for a word on it.
    Released,
    /// Given back, and too few servers said so.
    Unconfirmed,
    /// Handed over to the next one in this process.
    HandedOver,
    /// Given to a ticket, which another process may turn into a lease.
    Ticketed,
    Lost(Loss),
}

/// The state after an event, and how the lease ended if it was by this event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) next: LeaseState,
    pub(crate) end: Option<End>,
}

impl LeaseState {
    /// What `event` makes of it at `now`; `overdue` says why it is lost if its time is over, by the
    /// moment of its end.
    pub(crate) fn transition(
        self,
        event: LeaseEvent,
        now: Moment,
        overdue: impl FnOnce(Moment) -> Loss,
    ) -> Transition {
        let to = |next| Transition { next, end: None };
        let lost = |why| Transition { next: Self::Lost(why), end: Some(End::Lost(why)) };
        match (self, event) {
            (Self::Held { .. }, LeaseEvent::Lost(why)) => lost(why),
            (Self::Held { until }, _) if until <= now => lost(overdue(until)),
            (Self::Held { until: known }, LeaseEvent::Extended { until }) => {
                to(Self::Held { until: known.max(until) })
            }
            (Self::Held { .. }, LeaseEvent::Release) => to(Self::Releasing),
            (Self::Releasing, LeaseEvent::Stays { until }) if until <= now => lost(overdue(until)),
            (Self::Releasing, LeaseEvent::Stays { until }) => to(Self::Held { until }),
            (Self::Releasing, LeaseEvent::Ended(End::Lost(why))) => lost(why),
            (Self::Releasing, LeaseEvent::Ended(end)) => {
                Transition { next: Self::Released, end: Some(end) }
            }
            (state, _) => to(state),
        }
    }

    /// When it ends, as far as is known; none where it is not held.
    pub(crate) fn until(self) -> Option<Moment> {
        if let Self::Held { until } = self { Some(until) } else { None }
    }

    pub(crate) fn loss(self) -> Option<Loss> {
        if let Self::Lost(why) = self { Some(why) } else { None }
    }

    pub(crate) fn is_held(self) -> bool {
        self.until().is_some()
    }
}

#[cfg(test)]
mod tests;

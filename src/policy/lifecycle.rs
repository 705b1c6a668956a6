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
//! Three rules hold in every order of events. A lease that was reported lost stays lost, for the
//! same reason (safety rule 7). Its end never moves to an earlier moment (safety rule 6). And exactly
//! one transition says how a held lease [`End`]ed: the code that makes that transition counts and
//! reports the end.

use super::{Loss, Moment};

/// The state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LeaseState {
    /// The holder has it until then.
    Held { until: Moment },
    /// The holder releases it, with an outcome that is not known yet.
    Releasing,
    /// It was released, or handed over.
    Released,
    /// It ended before it was released.
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
    /// The holder releases it. Nothing that could take its locks again is sent after this.
    Release,
    /// The lease that was to replace this one was refused: the holder still has this one, until then.
    Stays { until: Moment },
    /// The outcome of the release.
    Ended(End),
}

/// How a lease ended that was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Released: a quorum confirmed it, or the release is queued and nobody waits for its outcome.
    Released,
    /// Released, but too few servers confirmed it.
    Unconfirmed,
    /// Handed over to the next request of this process.
    HandedOver,
    /// Given to a ticket, which another process may turn into a lease.
    Ticketed,
    Lost(Loss),
}

/// The state after an event, and how the lease ended if by this event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) next: LeaseState,
    pub(crate) end: Option<End>,
}

impl LeaseState {
    /// The transition by `event` at `now`; if the lease's time is over, `overdue` says why it is lost,
    /// by the moment of its end.
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

    /// When it ends, as far as is known; none if it is not held.
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

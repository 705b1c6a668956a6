use std::time::Duration;

use super::{Moment, Term};

/// Maximum hand-overs in a row within a process.
const HANDS_MAX: u32 = 16;
/// And for no longer than this, so that others are not kept waiting by long holds.
const RELAY_MAX: Duration = Duration::from_secs(1);
/// How long a hold is short, so that the lock goes on within the process although others are in its queue: a
/// hand-over by the server takes some tenths of a millisecond. Others wait for no more than [`HANDS_MAX`] of these.
const SHORT_HOLD: Duration = Duration::from_millis(2);
/// Tokens that a server sets aside for a process, beyond the one of the owner that took over there: as
/// `scripts/acquire.lua` has it.
const ASIDE: u32 = 15;

/// A lock that goes from hand to hand within one process, unseen by all others.
///
/// Bounded in number and time, so that other processes get their turn: then it goes on only if none
/// of them waits, where that is known; else it is given back, and the next waiter in this process
/// asks for it as they do. Where others are known to be in the queue of a single server, only a lock that was held
/// for a moment goes on: a request for several locks keeps some of them idle while it waits for the last one.
///
/// # A lease that is passed on
///
/// The next one need not ask. To servers the owner stays the same, and so does its lease: the next holder has what is
/// left of it, by the same deadline, and renews it. This is lock cohorting (D. Dice, V. J. Marathe, N. Shavit, "Lock
/// Cohorting", PPoPP 2012, section 2), of a lock whose global part is a lease.
///
/// *Exclusion.* One holder ends before the next begins, in one process, and both lie within one lease of one owner.
///
/// *Tokens.* Servers had set them aside when they last let an owner of the process take over: each accepted `t`, and
/// raised its counter to `t` + [`ASIDE`]. So it is as if it had accepted all of these for that owner, and nobody else
/// is ever issued any of them (`policy/fence.rs`). They are issued in rising order, and all of them are below the token
/// of an owner that asks after that. So leases that servers granted have tokens in the order of real time, as ever, and a
/// holder that a lease was passed on to counts as one with those before it: where servers have lost the lease
/// meanwhile, and let another in, that one's token is the larger, as it is to a holder that does not know yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relay {
    hands: u32,
    /// When the first hand-over was.
    began_at: Option<Moment>,
    /// Tokens above the present holder's that are set aside.
    aside: u32,
}

/// What goes from a holder to the next one: when the lease ends, and the holder's token, if there are tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) until: Moment,
    pub(crate) token: Option<u64>,
}

impl Relay {
    /// A relay that begins with an owner that takes over at a server.
    pub(crate) fn begin() -> Self {
        Self { aside: ASIDE, ..Self::default() }
    }

    /// Whether a lock that was held for this long goes on within its process although others are known to wait.
    pub(crate) fn is_short(held: Duration) -> bool {
        held <= SHORT_HOLD
    }

    /// The relay after one hand-over more at `now`, by a server; none where it is others' turn.
    pub(crate) fn next(self, now: Moment) -> Option<Self> {
        Some(Self { aside: ASIDE, ..self.hand(now)? })
    }

    /// What the next one has of `lease` without a question, half a TTL at least, and the relay from then on. None
    /// where it has to ask.
    pub(crate) fn pass(self, lease: Passed, term: Term, now: Moment) -> Option<(Passed, Self)> {
        let Passed { until, token } = lease;
        if until.since(now) < term.ttl() / 2 || !term.is_worthwhile(until, now) {
            return None;
        }
        let relay = self.hand(now)?;
        let Some(token) = token else { return Some((lease, relay)) };
        let aside = self.aside.checked_sub(1)?;
        Some((Passed { until, token: Some(token + 1) }, Self { aside, ..relay }))
    }

    /// The largest token that is set aside for a holder of this one, which a server's counter is not to be below; 0 for
    /// one that has no token.
    pub(crate) fn last_aside(self, token: u64) -> u64 {
        if token == 0 { 0 } else { token + u64::from(self.aside) }
    }

    fn hand(self, now: Moment) -> Option<Self> {
        let began_at = self.began_at.unwrap_or(now);
        let may_go_on = self.hands < HANDS_MAX && now.since(began_at) <= RELAY_MAX;
        may_go_on.then_some(Self { hands: self.hands + 1, began_at: Some(began_at), ..self })
    }
}

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::{Moment, Term};

/// Maximum hand-overs in a row within a process.
const HANDS_MAX: u32 = 16;
/// Maximum time of hand-overs in a row, so that long holds do not keep other processes waiting.
const RELAY_MAX: Duration = Duration::from_secs(1);
/// Maximum time of a short hold, after which the lock goes on within the process although others are in its queue:
/// a hand-over by the server takes some tenths of a millisecond. Others wait for at most [`HANDS_MAX`] short holds.
const SHORT_HOLD: Duration = Duration::from_millis(2);
/// Tokens that a server sets aside for a process, above that of the owner that took over there, as in
/// `scripts/acquire.lua`.
const ASIDE: u32 = 15;

/// A lock that goes from holder to holder within one process, unseen by other processes.
///
/// Hand-overs are bounded in number and time, so that other processes get their turn: beyond the bounds the lock
/// goes on only if none of them is known to wait; else it is released, and the next waiter in this process asks
/// for it as they do. If others are known to be in the queue of a single server, only a lock that was held briefly
/// goes on: a request for several locks keeps some of them idle while it waits for the last one.
///
/// # A lease that is passed on
///
/// The next holder need not ask. To servers the owner stays the same, and so does its lease: the next holder has the
/// rest of it, by the same deadline, and renews it. This is lock cohorting (D. Dice, V. J. Marathe, N. Shavit, "Lock
/// Cohorting", PPoPP 2012, section 2), of a lock whose global part is a lease.
///
/// *Exclusion.* One holder ends before the next begins, in one process, and both lie within one lease of one owner.
///
/// *Tokens.* Servers had set them aside when they last let an owner of the process take over: each accepted `t`, and
/// raised its counter to `t` + [`ASIDE`]. So it is as if it had accepted all of these for that owner, and no other is
/// ever issued one of them (`policy/fence.rs`). They are issued in rising order, and are below the token of each
/// owner that asks later. So leases that servers granted still have tokens in the order of real time, and a holder to
/// which a lease was passed on counts as one with those before it: if servers have lost the lease meanwhile, and
/// granted the lock to another owner, that one's token is larger, also while the holder does not know of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relay {
    hands: u32,
    /// When the first hand-over was.
    began_at: Option<Moment>,
    /// Tokens above the present holder's that are set aside.
    aside: u32,
}

/// What a holder passes on to the next one: the end of the lease, and the holder's token, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) until: Moment,
    pub(crate) token: Option<u64>,
}

impl Relay {
    /// The relay of an owner that took over at a server.
    pub(crate) fn begin() -> Self {
        Self { aside: ASIDE, ..Self::default() }
    }

    /// Whether a lock that was held for `held` goes on within its process although others are known to wait.
    pub(crate) fn is_short(held: Duration) -> bool {
        held <= SHORT_HOLD
    }

    /// The relay after one more hand-over at `now`, by a server; none if the bounds are reached.
    pub(crate) fn next(self, now: Moment) -> Option<Self> {
        Some(Self { aside: ASIDE, ..self.hand(now)? })
    }

    /// What the next holder has of `lease` without asking, half a TTL at least, and the relay from then on. None if it
    /// has to ask.
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

    /// The largest token that is set aside for the holder of `token`: a repair raises counters to it. 0 for a holder
    /// without a token.
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

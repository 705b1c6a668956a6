//! The model of exclusion: how far a search goes, and which rules it leaves out.

use std::time::Duration;

use super::world::CLIENTS;

/// How far an exploration goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) quorum: usize,
    /// A tick, and the TTL in ticks.
    pub(super) tick: Duration,
    pub(super) ttl: u8,
    /// Attempts of each client: 1 to 3.
    pub(super) attempts: [u8; CLIENTS],
    /// Extensions of each client's lease.
    pub(super) extensions: [u8; CLIENTS],
    /// A client that holds may hand over to its next attempt.
    pub(super) hand_overs: bool,
    /// How many servers may forget: by an early expiry, by a stepped clock, by a restart without
    /// memory that no guard covers.
    pub(super) losses: usize,
    /// Servers restart without memory, as often as they like.
    pub(super) restarts: bool,
    /// Connections end with messages on them, refusals arrive, and what an ended attempt has sent
    /// stays under way. Without these the space is far smaller: see the reductions in the head of
    /// the model.
    pub(super) strays: bool,
}

/// Where an extension sets the lock if nobody holds it: "quorum repair".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    Nowhere,
    /// On servers that may vote.
    WhereFit,
    /// Also on servers that the restart quarantine keeps from voting.
    Anywhere,
}

/// The state of a lease that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elder {
    /// It is gone from the moment at which its successor asks.
    Gone,
    /// It holds until its own deadline.
    GoesOn,
    /// It holds again, until its own deadline, once its successor has given up.
    FallsBack,
}

/// The safety rules that can be switched off, each by the name of the mistake.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mutant {
    /// Rule 2: validity counts from when the reply is read.
    pub(super) counts_from_reply: bool,
    /// Rule 2: validity is the whole TTL.
    pub(super) ignores_drift: bool,
    /// Rule 1: every attempt of a client has the same owner.
    pub(super) reuses_owner: bool,
    /// Rule 1: "held, by an earlier attempt of mine" counts as granted now.
    pub(super) counts_own_key: bool,
    /// Rule 9: the guard waits for one tick less.
    pub(super) short_quarantine: bool,
    /// Rule 9: a server's wall clock that is stepped forward expires none of its keys, so that it
    /// need not count as a loss.
    pub(super) steps_are_free: bool,
    /// Rule 9: no guard.
    pub(super) no_guard: bool,
    /// Rule 6: one server's grant extends the lease.
    pub(super) extends_by_one: bool,
    /// Rule 6: an extension sets a missing lock.
    pub(super) repair: Repair,
    /// Hand-over: the state of the predecessor.
    pub(super) elder: Elder,
    /// Hand-over: the successor counts its predecessor's grants, and so holds as soon as it asks.
    pub(super) inherits_grants: bool,
    /// Hand-over: the attempt after a successor that gave up has the successor's owner.
    pub(super) reuses_heir: bool,
    /// Hand-over: the release of a successor that gave up deletes whatever lock there is.
    pub(super) deletes_any: bool,
    /// Rule 7: an ended lease is still extended, and holds again when that is granted.
    pub(super) revives: bool,
    /// Not a mistake of the client's: the checker looks at exclusion only.
    pub(super) exclusion_only: bool,
}

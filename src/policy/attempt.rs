//! One attempt at a lock by one owner: its proposals, and the result of each round of answers.
//!
//! ```text
//!              Ask                     a quorum granted one token, in time
//!   begin ──────────────▶ round ended ─────────────────────────────────────▶ Hold
//!              ╭────────────▶  │ │
//!   Ask, with  │               │ │  anything else
//!   a larger   ╰───────────────╯ ╰─────────────────────────────────────────▶ GiveUp
//!   proposal     only tokens stood in the way,
//!                or servers were late
//! ```
//!
//! A reader gets the lock's present token. If the servers that granted have different ones, it asks again
//! for the largest, which the others then accept.
//!
//! The owner is never used again after `Hold` or `GiveUp` (safety rule 1). A repeated command has
//! the TTL and the deadline of the later one. A late server is asked once more, over the same
//! connection: this reply also settles the first command.

use std::time::Duration;

use super::{Ballot, Moment, Quorum, Setback, Term, Verdict};

/// Maximum rounds of one attempt: contenders outbid one another only while they overlap.
const ROUNDS_MAX: u8 = 4;

/// One server's answer to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteReply {
    /// The owner has the lock; with the token, if the server chose another than the proposed one.
    Granted { token: Option<u64> },
    /// The lock is not available there; its holder's lease ends in this time, if known.
    Refused { frees_in: Option<Duration>, counter: u64 },
    /// The proposal is not above this counter.
    Stale { counter: u64 },
    /// The proposal is too far ahead of this clock, in microseconds.
    Ahead { clock: u64 },
    /// The server gave no usable answer.
    Failed(Failing),
}

/// Why a server gave no usable answer, as far as an attempt decides by the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    /// The answer did not come in time.
    Late,
    /// A repetition would get the same answer.
    Hopeless,
    /// The server may vote after this time.
    Quarantined(Duration),
    /// Anything else.
    Otherwise,
}

/// The answers to one round, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The verdict of the answers, or `Lost` if the caller's limit ended the round early.
    pub(super) verdict: Verdict,
    pub(super) granted: usize,
    pub(super) refused: usize,
    /// Servers that refused only the proposed token.
    pub(super) outbid: usize,
    pub(super) failed: usize,
    /// Failures by a late answer.
    pub(super) late: usize,
    hopeless: usize,
    quarantined: usize,
    /// The smallest and the largest granted token.
    pub(super) tokens: Option<(u64, u64)>,
    counter: u64,
    clock: Option<u64>,
    frees_in: Option<Duration>,
    votes_in: Option<Duration>,
    /// A moment before the first byte was sent to any server that answered.
    pub(super) asked_at: Option<Moment>,
    /// When the last answer was seen.
    pub(super) answered_at: Option<Moment>,
}

impl Tally {
    /// Ends the round with this verdict.
    pub(crate) fn conclude(&mut self, verdict: Verdict) {
        self.verdict = verdict;
    }

    /// Adds one server's answer, seen at `answered_at`, to a command sent at `asked_at`, if one was
    /// sent; `proposal` is the token of a grant that names none.
    pub(crate) fn add(
        &mut self,
        reply: VoteReply,
        proposal: u64,
        asked_at: Option<Moment>,
        answered_at: Moment,
    ) {
        match reply {
            VoteReply::Granted { token } => {
                let token = token.unwrap_or(proposal);
                let (least, most) = self.tokens.unwrap_or((token, token));
                self.tokens = Some((least.min(token), most.max(token)));
                self.granted += 1;
            }
            VoteReply::Refused { frees_in, counter } => {
                self.refused += 1;
                self.frees_in = sooner(self.frees_in, frees_in);
                self.counter = self.counter.max(counter);
            }
            VoteReply::Stale { counter } => {
                self.outbid += 1;
                self.counter = self.counter.max(counter);
            }
            VoteReply::Ahead { clock } => {
                self.outbid += 1;
                self.clock = self.clock.max(Some(clock));
            }
            VoteReply::Failed(failing) => self.add_failure(failing),
        }
        self.asked_at = sooner(self.asked_at, asked_at);
        self.answered_at = self.answered_at.max(Some(answered_at));
    }

    fn add_failure(&mut self, failing: Failing) {
        self.failed += 1;
        match failing {
            Failing::Late => self.late += 1,
            Failing::Hopeless => self.hopeless += 1,
            Failing::Quarantined(wait) => {
                self.quarantined += 1;
                self.votes_in = sooner(self.votes_in, Some(wait));
            }
            Failing::Otherwise => {}
        }
    }

    /// Why an acquire failed.
    ///
    /// If the servers that did not fail are fewer than a quorum, the cause is the failures and not
    /// the holder: the end of its lease would not help.
    pub(crate) fn setback(&self, quorum: Quorum) -> Setback {
        let loses = |denied| quorum.verdict(0, denied) == Verdict::Lost;
        if self.refused > 0 && !loses(self.failed) {
            Setback::Held(self.frees_in)
        } else if loses(self.hopeless) {
            Setback::Hopeless
        } else {
            // If others failed otherwise, one of them may serve before.
            let votes_in = self.votes_in.filter(|_| loses(self.hopeless + self.quarantined));
            votes_in.map_or(Setback::Failing, Setback::Quarantined)
        }
    }

    /// Whether the missing answers decide between a holder and failures as the setback.
    pub(crate) fn is_unclear(&self, quorum: Quorum, unanswered: usize) -> bool {
        let loses = |denied| quorum.verdict(0, denied) == Verdict::Lost;
        self.refused > 0 && !loses(self.failed) && loses(self.failed + unanswered)
    }

    /// Whether only refused tokens prevented a quorum.
    fn is_outbid(&self, quorum: Quorum) -> bool {
        let lost_otherwise = self.refused + self.failed;
        self.outbid > 0 && quorum.verdict(0, lost_otherwise) != Verdict::Lost
    }

    /// Whether the late servers could still complete a quorum.
    fn is_open(&self, quorum: Quorum) -> bool {
        let closed = self.refused + self.outbid + self.failed - self.late;
        self.late > 0 && quorum.verdict(0, closed) != Verdict::Lost
    }
}

/// The smaller of two values; either may be unknown.
fn sooner<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The conditions of an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    pub(crate) quorum: Quorum,
    pub(crate) term: Term,
    /// Whether servers choose the token: a single server does, and all do for a reader, which gets their
    /// present token.
    pub(crate) servers_choose: bool,
    /// The end of the caller's wait.
    pub(crate) ends_at: Option<Moment>,
    /// Maximum time of one round.
    pub(crate) round_max: Duration,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptAction {
    /// Ask all servers again, with this proposal.
    Ask(Ballot),
    /// The lease is granted.
    Hold(Grant),
    /// The attempt failed. What servers may have granted is released.
    GiveUp(Setback),
}

/// A lease that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The lease counts from then.
    pub(crate) asked_at: Moment,
    pub(crate) answered_at: Moment,
    pub(crate) deadline: Moment,
    /// The token that a quorum accepted; none if none was proposed.
    pub(crate) token: Option<u64>,
}

/// See the module's documentation. [`Attempt::ballot`] is the proposal of the first round, and
/// [`Attempt::ended`] takes the answers of each round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(super) conditions: Conditions,
    ballot: Option<Ballot>,
    rounds: u8,
    has_insisted: bool,
}

impl Attempt {
    /// An attempt that proposes a token, or none.
    pub(crate) fn begin(conditions: Conditions, ballot: Option<Ballot>) -> Self {
        Self { conditions, ballot, rounds: 1, has_insisted: false }
    }

    /// The proposal of the present round.
    pub(crate) fn ballot(&self) -> Option<Ballot> {
        self.ballot
    }

    /// The action after the present round; `wall_micros` reads the wall clock in microseconds, for a
    /// first proposal.
    pub(crate) fn ended(
        &mut self,
        tally: &Tally,
        wall_micros: impl FnOnce() -> u64,
    ) -> AttemptAction {
        let setback = match self.judge(tally) {
            Ok(grant) => return AttemptAction::Hold(grant),
            Err(setback) => setback,
        };
        if let Some(next) = self.next_proposal(tally, wall_micros) {
            self.ballot = Some(next);
            self.rounds += 1;
            return AttemptAction::Ask(next);
        }
        AttemptAction::GiveUp(setback)
    }

    /// The grant of a round that was won with enough validity left (safety rule 2) and one token that
    /// all accepted (safety rule 8).
    fn judge(&self, tally: &Tally) -> Result<Grant, Setback> {
        let Conditions { quorum, term, servers_choose, .. } = self.conditions;
        let (Verdict::Won, Some(asked_at), Some(answered_at)) =
            (tally.verdict, tally.asked_at, tally.answered_at)
        else {
            return Err(tally.setback(quorum));
        };
        let deadline = term.deadline(asked_at);
        if !term.is_worthwhile(deadline, answered_at) {
            return Err(Setback::TooLate);
        }
        let token = match (self.ballot, tally.tokens) {
            (None, _) => None,
            (Some(ballot), Some((least, most)))
                if least == most && ballot.accepts(most, servers_choose) =>
            {
                Some(most)
            }
            _ => return Err(Setback::Failing),
        };
        Ok(Grant { asked_at, answered_at, deadline, token })
    }

    /// The next proposal, if the same owner might still win. It is above the largest counter that
    /// servers have shown, and otherwise no further ahead than the clocks that they have shown.
    fn next_proposal(
        &mut self,
        tally: &Tally,
        wall_micros: impl FnOnce() -> u64,
    ) -> Option<Ballot> {
        let Conditions { quorum, ends_at, round_max, servers_choose, .. } = self.conditions;
        let now = tally.answered_at?;
        let left = ends_at.map_or(Duration::MAX, |end| end.since(now));
        if self.rounds == ROUNDS_MAX || tally.verdict == Verdict::Pending {
            return None;
        } else if tally.verdict == Verdict::Won {
            let (least, most) = tally.tokens?;
            let differ = servers_choose && least < most && !left.is_zero();
            return differ.then(|| Ballot::at(most));
        }
        match self.ballot {
            Some(ballot) if !left.is_zero() && tally.is_outbid(quorum) => {
                let bounded = tally.clock.map_or(ballot, |clock| ballot.within(clock));
                Some(bounded.above(tally.counter))
            }
            before if !self.has_insisted && left >= round_max && tally.is_open(quorum) => {
                self.has_insisted = true;
                Some(before.map_or_else(|| Ballot::new(wall_micros()), Ballot::again))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;

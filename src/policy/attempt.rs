//! One attempt at a lock by one owner: what it proposes, and what the answers to a round come to.
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
//! A reader has no token of its own, but the present one: where servers that let it in have different
//! ones, it asks for the largest of these, which the others accept then.
//!
//! The owner is never used again after `Hold` or `GiveUp` (safety rule 1). A repeated question has
//! the TTL and the deadline of the later question. A late server is asked once more, over the same
//! connection: the answer says what became of the first question too.

use std::time::Duration;

use super::{Ballot, Moment, Quorum, Setback, Term, Verdict};

/// Maximum rounds of one attempt: contenders outbid one another only while they overlap.
const ROUNDS_MAX: u8 = 4;

/// What one server said to an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteReply {
    /// The owner has the lock; with the token, where the server chose another than was proposed.
    Granted { token: Option<u64> },
    /// The lock is not available there; its holder's lease ends in this time, where that is known.
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
    /// No later question can be answered otherwise.
    Hopeless,
    /// The server may vote in this time.
    Quarantined(Duration),
    /// Anything else.
    Otherwise,
}

/// The answers to one round of questions, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// What the answers come to, or `Lost` where the caller's limit ended the round before.
    pub(super) verdict: Verdict,
    pub(super) granted: usize,
    pub(super) refused: usize,
    /// Refusals of the proposed token alone.
    pub(super) outbid: usize,
    pub(super) failed: usize,
    /// Failures of which the answer was late.
    pub(super) late: usize,
    hopeless: usize,
    quarantined: usize,
    /// The smallest and the largest token that was granted.
    pub(super) tokens: Option<(u64, u64)>,
    counter: u64,
    clock: Option<u64>,
    frees_in: Option<Duration>,
    votes_in: Option<Duration>,
    /// Before the first byte was sent to any server that answered.
    pub(super) asked_at: Option<Moment>,
    /// When the last answer was seen.
    pub(super) answered_at: Option<Moment>,
}

impl Tally {
    /// The round is over, with this verdict.
    pub(crate) fn conclude(&mut self, verdict: Verdict) {
        self.verdict = verdict;
    }

    /// Adds what one server said at `answered_at` to the question that was put at `asked_at`, if it was
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

    /// What stood in the way of an acquire.
    ///
    /// Where the servers that did not fail are fewer than a quorum, the failures stood in the way,
    /// and not the holder: the end of its lease would not help.
    pub(crate) fn setback(&self, quorum: Quorum) -> Setback {
        let loses = |denied| quorum.verdict(0, denied) == Verdict::Lost;
        if self.refused > 0 && !loses(self.failed) {
            Setback::Held(self.frees_in)
        } else if loses(self.hopeless) {
            Setback::Hopeless
        } else {
            // Where others failed too, one of them may serve again before.
            let votes_in = self.votes_in.filter(|_| loses(self.hopeless + self.quarantined));
            votes_in.map_or(Setback::Failing, Setback::Quarantined)
        }
    }

    /// Whether it is the answers of those servers that have not answered yet that say what stood in the way.
    pub(crate) fn is_unclear(&self, quorum: Quorum, unanswered: usize) -> bool {
        let loses = |denied| quorum.verdict(0, denied) == Verdict::Lost;
        self.refused > 0 && !loses(self.failed) && loses(self.failed + unanswered)
    }

    /// Only tokens stood in the way of a quorum.
    fn is_outbid(&self, quorum: Quorum) -> bool {
        let lost_otherwise = self.refused + self.failed;
        self.outbid > 0 && quorum.verdict(0, lost_otherwise) != Verdict::Lost
    }

    /// No server refused as far as a quorum needs it, and with the late ones there could be one.
    fn is_open(&self, quorum: Quorum) -> bool {
        let closed = self.refused + self.outbid + self.failed - self.late;
        self.late > 0 && quorum.verdict(0, closed) != Verdict::Lost
    }
}

/// The smaller of two, of which either may be unknown.
fn sooner<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// What an attempt is judged by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    pub(crate) quorum: Quorum,
    pub(crate) term: Term,
    /// Whether servers choose the token: one that decides alone; or all, for a reader, which gets the present
    /// token of the servers that let it in.
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
    /// The attempt came to nothing. What servers may have granted is given back.
    GiveUp(Setback),
}

/// A lease that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The lease counts from here.
    pub(crate) asked_at: Moment,
    pub(crate) answered_at: Moment,
    pub(crate) deadline: Moment,
    /// The token that a quorum accepted; none where none was proposed.
    pub(crate) token: Option<u64>,
}

/// See the module's documentation. [`Attempt::ballot`] is what to propose in the first round, and
/// [`Attempt::ended`] takes the answers of each.
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

    /// What it proposes in the present round.
    pub(crate) fn ballot(&self) -> Option<Ballot> {
        self.ballot
    }

    /// What the answers to the present round lead to; `wall_micros` is the wall clock, for a first
    /// proposal.
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

    /// Whether a round was won and is worth having: enough validity left (safety rule 2), and one
    /// token that all accepted (safety rule 8).
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

    /// The next proposal, where the same owner might still win a lost round. It is above the largest
    /// token that any server that answered has accepted, and else no further ahead than the clocks
    /// that servers have shown.
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

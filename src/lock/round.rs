//! The answers to one question, and what they amount to.

use std::time::Duration;

use super::answer::{Answer, Reason};
use super::hold::Hold;
use super::one_or_many::OneOrMany;
use crate::error::{FailureKind, Holder, Report, ServerReport, Vote};
use crate::net::outcome::{Failure, Fault};
use crate::net::refusal::Code;
#[cfg(test)]
use crate::policy::mutants::Mutant;
use crate::policy::{Ballot, Moment, Quorum, Setback, Verdict};
use crate::server::fitness::Refusal;

/// One server's answer, and when.
pub(super) struct Answered {
    pub(super) answer: Answer,
    /// Read before the first byte of the question was sent; none where nothing was.
    pub(super) asked_at: Option<Moment>,
    pub(super) answered_at: Moment,
}

impl Answered {
    pub(super) fn is_grant(&self) -> bool {
        #[cfg(test)]
        if self.is_late() && Mutant::TimedOutCountsAsHeld.is_on() {
            return true;
        }
        self.answer.is_grant()
    }

    /// Nobody else holds the lock there.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.answer, Answer::Granted(_) | Answer::Stale { .. } | Answer::Ahead { .. })
    }

    /// An answer that was not waited for.
    pub(super) fn late(asked_at: Moment, waited: Duration) -> Self {
        let reason = Reason::NoReply(Failure::Unknown(Fault::Timeout(waited)));
        Self {
            answer: Answer::Failed(Box::new(reason)),
            asked_at: Some(asked_at),
            answered_at: asked_at.after(waited),
        }
    }

    /// No answer came in time.
    pub(super) fn is_late(&self) -> bool {
        let Answer::Failed(reason) = &self.answer else { return false };
        matches!(**reason, Reason::NoReply(Failure::Unknown(Fault::Timeout(_))))
    }

    pub(super) fn is_failure(&self) -> bool {
        matches!(self.answer, Answer::Failed(_))
    }

    /// From before the question was sent until the answer was seen.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        Some(self.answered_at.since(self.asked_at?))
    }
}

/// The answers to one question, one place per server, in the order of the servers.
pub(super) struct Round {
    pub(super) verdict: Verdict,
    pub(super) answers: OneOrMany<Option<Answered>>,
    /// The server that was asked before the others, and found the lock free.
    pub(super) free_at: Option<usize>,
    /// The caller's limit ended it before the verdict.
    pub(super) is_cut: bool,
}

impl Round {
    /// Nobody has answered yet.
    pub(super) fn new(hold: &Hold) -> Self {
        let answers = hold.participants.iter().map(|_| None).collect();
        Self { verdict: Verdict::Pending, answers, free_at: None, is_cut: false }
    }

    /// The answer of the only server, which decides.
    pub(super) fn of_one(answered: Answered) -> Self {
        let verdict = if answered.is_grant() { Verdict::Won } else { Verdict::Lost };
        let answers = OneOrMany::One([Some(answered)]);
        Self { verdict, answers, free_at: None, is_cut: false }
    }

    /// What it comes to where the caller's limit ends it.
    pub(super) fn cut(self) -> Self {
        Self { verdict: Verdict::Lost, is_cut: true, ..self }
    }

    /// Whether any server was asked.
    pub(super) fn is_empty(&self) -> bool {
        self.given().next().is_none()
    }

    fn given(&self) -> impl Iterator<Item = &Answered> {
        self.answers.iter().flatten()
    }

    /// The verdict on the answers so far.
    pub(super) fn count(&self, quorum: Quorum) -> Verdict {
        let given = self.given().count();
        let granted = self.given().filter(|answered| answered.is_grant()).count();
        quorum.verdict(granted, given - granted)
    }

    /// Whether an acquire is lost, and only a server that has not answered can tell what stood in the
    /// way, as [`Quorum::leaves_open_why`] says.
    pub(super) fn leaves_open_why(&self, quorum: Quorum) -> bool {
        let given = self.given().count();
        let failed = self.failures().count();
        let granted = self.given().filter(|answered| answered.is_grant()).count();
        quorum.leaves_open_why(given - failed - granted, failed, self.answers.len() - given)
    }

    /// Before the first byte of the question was sent to any server that answered; none where
    /// nobody was asked.
    pub(super) fn asked_at(&self) -> Option<Moment> {
        self.given().filter_map(|answered| answered.asked_at).min()
    }

    /// How long the slowest server took that answered.
    pub(super) fn slowest_answer(&self) -> Duration {
        let answers = self.given().filter(|answered| !answered.is_failure());
        answers.filter_map(Answered::round_trip).max().unwrap_or_default()
    }

    /// When the last of the answers was seen.
    pub(super) fn answered_at(&self) -> Option<Moment> {
        self.given().map(|answered| answered.answered_at).max()
    }

    /// The token that was granted, where `proposed` is what all were asked for, if all that granted
    /// one granted the same.
    pub(super) fn token(&self, proposed: u64) -> Option<u64> {
        let mut tokens = self.given().filter_map(|answered| match answered.answer {
            Answer::Granted(token) => Some(token.unwrap_or(proposed)),
            Answer::Seized { token, .. } => Some(token),
            _ => None,
        });
        #[cfg(test)]
        if Mutant::CountersPerServer.is_on() {
            return tokens.max();
        }
        let first = tokens.next()?;
        tokens.all(|token| token == first).then_some(first)
    }

    /// The next proposal, where the round was lost and only tokens stood in the way: with that one the
    /// same owner might still win. It is above the largest token that any server that answered has
    /// accepted, and else no further ahead than the clocks that servers have shown.
    pub(super) fn outbid(&self, ballot: Ballot, quorum: Quorum) -> Option<Ballot> {
        if self.verdict != Verdict::Lost {
            return None;
        }
        let is_refused = |answered: &&Answered| {
            matches!(answered.answer, Answer::Stale { .. } | Answer::Ahead { .. })
        };
        let refused = self.given().filter(is_refused).count();
        let granted = self.given().filter(|answered| answered.is_grant()).count();
        let lost_otherwise = self.given().count() - refused - granted;
        if refused == 0 || quorum.verdict(0, lost_otherwise) == Verdict::Lost {
            return None;
        }
        let counters = self.given().filter_map(|answered| match answered.answer {
            Answer::Stale { counter } | Answer::Held { counter, .. } => Some(counter),
            _ => None,
        });
        let clocks = self.given().filter_map(|answered| match answered.answer {
            Answer::Ahead { clock } => Some(clock),
            _ => None,
        });
        let bounded = clocks.max().map_or(ballot, |clock| ballot.within(clock));
        Some(counters.max().map_or(bounded, |counter| bounded.above(counter)))
    }

    /// Every server answered, and said that it gave this owner nothing. Each answer is the last
    /// word on its connection, since nothing is ever sent twice: there is nothing to give back.
    pub(super) fn proves_nothing_granted(&self) -> bool {
        self.answers.iter().all(|answered| {
            #[cfg(test)]
            if Mutant::LateMeansNothingGranted.is_on()
                && answered.as_ref().is_some_and(Answered::is_late)
            {
                return true;
            }
            matches!(
                answered.as_ref().map(|answered| &answered.answer),
                Some(
                    Answer::Held { .. }
                        | Answer::Taken
                        | Answer::Queued { .. }
                        | Answer::Free
                        | Answer::NotOwned
                        | Answer::Stale { .. }
                        | Answer::Ahead { .. }
                )
            )
        })
    }

    /// Whether this server has said that nothing of this owner's is left with it.
    pub(super) fn is_free_on(&self, server: usize) -> bool {
        let answered = self.answers.get(server).and_then(Option::as_ref);
        answered.is_some_and(|answered| {
            answered.is_grant() || matches!(answered.answer, Answer::NotOwned)
        })
    }

    /// No quorum can hold the lease any more: the other servers said that it is gone.
    pub(super) fn proves_lost(&self, hold: &Hold) -> bool {
        let gone = self.given().filter(|answered| answered.answer.is_proof_of_loss()).count();
        hold.quorum().verdict(0, gone) == Verdict::Lost
    }

    /// Who holds the lock, as a server says that has refused it.
    pub(super) fn holder(&self) -> Option<&Holder> {
        self.given().find_map(|answered| match &answered.answer {
            Answer::Held { holder, .. } => Some(&**holder),
            _ => None,
        })
    }

    /// A server has taken the lock from another holder.
    pub(super) fn is_seized(&self) -> bool {
        self.given().any(|answered| matches!(answered.answer, Answer::Seized { .. }))
    }

    /// A server may have done what it was asked, or not.
    pub(super) fn is_unknown(&self) -> bool {
        self.failures().any(|reason| reason.kind() == FailureKind::Unknown)
    }

    /// Which servers refused because another holds the lock.
    pub(super) fn refused_by(&self) -> impl Iterator<Item = usize> {
        let is_held = |answered: &Answered| matches!(answered.answer, Answer::Held { .. });
        let servers = self.answers.iter().enumerate();
        servers
            .filter(move |(_, given)| given.as_ref().is_some_and(is_held))
            .map(|(server, _)| server)
    }

    /// No server refused, and those that granted and those that were late could make the quorum
    /// together: the question is worth repeating.
    pub(super) fn is_open(&self, quorum: Quorum) -> bool {
        if self.verdict != Verdict::Lost || !self.given().any(Answered::is_late) {
            return false;
        }
        let is_closed = |answered: &&Answered| !(answered.is_grant() || answered.is_late());
        quorum.verdict(0, self.given().filter(is_closed).count()) != Verdict::Lost
    }

    /// What stood in the way of an acquire.
    ///
    /// Where the servers that did not fail are fewer than a quorum, the failures stood in the way,
    /// and not the holder: the end of its lease would not help.
    pub(super) fn setback(&self, quorum: Quorum) -> Setback {
        let held = self.given().filter_map(|answered| match &answered.answer {
            Answer::Held { holder, .. } => Some(holder.remaining),
            Answer::Taken | Answer::Queued { .. } | Answer::Free | Answer::NotOwned => Some(None),
            _ => None,
        });
        // A lease whose end nobody knows is the last to end.
        let key = |remaining: &Option<Duration>| remaining.unwrap_or(Duration::MAX);
        if quorum.verdict(0, self.failures().count()) != Verdict::Lost {
            if let Some(frees_in) = held.min_by_key(key) {
                return Setback::Held(frees_in);
            }
        }
        let is_hopeless =
            |reason: &&Reason| matches!(reason.kind(), FailureKind::Auth | FailureKind::Misuse);
        if quorum.verdict(0, self.failures().filter(is_hopeless).count()) == Verdict::Lost {
            return Setback::Hopeless;
        }
        let waits = self.failures().filter_map(|reason| match reason {
            Reason::Refusal(Refusal::Quarantined(wait) | Refusal::Settling(wait)) => Some(*wait),
            _ => None,
        });
        waits.min().map_or(Setback::Failing, Setback::Quarantined)
    }

    /// A server gave no usable answer.
    pub(super) fn has_failed(&self) -> bool {
        self.failures().next().is_some()
    }

    /// Keys of the question are on two nodes, and it has no other form.
    pub(super) fn is_apart(&self) -> bool {
        self.failures()
            .any(|reason| matches!(reason, Reason::Refused(error) if error.code() == Code::Apart))
    }

    fn failures(&self) -> impl Iterator<Item = &Reason> {
        self.given().filter_map(|answered| match &answered.answer {
            Answer::Failed(reason) => Some(&**reason),
            _ => None,
        })
    }

    /// What each server said.
    pub(super) fn report(&self, hold: &Hold) -> Report {
        let servers = hold.participants.iter().zip(self.answers.iter());
        let servers = servers.map(|(participant, answered)| ServerReport {
            server: participant.binding().node.endpoint().address.to_string(),
            vote: answered
                .as_ref()
                .map_or(Vote::Pending, |answered| answered.answer.vote(hold.core.fingerprint())),
            round_trip: answered.as_ref().and_then(Answered::round_trip),
        });
        Report { servers: servers.collect() }
    }
}

//! The answers to one question, and what they amount to.

use std::time::Duration;

use super::answer::{Answer, Reason};
use super::hold::Hold;
use super::one_or_many::OneOrMany;
use crate::error::{FailureKind, Holder, Report, ServerReport, Vote};
use crate::net::outcome::{Failure, Fault};
use crate::net::refusal::Code;
use crate::policy::{Failing, Moment, Quorum, Setback, Tally, Verdict, VoteReply};

/// One server's answer, and when.
pub(super) struct Answered {
    pub(super) answer: Answer,
    /// Read before the first byte of the question was sent; none where nothing was.
    pub(super) asked_at: Option<Moment>,
    pub(super) answered_at: Moment,
}

impl Answered {
    pub(super) fn is_grant(&self) -> bool {
        self.answer.is_grant()
    }

    /// Nobody else holds the lock there.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.answer, Answer::Granted(_) | Answer::Stale { .. } | Answer::Ahead { .. })
    }

    /// An answer that was not waited for.
    #[inline(never)]
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
        self.answer.as_vote() == VoteReply::Failed(Failing::Late)
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
    #[inline(never)]
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

    /// That an owner has the lock, as it is told at `now` without a question.
    pub(super) fn told(hold: &Hold, token: Option<u64>, now: Moment) -> Self {
        let mut round = Self::new(hold);
        // No round trip is told: what was told answered no question.
        let answer = Answer::Granted(token);
        if let Some(answered) = round.answers.first_mut() {
            *answered = Some(Answered { answer, asked_at: None, answered_at: now });
        }
        round.verdict = Verdict::Won;
        round
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

    /// Before the first byte of the question was sent to any server that answered; none where no server
    /// was asked.
    pub(super) fn asked_at(&self) -> Option<Moment> {
        self.given().filter_map(|answered| answered.asked_at).min()
    }

    /// When the last answer came.
    pub(super) fn answered_at(&self) -> Moment {
        self.given().map(|answered| answered.answered_at).max().unwrap_or_default()
    }

    /// How long the slowest server took that answered.
    #[inline(never)]
    pub(super) fn slowest_answer(&self) -> Duration {
        let answers = self.given().filter(|answered| !answered.is_failure());
        answers.filter_map(Answered::round_trip).max().unwrap_or_default()
    }

    /// No server carried out what it was asked: another stood in the way, or nothing ran.
    pub(super) fn proves_nothing_done(&self) -> bool {
        let is_undone = |reason: &Reason| match reason {
            Reason::NoConnection(_) | Reason::BreakerOpen(_) | Reason::Refusal(_) => true,
            Reason::Refused(error) => {
                matches!(error.code(), Code::Later | Code::Apart | Code::ReadOnly | Code::Elsewhere)
            }
            _ => false,
        };
        self.answers.iter().all(|answered| match answered.as_ref().map(|given| &given.answer) {
            Some(Answer::Held { .. }) => true,
            Some(Answer::Failed(reason)) => is_undone(reason),
            _ => false,
        })
    }

    /// Whether this server has let the owner in.
    pub(super) fn is_granted_on(&self, server: usize) -> bool {
        self.answers.get(server).and_then(Option::as_ref).is_some_and(Answered::is_grant)
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

    /// The holder of the lock, as a server says that has refused it.
    pub(super) fn holder(&self) -> Option<&Holder> {
        self.given().find_map(|answered| match &answered.answer {
            Answer::Held { holder, .. } => Some(&**holder),
            _ => None,
        })
    }

    /// A server has the lock for another owner, or others wait for it there.
    pub(super) fn finds_others(&self) -> bool {
        let finds = |answered: &Answered| {
            matches!(answered.answer, Answer::Held { .. } | Answer::Queued { .. })
        };
        self.given().any(finds)
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

    /// The answers as an attempt by this hold counts them, where `proposal` is the token of a grant
    /// that names none.
    pub(super) fn tally(&self, hold: &Hold, proposal: u64) -> Tally {
        let is_let_in = self.verdict != Verdict::Won && hold.is_let_in();
        let mut tally = Tally::new(self.answers.len(), self.verdict, is_let_in);
        for Answered { answer, asked_at, answered_at } in self.given() {
            tally.add(answer.as_vote(), proposal, *asked_at, *answered_at);
        }
        tally
    }

    /// What stood in the way of an acquire.
    pub(super) fn setback(&self, hold: &Hold) -> Setback {
        self.tally(hold, 0).setback(hold.quorum())
    }

    /// A server gave no usable answer.
    pub(super) fn has_failed(&self) -> bool {
        self.failures().next().is_some()
    }

    /// Keys of the question are on two nodes, and it has no other form.
    pub(super) fn is_apart(&self) -> bool {
        self.failures().any(Reason::is_apart)
    }

    fn failures(&self) -> impl Iterator<Item = &Reason> {
        self.given().filter_map(|answered| match &answered.answer {
            Answer::Failed(reason) => Some(&**reason),
            _ => None,
        })
    }

    /// What each server said.
    #[inline(never)]
    pub(super) fn report(&self, hold: &Hold) -> Report {
        let mut servers = Vec::new();
        for (participant, answered) in hold.participants.iter().zip(self.answers.iter()) {
            let answered = answered.as_ref();
            let vote = answered.map(|answered| answered.answer.vote(hold.core.fingerprint()));
            servers.push(ServerReport {
                server: participant.binding().node.endpoint().address.to_string(),
                vote: vote.unwrap_or(Vote::Pending),
                round_trip: answered.and_then(Answered::round_trip),
            });
        }
        Report { servers }
    }
}

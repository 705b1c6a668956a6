//! The answers to one question, and what they amount to.

use std::time::Duration;

use super::answer::Answer;
use super::core::Core;
use super::few::Few;
use crate::error::{FailureKind, Report, ServerReport};
use crate::policy::{Moment, Setback, Verdict};

/// One server's answer, and when.
pub(super) struct Answered {
    pub(super) answer: Answer,
    /// Read before the first byte of the question was sent; none where nothing was.
    pub(super) asked_at: Option<Moment>,
    pub(super) answered_at: Moment,
}

/// The answers to one question, one place per server, in the order of the servers.
pub(super) struct Round {
    pub(super) verdict: Verdict,
    pub(super) answers: Few<Option<Answered>>,
}

impl Round {
    fn given(&self) -> impl Iterator<Item = &Answered> {
        self.answers.iter().flatten()
    }

    /// Before the first byte of the question was sent to any server that answered; none where
    /// nobody was asked.
    pub(super) fn asked_at(&self) -> Option<Moment> {
        self.given().filter_map(|answered| answered.asked_at).min()
    }

    /// When the last of the answers was seen.
    pub(super) fn answered_at(&self) -> Option<Moment> {
        self.given().map(|answered| answered.answered_at).max()
    }

    /// The token that was granted.
    pub(super) fn token(&self) -> Option<u64> {
        self.given().find_map(|answered| match answered.answer {
            Answer::Granted(token) => token,
            _ => None,
        })
    }

    /// Every server answered, and said that it gave this owner nothing. Each answer is the last
    /// word on its connection, since nothing is ever sent twice: there is nothing to give back.
    pub(super) fn proves_nothing_granted(&self) -> bool {
        self.answers.iter().all(|answered| {
            matches!(
                answered.as_ref().map(|answered| &answered.answer),
                Some(Answer::Held(_) | Answer::Taken | Answer::Stale)
            )
        })
    }

    /// So many servers said that the lease is gone that no quorum can hold it.
    pub(super) fn proves_lost(&self, core: &Core) -> bool {
        let gone = self.given().filter(|answered| answered.answer.is_proof_of_loss()).count();
        core.quorum.verdict(0, gone) == Verdict::Lost
    }

    /// What stood in the way of an acquire.
    pub(super) fn setback(&self) -> Setback {
        let held = self.given().filter_map(|answered| match &answered.answer {
            Answer::Held(holder) => Some(holder.remaining),
            Answer::Taken => Some(Some(Duration::ZERO)),
            _ => None,
        });
        // A lease without an end is the last to end.
        let key = |remaining: &Option<Duration>| remaining.unwrap_or(Duration::MAX);
        if let Some(frees_in) = held.min_by_key(key) {
            return Setback::Held(frees_in);
        }
        let hopeless = self.given().any(|answered| match &answered.answer {
            Answer::Failed(reason) => {
                matches!(reason.kind(), FailureKind::Auth | FailureKind::Misuse)
            }
            _ => false,
        });
        if hopeless { Setback::Hopeless } else { Setback::Failing }
    }

    /// What each server that answered said.
    pub(super) fn report(&self, core: &Core) -> Report {
        let servers = core
            .nodes()
            .iter()
            .zip(self.answers.iter())
            .filter_map(|(node, answered)| {
                let answered = answered.as_ref()?;
                Some(ServerReport {
                    server: node.endpoint().address.to_string(),
                    vote: answered.answer.vote(),
                    round_trip: answered
                        .asked_at
                        .map(|asked_at| answered.answered_at.since(asked_at)),
                })
            })
            .collect();
        Report { servers }
    }
}

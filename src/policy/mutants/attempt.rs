//! Attempts with a known bug: the votes are summed up falsely, or a false lease comes out.

use super::Mutant;
use crate::policy::attempt::{self, AttemptAction, Conditions, Tally};
use crate::policy::{Ballot, Verdict};

/// As [`attempt::Attempt`], but for the bug.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt(attempt::Attempt);

impl Attempt {
    pub(crate) fn begin(conditions: Conditions, ballot: Option<Ballot>) -> Self {
        Self(attempt::Attempt::begin(conditions, ballot))
    }

    pub(crate) fn ballot(&self) -> Option<Ballot> {
        self.0.ballot()
    }

    pub(crate) fn ended(
        &mut self,
        tally: &Tally,
        wall_micros: impl FnOnce() -> u64,
    ) -> AttemptAction {
        let proposal = self.ballot().map_or(0, Ballot::proposal);
        let altered = self.altered(*tally, proposal);
        let mut action = self.0.ended(&altered, wall_micros);
        if let AttemptAction::Hold(grant) = &mut action {
            if Mutant::CountersPerServer.is_on() {
                grant.token = grant.token.and(tally.tokens).map(|(_, most)| most);
            }
        }
        action
    }

    fn altered(&self, mut tally: Tally, proposal: u64) -> Tally {
        if Mutant::ValidityFromTheReply.is_on() {
            tally.asked_at = tally.asked_at.and(tally.answered_at);
        }
        if Mutant::CountersPerServer.is_on() {
            tally.tokens = tally.tokens.map(|_| (proposal, proposal));
        }
        if self.0.conditions.servers_choose && tally.granted > 0 {
            if Mutant::ReadersNeedOneVote.is_on() {
                tally.verdict = Verdict::Won;
            }
            if Mutant::ReadersTakeAnyToken.is_on() {
                tally.tokens = tally.tokens.map(|(_, most)| (most, most));
            }
        }
        if Mutant::TimedOutCountsAsHeld.is_on() {
            let granted = tally.granted + tally.late;
            let denied = tally.refused + tally.outbid + tally.failed - tally.late;
            if self.0.conditions.quorum.verdict(granted, denied) == Verdict::Won {
                tally.verdict = Verdict::Won;
                tally.tokens = tally.tokens.or(Some((proposal, proposal)));
            }
        }
        tally
    }
}

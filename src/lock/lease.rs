//! A lease that was granted: until when it holds, and that it never comes back once lost.

use std::time::Duration;

use super::claim::Claim;
use super::deadline::Deadline;
use super::round::Round;
use crate::clock;
use crate::error::{Error, Kind, Report};
use crate::policy::{Moment, Verdict};

pub(crate) struct Lease {
    claim: Claim,
    deadline: Deadline,
    token: Option<u64>,
    /// The answers that it was granted by.
    granted_by: Round,
}

impl Lease {
    pub(super) fn new(
        claim: Claim,
        deadline: Moment,
        token: Option<u64>,
        granted_by: Round,
    ) -> Self {
        Self { claim, deadline: Deadline::new(deadline), token, granted_by }
    }

    pub(crate) fn report(&self) -> Report {
        self.granted_by.report(self.claim.core())
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.token
    }

    pub(crate) fn name(&self) -> &[u8] {
        self.claim.names().lock()
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.deadline.remaining(clock::now())
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.deadline.is_lost(clock::now())
    }

    pub(crate) async fn extend(&self) -> Result<(), Error> {
        if self.is_lost() {
            return Err(self.lost("it ended before it was extended"));
        }
        let round = self.claim.extend().await;
        if round.proves_lost(self.claim.core()) {
            self.deadline.lose();
            return Err(self.lost("its key is gone or another's"));
        }
        if let (Verdict::Won, Some(asked_at)) = (round.verdict, round.asked_at()) {
            let until = self.claim.term().deadline(asked_at);
            if self.deadline.prolong(until, clock::now()) {
                return Ok(());
            }
        } else if !self.is_lost() {
            return Err(self.failed(&round));
        }
        Err(self.lost("it ended while it was being extended"))
    }

    pub(crate) async fn release(mut self) -> Result<(), Error> {
        let ended_before = self.is_lost();
        let round = self.claim.release().await;
        let was_held = round.verdict == Verdict::Won;
        if !was_held && !round.proves_lost(self.claim.core()) {
            // The claim is dropped unsettled: the release is queued once more.
            return Err(self.failed(&round));
        }
        self.claim.settle_after(&round);
        if ended_before {
            return Err(self.lost("it ended before it was released"));
        }
        if !was_held {
            return Err(self.lost("its key was gone or another's when it was released"));
        }
        Ok(())
    }

    fn lost(&self, why: &'static str) -> Error {
        Error::lost(why, self.claim.names().to_string())
    }

    fn failed(&self, round: &Round) -> Error {
        let report = round.report(self.claim.core());
        Error::new(Kind::NoQuorum, self.claim.names().to_string(), report)
    }
}

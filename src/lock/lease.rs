//! A lease that was granted: until when it holds, and that it never comes back once lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::claim::Claim;
use crate::clock;
use crate::error::{Error, Kind};
use crate::policy::{Moment, Verdict};

/// No lease ends at boot, so this is the deadline of one that was found to be lost.
const LOST: u64 = 0;

pub(crate) struct Lease {
    claim: Claim,
    /// When it ends for us, in nanoseconds since boot; [`LOST`] once anybody was told so.
    deadline: AtomicU64,
    token: Option<u64>,
}

impl Lease {
    pub(super) fn new(claim: Claim, deadline: Moment, token: Option<u64>) -> Self {
        Self { claim, deadline: AtomicU64::new(deadline.as_nanos()), token }
    }

    pub(crate) fn token(&self) -> Option<u64> {
        self.token
    }

    pub(crate) fn name(&self) -> &[u8] {
        self.claim.names().lock()
    }

    pub(crate) fn remaining(&self) -> Duration {
        Moment::from_nanos(self.deadline.load(Ordering::Acquire)).since(clock::now())
    }

    /// Whether it has ended. What was once said to be lost stays lost, whatever comes later.
    pub(crate) fn is_lost(&self) -> bool {
        let mut deadline = self.deadline.load(Ordering::Acquire);
        loop {
            if deadline == LOST {
                return true;
            }
            if clock::now() < Moment::from_nanos(deadline) {
                return false;
            }
            match self.replace(deadline, LOST) {
                Ok(()) => return true,
                Err(newer) => deadline = newer,
            }
        }
    }

    /// Moves the deadline, never to an earlier one and never once the lease is lost.
    fn prolong(&self, until: Moment) -> bool {
        let mut deadline = self.deadline.load(Ordering::Acquire);
        loop {
            if deadline == LOST || clock::now() >= Moment::from_nanos(deadline) {
                self.deadline.store(LOST, Ordering::Release);
                return false;
            }
            if until.as_nanos() <= deadline {
                return true;
            }
            match self.replace(deadline, until.as_nanos()) {
                Ok(()) => return true,
                Err(newer) => deadline = newer,
            }
        }
    }

    fn replace(&self, from: u64, to: u64) -> Result<(), u64> {
        self.deadline.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
    }

    pub(crate) async fn extend(&self) -> Result<(), Error> {
        if self.is_lost() {
            return Err(self.lost("it ended before it was extended"));
        }
        let round = self.claim.extend().await;
        match (round.verdict, round.asked_at()) {
            (Verdict::Won, Some(asked_at)) => {
                if self.prolong(self.claim.term().deadline(asked_at)) {
                    Ok(())
                } else {
                    Err(self.lost("it ended while it was being extended"))
                }
            }
            _ if round.proves_lost(self.claim.core()) => {
                self.deadline.store(LOST, Ordering::Release);
                Err(self.lost("its key is gone or another's"))
            }
            _ => Err(self.failed(&round)),
        }
    }

    pub(crate) async fn release(mut self) -> Result<(), Error> {
        let ended_before = self.is_lost();
        let round = self.claim.release().await;
        let was_held = round.verdict == Verdict::Won;
        if !was_held && !round.proves_lost(self.claim.core()) {
            // The claim is dropped unsettled: the release is queued once more.
            return Err(self.failed(&round));
        }
        self.claim.settle();
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

    fn failed(&self, round: &super::round::Round) -> Error {
        let report = round.report(self.claim.core());
        Error::new(Kind::NoQuorum, self.claim.names().to_string(), report)
    }
}

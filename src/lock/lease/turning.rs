//! A lease of a share that becomes one of the whole lock, and the other way round.
//!
//! Another owner takes over from the first, in one script (`scripts/share.lua`), as with every question that
//! grants something. While the question is under way the first lease is renewed no longer and counts as being
//! given back, so that no renewal of what is gone is taken for a loss. What is granted counts from before the
//! question. Where nothing was granted for sure, the first lease stays as it was; where that is not known, both
//! owners give back what they may have, and the lease is lost.

use super::Lease;
use crate::clock;
use crate::error::{Error, Kind};
use crate::lock::attempt::Granted;
use crate::lock::claim::{Claim, give_back_predecessor};
use crate::lock::held::Held;
use crate::lock::round::Round;
use crate::lock::row::Sharing;
use crate::lock::sharing;
use crate::policy::{
    Attempt, AttemptAction, Ballot, Conditions, End, Grant, LeaseState, Loss, Moment, Setback,
    Verdict,
};

impl Lease {
    /// # Cancel safety
    ///
    /// When the future is dropped, the lease is lost, and given back whatever it is by then.
    pub(crate) async fn turn(&mut self, to: Sharing) -> Result<(), Error> {
        let (from, wrong) = if to == Sharing::WHOLE {
            (Sharing::ANY, "a guard of Locker::read can be upgraded, and no other")
        } else {
            (Sharing::WHOLE, "a guard of Locker::write can be downgraded, and no other")
        };
        let hold = self.hold();
        if hold.sharing() != Some(from) {
            return Err(Error::misuse(wrong));
        }
        if to == Sharing::WHOLE && !hold.core.is_single() {
            return Err(Error::misuse(
                "over several servers a reader cannot be upgraded: some of them could have the writer, and \
                 others the reader; release the guard, and ask for Locker::write",
            ));
        }
        let began = clock::now();
        let until = hold.ends_at().unwrap_or(began);
        self.engine.keeper().forget(self.entry);
        if let LeaseState::Lost(loss) = hold.leave(clock::now()) {
            return Err(self.lost_by(loss));
        }
        let claim = Claim::turned(hold, to);
        let (hold, held) = (claim.hold().clone(), hold_of(self));
        let conditions = Conditions {
            quorum: held.quorum(),
            term: held.term,
            servers_choose: true,
            succeeds: true,
            ends_at: None,
            round_max: held.core.command_max(),
        };
        let mut attempt = Attempt::begin(conditions, Some(Ballot::new(clock::wall_micros())));
        let mut turning = Turning { lease: self, claim: Some(claim), until };
        let mut round = sharing::turn(&hold, &held, held.token().unwrap_or(0)).await;
        if round.verdict != Verdict::Won {
            return turning.fail(&round);
        }
        loop {
            match attempt.ended(&round.tally(&held, 0), clock::wall_micros) {
                // Servers whose counters differ are asked for a share with the largest. From here on the first owner
                // has nothing to go back to.
                AttemptAction::Ask(next) => {
                    round = sharing::turn(&hold, &held, next.proposal()).await;
                }
                outcome => return turning.begin(round, outcome, began),
            }
        }
    }
}

fn hold_of(lease: &Lease) -> Held {
    lease.claim.hold().clone()
}

/// A lease in whose place another was asked for.
struct Turning<'a> {
    lease: &'a mut Lease,
    /// None once it is known what became of it.
    claim: Option<Claim>,
    /// When the first lease ends.
    until: Moment,
}

impl Turning<'_> {
    /// The first question was not granted.
    fn fail(&mut self, round: &Round) -> Result<(), Error> {
        let held = hold_of(self.lease);
        if round.proves_lost(&held) {
            let loss = self.give_back(held.core.gone());
            return Err(self.lease.lost_by(loss));
        }
        if !round.proves_nothing_done() {
            self.give_back(held.core.gone());
            return Err(self.lease.failed(round));
        }
        if let Some(mut claim) = self.claim.take() {
            claim.settle();
        }
        held.stay(self.until);
        self.lease.entry = self.lease.engine.keeper().keep(held.clone(), clock::now());
        if round.holder().is_none() {
            return Err(self.lease.failed(round));
        }
        held.core.meter().note_refused();
        Err(Error::new(Kind::Contended { waited: None }, held.title(), round.report(&held)))
    }

    /// A quorum granted it: if what came of that is worth having, the lease is the other one from here on.
    fn begin(&mut self, round: Round, outcome: AttemptAction, began: Moment) -> Result<(), Error> {
        let held = hold_of(self.lease);
        let engine = self.lease.engine.clone();
        let Grant { asked_at, answered_at, deadline, token } = match outcome {
            AttemptAction::Hold(grant) if !engine.is_shut_down() => grant,
            AttemptAction::Hold(_) | AttemptAction::GiveUp { setback: Setback::TooLate, .. } => {
                let is_shut_down = engine.is_shut_down();
                let loss = if is_shut_down { Loss::ShutDown } else { Loss::Expired };
                let loss = self.give_back(loss);
                return Err(self.lease.lost_by(loss));
            }
            _ => {
                self.give_back(held.core.gone());
                return Err(self.lease.failed(&round));
            }
        };
        let Some(claim) = self.claim.take() else { return Ok(()) };
        // How long it may be held at most counts from the first grant.
        let since = if held.bounds().are_none() { answered_at } else { held.granted_at() };
        claim.hold().begin(deadline, held.token().and(token), since);
        engine.meter().note_granted(held.name(), clock::now().since(began));
        // A server that has not said so may have the first owner; one that never had it, the owner before that.
        self.lease.claim.settle_after(&round);
        give_back_predecessor(&held, &|server| !held.binding(server).is_granted);
        claim.hold().span.goes_on(&held.span, claim.hold().token());
        held.conclude(End::Released);
        let granted = Granted { claim, round, asked_at };
        *self.lease = Lease::begin(&engine, granted);
        engine.lines().free(&held);
        Ok(())
    }

    /// Neither owner has anything from here on: why the lease is lost.
    fn give_back(&mut self, loss: Loss) -> Loss {
        let held = hold_of(self.lease);
        if let Some(claim) = self.claim.take() {
            for server in 0..claim.hold().participants.len() {
                // What was asked may still arrive: it is given back once more some time later.
                claim.hold().binding(server).is_unanswered = true;
            }
        }
        self.lease.claim.give_back();
        held.conclude(End::Lost(loss));
        self.lease.engine.lines().free(&held);
        loss
    }
}

/// Gives back what there is; neither blocks nor panics, and needs no runtime.
impl Drop for Turning<'_> {
    fn drop(&mut self) {
        if self.claim.is_some() {
            let loss = hold_of(self.lease).core.gone();
            self.give_back(loss);
        }
    }
}

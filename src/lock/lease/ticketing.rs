//! A lease that goes to a ticket: see `ticket.rs`.

use std::time::Duration;

use super::Lease;
use crate::clock;
use crate::error::Error;
use crate::lock::answer::Answer;
use crate::lock::claim::{free, give_back_predecessor};
use crate::lock::fanout::ask_all;
use crate::lock::hold::Hold;
use crate::lock::parting::Parting;
use crate::lock::question::{Apart, Question};
use crate::lock::rare::Rest;
use crate::lock::round::Round;
use crate::policy::{End, LeaseState, Verdict};
use crate::server::command::Command;
use crate::ticket::Ticket;

impl Lease {
    /// # Cancel safety
    ///
    /// When the future is dropped, the lock is given back, whichever has it on a server by then: this owner or
    /// the ticket.
    pub(crate) async fn into_ticket(self, within: Duration) -> Result<Ticket, Error> {
        Ticket::check(within)?;
        let hold = self.claim.hold().clone();
        if hold.sharing().is_some() {
            return Err(Error::misuse("a ticket is of a lock that nobody has shares of"));
        }
        let [names] = &hold.names[..] else {
            return Err(Error::misuse("a ticket is of one lock, not of several"));
        };
        let mut step = hold.span.release();
        if let LeaseState::Lost(loss) = self.end(clock::now()) {
            // What is dropped here gives back whatever is left of it.
            return Err(self.lost_by(loss));
        }
        let at_least = hold.rest().and_then(Rest::left).unwrap_or_default();
        let life = within.max(at_least);
        let rest = Rest { until: clock::now().after(life), value: hold.owner.another() };
        let mut passing = Passing { lease: self, rest, life, is_over: false };
        let round = passing.ask(&hold).await;
        if round.verdict == Verdict::Won {
            passing.conclude(&hold, &round);
            step.end("ticketed");
            return Ok(Ticket::new(names.lock(), passing.rest.value.id(), hold.core.fingerprint()));
        }
        let is_lost = round.proves_lost(&hold);
        let end = if is_lost { End::Lost(hold.core.gone()) } else { End::Unconfirmed };
        passing.give_back(end);
        step.end(if is_lost { "lost" } else { "unconfirmed" });
        let loss = hold.state().loss();
        Err(loss.map_or_else(|| passing.lease.failed(&round), |loss| passing.lease.lost_by(loss)))
    }
}

/// A lease of which servers may have given the lock to a ticket.
struct Passing {
    lease: Lease,
    /// Until when the ticket is good, and whose its lock is.
    rest: Rest,
    life: Duration,
    is_over: bool,
}

impl Passing {
    /// Has the servers give the lock to the ticket.
    async fn ask(&self, hold: &Hold) -> Round {
        let parting = self.parting(hold);
        let call = parting.from(&hold.names);
        let parameters = call.parameters();
        let commands = [Command::Script(parting.script(), parameters.words())];
        let own = Question::own(hold, &commands, Answer::of_owned, Apart::Release);
        // It has one key, which no slot that moves is in the way of.
        let question = Question { apart: None, ..own };
        ask_all(hold, &question, Round::new(hold)).await
    }

    fn parting<'a>(&'a self, hold: &'a Hold) -> Parting<'a> {
        Parting::of_owners([Some(hold.owner.value()), hold.predecessor()], Some(&self.rest), false)
    }

    /// A quorum has given the lock to the ticket. The other servers are to hear of it too.
    fn conclude(&mut self, hold: &Hold, round: &Round) {
        self.is_over = true;
        free(hold, &|server| !round.is_free_on(server), &self.parting(hold), self.life);
        self.lease.claim.settle();
        self.lease.engine.lines().free(hold);
        hold.conclude(End::Ticketed);
    }

    /// The lock is neither this owner's nor the ticket's.
    fn give_back(&mut self, end: End) {
        self.is_over = true;
        let hold = self.lease.claim.hold().clone();
        for server in 0..hold.participants.len() {
            // What was asked may still arrive: it is given back once more some time later.
            hold.binding(server).is_unanswered = true;
        }
        let both = [Some(hold.owner.value()), Some(self.rest.value.value())];
        free(
            &hold,
            &|_| true,
            &Parting::of_owners(both, None, false),
            self.life.max(hold.key_life()),
        );
        give_back_predecessor(&hold, &|_| true);
        self.lease.claim.settle();
        self.lease.engine.lines().free(&hold);
        hold.conclude(end);
    }
}

/// Gives the lock back; neither blocks nor panics, and needs no runtime.
impl Drop for Passing {
    fn drop(&mut self) {
        if !self.is_over {
            self.give_back(End::Unconfirmed);
        }
    }
}

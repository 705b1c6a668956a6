//! What an owner may hold on the servers, and the promise to give it back.
//!
//! A claim exists from before the first byte of an acquire is sent. Whatever ends it (a refusal, a
//! cancelled future, a dropped guard) queues a release on every server that may have been asked,
//! also on those that refused, failed or timed out, each over the connection that the claim began
//! on; unless something proves that nothing is left to give back.

use std::sync::Arc;
use std::time::Duration;

use leasehold_resp::Decimal;
use tokio::time::timeout;

use super::answer::Answer;
use super::ask::{Question, Seat, ask_all, ask_one};
use super::core::{Core, Lead};
use super::few::Few;
use super::names::Names;
use super::owner::Owner;
use super::round::{Answered, Round};
use super::scripts;
use crate::clock;
use crate::policy::{Ballot, Term, Verdict};
use crate::server::call::Command;

/// How late a server may carry out an acquire that it had received when it froze. A release that
/// comes a TTL after that would find nothing.
const FROZEN_MAX: Duration = Duration::from_secs(60);

pub(super) struct Claim {
    core: Arc<Core>,
    names: Names,
    owner: Owner,
    term: Term,
    seats: Few<Seat>,
    settled: bool,
}

impl Claim {
    /// A claim of nothing yet, with a lane on each server.
    pub(super) fn new(core: Arc<Core>, names: Names, owner: Owner, term: Term) -> Self {
        let seats = core
            .nodes()
            .iter()
            .map(|node| Seat { lane: node.pick_lane(), connection: None })
            .collect();
        Self { core, names, owner, term, seats, settled: false }
    }

    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    pub(super) fn term(&self) -> Term {
        self.term
    }

    /// Asks for the lock, with a fencing token if there is a ballot for one; where there is a
    /// leader, the leader first and the others only once it has granted.
    pub(super) async fn acquire(&mut self, ballot: Option<Ballot>, lead: Option<Lead>) -> Round {
        let Self { core, names, owner, term, seats, .. } = self;
        let ttl = Decimal::new(term.ttl_ms());
        let Some(ballot) = ballot else {
            let words: [&[u8]; 6] = [b"SET", names.lock(), owner.value(), b"NX", b"PX", &ttl];
            let holder = [names.lock()];
            let question = Question {
                command: Command::Plain(&words),
                read: Answer::of_set,
                is_vote: true,
                whose: Some(Command::Script(scripts::holder(), &holder)),
            };
            return vote(core, seats, question, lead).await;
        };
        let token = Decimal::new(ballot.proposal());
        let who_decides: &[u8] = if core.is_single() { b"mint" } else { b"vote" };
        let parameters = [names.lock(), names.fence(), owner.value(), &ttl, &token, who_decides];
        let question = Question {
            command: Command::Script(scripts::acquire(), &parameters),
            read: Answer::of_acquire,
            is_vote: true,
            whose: None,
        };
        vote(core, seats, question, lead).await
    }

    /// Asks for another TTL from now.
    pub(super) async fn extend(&self) -> Round {
        let ttl = Decimal::new(self.term.ttl_ms());
        let parameters = [self.names.lock(), self.owner.value(), &ttl];
        self.ask_own(Command::Script(scripts::extend(), &parameters)).await
    }

    /// Gives the lock back, and waits for what the servers say to it.
    pub(super) async fn release(&self) -> Round {
        let parameters = [self.names.lock(), self.owner.value()];
        self.ask_own(Command::Script(scripts::release(), &parameters)).await
    }

    /// A connection that had to be renewed for this is the lane's: a release finds it there too.
    async fn ask_own(&self, command: Command<'_>) -> Round {
        let mut seats: Few<Seat> = self.seats.iter().cloned().collect();
        let question = Question { command, read: Answer::of_owned, is_vote: false, whose: None };
        ask_all(&self.core, &mut seats, question, Round::new(&self.core)).await
    }

    /// Nothing is left to give back.
    pub(super) fn settle(&mut self) {
        self.settled = true;
    }

    /// Nothing is left to give back but on servers that have not said so in `round`.
    pub(super) fn settle_after(&mut self, round: &Round) {
        self.give_back(|server| !round.is_free_on(server));
        self.settled = true;
    }

    fn give_back(&self, is_owed: impl Fn(usize) -> bool) {
        let pointless_at = clock::now().after(self.term.ttl() + FROZEN_MAX);
        let parameters = [self.names.lock(), self.owner.value()];
        let release = Command::Script(scripts::release(), &parameters);
        let seats = self.core.nodes().iter().zip(self.seats.iter()).enumerate();
        for (server, (node, seat)) in seats {
            let began_on = seat.connection.as_ref().filter(|_| is_owed(server));
            if let Some(connection) = began_on {
                node.owe(seat.lane, connection, release, pointless_at);
            }
        }
    }
}

/// Asks all servers at once; where there is a leader, the others only once it has granted.
///
/// A leader that does not serve is followed by the next server. One that takes longer than its
/// patience is given up for this round, and the others are asked without one.
async fn vote(
    core: &Core,
    seats: &mut [Seat],
    question: Question<'_>,
    lead: Option<Lead>,
) -> Round {
    let mut round = Round::new(core);
    let Some(Lead { server: leader, patience }) = lead else {
        return ask_all(core, seats, question, round).await;
    };
    let servers = core.nodes().len();
    for server in (leader..servers).chain(0..leader) {
        let asked_at = clock::now();
        let asked = timeout(patience, ask_one(core, seats, server, question)).await;
        let answered = asked.unwrap_or_else(|_| Answered::late(asked_at, patience));
        let (is_settled, is_late) = (!answered.is_failure(), answered.is_late());
        let is_granted = answered.is_grant();
        round.answers[server] = Some(answered);
        if is_granted || is_late {
            return ask_all(core, seats, question, round).await;
        }
        if is_settled {
            break;
        }
    }
    round.verdict = Verdict::Lost;
    round
}

/// Queues the release; neither blocks nor panics, and needs no runtime.
impl Drop for Claim {
    fn drop(&mut self) {
        if !self.settled {
            self.give_back(|_| true);
        }
    }
}

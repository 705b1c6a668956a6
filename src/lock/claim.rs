//! What an owner may hold on the servers, and the promise to give it back.
//!
//! A claim exists from before the first byte of an acquire is sent. Whatever ends it (a refusal, a
//! cancelled future, a dropped guard) queues a release on every server that may have been asked,
//! also on those that refused, failed or timed out, each over the connection that the claim began
//! on; unless something proves that nothing is left to give back.

use std::sync::Arc;
use std::time::Duration;

use leasehold_resp::Decimal;

use super::answer::Answer;
use super::ask::{Question, Seat, ask_all};
use super::core::Core;
use super::few::Few;
use super::names::Names;
use super::owner::Owner;
use super::round::Round;
use super::scripts;
use crate::clock;
use crate::policy::{Ballot, Term};
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

    /// Asks for the lock and for a fencing token.
    pub(super) async fn acquire_fenced(&mut self, ballot: Ballot) -> Round {
        let Self { core, names, owner, term, seats, .. } = self;
        let (ttl, token) = (Decimal::new(term.ttl_ms()), Decimal::new(ballot.proposal()));
        let who_decides: &[u8] = if core.nodes().len() == 1 { b"mint" } else { b"vote" };
        let parameters = [names.lock(), names.fence(), owner.value(), &ttl, &token, who_decides];
        let command = Command::Script(scripts::acquire(), &parameters);
        ask_all(core, seats, Question { command, read: Answer::of_acquire, whose: None }).await
    }

    /// Asks for the lock alone.
    pub(super) async fn acquire_unfenced(&mut self) -> Round {
        let Self { core, names, owner, term, seats, .. } = self;
        let ttl = Decimal::new(term.ttl_ms());
        let words: [&[u8]; 6] = [b"SET", names.lock(), owner.value(), b"NX", b"PX", &ttl];
        let command = Command::Plain(&words);
        let holder = [names.lock()];
        let whose = Some(Command::Script(scripts::holder(), &holder));
        ask_all(core, seats, Question { command, read: Answer::of_set, whose }).await
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
        let question = Question { command, read: Answer::of_owned, whose: None };
        ask_all(&self.core, &mut seats, question).await
    }

    /// Nothing is left to give back.
    pub(super) fn settle(&mut self) {
        self.settled = true;
    }

    fn give_back(&self) {
        let pointless_at = clock::now().after(self.term.ttl() + FROZEN_MAX);
        let parameters = [self.names.lock(), self.owner.value()];
        let release = Command::Script(scripts::release(), &parameters);
        for (node, seat) in self.core.nodes().iter().zip(self.seats.iter()) {
            if let Some(connection) = &seat.connection {
                node.owe(seat.lane, connection, release, pointless_at);
            }
        }
    }
}

/// Queues the release; neither blocks nor panics, and needs no runtime.
impl Drop for Claim {
    fn drop(&mut self) {
        if !self.settled {
            self.give_back();
        }
    }
}

//! The turn of a waiter for a lock of several servers.

use super::attempt::{Granted, UnderTurn};
use super::claim::Claim;
use crate::clock;
use crate::policy::Moment;

/// The server with the queue keeps the lock for the owner of a turn, and a vote that names this owner finds the
/// lock as good as free.
///
/// A vote under a turn is another owner's, which has the server's lock from then on. The next vote is by the same
/// owner, unless an answer leaves a doubt: given back, the server's lock would go to the next in the queue.
pub(super) struct Turn {
    claim: Claim,
    /// The server with the queue.
    server: usize,
    token: u64,
    until: Moment,
    vote: Option<Claim>,
}

impl Turn {
    pub(super) fn new(claim: Claim, server: usize, token: u64, until: Moment) -> Self {
        Self { claim, server, token, until, vote: None }
    }

    pub(super) fn owner(&self) -> &[u8] {
        self.claim.hold().owner.value()
    }

    pub(super) fn is_over(&self) -> bool {
        clock::now() >= self.until
    }

    /// What the next attempt is to know; with the claim of the vote before, if the next one is by the same owner.
    pub(super) fn take_vote(&mut self) -> (Option<Claim>, UnderTurn) {
        let vote = self.vote.take();
        let under = UnderTurn { token: self.token, is_again: vote.is_some() };
        (vote, under)
    }

    /// A vote was granted: where its owner has what was the turn's, nothing of the turn is left to give back.
    pub(super) fn note_granted(&mut self, granted: &Granted) {
        if replaces_turn(&granted.claim) && granted.round.is_granted_on(self.server) {
            self.claim.settle();
        }
    }

    /// What was given to a vote that was refused stays with it, for the next attempt.
    pub(super) fn keep_vote(&mut self, vote: Claim) {
        if !vote.is_settled() && replaces_turn(&vote) {
            self.vote = Some(vote);
        }
    }
}

/// Whether the vote's owner takes what the turn's owner has, as a writer's does too. Shares of both stand beside
/// each other.
fn replaces_turn(vote: &Claim) -> bool {
    vote.hold().sharing().and_then(|sharing| sharing.share).is_none()
}

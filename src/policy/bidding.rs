//! The state of a request until its grant, which a held lease does not need.

use super::{Attempt, Ballot, Moment, RetryState, Setback, Tally, VoteReply};

/// A request that is under way.
pub(crate) struct Bid {
    pub(crate) attempt: Attempt,
    pub(crate) tally: Tally,
    pub(crate) retry: RetryState,
    /// Why the last attempt failed.
    pub(crate) setback: Option<Setback>,
    /// The lock may have become free since the command under way was sent.
    pub(crate) has_news: bool,
}

/// The state of a request, while it is under way: most leases live longer, and there may be very many.
pub(crate) struct Bidding(pub(crate) Option<Box<Bid>>);

impl Bidding {
    pub(crate) fn bid(&mut self) -> Option<&mut Bid> {
        self.0.as_deref_mut()
    }

    pub(crate) fn retry(&self) -> Option<RetryState> {
        self.0.as_ref().map(|bid| bid.retry)
    }

    /// Whether the request waits while another client holds the lock.
    pub(crate) fn waits(&self) -> bool {
        self.0.as_ref().is_some_and(|bid| bid.retry.waits())
    }

    /// Whether the request's limit has passed.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        self.0.as_ref().is_some_and(|bid| bid.retry.is_over(now))
    }

    /// Whether the request has a maximum number of attempts.
    pub(crate) fn is_counted(&self) -> bool {
        self.0.as_ref().is_some_and(|bid| bid.retry.is_counted())
    }

    pub(crate) fn ends_at(&self) -> Option<Moment> {
        self.0.as_ref().and_then(|bid| bid.retry.ends_at())
    }

    pub(crate) fn setback(&self) -> Option<Setback> {
        self.0.as_ref().and_then(|bid| bid.setback)
    }

    /// The attempt's proposal.
    pub(crate) fn ballot(&self) -> Option<Ballot> {
        self.0.as_ref().and_then(|bid| bid.attempt.ballot())
    }

    /// As [`Tally::add`].
    pub(crate) fn add(
        &mut self,
        reply: VoteReply,
        proposal: u64,
        asked_at: Option<Moment>,
        answered_at: Moment,
    ) {
        if let Some(bid) = &mut self.0 {
            bid.tally.add(reply, proposal, asked_at, answered_at);
        }
    }
}

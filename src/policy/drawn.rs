//! How a proposal is judged without a script: see [`Ballot`].

use super::Ballot;
use super::fence::SECOND_MICROS;

impl Ballot {
    /// Judges the proposal by a server's counter and its clock in microseconds, as `scripts/acquire.lua` and
    /// `scripts/parts/token.lua` do: the token of a single server follows its clock, because the server may have begun
    /// with an older counter.
    pub(crate) fn drawn(self, counter: u64, clock: u64, is_alone: bool) -> Drawn {
        let (proposal, is_outbid) = (self.proposal(), self.is_outbid());
        let most = clock.saturating_add(SECOND_MICROS);
        if is_alone {
            Drawn::Token(clock.max(counter.saturating_add(1)))
        } else if proposal <= counter {
            Drawn::Stale
        } else if proposal - counter > SECOND_MICROS && !is_outbid && proposal > most {
            Drawn::Ahead
        } else {
            Drawn::Token(proposal)
        }
    }
}

/// See [`Ballot::drawn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawn {
    Token(u64),
    /// The proposal is not above the counter.
    Stale,
    /// The proposal is too far ahead of the clock.
    Ahead,
}

#[cfg(test)]
mod tests;

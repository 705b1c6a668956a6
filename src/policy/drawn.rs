//! A proposal where no script can judge it: see [`Ballot`].

use super::Ballot;
use super::fence::SECOND_MICROS;

impl Ballot {
    /// What becomes of it where no script can judge it: what is read of a server are its counter, and its clock in
    /// microseconds. As `scripts/acquire.lua` and `scripts/parts/token.lua` have it: one that decides alone has the token
    /// follow its clock, as it may have begun with an older counter.
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
    /// It is too far ahead of the clock.
    Ahead,
}

#[cfg(test)]
mod tests;

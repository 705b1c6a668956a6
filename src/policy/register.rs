//! A register that several servers agree on, without a clock.
//!
//! The rules (`scripts/promise.lua`, `scripts/accept.lua`):
//!
//! 1. An attempt proposes a token, as for a fenced lock. A server *promises* it only if it is above all
//!    tokens that the server has promised, and tells what it has *accepted*: a value, and the value's token.
//! 2. An attempt that has q promises looks at what these servers had accepted ([`Reading`]). If that is
//!    nothing, it does its work, and the result is its value. Otherwise its value is the one with the highest
//!    token.
//! 3. A server accepts a value under a token only while that is the last one that it has promised.
//! 4. A value is *decided* once q servers have accepted it under one token. Only then does a caller get it.
//!
//! *Claim.* All decided values are the same. *Proof.* Let v be decided under t, and u be the smallest token
//! above t under which another value was accepted. The attempt with u has q promises, so one of its servers, s,
//! is among those that accepted v under t. Server s did so before it promised u, by rule 3, and said so, or
//! named a value with a token between t and u. By rule 2 the attempt with u took the value with the highest
//! token that it saw, which is at least t and below u: so it is v, by the choice of u. ∎
//!
//! A caller that only reads, without a promise, learns a decided value too: if q servers have accepted it under one
//! token, it is decided.
//!
//! So also, once a value is decided under t, no attempt with a larger token begins its work.
//!
//! An attempt that too few servers let finish may propose again, as another attempt that has its value already:
//! it writes that only if it reads no other.
//!
//! The proof uses no clocks or leases. As with the ballot ([`super::Ballot`]), quorums share k + 1 servers, so k
//! of them may forget. A promise for which nothing was accepted ends with its key, and then a caller whose clock
//! is behind may be promised a smaller token. Late commands under the larger one are refused, by rule 3.
//!
//! The value may also change, as a counter does: an attempt with q promises replaces the present value by the next
//! one. Then each value follows from the one before it, and no two follow from the same one. The model
//! `policy/model/register.rs` searches both.

use super::{Quorum, Verdict};

/// What the servers that have promised a token had accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading<V> {
    /// Nothing: there is no decided value.
    Nothing,
    /// This value may be decided or not: it has to be accepted under the new token before a caller gets
    /// it.
    Open(V),
    /// This value is decided.
    Decided(V),
}

impl<V> Reading<V> {
    /// The reading of servers that have promised, each with the value that it had accepted and its token, if any.
    /// None as long as too few have promised.
    pub(crate) fn of(
        quorum: Quorum,
        promised: impl IntoIterator<Item = Option<(u64, V)>>,
    ) -> Option<Self> {
        let (mut promises, mut with_highest) = (0, 0);
        let mut highest: Option<(u64, V)> = None;
        for accepted in promised {
            promises += 1;
            let Some((token, value)) = accepted else { continue };
            let top = highest.as_ref().map_or(0, |(token, _)| *token);
            if token > top {
                (highest, with_highest) = (Some((token, value)), 1);
            } else if token == top {
                with_highest += 1;
            }
        }
        if quorum.verdict(promises, 0) != Verdict::Won {
            return None;
        }
        Some(match highest {
            None => Self::Nothing,
            Some((_, value)) if quorum.verdict(with_highest, 0) == Verdict::Won => {
                Self::Decided(value)
            }
            Some((_, value)) => Self::Open(value),
        })
    }
}

#[cfg(test)]
mod tests;

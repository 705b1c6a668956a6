/// The largest token: Lua and JavaScript hold integers exactly only below 2^53.
pub(crate) const TOKEN_MAX: u64 = (1 << 53) - 1;
/// The smallest token that a single server issues: its clock in microseconds, a second after 1970.
/// Numbers in other replies are smaller.
const TOKEN_MIN: u64 = 1_000_000;

pub(super) const SECOND_MICROS: u64 = 1_000_000;
pub(super) const DAY_MICROS: u64 = 24 * 3600 * SECOND_MICROS;
/// The token that one attempt proposes.
///
/// The rules (safety rule 8, `scripts/acquire.lua`):
///
/// 1. A token t is issued to an owner only once q of N servers have accepted t for that owner, in
///    one round; 2q > N.
/// 2. A server accepts t only if t is above its counter for the lock, and raises the counter to t
///    in the same step.
///
/// *Claim.* Issued tokens of one lock are unique, and if one was issued before the acquire of
/// another began, it is the smaller one. *Proof.* Let t be issued to A and u to B. Their quorums
/// share a server s, since 2q > N. By rule 2, s accepted one of them first, and the other only
/// because it was larger: so they differ. If t was issued before B asked, then s had accepted t by
/// then, and accepted u above it: so t < u. ∎
///
/// The claim holds as long as s keeps its counter: the quorums share at least 2q - N = k + 1 servers, so k of them may
/// forget. The wall clock only makes a first proposal likely to be large enough, and tokens rise after counters have ended
/// after days without use.
///
/// A hand-over is an acquire like any other here, by a fresh owner with a ballot of its own. A repair sets a missing lock
/// again, by its issued token. It is no acceptance, and at most raises the counter to that token: so rule 2 still refuses
/// all that it refused before.
///
/// The proof rests on acceptances alone. So a server
/// refuses a proposal that is more than a second ahead of both its clock and its counter (safety rule
/// 16), unless servers led to that proposal: else a client whose clock is far ahead could use up the
/// tokens. An acceptance raises a counter to no more than a second above the counters and clocks that
/// servers have shown.
///
/// A single server chooses the token if the proposal is not above its counter, or is more than a second off
/// its clock: one more than the counter, or its clock. Then the server proposes, and the claim holds with
/// q = N = 1. What an owner that was outbid proposes next is a ballot of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ballot {
    proposal: u64,
    /// The proposal comes from a server's counter or clock, and not from this process's clock.
    is_outbid: bool,
}

impl Ballot {
    /// A proposal from the wall clock in microseconds. Two of one process may be equal: stamps tell their
    /// replies apart, and a count of proposals would keep a clock's jump ahead for good.
    pub(crate) fn new(wall_micros: u64) -> Self {
        Self { proposal: wall_micros.clamp(1, TOKEN_MAX), is_outbid: false }
    }

    /// The next proposal, above a token that a server has accepted already.
    pub(crate) fn above(self, counter: u64) -> Self {
        let next = counter.saturating_add(1).min(TOKEN_MAX);
        if next <= self.proposal { self } else { Self { proposal: next, is_outbid: true } }
    }

    /// The next proposal, no further ahead than the clock, in microseconds, of a server that called this
    /// one too far ahead.
    pub(crate) fn within(self, clock: u64) -> Self {
        let proposal = self.proposal.min(clock).max(1);
        Self { proposal, is_outbid: true }
    }

    /// The next proposal for a second command, which has to propose a larger token.
    pub(crate) fn again(self) -> Self {
        Self { proposal: (self.proposal + 1).min(TOKEN_MAX), ..self }
    }

    /// The proposal of a token that a server has chosen, so that all grant the same one.
    pub(crate) fn at(token: u64) -> Self {
        Self { proposal: token.min(TOKEN_MAX), is_outbid: true }
    }

    /// Whether servers led to the proposal: then they accept it however far it is ahead of their clocks.
    pub(crate) fn is_outbid(self) -> bool {
        self.is_outbid
    }

    pub(crate) fn proposal(self) -> u64 {
        self.proposal
    }

    /// Whether servers can answer this proposal with `token`: only with the proposal itself, unless servers
    /// choose the token.
    pub(crate) fn accepts(self, token: u64, servers_choose: bool) -> bool {
        if servers_choose {
            (TOKEN_MIN..=TOKEN_MAX).contains(&token)
        } else {
            token == self.proposal
        }
    }
}

#[cfg(test)]
mod tests;

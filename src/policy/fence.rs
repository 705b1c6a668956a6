/// The largest token: Lua and JavaScript hold integers exactly only below 2^53.
const TOKEN_MAX: u64 = (1 << 53) - 1;

/// The token that one attempt proposes.
///
/// The rules (safety rule 8, `scripts/acquire.lua`):
///
/// 1. A token t is issued to an owner only once q of N servers have accepted t for that owner, in
///    one round of questions; 2q > N.
/// 2. A server accepts t only if t is above its counter for the lock, and raises the counter to t
///    in the same step.
///
/// *Claim.* Issued tokens of one lock are unique, and if one was issued before the acquire of
/// another began, it is the smaller one. *Proof.* Let t be issued to A and u to B. Their quorums
/// share a server s, since 2q > N. By rule 2, s accepted one of them first, and the other only
/// because it was larger: so they differ. If t was issued before B asked, then s had accepted t by
/// then, and accepted u above it: so t < u. ∎
///
/// Nothing in it speaks of clocks, of TTLs, or of who holds the lock. It holds as long as s keeps
/// its counter: the quorums share at least 2q - N = k + 1 servers, so k of them may forget. The
/// wall clock only makes a first proposal likely to be large enough, and makes tokens rise over
/// counters that were forgotten after days without use.
///
/// A hand-over is an acquire like any other here: a fresh owner with a ballot of its own, which a
/// server accepts by rule 2, whether it takes the lock from nobody or from the predecessor. A
/// repair sets the lock of an issued token where it is gone. It is no acceptance, and at most
/// raises the counter, to that token: so rule 2 goes on to refuse all that it refused before.
///
/// One server alone may raise a proposal to one more than its counter by itself: then it is the
/// one who proposes, and the claim holds with q = N = 1. An owner that was outbid proposes again:
/// its second proposal is a ballot of its own, and only what q servers accept in one round counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ballot {
    proposal: u64,
}

impl Ballot {
    /// A proposal from the wall clock in microseconds.
    pub(crate) fn new(wall_micros: u64) -> Self {
        Self { proposal: wall_micros.clamp(1, TOKEN_MAX) }
    }

    /// The next proposal, above a token that a server has accepted already.
    pub(crate) fn above(self, counter: u64) -> Self {
        Self { proposal: self.proposal.max(counter.saturating_add(1)).min(TOKEN_MAX) }
    }

    pub(crate) fn proposal(self) -> u64 {
        self.proposal
    }

    /// Whether `token`, as a server says that it issued it, can answer this proposal.
    pub(crate) fn accepts(self, token: u64) -> bool {
        #[cfg(test)]
        if super::mutants::Mutant::CountersPerServer.is_on() {
            return true;
        }
        (self.proposal..=TOKEN_MAX).contains(&token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_follows_the_wall_clock() {
        assert_eq!(Ballot::new(1_700_000_000_000_000).proposal(), 1_700_000_000_000_000);
    }

    #[test]
    fn a_ballot_that_was_outbid_proposes_one_more_and_never_less_than_before() {
        assert_eq!(Ballot::new(100).above(100).proposal(), 101);
        assert_eq!(Ballot::new(100).above(5).proposal(), 100);
        assert_eq!(Ballot::new(100).above(u64::MAX).proposal(), TOKEN_MAX);
    }

    #[test]
    fn a_broken_wall_clock_never_makes_a_token_that_a_script_would_round() {
        assert_eq!(Ballot::new(u64::MAX).proposal(), TOKEN_MAX);
        assert_eq!(Ballot::new(0).proposal(), 1);
    }

    #[test]
    fn a_server_may_issue_more_than_was_proposed_but_never_less() {
        let ballot = Ballot::new(100);
        assert!(ballot.accepts(100));
        assert!(ballot.accepts(101));
        assert!(!ballot.accepts(99));
        assert!(!ballot.accepts(1 << 53));
    }
}

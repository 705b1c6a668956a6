/// The largest token: Lua and JavaScript hold integers exactly only below 2^53.
const TOKEN_MAX: u64 = (1 << 53) - 1;

/// The token that one attempt proposes.
///
/// A token is issued only when a quorum accepted the same number for the same owner, and a server
/// accepts only what is larger than all it accepted before. Two issued tokens therefore share a
/// server whose counter rose strictly between them: tokens are unique and follow real-time order,
/// whatever clocks do. The wall clock only makes the first proposal likely to be large enough, and
/// lets a counter that nobody used for days be forgotten.
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

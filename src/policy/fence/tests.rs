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
fn one_server_alone_chooses_the_token_and_several_accept_what_was_proposed() {
    let ballot = Ballot::new(1_000_100);
    for token in [1_000_099, 1_000_100, 1_000_101] {
        assert!(ballot.accepts(token, true));
        assert_eq!(ballot.accepts(token, false), token == 1_000_100);
    }
    assert!(!ballot.accepts(1, true));
    assert!(!ballot.accepts(1 << 53, true));
}

/// Safety rule 16: a clock that is far ahead harms nobody else.
#[test]
fn a_proposal_that_is_too_far_ahead_gives_way_to_a_servers_clock_and_to_counters() {
    let ballot = Ballot::new(u64::MAX);
    assert!(!ballot.is_outbid());
    let bounded = ballot.within(500);
    assert_eq!((bounded.proposal(), bounded.is_outbid()), (500, true));
    assert_eq!(bounded.above(700).proposal(), 701, "a counter that is ahead locks nobody out");
    assert!(!Ballot::new(100).above(5).is_outbid(), "it is still the clock's");
    assert!(Ballot::new(100).above(100).is_outbid());
    assert!(!Ballot::new(100).again().is_outbid());
    assert_eq!(Ballot::new(100).again().proposal(), 101);
}

use super::*;

#[test]
fn a_token_that_no_script_judges_follows_the_clock_of_one_server_and_the_proposal_to_several() {
    const NOW: u64 = 1_800_000_000_000_000;
    let ballot = Ballot::new(NOW + 7);
    for (counter, token) in [(0, NOW), (NOW - 1, NOW), (NOW, NOW + 1), (NOW + 9, NOW + 10)] {
        assert_eq!(ballot.drawn(counter, NOW, true), Drawn::Token(token), "{counter}");
    }
    assert_eq!(ballot.drawn(0, NOW, false), Drawn::Token(NOW + 7));
    assert_eq!(ballot.drawn(NOW + 7, NOW, false), Drawn::Stale);
    let ahead = Ballot::new(NOW + 2 * SECOND_MICROS);
    assert_eq!(ahead.drawn(0, NOW, false), Drawn::Ahead);
    let near = ahead.proposal() - SECOND_MICROS;
    assert_eq!(ahead.drawn(near, NOW, false), Drawn::Token(ahead.proposal()));
    let led = Ballot::at(ahead.proposal());
    assert_eq!(led.drawn(0, NOW, false), Drawn::Token(ahead.proposal()));
}

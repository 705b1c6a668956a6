use super::*;

const NOW: u64 = 1_780_000_000_000_000;
const SAFE: Duration = Duration::from_secs(3600);

fn at(ms: u64) -> Moment {
    Moment::from_nanos(0).after(Duration::from_millis(ms))
}

fn conditions(servers: usize, needed: usize) -> Conditions {
    Conditions {
        quorum: Quorum::new(servers, Some(needed)).unwrap(),
        term: Term::new(Duration::from_secs(10), None).unwrap(),
        servers_choose: servers == 1,
        ends_at: None,
        round_max: Duration::from_millis(500),
    }
}

const GRANTED: VoteReply = VoteReply::Granted { token: None };
const HELD: VoteReply = VoteReply::Refused { frees_in: Some(SAFE), counter: NOW };
const STALE: VoteReply = VoteReply::Stale { counter: NOW + 5 };
const LATE: VoteReply = VoteReply::Failed(Failing::Late);
const DEAD: VoteReply = VoteReply::Failed(Failing::Otherwise);

/// A round of questions put at 100 ms, of which the last answer came at 110 ms.
fn round(attempt: &Attempt, replies: &[VoteReply]) -> Tally {
    let is_grant = |reply: &&VoteReply| matches!(reply, VoteReply::Granted { .. });
    let granted = replies.iter().filter(is_grant).count();
    let verdict = attempt.conditions.quorum.verdict(granted, replies.len() - granted);
    let mut tally = Tally { verdict, ..Tally::default() };
    let proposal = attempt.ballot().map_or(0, Ballot::proposal);
    for (more, reply) in (0..).zip(replies) {
        let answered_at = if more == 0 { at(110) } else { at(104) };
        tally.add(*reply, proposal, Some(at(100 + more)), answered_at);
    }
    tally
}

fn held(token: u64) -> AttemptAction {
    let deadline = conditions(1, 1).term.deadline(at(100));
    AttemptAction::Hold(Grant {
        asked_at: at(100),
        answered_at: at(110),
        deadline,
        token: Some(token),
    })
}

/// The proposal that an action asks with.
fn asks(action: AttemptAction) -> u64 {
    let AttemptAction::Ask(ballot) = action else { panic!("it asks no more: {action:?}") };
    ballot.proposal()
}

fn ended(attempt: &mut Attempt, replies: &[VoteReply]) -> AttemptAction {
    let tally = round(attempt, replies);
    attempt.ended(&tally, || NOW + 100)
}

#[test]
fn the_answers_of_a_first_round_decide() {
    let chosen = |token| VoteReply::Granted { token: Some(token) };
    let quarantined = |secs| VoteReply::Failed(Failing::Quarantined(Duration::from_secs(secs)));
    let hopeless = VoteReply::Failed(Failing::Hopeless);
    let free = VoteReply::Refused { frees_in: None, counter: 0 };
    let table: &[(&[VoteReply], AttemptAction)] = &[
        (&[GRANTED, GRANTED], held(NOW)),
        (&[GRANTED, GRANTED, HELD], held(NOW)),
        (&[chosen(NOW), GRANTED], held(NOW)),
        // Servers that choose different tokens have not accepted one.
        (&[chosen(NOW), chosen(NOW + 1)], AttemptAction::GiveUp(Setback::Failing)),
        (&[chosen(NOW + 1), chosen(NOW + 1)], AttemptAction::GiveUp(Setback::Failing)),
        (&[HELD, HELD], AttemptAction::GiveUp(Setback::Held(Some(SAFE)))),
        (&[HELD, HELD, HELD], AttemptAction::GiveUp(Setback::Held(Some(SAFE)))),
        (&[HELD, HELD, STALE], AttemptAction::GiveUp(Setback::Held(Some(SAFE)))),
        (&[HELD, HELD, GRANTED], AttemptAction::GiveUp(Setback::Held(Some(SAFE)))),
        (&[free, free], AttemptAction::GiveUp(Setback::Held(None))),
        (&[free, HELD], AttemptAction::GiveUp(Setback::Held(Some(SAFE)))),
        (&[HELD, DEAD, DEAD], AttemptAction::GiveUp(Setback::Failing)),
        (&[HELD, DEAD], AttemptAction::GiveUp(Setback::Held(Some(SAFE)))),
        (&[hopeless, hopeless], AttemptAction::GiveUp(Setback::Hopeless)),
        (&[hopeless, DEAD], AttemptAction::GiveUp(Setback::Failing)),
        (
            &[quarantined(7), quarantined(3)],
            AttemptAction::GiveUp(Setback::Quarantined(Duration::from_secs(3))),
        ),
        (
            &[hopeless, quarantined(7)],
            AttemptAction::GiveUp(Setback::Quarantined(Duration::from_secs(7))),
        ),
        (&[DEAD, quarantined(7)], AttemptAction::GiveUp(Setback::Failing)),
        (&[], AttemptAction::GiveUp(Setback::Failing)),
    ];
    for (replies, action) in table {
        let mut attempt = Attempt::begin(conditions(3, 2), Some(Ballot::new(NOW)));
        let mut tally = round(&attempt, replies);
        if tally.verdict == Verdict::Pending {
            // As where the caller's limit ends it.
            tally.verdict = Verdict::Lost;
        }
        assert_eq!(attempt.ended(&tally, || NOW), *action, "{replies:?}");
    }
}

#[test]
fn a_smaller_proposal_is_followed_by_one_above_all_counters() {
    let mut attempt = Attempt::begin(conditions(3, 2), Some(Ballot::new(NOW)));
    let further = VoteReply::Refused { frees_in: None, counter: NOW + 9 };
    assert_eq!(asks(ended(&mut attempt, &[STALE, STALE, further])), NOW + 10);
    assert_eq!(ended(&mut attempt, &[GRANTED, GRANTED]), held(NOW + 10));
}

/// Safety rule 16: a proposal of a clock that is far ahead.
#[test]
fn a_proposal_too_far_ahead_is_followed_by_one_of_the_servers_clocks() {
    let mut attempt = Attempt::begin(conditions(3, 2), Some(Ballot::new(NOW * 2)));
    let [slow, fast] = [NOW, NOW + 7].map(|clock| VoteReply::Ahead { clock });
    assert_eq!(asks(ended(&mut attempt, &[slow, fast])), NOW + 7);
    assert_eq!(attempt.ballot().map(Ballot::is_outbid), Some(true));
}

#[test]
fn late_servers_are_asked_once_more_with_a_larger_token() {
    let mut attempt = Attempt::begin(conditions(3, 2), Some(Ballot::new(NOW)));
    assert_eq!(asks(ended(&mut attempt, &[LATE, LATE, GRANTED])), NOW + 1);
    let given_up = AttemptAction::GiveUp(Setback::Failing);
    assert_eq!(ended(&mut attempt, &[LATE, LATE, GRANTED]), given_up);
    // What proposed no token does so then.
    let mut attempt = Attempt::begin(conditions(1, 1), None);
    assert_eq!(asks(ended(&mut attempt, &[LATE])), NOW + 100);
}

#[test]
fn nothing_is_asked_again_that_could_not_be_won() {
    for replies in [[LATE, HELD, HELD], [STALE, HELD, HELD], [LATE, DEAD, DEAD]] {
        let mut attempt = Attempt::begin(conditions(3, 2), Some(Ballot::new(NOW)));
        let action = ended(&mut attempt, &replies);
        assert!(matches!(action, AttemptAction::GiveUp(_)), "{replies:?}: {action:?}");
    }
}

#[test]
fn the_callers_limit_ends_proposals() {
    // The answers came at 110 ms.
    for (ends_at, replies, goes_on) in [
        (at(110), [STALE, STALE], false),
        (at(111), [STALE, STALE], true),
        (at(609), [LATE, LATE], false),
        (at(610), [LATE, LATE], true),
    ] {
        let conditions = Conditions { ends_at: Some(ends_at), ..conditions(3, 2) };
        let mut attempt = Attempt::begin(conditions, Some(Ballot::new(NOW)));
        let action = ended(&mut attempt, &replies);
        assert_eq!(matches!(action, AttemptAction::Ask(_)), goes_on, "{ends_at:?}, {replies:?}");
    }
}

#[test]
fn contenders_outbid_one_another_for_four_rounds() {
    let mut attempt = Attempt::begin(conditions(3, 2), Some(Ballot::new(NOW)));
    for more in 1..4 {
        let stale = VoteReply::Stale { counter: NOW + more };
        assert_eq!(asks(ended(&mut attempt, &[stale, stale])), NOW + more + 1);
    }
    let given_up = AttemptAction::GiveUp(Setback::Failing);
    assert_eq!(ended(&mut attempt, &[STALE, STALE, STALE]), given_up);
}

/// Safety rule 2: a lease counts from before the question, and one that is nearly over is no use.
#[test]
fn a_lease_that_comes_too_late_is_given_back() {
    let mut attempt = Attempt::begin(conditions(1, 1), None);
    let mut tally = Tally { verdict: Verdict::Won, ..Tally::default() };
    tally.add(GRANTED, 0, Some(at(0)), at(9_500));
    assert_eq!(attempt.ended(&tally, || NOW), AttemptAction::GiveUp(Setback::TooLate));
}

/// One server alone chooses the token.
#[test]
fn a_token_of_one_server_is_taken_as_it_is() {
    let mut attempt = Attempt::begin(conditions(1, 1), Some(Ballot::new(NOW)));
    let other = VoteReply::Granted { token: Some(NOW + 77) };
    assert_eq!(ended(&mut attempt, &[other]), held(NOW + 77));
    let mut attempt = Attempt::begin(conditions(1, 1), Some(Ballot::new(NOW)));
    let none = VoteReply::Granted { token: Some(1) };
    assert_eq!(ended(&mut attempt, &[none]), AttemptAction::GiveUp(Setback::Failing));
}

use super::*;

const TTL: Duration = Duration::from_secs(6);

fn at(ms: u64) -> Moment {
    Moment::from_nanos(0).after(Duration::from_millis(ms))
}

fn term() -> Term {
    Term::new(TTL, None).unwrap()
}

fn answered(answer: QueueAnswer, ms: u64) -> WaiterEvent {
    WaiterEvent::Answered { answer, asked_at: at(ms) }
}

/// The server's clock when `at` is 0, in microseconds.
const CLOCK: u64 = 1_763_800_000_000_000;
/// What is pushed at any time in these tests that is not about tokens.
const PUSHED: WaiterEvent = WaiterEvent::Pushed { token: CLOCK };

fn waits(ms: u64) -> WaiterEvent {
    let shown = Some(Shown { counter: CLOCK - 1, clock: CLOCK, asked_at: at(ms) });
    answered(QueueAnswer::Waiting { shown }, ms)
}

#[test]
fn a_pushed_lease_counts_from_the_last_question_that_was_answered() {
    let mut state = WaiterState::Asking;
    assert_eq!(state.happens(waits(10), term(), at(12)), WaiterAction::Wait);
    assert_eq!(state.happens(waits(2010), term(), at(2012)), WaiterAction::Wait);
    let pushed = state.happens(PUSHED, term(), at(3000));
    assert_eq!(pushed, WaiterAction::Hold { counts_from: at(2010) });
}

#[test]
fn a_push_is_confirmed_where_no_answer_dates_it_or_too_little_is_left() {
    let mut state = WaiterState::Asking;
    assert_eq!(state.happens(PUSHED, term(), at(1)), WaiterAction::Ask);
    state.happens(waits(10), term(), at(12));
    assert_eq!(state.happens(PUSHED, term(), at(5900)), WaiterAction::Ask);
    let yours = state.happens(answered(QueueAnswer::Yours, 5901), term(), at(5902));
    assert_eq!(yours, WaiterAction::Hold { counts_from: at(5901) });
}

/// Safety rule 20.
#[test]
fn the_token_of_a_push_is_one_that_the_server_could_have_minted() {
    let pushed = |shown, token, ms| {
        let mut state = WaiterState::begin();
        state.happens(answered(QueueAnswer::Waiting { shown }, 0), term(), at(1));
        // An answer that shows nothing leaves what is known.
        state.happens(answered(QueueAnswer::Waiting { shown: None }, 1), term(), at(2));
        state.happens(WaiterEvent::Pushed { token }, term(), at(ms))
    };
    let believed = WaiterAction::Hold { counts_from: at(1) };
    let (second, day) = (SECOND_MICROS, DAY_MICROS);
    let shown = |counter| Some(Shown { counter, clock: CLOCK, asked_at: at(0) });
    let (behind, ahead) = (CLOCK - 5 * second, CLOCK + 60 * second);
    for (counter, token) in [
        (behind, behind),
        (behind, CLOCK + 3 * second),
        (behind, CLOCK + 4 * second),
        (ahead, ahead),
        (ahead, ahead + 1),
        (0, CLOCK),
        (0, CLOCK - day),
    ] {
        assert_eq!(pushed(shown(counter), token, 3000), believed, "{counter} {token}");
    }
    for (counter, token) in [
        (behind, behind - 1),
        (behind, CLOCK + 4 * second + 1),
        (behind, (1 << 53) - 1),
        (behind, u64::MAX),
        (ahead, CLOCK),
        (ahead, ahead + 4 * second + 1),
        (0, CLOCK - day - 1),
        (0, 1),
    ] {
        assert_eq!(pushed(shown(counter), token, 3000), WaiterAction::Ask, "{counter} {token}");
    }
    assert_eq!(pushed(None, CLOCK, 3000), WaiterAction::Ask);
}

#[test]
fn an_answer_that_comes_too_late_is_asked_for_again() {
    let mut state = WaiterState::Asking;
    let late = state.happens(answered(QueueAnswer::Yours, 0), term(), at(5990));
    assert_eq!(late, WaiterAction::Ask);
}

#[test]
fn an_entry_lives_from_the_last_answer_that_the_owner_waits() {
    assert!(!WaiterState::Asking.has_place(term(), at(0)));
    let waits = WaiterState::Waiting { since: at(10), shown: None };
    assert!(waits.has_place(term(), at(6009)));
    assert!(!waits.has_place(term(), at(6010)));
}

#[test]
fn an_owner_that_is_gone_is_never_used_again() {
    let mut state = WaiterState::Waiting { since: at(1), shown: None };
    let gone = state.happens(answered(QueueAnswer::Gone, 5), term(), at(6));
    assert_eq!(gone, WaiterAction::ComeBack);
}

#[test]
fn entries_outlive_two_late_questions_and_no_minute() {
    assert_eq!((entry_life(term()), beat(term(), true)), (TTL, TTL / 3));
    let long = Term::new(Duration::from_secs(3600), None).unwrap();
    assert_eq!(entry_life(long), ENTRY_MAX);
    assert!(beat(long, true) * BEATS <= ENTRY_MAX);
}

#[test]
fn a_server_that_others_can_do_without_is_asked_more_often() {
    assert_eq!(beat(term(), false), STANDS_STILL_MAX);
    let short = Term::new(Duration::from_millis(600), None).unwrap();
    assert_eq!(beat(short, false), Duration::from_millis(200));
}

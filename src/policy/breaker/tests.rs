use super::*;

fn at(ms: u64) -> Moment {
    Moment::from_nanos(0).after(Duration::from_millis(ms))
}

fn failed(times: u32, now: Moment) -> Breaker {
    let mut breaker = Breaker::default();
    (0..times).for_each(|_| breaker.note_failure(now, u64::MAX));
    breaker
}

#[test]
fn one_failure_does_not_open_it_and_an_answer_makes_it_forget() {
    let mut breaker = failed(1, at(0));
    assert!(breaker.admit(at(0), 0));
    breaker.note_answer();
    breaker.note_failure(at(1), 0);
    assert!(breaker.admit(at(1), 0));
}

#[test]
fn failures_in_a_row_open_it_for_a_time_that_grows() {
    let mut short = failed(2, at(0));
    let mut long = failed(6, at(0));
    assert!(!short.admit(at(99), 0));
    assert!(!long.admit(at(100), 0));
    assert!(short.admit(at(100), 0));
}

#[test]
fn half_open_lets_one_through_and_its_answer_decides() {
    let mut breaker = failed(2, at(0));
    assert!(breaker.admit(at(100), u64::MAX));
    assert!(!breaker.admit(at(101), 0), "one at a time");
    let mut answered = breaker;
    answered.note_answer();
    assert!(answered.admit(at(101), 0));
    breaker.note_failure(at(110), u64::MAX);
    assert!(!breaker.admit(at(200), 0), "it is open for longer now");
}

#[test]
fn a_probe_whose_asker_went_away_does_not_shut_the_server_out() {
    let mut breaker = failed(2, at(0));
    assert!(breaker.admit(at(100), u64::MAX));
    assert!(breaker.admit(at(200), 0));
}

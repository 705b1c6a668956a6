use super::*;
use crate::clock;

const NOW: u64 = 1_763_700_000_123;
const WEEK: u64 = 7 * 86_400_000;

fn value(text: &str) -> Value {
    Value { fingerprint: Bytes::new(), text: Bytes::copy_from_slice(text.as_bytes()) }
}

fn after(reading: Reading<Value>, schedule: Schedule) -> Next {
    let promised = Promised { token: 1, reading, starts: 1, clock_ms: NOW, asked_at: clock::now() };
    next(promised, b"me", schedule, WEEK)
}

#[test]
fn the_first_and_every_later_slot_is_claimed_once_it_is_due() {
    let claimed = |slot| Claim::Claimed { slot, next_in: None };
    let write = |text: &'static str, claim| Next::Write(Bytes::from(text), claim);
    let at = Schedule::At(NOW);
    let own = || write("1763700000123 me", claimed(NOW));
    assert_eq!(after(Reading::Nothing, at), own());
    assert_eq!(after(Reading::Decided(value("1763700000122 you")), at), own());
    assert_eq!(after(Reading::Open(value("1763700000122 you")), at), own());
    let early = Next::Say(Claim::Early { due_in: 1 });
    assert_eq!(after(Reading::Nothing, Schedule::At(NOW + 1)), early);
    let grid = Claim::Claimed { slot: NOW - 123, next_in: Some(877) };
    let expected = write("1763700000000 me", grid);
    assert_eq!(after(Reading::Nothing, Schedule::Every(1000)), expected);
}

#[test]
fn a_slot_that_may_have_been_claimed_is_not_claimed_again() {
    let taken = |last| Claim::Taken { last, next_in: None };
    let at = Schedule::At(NOW);
    for last in ["1763700000123 you", "1763700000124 you"] {
        let number = last.split_once(' ').unwrap().0.parse().ok();
        let said = Next::Say(taken(number));
        assert_eq!(after(Reading::Decided(value(last)), at), said);
        let finished = Next::Write(Bytes::from(last), taken(number));
        assert_eq!(after(Reading::Open(value(last)), at), finished);
    }
    let old = after(Reading::Nothing, Schedule::At(NOW - WEEK));
    assert_eq!(old, Next::Say(taken(None)));
}

#[test]
fn a_claim_of_ones_own_whose_answer_was_lost_is_found_again() {
    let own = "1763700000100 me";
    let claimed = Claim::Claimed { slot: NOW - 23, next_in: None };
    let at = Schedule::At(NOW);
    assert_eq!(after(Reading::Decided(value(own)), at), Next::Say(claimed));
    let finished = Next::Write(Bytes::from(own), claimed);
    assert_eq!(after(Reading::Open(value(own)), at), finished);
}

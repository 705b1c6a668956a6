use super::*;
use crate::machine::Answer;

/// Somebody else has written it: the connection does as well as before.
#[test]
fn a_counter_that_is_no_number_shows_nothing() {
    let bulk = |text: &'static str| Frame::Bulk(text.into());
    for counter in ["1700000000000000\n", "1e15", "abc"] {
        let [held, stale] = ["held", "stale"].map(bulk);
        let numbers = [Frame::Integer(5), bulk(counter), Frame::Integer(0), Frame::Integer(7)];
        let reply = [bulk("stamp"), held, bulk("x")].into_iter().chain(numbers).collect();
        let said = read(&Frame::Array(reply), Moment::from_nanos(0)).expect("it waits");
        assert!(said.before == 0 && matches!(said.answer, QueueAnswer::Waiting { shown: None }));
        let reply = Frame::Array([bulk("stamp"), stale, bulk(counter)].into());
        assert!(matches!(Answer::of_acquire(&reply), Some(Answer::Failed { is_run: false, .. })));
    }
}

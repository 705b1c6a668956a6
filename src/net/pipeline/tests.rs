use std::time::Duration;

use bytes::Bytes;

use super::super::outbox::{Commit, GATHERED_MIN};
use super::super::proof::{Expected, STAMP_ROOM};
use super::*;
use crate::policy::Redelivery;

type Plain = Pipeline<u32>;

const PING: &[&[u8]] = &[b"PING"];
const PATIENCE: Patience = Patience {
    until_late: Duration::from_millis(50),
    until_dead: Duration::from_millis(100),
    greeting: Duration::ZERO,
};

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

fn terms(asked_ms: u64, deadline_ms: u64) -> Terms {
    let (asked_at, deadline) = (at(asked_ms), at(deadline_ms));
    Terms { expected: Expected::Anything, asked_at, deadline, weight: 7 }
}

fn push(pipeline: &mut Plain) -> Ticket {
    pipeline.push(PING, terms(0, 50)).unwrap()
}

/// Pushes a command and sees it written whole.
fn send(pipeline: &mut Plain) -> Ticket {
    let ticket = push(pipeline);
    write_all(pipeline);
    ticket
}

fn write_all(pipeline: &mut Plain) -> Vec<u8> {
    let mut written = Vec::new();
    let Commit::Write(mut chunk) = pipeline.commit(usize::MAX) else { panic!("no role") };
    loop {
        written.extend_from_slice(&chunk);
        match pipeline.next_chunk(chunk) {
            Some(more) => chunk = more,
            None => return written,
        }
    }
}

fn poll(pipeline: &mut Plain, ticket: Ticket, waker: u32) -> Poll<Outcome> {
    pipeline.poll(ticket, |kept| *kept = Some(waker))
}

fn settled(pipeline: &mut Plain, ticket: Ticket) -> Outcome {
    match poll(pipeline, ticket, 0) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("{ticket:?} is not settled"),
    }
}

/// What the last of these commands ends with.
fn last_word(sent: &[u8]) -> String {
    let text = String::from_utf8(sent.to_vec()).unwrap();
    text.trim_end().rsplit("\r\n").next().unwrap().to_owned()
}

fn sweep(pipeline: &mut Plain, ms: u64) -> Sweep {
    pipeline.sweep(at(ms), PATIENCE, &mut Vec::new())
}

fn number(outcome: Outcome) -> i64 {
    match outcome {
        Ok(Frame::Integer(number)) => number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn replies_go_to_the_commands_in_the_order_of_sending() {
    let mut pipeline = Plain::new(0);
    let tickets: Vec<Ticket> = (0..3).map(|_| send(&mut pipeline)).collect();
    for number in 0..3 {
        pipeline.deliver(Frame::Integer(number)).unwrap();
    }
    for (ticket, expected) in tickets.into_iter().zip(0..) {
        assert_eq!(number(settled(&mut pipeline, ticket)), expected);
    }
}

#[test]
fn a_caller_is_woken_by_its_own_reply_only() {
    let mut pipeline = Plain::new(0);
    let (one, two) = (send(&mut pipeline), send(&mut pipeline));
    assert!(poll(&mut pipeline, two, 22).is_pending());
    assert!(poll(&mut pipeline, one, 10).is_pending());
    assert!(poll(&mut pipeline, one, 11).is_pending());
    assert_eq!(pipeline.deliver(Frame::Null).unwrap(), Some(11), "the waker given last");
    assert_eq!(pipeline.deliver(Frame::Null).unwrap(), Some(22));
}

/// The bug of redis-py (CVE-2023-28858): a cancelled call left its reply to the next caller.
#[test]
fn an_abandoned_command_still_takes_its_own_reply() {
    let mut pipeline = Plain::new(0);
    let (gone, stays) = (send(&mut pipeline), send(&mut pipeline));
    pipeline.abandon(gone);
    assert_eq!(pipeline.deliver(Frame::Integer(1)).unwrap(), None);
    pipeline.deliver(Frame::Integer(2)).unwrap();
    assert_eq!(number(settled(&mut pipeline, stays)), 2);
}

#[test]
fn a_slot_is_used_again_only_after_both_its_reply_and_its_holder_are_gone() {
    let mut pipeline = Plain::new(0);
    let abandoned = send(&mut pipeline);
    pipeline.abandon(abandoned);
    let next = send(&mut pipeline);
    assert_ne!(next.index, abandoned.index, "its reply has still to come");
    pipeline.deliver(Frame::Integer(1)).unwrap();
    pipeline.deliver(Frame::Integer(2)).unwrap();
    let other = send(&mut pipeline);
    assert_ne!(other.index, next.index, "its holder has not looked");
    assert_eq!(other.index, abandoned.index);
    assert_ne!(other, abandoned, "another generation");
    assert_eq!(pipeline.slots.count().0, 2);
}

#[test]
#[should_panic(expected = "a ticket serves once")]
fn a_ticket_serves_once() {
    let mut pipeline = Plain::new(0);
    let ticket = send(&mut pipeline);
    pipeline.deliver(Frame::Null).unwrap();
    let _ = settled(&mut pipeline, ticket);
    let _ = poll(&mut pipeline, ticket, 0);
}

/// The bug of redis-rs 1.8.1 and rueidis #690: a push was matched to a command.
#[test]
fn a_push_is_nobodys_reply() {
    let mut pipeline = Plain::new(0);
    let ticket = send(&mut pipeline);
    let name = |text: &'static str| Frame::Bulk(bytes::Bytes::from_static(text.as_bytes()));
    let push = Frame::Push([name("sunsubscribe"), name("c"), Frame::Integer(0)].into());
    assert_eq!(pipeline.deliver(push).unwrap(), None);
    pipeline.deliver(Frame::Integer(5)).unwrap();
    assert_eq!(number(settled(&mut pipeline, ticket)), 5);
}

/// The bug of fred 10.1: an array that looks like a message was taken for a push.
#[test]
fn an_array_is_a_reply_whatever_is_in_it() {
    let mut pipeline = Plain::new(0);
    let ticket = send(&mut pipeline);
    let text = |text: &'static str| Frame::Bulk(bytes::Bytes::from_static(text.as_bytes()));
    let array = Frame::Array([text("message"), text("a"), text("b")].into());
    pipeline.deliver(array.clone()).unwrap();
    assert_eq!(settled(&mut pipeline, ticket).unwrap(), array);
}

#[test]
fn attributes_are_no_reply_of_their_own() {
    let mut pipeline = Plain::new(0);
    let ticket = send(&mut pipeline);
    let attributes = [(Frame::Integer(1), Frame::Integer(2))].into();
    let value = Box::new(Frame::Integer(3));
    pipeline.deliver(Frame::Attributed { attributes, value }).unwrap();
    assert_eq!(number(settled(&mut pipeline, ticket)), 3);
}

#[test]
fn a_reply_to_a_command_that_was_not_sent_is_a_fault() {
    let mut pipeline = Plain::new(0);
    push(&mut pipeline);
    assert!(matches!(pipeline.deliver(Frame::Integer(1)), Err(Fault::Unsolicited)));
}

#[test]
fn a_reply_that_nobody_waits_for_is_a_fault() {
    let mut pipeline = Plain::new(0);
    assert!(matches!(pipeline.deliver(Frame::Integer(1)), Err(Fault::Unsolicited)));
}

/// redis-rs sent ASKING and its command apart on a shared connection.
#[test]
fn a_batch_is_contiguous_and_one_write() {
    let mut pipeline = Plain::new(0);
    pipeline.push(&[b"ASKING"], terms(0, 50)).unwrap();
    pipeline.push(&[b"GET", b"k"], terms(0, 50)).unwrap();
    let Commit::Write(chunk) = pipeline.commit(usize::MAX) else { panic!() };
    assert_eq!(&chunk[..], b"*1\r\n$6\r\nASKING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    assert_eq!(pipeline.next_chunk(chunk), None);
}

#[test]
fn one_writes_at_a_time_and_takes_along_what_came_meanwhile() {
    let mut pipeline = Plain::new(0);
    push(&mut pipeline);
    let Commit::Write(first) = pipeline.commit(usize::MAX) else { panic!() };
    push(&mut pipeline);
    assert_eq!(pipeline.commit(usize::MAX), Commit::Queued);
    let second = pipeline.next_chunk(first).expect("what came meanwhile");
    assert_eq!(&second[..], b"*1\r\n$4\r\nPING\r\n");
    assert_eq!(pipeline.next_chunk(second), None);
    push(&mut pipeline);
    assert!(matches!(pipeline.commit(usize::MAX), Commit::Write(_)), "the role was given up");
}

#[test]
fn above_the_threshold_the_flusher_writes_and_gathers() {
    let mut pipeline = Plain::new(0);
    push(&mut pipeline);
    push(&mut pipeline);
    assert_eq!(pipeline.commit(1), Commit::WakeFlusher);
    push(&mut pipeline);
    assert_eq!(pipeline.commit(1), Commit::Queued, "it is woken once");
    let chunk = pipeline.take_over().expect("the role is on offer");
    assert_eq!(chunk.len(), 3 * b"*1\r\n$4\r\nPING\r\n".len());
    assert_eq!(pipeline.take_over(), None, "there is one role");
    assert_eq!(pipeline.next_chunk(chunk), None);
    assert_eq!(pipeline.take_over(), None, "nobody offers it");
}

#[test]
fn the_caller_that_makes_it_as_many_as_the_server_has_to_answer_writes() {
    let mut pipeline = Plain::new(0);
    let push_and_commit = |pipeline: &mut Plain| {
        push(pipeline);
        pipeline.commit(0)
    };
    let wait_for_more = |pipeline: &mut Plain, pushes: usize| {
        (0..pushes).for_each(|_| assert_eq!(push_and_commit(pipeline), Commit::Queued));
    };
    let write = |pipeline: &mut Plain, commands: usize| {
        let Commit::Write(chunk) = push_and_commit(pipeline) else { panic!("too few") };
        assert_eq!(chunk.len(), commands * b"*1\r\n$4\r\nPING\r\n".len());
        assert_eq!(pipeline.next_chunk(chunk), None);
    };
    for in_flight in [0, GATHERED_MIN, 2 * GATHERED_MIN] {
        assert_eq!(pipeline.in_flight(), in_flight);
        // As many again, since the server has answered nothing.
        let gathered = in_flight.max(GATHERED_MIN);
        assert_eq!(push_and_commit(&mut pipeline), Commit::WakeFlusher);
        wait_for_more(&mut pipeline, gathered - 2);
        write(&mut pipeline, gathered);
        assert_eq!(pipeline.take_over(), None, "the flusher comes for nothing");
    }
    // When the server has answered everything, few are again enough.
    (0..4 * GATHERED_MIN).for_each(|_| assert!(pipeline.deliver(Frame::Null).is_ok()));
    assert_eq!(push_and_commit(&mut pipeline), Commit::WakeFlusher);
    wait_for_more(&mut pipeline, GATHERED_MIN - 2);
    write(&mut pipeline, GATHERED_MIN);
}

#[test]
fn the_last_of_the_callers_woken_together_writes_for_all() {
    let mut pipeline = Plain::new(0);
    let tickets: Vec<Ticket> = (0..3).map(|_| send(&mut pipeline)).collect();
    for ticket in &tickets {
        assert!(poll(&mut pipeline, *ticket, 1).is_pending());
    }
    for _ in &tickets {
        assert_eq!(pipeline.deliver(Frame::Null).unwrap(), Some(1));
    }
    push(&mut pipeline);
    assert_eq!(pipeline.commit(4), Commit::WakeFlusher, "in case that the others do not come");
    push(&mut pipeline);
    assert_eq!(pipeline.commit(4), Commit::Queued);
    push(&mut pipeline);
    let Commit::Write(chunk) = pipeline.commit(4) else { panic!("nobody else is to come") };
    assert_eq!(chunk.len(), 3 * b"*1\r\n$4\r\nPING\r\n".len());
    assert_eq!(pipeline.next_chunk(chunk), None);
}

#[test]
fn a_caller_that_comes_after_the_flushers_turn_is_not_waited_for() {
    let mut pipeline = Plain::new(0);
    let (one, two) = (send(&mut pipeline), send(&mut pipeline));
    assert!(poll(&mut pipeline, one, 1).is_pending());
    assert!(poll(&mut pipeline, two, 2).is_pending());
    pipeline.deliver(Frame::Null).unwrap();
    pipeline.deliver(Frame::Null).unwrap();
    push(&mut pipeline);
    assert_eq!(pipeline.commit(4), Commit::WakeFlusher);
    let chunk = pipeline.take_over().expect("the role is on offer");
    assert_eq!(pipeline.next_chunk(chunk), None);
    push(&mut pipeline);
    assert!(matches!(pipeline.commit(4), Commit::Write(_)), "it is alone");
}

#[test]
fn what_a_blocked_writer_leaves_goes_out_first() {
    let mut pipeline = Plain::new(0);
    push(&mut pipeline);
    let Commit::Write(mut chunk) = pipeline.commit(usize::MAX) else { panic!() };
    push(&mut pipeline);
    pipeline.hand_over(chunk.split_off(4));
    assert_eq!(pipeline.commit(usize::MAX), Commit::Queued, "the flusher has the rest to write");
    let rest = pipeline.take_over().unwrap();
    assert_eq!(&rest[..], b"$4\r\nPING\r\n");
    let next = pipeline.next_chunk(rest).unwrap();
    assert_eq!(&next[..], b"*1\r\n$4\r\nPING\r\n");
}

/// The bug of StackExchange.Redis #3091 and lettuce #1029: a slot outlived a write that died.
#[test]
fn a_failure_tells_each_command_whether_any_of_its_bytes_were_handed_to_a_writer() {
    let mut pipeline = Plain::new(0);
    let answered = send(&mut pipeline);
    pipeline.deliver(Frame::Integer(1)).unwrap();
    let sent = send(&mut pipeline);
    let writing = push(&mut pipeline);
    let Commit::Write(_) = pipeline.commit(usize::MAX) else { panic!() };
    let unsent = push(&mut pipeline);
    assert!(poll(&mut pipeline, sent, 1).is_pending());
    assert!(poll(&mut pipeline, unsent, 2).is_pending());
    let mut woken = Vec::new();
    pipeline.fail(Fault::ClosedByServer, &mut woken);
    assert_eq!(woken, [1, 2]);
    assert_eq!(number(settled(&mut pipeline, answered)), 1);
    assert!(matches!(settled(&mut pipeline, sent), Err(Failure::Unknown(_))));
    assert!(matches!(settled(&mut pipeline, writing), Err(Failure::Unknown(_))));
    assert!(matches!(settled(&mut pipeline, unsent), Err(Failure::NotSent(_))));
}

/// The bug of StackExchange.Redis #3200: enqueueing raced the teardown.
#[test]
fn a_failed_pipeline_takes_and_matches_nothing() {
    let mut pipeline = Plain::new(0);
    send(&mut pipeline);
    pipeline.fail(Fault::ClosedByServer, &mut Vec::new());
    pipeline.fail(Fault::ClosedByUs, &mut Vec::new());
    assert!(matches!(pipeline.push(PING, terms(0, 1)), Err(Fault::ClosedByServer)));
    assert_eq!(pipeline.push_owed(owed("late"), None, at(0)), Err(owed("late")));
    assert!(matches!(pipeline.deliver(Frame::Null), Err(Fault::ClosedByServer)));
    assert_eq!(pipeline.in_flight(), 0);
}

fn owed(command: &'static str) -> Owed {
    let command = Bytes::from_static(command.as_bytes());
    let expected = Expected::Anything;
    let again = Redelivery::new(at(50), false);
    Owed {
        command,
        script: None,
        is_by_key: false,
        expected,
        slot: 0,
        again,
        counted: std::sync::Arc::default(),
    }
}

#[test]
fn what_is_owed_is_sent_and_handed_back_only_if_it_was_not_answered() {
    let mut pipeline = Plain::new(0);
    for command in ["one", "two", "three"] {
        pipeline.push_owed(owed(command), None, at(0)).unwrap();
    }
    assert_eq!(write_all(&mut pipeline), b"onetwothree");
    assert_eq!(pipeline.deliver(Frame::Integer(1)).unwrap(), None);
    assert!(matches!(pipeline.sweep(at(60), PATIENCE, &mut Vec::new()), Sweep::Busy));
    pipeline.fail(Fault::ClosedByServer, &mut Vec::new());
    assert_eq!(pipeline.take_unanswered(), [owed("two"), owed("three")]);
    assert_eq!(pipeline.take_unanswered(), []);
}

#[test]
fn what_is_owed_and_refused_comes_back_with_the_words_and_what_goes_ahead_of_it_does_not() {
    let mut pipeline = Plain::new(0);
    pipeline.push_owed(owed("one"), Some(&[b"ASKING"]), at(0)).unwrap();
    pipeline.push_owed(owed("two"), None, at(0)).unwrap();
    assert!(write_all(&mut pipeline).starts_with(b"*1\r\n$6\r\nASKING\r\nonetwo*2\r\n$4\r\nECHO"));
    let error = |text: &'static str| Frame::Error(Bytes::from_static(text.as_bytes()));
    assert_eq!(pipeline.deliver(error("ERR asking")).unwrap(), None);
    assert_eq!(pipeline.take_refused(), []);
    assert_eq!(pipeline.deliver(error("MOVED 1 h:2")).unwrap(), None);
    assert_eq!(pipeline.deliver(Frame::Integer(1)).unwrap(), None);
    let refused = Refused { owed: owed("one"), error: ServerError::new(b"MOVED 1 h:2") };
    assert_eq!(pipeline.take_refused(), [refused]);
    assert!(pipeline.is_unused());
}

/// A script that is refused proves nothing of what went before it: a seal is sent then, where there is
/// none.
#[test]
fn what_needs_a_proof_has_one_whatever_goes_behind_it() {
    for behind in [Expected::Stamp, Expected::Anything] {
        let mut pipeline = Plain::new(0);
        let flag = Terms { expected: Expected::Flag, ..terms(0, 50) };
        let set = pipeline.push(&[b"SET"], flag).unwrap();
        let script = Terms { expected: behind, ..terms(0, 50) };
        let script = pipeline.push(&[b"EVALSHA", STAMP_ROOM], script).unwrap();
        let mut sent = write_all(&mut pipeline);
        let is_sealed = sent.windows(4).any(|word| word == b"ECHO");
        assert_eq!(is_sealed, behind == Expected::Anything, "a script's reply is a proof");
        let mut frames = vec![Frame::Null, Frame::Error("NOSCRIPT x".into())];
        assert_eq!(pipeline.judge(&frames).unwrap(), 0, "nothing is proved");
        assert_eq!(pipeline.take_asked(), !is_sealed);
        if !is_sealed {
            sent = write_all(&mut pipeline);
        }
        assert_eq!(pipeline.judge(&frames).unwrap(), 0);
        assert!(!pipeline.take_asked(), "there is one");
        frames.push(Frame::Bulk(last_word(&sent).into()));
        assert_eq!(pipeline.judge(&frames).unwrap(), 3);
        for frame in frames {
            pipeline.deliver(frame).unwrap();
        }
        assert_eq!(settled(&mut pipeline, set).unwrap(), Frame::Null);
        assert!(settled(&mut pipeline, script).unwrap().error().is_some());
        assert!(pipeline.is_unused() && pipeline.in_flight() == 0);
    }
}

/// What comes in the place of the seal tells a stray error from one that is meant.
#[test]
fn an_error_counts_once_what_comes_behind_it_is_in_its_place() {
    let error = || Frame::Error("ERR x".into());
    type Comes = fn(String, String) -> Frame;
    let proofs: [(Comes, bool); 3] = [
        (|_, seal| Frame::Bulk(seal.into()), true),
        // It refuses all that it is asked.
        (|_, _| Frame::Error("LOADING x".into()), true),
        // The error was nobody's, and this is the reply.
        (|stamp, _| Frame::Bulk(stamp.into()), false),
    ];
    for (comes, is_proof) in proofs {
        let mut pipeline = Plain::new(0);
        let script = Terms { expected: Expected::Stamp, ..terms(0, 50) };
        pipeline.push(&[b"EVALSHA", STAMP_ROOM], script).unwrap();
        let stamp = last_word(&write_all(&mut pipeline));
        assert_eq!(pipeline.judge(&[error()]).unwrap(), 0);
        assert!(pipeline.take_asked());
        let seal = last_word(&write_all(&mut pipeline));
        let judged = pipeline.judge(&[error(), comes(stamp, seal)]);
        assert_eq!(judged.is_ok_and(|proved| proved == 2), is_proof);
    }
}

/// A release that was sent for a caller that no longer waits is not sent a second time.
#[test]
fn what_is_owed_only_later_is_seen_through_from_where_it_is() {
    let mut pipeline = Plain::new(0);
    let [answered, refused, waits, timed_out, unsent] =
        [(); 5].map(|()| pipeline.push(PING, terms(0, 50)).unwrap());
    let sent = write_all(&mut pipeline);
    assert!(poll(&mut pipeline, waits, 4).is_pending());
    assert_eq!(pipeline.deliver(Frame::Integer(1)).unwrap(), None);
    let error = |text: &'static str| Frame::Error(Bytes::from_static(text.as_bytes()));
    assert_eq!(pipeline.deliver(error("ERR no")).unwrap(), None);
    assert_eq!(pipeline.owe(answered, owed("settled")), Ok(None));
    assert_eq!(pipeline.owe(refused, owed("refused")), Err(owed("refused")));
    assert_eq!(pipeline.owe(waits, owed("waits")), Ok(Some(4)));
    assert!(matches!(pipeline.sweep(at(60), PATIENCE, &mut Vec::new()), Sweep::Busy));
    assert_eq!(pipeline.owe(timed_out, owed("timed out")), Ok(None));
    assert_eq!(pipeline.owe(unsent, owed("unsent")), Ok(None));
    assert_eq!(pipeline.deliver(Frame::Integer(1)).unwrap(), None);
    assert_eq!(pipeline.commit(usize::MAX), Commit::Queued, "sent again, after {sent:?}");
    pipeline.fail(Fault::ClosedByServer, &mut Vec::new());
    assert_eq!(pipeline.take_unanswered(), [owed("timed out"), owed("unsent")]);
    assert!(pipeline.is_unused());
}

#[test]
fn without_a_reader_nobody_waits_and_only_what_is_owed_is_sent() {
    let mut pipeline = Plain::new(0);
    let ticket = send(&mut pipeline);
    assert!(poll(&mut pipeline, ticket, 3).is_pending());
    let mut woken = Vec::new();
    pipeline.orphan(Fault::RuntimeGone, &mut woken);
    assert_eq!(woken, [3]);
    assert!(matches!(settled(&mut pipeline, ticket), Err(Failure::Unknown(Fault::RuntimeGone))));
    assert!(matches!(pipeline.push(PING, terms(0, 1)), Err(Fault::RuntimeGone)));
    pipeline.push_owed(owed("late"), None, at(0)).unwrap();
    assert_eq!(write_all(&mut pipeline), b"late");
}

/// Found by loom: what was said not to be sent went out with what was owed.
#[test]
fn what_is_unsent_when_the_reader_goes_may_still_be_sent() {
    let mut pipeline = Plain::new(0);
    let ticket = push(&mut pipeline);
    assert_eq!(pipeline.commit(0), Commit::WakeFlusher);
    pipeline.orphan(Fault::RuntimeGone, &mut Vec::new());
    assert!(matches!(settled(&mut pipeline, ticket), Err(Failure::Unknown(Fault::RuntimeGone))));
    assert!(pipeline.take_over().is_some());
}

#[test]
fn a_writer_that_goes_on_after_a_failure_finds_nothing_to_write() {
    let mut pipeline = Plain::new(0);
    push(&mut pipeline);
    let Commit::Write(chunk) = pipeline.commit(usize::MAX) else { panic!() };
    push(&mut pipeline);
    pipeline.fail(Fault::ClosedByServer, &mut Vec::new());
    assert_eq!(pipeline.next_chunk(chunk), None);
}

/// Found by fuzzing: the rest of a blocked write was offered after the end.
#[test]
fn what_a_blocked_writer_leaves_after_a_failure_is_not_given_out() {
    let mut pipeline = Plain::new(0);
    push(&mut pipeline);
    let Commit::Write(chunk) = pipeline.commit(usize::MAX) else { panic!() };
    pipeline.fail(Fault::ClosedByServer, &mut Vec::new());
    pipeline.hand_over(chunk);
    assert_eq!(pipeline.take_over(), None);
}

#[test]
fn a_timeout_ends_the_wait_and_keeps_the_place_in_the_queue() {
    let mut pipeline = Plain::new(0);
    let (slow, next) = (send(&mut pipeline), send(&mut pipeline));
    assert!(poll(&mut pipeline, slow, 1).is_pending());
    let mut woken = Vec::new();
    assert!(matches!(pipeline.sweep(at(49), PATIENCE, &mut woken), Sweep::Busy));
    assert!(woken.is_empty());
    assert!(matches!(pipeline.sweep(at(50), PATIENCE, &mut woken), Sweep::Busy));
    assert_eq!(woken, [1]);
    let outcome = settled(&mut pipeline, slow);
    assert!(matches!(outcome, Err(Failure::Unknown(Fault::Timeout(_)))), "{outcome:?}");
    assert!(settled(&mut pipeline, next).is_err());
    // Both replies come late; neither is given to the command that came after them.
    let third = pipeline.push(PING, terms(60, 120)).unwrap();
    write_all(&mut pipeline);
    pipeline.deliver(Frame::Integer(1)).unwrap();
    pipeline.deliver(Frame::Integer(2)).unwrap();
    pipeline.deliver(Frame::Integer(3)).unwrap();
    assert_eq!(number(settled(&mut pipeline, third)), 3);
}

#[test]
fn a_reply_that_comes_after_the_timeout_but_before_the_look_does_not_change_the_outcome() {
    let mut pipeline = Plain::new(0);
    let ticket = send(&mut pipeline);
    pipeline.sweep(at(50), PATIENCE, &mut Vec::new());
    pipeline.deliver(Frame::Integer(1)).unwrap();
    assert!(matches!(settled(&mut pipeline, ticket), Err(Failure::Unknown(_))));
    assert_eq!(pipeline.slots.count().1, 1);
}

/// The bug of StackExchange.Redis #1848 and lettuce #2082: half-open for a quarter of an hour.
#[test]
fn a_connection_that_stays_silent_with_commands_waiting_is_dead() {
    let mut pipeline = Plain::new(0);
    let ticket = send(&mut pipeline);
    pipeline.abandon(ticket);
    assert!(matches!(sweep(&mut pipeline, 10), Sweep::Busy));
    assert!(matches!(sweep(&mut pipeline, 59), Sweep::Busy));
    assert!(matches!(sweep(&mut pipeline, 60), Sweep::Asks), "late");
    assert!(matches!(sweep(&mut pipeline, 109), Sweep::Busy), "it is asked once");
    assert!(matches!(sweep(&mut pipeline, 110), Sweep::Dead(Fault::Silent(_))));
}

#[test]
fn a_lost_reply_is_found_out_by_asking_and_a_slow_server_answers_both() {
    for is_lost in [true, false] {
        let mut pipeline = Plain::new(0);
        let script = Terms { expected: Expected::Stamp, ..terms(0, 50) };
        let ticket = pipeline.push(&[b"EVALSHA", STAMP_ROOM], script).unwrap();
        let reply = Frame::Bulk(last_word(&write_all(&mut pipeline)).into());
        sweep(&mut pipeline, 10);
        assert!(matches!(sweep(&mut pipeline, 60), Sweep::Asks));
        let seal = Frame::Bulk(last_word(&write_all(&mut pipeline)).into());
        if is_lost {
            assert!(matches!(pipeline.judge(&[seal]), Err(Fault::Misplaced)));
        } else {
            assert_eq!(pipeline.judge(&[reply.clone(), seal]).unwrap(), 2);
            pipeline.deliver(reply).unwrap();
            assert!(settled(&mut pipeline, ticket).is_err(), "it was too late");
        }
    }
}

#[test]
fn a_part_of_a_reply_is_a_sign_of_life_and_a_part_of_a_push_is_none() {
    for is_push in [false, true] {
        let mut pipeline = Plain::new(0);
        send(&mut pipeline);
        sweep(&mut pipeline, 10);
        pipeline.note_part(is_push);
        let found = sweep(&mut pipeline, 60);
        assert_eq!(matches!(found, Sweep::Dead(Fault::OnlyPushes(_))), is_push, "{found:?}");
    }
    let mut pipeline = Plain::new(0);
    send(&mut pipeline);
    sweep(&mut pipeline, 10);
    for ms in [59, 108, 157] {
        pipeline.note_part(false);
        assert!(matches!(sweep(&mut pipeline, ms), Sweep::Busy));
    }
    assert!(matches!(sweep(&mut pipeline, 257), Sweep::Dead(_)));
}

/// Else pushes without end behind a grant would have all of them judged at each read.
#[test]
fn what_waits_for_its_proof_is_looked_at_once() {
    let mut pipeline = Plain::new(0);
    let flag = Terms { expected: Expected::Flag, ..terms(0, 50) };
    let [first, second] = [(); 2].map(|()| pipeline.push(&[b"SET"], flag).unwrap());
    let seal = Frame::Bulk(last_word(&write_all(&mut pipeline)).into());
    let push = || Frame::Push([Frame::Null].into());
    assert_eq!(pipeline.judge(&[push(), Frame::Null, push()]).unwrap(), 1);
    pipeline.deliver(push()).unwrap();
    // A number cannot be the reply.
    let misplaced = Frame::Integer(1);
    assert_eq!(pipeline.judge(&[misplaced.clone(), push(), push()]).unwrap(), 0);
    let mut frames = vec![misplaced, push(), push(), Frame::Null, seal];
    assert_eq!(pipeline.judge(&frames).unwrap(), 5);
    frames[0] = Frame::Null;
    for frame in frames {
        pipeline.deliver(frame).unwrap();
    }
    for ticket in [first, second] {
        assert_eq!(settled(&mut pipeline, ticket).unwrap(), Frame::Null);
    }
    assert!(matches!(pipeline.judge(&[Frame::Null]), Err(Fault::Unsolicited)));
}

#[test]
fn pushes_alone_end_the_connection_as_soon_as_a_reply_is_late() {
    let mut pipeline = Plain::new(0);
    send(&mut pipeline);
    sweep(&mut pipeline, 10);
    let push = || Frame::Push([Frame::Null].into());
    // Those before a reply say nothing of those after it.
    pipeline.judge(&[push(), Frame::Error("ERR".into())]).unwrap();
    pipeline.deliver(push()).unwrap();
    pipeline.deliver(Frame::Error("ERR".into())).unwrap();
    send(&mut pipeline);
    assert!(matches!(sweep(&mut pipeline, 20), Sweep::Busy));
    pipeline.judge(&[push()]).unwrap();
    assert!(matches!(sweep(&mut pipeline, 69), Sweep::Busy));
    assert!(matches!(sweep(&mut pipeline, 70), Sweep::Dead(Fault::OnlyPushes(_))));
}

#[test]
fn the_sweeper_sleeps_while_nothing_is_under_way() {
    let mut pipeline = Plain::new(0);
    assert!(!pipeline.wants_sweeper());
    send(&mut pipeline);
    assert!(pipeline.wants_sweeper());
    assert!(!pipeline.wants_sweeper(), "it is woken once");
    pipeline.deliver(Frame::Null).unwrap();
    assert!(matches!(pipeline.sweep(at(10), PATIENCE, &mut Vec::new()), Sweep::Busy));
    assert!(matches!(pipeline.sweep(at(20), PATIENCE, &mut Vec::new()), Sweep::Idle));
    send(&mut pipeline);
    assert!(pipeline.wants_sweeper());
}

#[test]
fn weight_comes_back_with_the_reply_also_of_a_caller_that_gave_up() {
    let mut pipeline = Plain::new(0);
    let ticket = send(&mut pipeline);
    send(&mut pipeline);
    pipeline.abandon(ticket);
    assert_eq!(pipeline.take_freed_weight(), 0);
    pipeline.deliver(Frame::Null).unwrap();
    pipeline.deliver(Frame::Null).unwrap();
    assert_eq!(pipeline.take_freed_weight(), 14);
    assert_eq!(pipeline.take_freed_weight(), 0);
}

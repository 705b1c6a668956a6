use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::super::answer::Kept;
use super::super::report::Said;
use super::super::tests::{Bench, acquire, error, greeting, request_of, settings, stamp};
use super::super::{Effect, Fault, Login, PLAIN};
use super::*;
use crate::policy::{Bounds, Wait};

fn connect(bench: &mut Bench) {
    connect_to(bench, 0);
}

/// It does what it is asked.
fn connect_to(bench: &mut Bench, server: usize) {
    bench.dial(server, Login::default());
    bench.answer(server, |command| {
        vec![if command[0] == "EVALSHA" { stamp(command) } else { greeting(command, "") }]
    });
}

/// A lease of the only server.
fn holds() -> (Bench, LeaseId) {
    let mut bench = Bench::new(1, settings(1));
    connect(&mut bench);
    let id = acquire(&mut bench, b"a");
    bench.answer(0, |command| vec![stamp(command)]);
    (bench, id)
}

fn polled(bench: &mut Bench, id: LeaseId, round: u32) -> Poll<bool> {
    bench.machine.poll_extended(id, round, &mut None, &Context::from_waker(Waker::noop()))
}

#[test]
fn an_extension_waits_for_a_connection_that_has_ended_and_for_none_that_cannot_be_made() {
    let (mut bench, id) = holds();
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    let round = bench.machine.extend(id, bench.now);
    assert_eq!(polled(&mut bench, id, round), Poll::Pending);
    connect(&mut bench);
    assert_eq!(polled(&mut bench, id, round), Poll::Ready(true));
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    let round = bench.machine.extend(id, bench.now);
    assert_eq!(polled(&mut bench, id, round), Poll::Pending);
    bench.pass(Duration::from_millis(100));
    bench.machine.disconnected(0, Fault::Undialled { is_lasting: false }, bench.now);
    assert_eq!(polled(&mut bench, id, round), Poll::Ready(false));
    let round = bench.machine.extend(id, bench.now);
    assert_eq!(polled(&mut bench, id, round), Poll::Ready(false));
}

/// The first question has no token, and the second one has: a holder that has asked since may get the answers to both.
#[test]
fn late_answers_to_questions_of_a_lock_without_a_token_end_no_connection() {
    let mut bench = Bench::connected(3);
    let id = request_of(
        &PLAIN,
        &mut bench,
        b"a",
        Wait::AtMost(Duration::from_secs(10)),
        Bounds::default(),
    );
    let answer = |command: &[Bytes]| match &command[0][..] {
        b"EVALSHA" => vec![stamp(command)],
        _ => vec![greeting(command, "")],
    };
    bench.answer(0, answer);
    // The others are late, and asked once more.
    bench.pass(Duration::from_millis(600));
    bench.answer(0, answer);
    bench.answer(1, answer);
    assert!(bench.machine.state(id).is_some_and(LeaseState::is_held));
    let late = bench.said(2);
    bench.machine.extend(id, bench.now);
    assert!(matches!(&late[..], [first, again] if first[0] == "SET" && again[0] == "EVALSHA"));
    for command in late {
        answer(&command).iter().for_each(|reply| bench.reply(2, reply));
    }
    assert!(bench.machine.links[2].is_ready());
}

/// Nobody has looked at the clock since: the process stood still, or the machine.
#[test]
fn one_that_waits_for_the_loss_of_a_lease_hears_of_its_end_as_soon_as_that_is_looked_at() {
    let (mut bench, id) = holds();
    let (mut place, context) = (None, Context::from_waker(Waker::noop()));
    assert!(bench.machine.poll_lost(id, &mut place, &context, bench.now).is_pending());
    let late = bench.now.after(Duration::from_secs(20));
    assert!(bench.machine.poll_lost(id, &mut place, &context, late).is_ready());
}

/// Each question would make the answer to the one before worthless.
#[test]
fn a_lease_that_is_extended_faster_than_its_server_answers_is_extended() {
    let (mut bench, id) = holds();
    let first = bench.machine.extend(id, bench.now);
    let asked = bench.said(0);
    bench.pass(Duration::from_millis(20));
    let second = bench.machine.extend(id, bench.now);
    bench.pass(Duration::from_millis(5));
    assert_eq!((bench.machine.extend(id, bench.now), bench.said(0).len()), (second, 0));
    bench.reply(0, &stamp(&asked[0]));
    assert_eq!(
        (polled(&mut bench, id, first), polled(&mut bench, id, second)),
        (Poll::Ready(true), Poll::Pending)
    );
    let asked_at = bench.now;
    bench.pass(Duration::from_millis(30));
    bench.answer(0, |command| vec![stamp(command)]);
    assert_eq!(polled(&mut bench, id, second), Poll::Ready(true));
    let until = bench.machine.state(id).and_then(LeaseState::until).unwrap();
    assert!(
        until.since(asked_at) > Duration::from_millis(9_890),
        "from when the last one was asked"
    );
    // Of a server that hangs each is told once its own time is over.
    let rounds = [bench.machine.extend(id, bench.now), bench.machine.extend(id, bench.now)];
    bench.said(0);
    bench.pass(settings(1).timeout);
    assert_eq!(bench.said(0).len(), 1, "the second is asked for");
    let told = rounds.map(|round| polled(&mut bench, id, round));
    assert_eq!(told, [Poll::Ready(false), Poll::Pending]);
    bench.pass(settings(1).timeout);
    assert_eq!(polled(&mut bench, id, rounds[1]), Poll::Ready(false));
    bench.machine.extend(id, bench.now);
    assert_eq!(polled(&mut bench, id, rounds[0]), Poll::Ready(false), "whatever others do since");
}

/// Another server keeps it open, and answers nothing.
#[test]
fn an_extension_is_asked_for_again_at_a_server_that_comes_back() {
    let mut bench = Bench::new(3, settings(3));
    (0..3).for_each(|server| connect_to(&mut bench, server));
    let id = acquire(&mut bench, b"a");
    let answer = |bench: &mut Bench| {
        (0..3).for_each(|server| bench.answer(server, |command| vec![stamp(command)]));
    };
    answer(&mut bench);
    bench.machine.extend(id, bench.now);
    answer(&mut bench);
    // Only the first news of a lease has it looked for whatever is under way.
    bench.machine.held_changed(None, bench.now);
    bench.pass(Duration::ZERO);
    answer(&mut bench);
    let round = bench.machine.extend(id, bench.now);
    bench.answer(0, |command| vec![stamp(command)]);
    bench.machine.disconnected(1, Fault::Closed, bench.now);
    assert_eq!(polled(&mut bench, id, round), Poll::Pending);
    connect_to(&mut bench, 1);
    bench.pass(Duration::ZERO);
    for server in [0, 1] {
        bench.answer(server, |command| vec![stamp(command)]);
    }
    assert_eq!(polled(&mut bench, id, round), Poll::Ready(true));
}

/// Those that wait for the lock ask behind that, and are not to have it before its holder knows.
#[test]
fn a_lease_is_looked_for_at_another_run_of_its_server_by_one_question_that_counts() {
    let mut bench = Bench::new(1, settings(1));
    let connect = |bench: &mut Bench, run: &str| {
        let info = format!("run_id:{run}\r\n");
        bench.dial(0, Login::default());
        for command in bench.said(0) {
            bench.reply(0, &greeting(&command, &info));
        }
    };
    connect(&mut bench, "1");
    let id = acquire(&mut bench, b"a");
    bench.answer(0, |command| vec![stamp(command)]);
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    connect(&mut bench, "2");
    bench.pass(Duration::ZERO);
    let asked = bench.said(0);
    let [question] = &asked[..] else { panic!("{asked:?}") };
    bench.reply(0, &Frame::Array([stamp(question), Frame::Integer(0)].into()));
    assert_eq!(bench.machine.state(id).and_then(LeaseState::loss), Some(Loss::Gone));
}

#[test]
fn an_extension_that_a_server_has_looked_at_once_more_comes_to_what_that_does() {
    let mut bench = Bench::new(1, settings(1));
    connect(&mut bench);
    let id = acquire(&mut bench, b"a");
    bench.answer(0, |command| vec![stamp(command)]);
    // Nor is its server asked to tell of it, between.
    bench.machine.leases.get_mut(id).unwrap().is_renewed = false;
    for is_answered in [true, false] {
        let round = bench.machine.extend(id, bench.now);
        bench.machine.batches.due.push(id);
        bench.machine.renew_all(bench.now);
        let context = Context::from_waker(Waker::noop());
        assert_eq!(bench.machine.poll_extended(id, round, &mut None, &context), Poll::Pending);
        if is_answered {
            bench.answer(0, |command| vec![stamp(command)]);
        } else {
            bench.pass(Duration::from_millis(500));
        }
        let polled = bench.machine.poll_extended(id, round, &mut None, &context);
        assert_eq!(polled, Poll::Ready(is_answered));
    }
}

struct Task;

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

/// A task that was woken for it would be polled again at once, and so on.
#[test]
fn a_waker_in_the_place_of_another_wakes_nobody() {
    let mut bench = Bench::connected(1);
    let id = acquire(&mut bench, b"a");
    for _ in 0..3 {
        let waker = Waker::from(Arc::new(Task));
        let polled = bench.machine.poll_acquire(id, &Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    let effects = bench.machine.take_effects();
    assert!(matches!(effects[..], [Effect::Drop(_), Effect::Drop(_)]), "{effects:?}");
}

/// Servers of Redis 5 tell nothing, so no news bring the renewal forward.
#[test]
fn a_renewal_that_one_server_keeps_open_is_tried_again_with_the_one_that_is_back() {
    let mut bench = Bench::new(3, settings(3));
    let connect = |bench: &mut Bench, server| {
        bench.dial(server, Login::default());
        bench.answer(server, |command| {
            vec![match &command[0][..] {
                b"HELLO" => error("ERR unknown command 'HELLO'"),
                _ => greeting(command, ""),
            }]
        });
    };
    (0..3).for_each(|server| connect(&mut bench, server));
    acquire(&mut bench, b"a");
    (0..3).for_each(|server| bench.answer(server, |command| vec![stamp(command)]));
    bench.machine.disconnected(1, Fault::Closed, bench.now);
    bench.pass(Duration::from_millis(3400));
    assert!(!bench.said(0).is_empty(), "it is silent");
    bench.answer(2, |command| vec![stamp(command)]);
    connect(&mut bench, 1);
    bench.pass(Duration::ZERO);
    assert_eq!(bench.said(1)[0][0], "EVALSHA");
}

/// A server that is reached for moments would else be away at each try.
#[test]
fn a_renewal_that_has_failed_is_tried_again_once_its_server_is_back() {
    let (mut bench, _) = holds();
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    bench.pass(Duration::from_millis(3340));
    bench.dial(0, Login::default());
    bench.answer(0, |command| vec![greeting(command, "")]);
    bench.pass(Duration::ZERO);
    assert_eq!(bench.said(0)[0][0], "EVALSHA");
}

#[test]
fn news_of_a_key_are_followed_also_where_a_late_answer_comes_behind_them() {
    let mut bench = Bench::connected(3);
    acquire(&mut bench, b"a");
    (0..3).for_each(|server| bench.answer(server, |command| vec![stamp(command)]));
    bench.pass(Duration::from_millis(3400));
    (0..2).for_each(|server| bench.answer(server, |command| vec![stamp(command)]));
    bench.machine.changed(Some(b"a"), bench.now);
    bench.answer(2, |command| vec![stamp(command)]);
    bench.pass(Duration::ZERO);
    assert_eq!(bench.said(0)[0][0], "EVALSHA");
}

/// It would take the round of the release, whose answer would then be none.
#[test]
fn a_lease_that_has_ended_is_not_extended() {
    let (mut bench, id) = holds();
    bench.machine.shut_down(bench.now);
    let released = bench.said(0);
    let round = bench.machine.extend(id, bench.now);
    assert_eq!(polled(&mut bench, id, round), Poll::Ready(false));
    assert!(bench.said(0).is_empty(), "nothing more is asked");
    bench.reply(0, &stamp(&released[0]));
    assert!(bench.machine.poll_shut_down(&Context::from_waker(Waker::noop())).is_ready());
}

/// What the first came to was told to both, though the second had asked nobody.
#[test]
fn an_extension_behind_one_that_came_to_nothing_is_asked_for_by_itself() {
    let (mut bench, id) = holds();
    bench.machine.extend(id, bench.now);
    let second = bench.machine.extend(id, bench.now);
    let mut asked = 0;
    bench.answer(0, |command| {
        let is_script = command[0] == "EVALSHA";
        asked += u32::from(is_script);
        vec![match (is_script, asked) {
            (true, 1) => error("LOADING Redis is loading the dataset in memory"),
            (true, _) => stamp(command),
            _ => greeting(command, ""),
        }]
    });
    assert_eq!((polled(&mut bench, id, second), asked), (Poll::Ready(true), 2));
}

/// The renewal that comes next begins with no answers.
#[test]
fn the_report_of_an_extension_that_is_late_has_its_answers() {
    let mut bench = Bench::new(3, settings(3));
    (0..3).for_each(|server| connect_to(&mut bench, server));
    let id = acquire(&mut bench, b"a");
    (0..3).for_each(|server| bench.answer(server, |command| vec![stamp(command)]));
    let round = bench.machine.extend(id, bench.now);
    bench.answer(0, |command| vec![stamp(command)]);
    bench.pass(settings(3).timeout);
    assert_eq!(polled(&mut bench, id, round), Poll::Ready(false));
    let said: Vec<_> = bench.machine.report(id, bench.now).map(|server| server.said).collect();
    assert!(matches!(said[..], [Said::Granted, Said::Late(..), Said::Late(..)]));
    // Nobody asks for it: it is tried again.
    bench.said(0);
    bench.pass(Duration::from_secs(1));
    assert!(!bench.said(0).is_empty());
}

#[test]
fn a_server_that_has_lost_the_lease_is_reported_so_and_not_as_one_where_another_client_has_the_lock()
 {
    for is_released in [false, true] {
        let mut bench = Bench::new(3, settings(3));
        (0..3).for_each(|server| connect_to(&mut bench, server));
        let id = acquire(&mut bench, b"a");
        (0..3).for_each(|server| bench.answer(server, |command| vec![stamp(command)]));
        if is_released {
            bench.machine.release(id, bench.now);
        } else {
            bench.machine.extend(id, bench.now);
        }
        bench.answer(0, |command| vec![Frame::Array([stamp(command), Frame::Integer(0)].into())]);
        (1..3).for_each(|server| bench.close(server));
        let first = bench.machine.report(id, bench.now).next().unwrap();
        assert!(matches!(first.said, Said::Kept(Kept::NotOwned)), "{is_released}");
    }
}

/// By another caller, or because a server is back: the next round begins with no answers.
#[test]
fn an_extension_that_failed_is_reported_with_its_own_answers_whatever_is_asked_since() {
    for is_asked_again in [true, false] {
        let mut bench = Bench::new(3, settings(3));
        (0..3).for_each(|server| connect_to(&mut bench, server));
        let id = acquire(&mut bench, b"a");
        (0..3).for_each(|server| bench.answer(server, |command| vec![stamp(command)]));
        let first = bench.machine.extend(id, bench.now);
        let second = is_asked_again.then(|| bench.machine.extend(id, bench.now));
        bench.answer(0, |command| vec![stamp(command)]);
        bench.said(1);
        bench.answer(2, |command| {
            let is_script = command[0] == "EVALSHA";
            vec![if is_script { error("NOPERM no") } else { greeting(command, "") }]
        });
        bench.close(2);
        bench.pass(settings(3).timeout);
        if !is_asked_again {
            bench.said(0);
            connect_to(&mut bench, 2);
            bench.pass(Duration::ZERO);
        }
        assert_eq!(bench.said(0).len(), 1, "it is asked once more");
        assert_eq!(polled(&mut bench, id, first), Poll::Ready(false));
        assert!(second.is_none_or(|second| polled(&mut bench, id, second).is_pending()));
        let said: Vec<_> = bench.machine.report(id, bench.now).map(|server| server.said).collect();
        assert!(matches!(said[..], [Said::Granted, Said::Late(..), Said::Refused(_)]));
    }
}

/// Otherwise the second would be told that it has failed before its server has had time to answer, and the first only when
/// the second is.
#[test]
fn each_of_two_extensions_has_its_own_time() {
    let (mut bench, id) = holds();
    bench.machine.leases.get_mut(id).unwrap().is_renewed = false;
    let first = bench.machine.extend(id, bench.now);
    bench.pass(Duration::from_millis(400));
    let second = bench.machine.extend(id, bench.now);
    // A push has it looked for between.
    bench.machine.batches.due.push(id);
    bench.machine.renew_all(bench.now);
    bench.now = bench.now.after(Duration::from_millis(100));
    let third = bench.machine.extend(id, bench.now);
    bench.pass(Duration::ZERO);
    let told = [first, second, third].map(|number| polled(&mut bench, id, number));
    assert_eq!(told, [Poll::Ready(false), Poll::Pending, Poll::Pending]);
}

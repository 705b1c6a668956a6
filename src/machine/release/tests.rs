mod shutdown;

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use leasehold_resp::Frame;

use super::super::tests::{
    Bench, acquire, bulk, error, greeting, plain, request, request_of, stamp,
};
use super::super::{Fault, LeaseId, Login, PLAIN};
use crate::names::Names;
use crate::policy::{Bounds, End, LeaseEvent, Loss, Wait};

const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// Found by the simulation: the release was lost with its connection, and the question arrived late.
#[test]
fn a_release_whose_connection_ended_before_its_questions_answer_is_sent_once_more_later() {
    let mut bench = Bench::connected(1);
    let id = acquire(&mut bench, b"a");
    assert_eq!(bench.said(0).len(), 1);
    bench.machine.forget(id, bench.now);
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    bench.dial(0, Login::default());
    let mut released = 0;
    for _ in 0..2 {
        bench.answer(0, |command| {
            if command[0] != "EVALSHA" {
                return vec![greeting(command, "")];
            }
            released += 1;
            vec![stamp(command)]
        });
        bench.pass(Duration::from_millis(600));
    }
    assert_eq!(released, 2);
}

/// Found by the simulation: what is answered behind it on another connection says nothing of a question, be that a repair or
/// an extension that was sent twice.
#[test]
fn a_release_is_sent_once_more_where_the_question_was_on_an_earlier_connection() {
    for lacks_script in [false, true] {
        let (mut bench, id, extended) = extends_beside_a_question();
        if lacks_script {
            bench.reply(2, &error("NOSCRIPT No matching script."));
            bench.answer(2, |command| vec![stamp(command)]);
            bench.machine.forget(id, bench.now);
        } else {
            bench.reply(2, &Frame::Array(vec![stamp(&extended), Frame::Integer(0)].into()));
            let repaired = of_script(bench.said(2));
            assert_eq!(repaired[1], bench.machine.settings().scripts.repair.digest);
            bench.machine.forget(id, bench.now);
            bench.reply(2, &stamp(&repaired));
        }
        let mut released = 0;
        for _ in 0..2 {
            grant(&mut bench);
            bench.answer(2, |command| {
                released += u32::from(command[0].starts_with(b"EVAL"));
                vec![stamp(command)]
            });
            bench.pass(Duration::from_millis(600));
        }
        assert_eq!(released, 2, "{lacks_script}");
    }
}

/// Two of three servers do what they are asked.
fn grant(bench: &mut Bench) {
    (0..2).for_each(|server| bench.answer(server, |command| vec![stamp(command)]));
}

/// A lease whose question a third server did not answer, and which is extended there on another connection.
fn extends_beside_a_question() -> (Bench, LeaseId, Vec<Bytes>) {
    let mut bench = Bench::connected(3);
    let id = acquire(&mut bench, b"a");
    grant(&mut bench);
    assert_eq!(bench.said(2).len(), 1);
    bench.close(2);
    bench.dial(2, Login::default());
    bench.answer(2, |command| vec![greeting(command, "")]);
    // Until it is renewed.
    let mut extended = Vec::new();
    while extended.is_empty() {
        bench.pass(Duration::from_millis(100));
        extended = bench.said(2);
    }
    grant(&mut bench);
    (bench, id, of_script(extended))
}

/// Found by the simulation: its driver looked at the time without end.
#[test]
fn a_release_that_is_under_way_when_nothing_can_be_left_is_waited_for() {
    let mut bench = Bench::connected(1);
    let id = acquire(&mut bench, b"a");
    bench.answer(0, |command| vec![stamp(command)]);
    bench.close(0);
    bench.machine.forget(id, bench.now);
    // Ten seconds of a lease, and a minute of a command under way.
    bench.pass(Duration::from_millis(69_900));
    bench.greet(0, Login::default());
    let mut is_released = false;
    bench.answer(0, |command| match &command[0][..] {
        b"EVALSHA" => {
            is_released = true;
            vec![]
        }
        _ => vec![greeting(command, "")],
    });
    assert!(is_released);
    bench.now = bench.now.after(Duration::from_millis(200));
    for _ in 0..3 {
        bench.machine.tick(bench.now);
    }
    assert!(bench.machine.due() > bench.now);
    bench.close(0);
    bench.machine.tick(bench.now);
    assert_eq!(bench.machine.len(), 0);
}

/// Found by the simulation: the release was forgotten, and its lock left to the TTL.
#[test]
fn a_release_with_a_reply_that_is_not_its_own_goes_out_again() {
    let mut bench = Bench::connected(1);
    let id = acquire(&mut bench, b"a");
    bench.answer(0, |command| vec![stamp(command)]);
    bench.machine.forget(id, bench.now);
    assert_eq!(bench.said(0).len(), 1);
    bench.reply(0, &bulk("another's"));
    bench.dial(0, Login::default());
    let mut released = 0;
    bench.answer(0, |command| match &command[0][..] {
        b"EVALSHA" => {
            released += 1;
            vec![stamp(command)]
        }
        _ => vec![greeting(command, "")],
    });
    assert_eq!((released, bench.machine.len()), (1, 0));
}

/// The script that was called last.
fn of_script(mut said: Vec<Vec<Bytes>>) -> Vec<Bytes> {
    said.retain(|command| command[0] == "EVALSHA");
    said.pop().unwrap()
}

/// The first proposal was granted after others had refused it, and the counter is above the second.
#[test]
fn what_a_question_before_the_last_one_was_granted_is_given_back() {
    let mut bench = Bench::connected(3);
    let id = acquire(&mut bench, b"a");
    let stale = |command: &[Bytes]| {
        Frame::Array(vec![stamp(command), bulk("stale"), bulk("1800000000000000")].into())
    };
    let first = of_script(bench.said(2));
    for server in 0..2 {
        let refused = of_script(bench.said(server));
        bench.reply(server, &stale(&refused));
    }
    let second = of_script(bench.said(2));
    for server in 0..2 {
        let granted = of_script(bench.said(server));
        bench.reply(server, &stamp(&granted));
    }
    assert!(bench.machine.holds(&Names::new(b"", b"a").unwrap()));
    bench.reply(2, &stamp(&first));
    bench.reply(2, &stale(&second));
    bench.machine.forget(id, bench.now);
    let release = bench.machine.settings().scripts.release.digest;
    assert_eq!(of_script(bench.said(2))[1], release);
}

/// How many owners owe a release where a server says this to a command and to its release, once two busy ones have ended the
/// attempt. Its answer to the command `is_read` before that, and not proved yet, or comes later.
fn owed(text: &str, wait: Wait, is_read: bool) -> usize {
    let refused = |text| {
        move |command: &[Bytes]| match &command[0][..] {
            b"EVALSHA" => vec![error(text)],
            _ => vec![greeting(command, "")],
        }
    };
    let mut bench = Bench::connected(3);
    let id = request(&mut bench, b"a", wait);
    let mut open = bench.said(2);
    if is_read {
        let errors = open.iter().flat_map(|command| refused(text)(command));
        errors.for_each(|frame| bench.reply(2, &frame));
        open = bench.said(2);
    }
    (0..2).for_each(|server| bench.answer(server, refused(BUSY)));
    let released = bench.said(2);
    assert_eq!(of_script(released.clone())[1], bench.machine.settings().scripts.release.digest);
    for command in open.iter().chain(&released) {
        refused(text)(command).iter().for_each(|frame| bench.reply(2, frame));
    }
    // Their seal.
    bench.answer(2, refused(text));
    bench.machine.len() - usize::from(bench.machine.leases.get(id).is_some())
}

/// Of each try at servers that are busy for long, the last one would be asked to release something, once a second.
#[test]
fn what_a_server_did_not_run_is_not_given_back_where_others_had_ended_the_attempt_before() {
    for wait in [Wait::Forever, Wait::Never] {
        for is_read in [false, true] {
            assert_eq!(owed(BUSY, wait, is_read), 0, "{wait:?} {is_read}");
            // From the middle of the script, for all that is known.
            let oom = "OOM command not allowed when used memory > 'maxmemory'.";
            assert_eq!(owed(oom, wait, is_read), 1, "{wait:?} {is_read}");
        }
    }
}

/// Two wait: what one of the servers has to say to both is late, and the first has the lease, and passes it on.
#[test]
fn a_late_answer_to_one_owner_takes_nothing_from_the_next() {
    let mut bench = Bench::connected(3);
    let [first, next] = [0; 2].map(|_| request(&mut bench, b"a", Wait::Forever));
    let held = |command: &Vec<Bytes>| {
        let holder =
            [bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0"), Frame::Integer(0)];
        Frame::Array([stamp(command)].into_iter().chain(holder).collect())
    };
    let late: Vec<_> = bench.said(2).into_iter().filter(|it| it[0] == "EVALSHA").collect();
    for server in 0..2 {
        bench
            .said(server)
            .iter()
            .filter(|it| it[0] == "EVALSHA")
            .for_each(|it| bench.reply(server, &held(it)));
    }
    let names = Names::new(b"", b"a").unwrap();
    while !bench.machine.holds(&names) {
        bench.pass(Duration::from_millis(100));
        for server in 0..2 {
            bench.answer(server, |command| vec![stamp(command)]);
        }
    }
    bench.machine.forget(first, bench.now);
    assert!(bench.machine.holds(&names), "it was passed on");
    late.iter().for_each(|it| bench.reply(2, &held(it)));
    bench.said(2);
    bench.machine.forget(next, bench.now);
    let release = bench.machine.settings().scripts.release.digest;
    assert_eq!(of_script(bench.said(2))[1], release);
}

/// The next one would believe to hold what another has.
#[test]
fn a_lease_whose_key_has_changed_is_not_passed_on_before_its_server_says_whose_it_is() {
    for is_asked in [false, true] {
        let mut bench = Bench::connected(1);
        let id = plain(&mut bench, b"a");
        bench.answer(0, |command| vec![greeting(command, "")]);
        bench.pass(Duration::from_millis(3400));
        bench.answer(0, |command| vec![stamp(command)]);
        let wait = Wait::Forever;
        let next = request_of(&PLAIN, &mut bench, b"a", wait, Bounds::default());
        refuse(&mut bench);
        bench.machine.held_changed(Some(b"a"), bench.now);
        if is_asked {
            bench.pass(Duration::ZERO);
            assert_eq!(of_script(bench.said(0))[1], bench.machine.settings().scripts.extend.digest);
        }
        bench.machine.release(id, bench.now);
        assert!(bench.machine.poll_acquire(next, &context()).is_pending(), "{is_asked}");
        assert_eq!(of_script(bench.said(0))[1], bench.machine.settings().scripts.release.digest);
    }
}

/// What is asked is another's.
fn refuse(bench: &mut Bench) {
    bench.answer(0, |command| {
        let held = [bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0"), Frame::Integer(0)];
        vec![match &command[0][..] {
            b"EVALSHA" => Frame::Array([stamp(command)].into_iter().chain(held).collect()),
            b"SET" => Frame::Null,
            b"GET" => bulk("x"),
            b"PTTL" => Frame::Integer(60_000),
            _ => greeting(command, ""),
        }]
    });
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// It was refused by the key of that very lease.
#[test]
fn one_that_waits_in_this_process_asks_behind_the_release_of_a_lease_that_was_lost() {
    for is_forgotten in [false, true] {
        let mut bench = Bench::connected(1);
        let id = acquire(&mut bench, b"a");
        bench.answer(0, |command| vec![stamp(command)]);
        request(&mut bench, b"a", Wait::Forever);
        refuse(&mut bench);
        bench.machine.happens(id, LeaseEvent::Lost(Loss::Expired), bench.now);
        refuse(&mut bench);
        bench.now = bench.now.after(Duration::from_secs(1));
        if is_forgotten {
            bench.machine.forget(id, bench.now);
        } else {
            bench.machine.release(id, bench.now);
        }
        let scripts = bench.machine.settings().scripts;
        let said: Vec<_> = bench.said(0).into_iter().filter(|it| it[0] == "EVALSHA").collect();
        let said: Vec<_> = said.iter().map(|it| &it[1][..]).collect();
        assert_eq!(said, [scripts.release.digest, scripts.acquire.digest], "{is_forgotten}");
    }
}

/// The server does not tell this connection of that: it rested for up to five seconds beside a free lock.
#[test]
fn a_release_that_was_refused_at_first_is_news_to_one_that_rests() {
    let mut bench = Bench::connected(1);
    let id = acquire(&mut bench, b"a");
    bench.answer(0, |command| vec![stamp(command)]);
    bench.machine.release(id, bench.now);
    bench.answer(0, |command| match &command[0][..] {
        b"EVALSHA" => vec![error("NOREPLICAS Not enough good replicas to write.")],
        _ => vec![greeting(command, "")],
    });
    let waiting = request(&mut bench, b"a", Wait::Forever);
    refuse(&mut bench);
    bench.machine.plan(waiting, bench.now.after(Duration::from_secs(5)));
    bench.pass(Duration::from_secs(1));
    bench.answer(0, |command| vec![stamp(command)]);
    assert!(bench.machine.poll_acquire(waiting, &context()).is_ready());
}

/// A server that refuses the release of one lock by this text. Each pass takes a millisecond: whether the server grants another
/// lock, and refuses. Returns how often the release was sent, and how many leases are left.
fn refusing(text: &'static str) -> impl FnMut(bool, bool) -> (usize, usize) {
    let mut bench = Bench::connected(1);
    let release = bench.machine.settings().scripts.release.digest;
    let key = Names::new(b"", b"a").unwrap().lock().to_vec();
    let id = acquire(&mut bench, b"a");
    bench.answer(0, |command| vec![stamp(command)]);
    bench.machine.forget(id, bench.now);
    move |is_granting, is_refused| {
        let mut sent = 0;
        bench.pass(Duration::from_millis(1));
        let other = is_granting.then(|| acquire(&mut bench, b"b"));
        for _ in 0..2 {
            bench.answer(0, |command| {
                let is_its = command[1] == release && command[3] == key;
                sent += usize::from(is_its);
                vec![if is_its && is_refused { error(text) } else { stamp(command) }]
            });
            bench.pass(Duration::ZERO);
        }
        other.into_iter().for_each(|id| _ = bench.machine.forget(id, bench.now));
        bench.answer(0, |command| vec![stamp(command)]);
        (sent, bench.machine.len())
    }
}

/// Waiters stood for up to five seconds beside a lock whose release was refused now and then. A server that grants requests
/// and refuses releases for ever is asked no more than ten times a second.
#[test]
fn a_refused_release_is_sent_again_once_the_server_grants_another_request() {
    let mut pass = refusing("NOREPLICAS Not enough good replicas to write.");
    let alone: usize = (0..2_000).map(|_| pass(false, true).0).sum();
    assert!(alone <= 11, "{alone}");
    assert_eq!(pass(true, true).0, 1, "at once");
    let beside: usize = (0..2_000).map(|_| pass(true, true).0).sum();
    assert!((15..=25).contains(&beside), "{beside}");
    (0..100).for_each(|_| _ = pass(false, true));
    assert_eq!(pass(true, false), (1, 0));
}

#[test]
fn a_release_without_the_right_to_it_is_sent_again_about_once_a_second() {
    let mut pass = refusing("NOPERM User worker has no permissions to run the 'del' command");
    let sent: usize = (0..2_000).map(|_| pass(true, true).0).sum();
    assert!((8..=11).contains(&sent), "{sent}");
}

#[test]
fn a_release_is_late_after_its_timeout_also_where_a_connection_comes_meanwhile() {
    let mut bench = Bench::connected(1);
    let id = acquire(&mut bench, b"a");
    bench.answer(0, |command| vec![stamp(command)]);
    bench.close(0);
    bench.pass(Duration::from_millis(100));
    bench.greet(0, Login::default());
    bench.machine.release(id, bench.now);
    bench.answer(0, |command| match &command[0][..] {
        b"EVALSHA" => vec![],
        _ => vec![greeting(command, "")],
    });
    bench.pass(Duration::from_millis(500));
    assert_eq!(bench.machine.poll_release(id, &context()), Poll::Ready(End::Unconfirmed));
}

/// The first may have freed the lock, and its answer is lost.
#[test]
fn a_second_release_that_finds_nothing_does_not_say_that_the_lease_was_lost() {
    let mut bench = Bench::connected(3);
    let id = acquire(&mut bench, b"a");
    (0..3).for_each(|server| bench.answer(server, |command| vec![stamp(command)]));
    bench.machine.release(id, bench.now);
    for server in 0..2 {
        bench.close(server);
        bench.pass(Duration::from_millis(100));
        bench.greet(server, Login::default());
        bench.answer(server, |command| match &command[0][..] {
            b"EVALSHA" => vec![Frame::Array(vec![stamp(command), Frame::Integer(0)].into())],
            _ => vec![greeting(command, "")],
        });
    }
    assert_eq!(bench.machine.poll_release(id, &context()), Poll::Pending);
    bench.answer(2, |command| vec![stamp(command)]);
    assert_eq!(bench.machine.poll_release(id, &context()), Poll::Ready(End::Unconfirmed));
}

/// With many commands under way, releases go out in one command. What that does not free, because processes wait for the lock,
/// gets a release of its own; and so does each if the command is refused.
#[test]
fn releases_go_out_together_where_much_is_under_way() {
    for (reply, more) in [("", 1), ("CROSSSLOT Keys in request don't hash to the same slot", 3)] {
        let mut bench = Bench::connected(1);
        let scripts = bench.machine.settings().scripts;
        let names: [&[u8]; 3] = [b"a", b"b", b"c"];
        let ids = names.map(|name| acquire(&mut bench, name));
        bench.answer(0, |command| vec![stamp(command)]);
        // Two that are not answered yet.
        let others = [acquire(&mut bench, b"d"), acquire(&mut bench, b"e")];
        let asked = bench.said(0);
        ids.iter().for_each(|id| bench.machine.release(*id, bench.now));
        let together = bench.said(0);
        let [command] = &together[..] else { panic!("{together:?}") };
        assert_eq!((&command[1], &command[2][..]), (&scripts.free.digest.into(), &b"3"[..]));
        for command in asked {
            bench.reply(0, &stamp(&command));
        }
        let last = command.last().unwrap().clone();
        let freed = [Frame::Bulk(last), Frame::Integer(1), Frame::Integer(0), Frame::Integer(1)];
        let freed = if reply.is_empty() { Frame::Array(freed.into()) } else { error(reply) };
        bench.reply(0, &freed);
        let mut sent = 0;
        bench.answer(0, |command| {
            sent += usize::from(command[1] == scripts.release.digest);
            vec![stamp(command)]
        });
        assert_eq!(sent, more, "{reply}");
        for id in ids {
            assert_eq!(bench.machine.poll_release(id, &context()), Poll::Ready(End::Released));
            bench.machine.forget(id, bench.now);
        }
        // Where such a command was refused for good, none goes out again.
        let more = acquire(&mut bench, b"f");
        others.iter().for_each(|id| _ = bench.machine.forget(*id, bench.now));
        bench.machine.forget(more, bench.now);
        let said = bench.said(0);
        let is_together = said.iter().any(|it| it[1] == scripts.free.digest);
        assert_eq!(is_together, reply.is_empty(), "{said:?}");
    }
}

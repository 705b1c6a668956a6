mod apart;
mod once;
mod others;
mod unmet;

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold_resp::Frame;

use super::super::tests::{
    Bench, ROUTING, acquire, bulk, error, greeting, request, settings, stamp, text,
};
use super::super::{Alone, Call, FENCED, Grace, Login, Means, Options, Said};
use super::super::{ids::CallId, link::REPEATS_MAX};
use super::*;
use crate::policy::{Bounds, End, LeaseState, Retry, Term, Wait};
use crate::scripts::REIGN;

const TOKEN: i64 = 1_800_000_000_000_077;
/// Two locks, the second of which the words name.
static BOTH: Kind = Kind {
    goes_on: false,
    acquire: |question| {
        let (command, scripts) = (&mut *question.command, question.scripts);
        let keys = [question.names.lock(), &question.words[0]];
        let slot_of = command.slot_of.expect("it is there");
        let slot = question.slot;
        let is_here = |key: &&[u8]| slot.is_none_or(|slot| slot_of(key) == slot);
        let here: Vec<&[u8]> = keys.into_iter().filter(is_here).collect();
        command.call(&scripts.acquire, &here, &[question.owner]);
    },
    wait: None,
    release: |question| {
        question.command.call(&question.scripts.release, &[], &[question.owner]);
    },
    alone: Some(Alone {
        extend: |question| question.command.call(&question.scripts.extend, &[], &[]),
        read: FENCED.read,
        repair: |_| {},
        means: Means::SCRIPTS,
    }),
    also: |words| words,
    ..FENCED
};

fn routed() -> Bench {
    let mut bench = Bench::new(3, settings(1));
    bench.machine.routes_by(ROUTING);
    for server in 0..3 {
        bench.dial(server, Login::default());
        bench.answer(server, |command| vec![greeting(command, "")]);
    }
    lead(&mut bench, |_| Some(0));
    bench
}

/// The map: two servers, as the third has no slots.
fn lead(bench: &mut Bench, owner_of: fn(u16) -> Option<usize>) {
    bench.machine.route(&["0".into(), "1".into()], &[], &owner_of, bench.now);
    bench.effects.append(bench.machine.take_effects());
}

/// What is called at a server, in order: the script's digest cut to a digit, and the first key.
fn called(bench: &mut Bench, server: usize) -> Vec<(&'static str, Vec<Bytes>)> {
    let scripts = bench.machine.settings().scripts;
    let names = [
        (scripts.acquire, "acquire"),
        (scripts.extend, "extend"),
        (scripts.release, "release"),
        (scripts.repair, "take"),
        (scripts.queue, "mint"),
    ];
    let said = bench.said(server).into_iter().filter(|command| command[0] != "ECHO");
    said.map(|command| {
        let is_it = |script: &super::super::Script| {
            let is_it = |word: &Bytes| word == script.digest || word == script.text;
            command.get(1).is_some_and(is_it)
        };
        let name = names.iter().find(|(script, _)| is_it(script)).map(|(_, name)| *name);
        (name.unwrap_or("ASKING"), command)
    })
    .collect()
}

/// The one command, and its name.
fn the_one(bench: &mut Bench, server: usize) -> (&'static str, Vec<Bytes>) {
    let called = called(bench, server);
    let [one] = &called[..] else { panic!("{called:?}") };
    one.clone()
}

/// Refuses what was called last.
fn refuse(bench: &mut Bench, server: usize, why: &str) {
    bench.reply(server, &error(why));
    let seal = bench.said(server).into_iter().find(|command| command[0] == "ECHO").unwrap();
    bench.reply(server, &bulk(&seal[1]));
}

fn granted(bench: &mut Bench, id: LeaseId) -> Option<bool> {
    match bench.machine.poll_acquire(id, &Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer.is_ok()),
        Poll::Pending => None,
    }
}

#[test]
fn a_question_follows_its_slot_with_its_time_and_so_do_those_behind_it() {
    let mut bench = routed();
    let id = acquire(&mut bench, b"a");
    let (asked_at, (_, asked)) = (bench.now, the_one(&mut bench, 0));
    bench.now = bench.now.after(Duration::from_millis(100));
    refuse(&mut bench, 0, "MOVED 97 1");
    assert!(bench.effects.iter().any(|effect| matches!(effect, Effect::Demoted(0))));
    let (_, again) = the_one(&mut bench, 1);
    assert_eq!(again[..again.len() - 1], asked[..asked.len() - 1]);
    bench.reply(1, &stamp(&again));
    assert_eq!(granted(&mut bench, id), Some(true));
    let until = bench.machine.state(id).and_then(LeaseState::until).unwrap();
    assert_eq!(until, Term::new(Duration::from_secs(10), None).unwrap().deadline(asked_at));
    bench.machine.release(id, bench.now);
    assert_eq!(the_one(&mut bench, 1).0, "release");
    acquire(&mut bench, b"another");
    assert_eq!(the_one(&mut bench, 1).0, "acquire");
}

#[test]
fn a_question_is_sent_elsewhere_once_behind_an_asking_and_the_slot_stays_where_it_was() {
    let mut bench = routed();
    let id = acquire(&mut bench, b"a");
    the_one(&mut bench, 0);
    refuse(&mut bench, 0, "ASK 97 1");
    let called = called(&mut bench, 1);
    assert!(matches!(&called[..], [("ASKING", _), ("acquire", _)]), "{called:?}");
    assert_eq!(called[1].1[0], "EVAL", "that server may lack the script");
    bench.reply(1, &Frame::Simple("OK".into()));
    bench.reply(1, &stamp(&called[1].1));
    assert_eq!(granted(&mut bench, id), Some(true));
    bench.machine.release(id, bench.now);
    assert_eq!(the_one(&mut bench, 0).1[0], "EVALSHA");
}

#[test]
fn a_right_to_asking_that_is_missing_is_told() {
    let mut bench = routed();
    let id = acquire(&mut bench, b"a");
    the_one(&mut bench, 0);
    refuse(&mut bench, 0, "ASK 97 1");
    assert_eq!(called(&mut bench, 1).len(), 2);
    bench.reply(1, &error("NOPERM this user has no permissions to run the 'asking' command"));
    refuse(&mut bench, 1, "MOVED 97 0");
    the_one(&mut bench, 0);
    refuse(&mut bench, 0, "ASK 97 1");
    assert!(called(&mut bench, 1).is_empty());
    assert_eq!(granted(&mut bench, id), Some(false));
    let report = bench.machine.report(id, bench.now).next().unwrap();
    assert!(matches!(report.said, Said::Refused(text) if text.starts_with(b"NOPERM")));
}

#[test]
fn a_request_that_is_sent_elsewhere_once_waits_in_no_queue() {
    for is_sent_elsewhere in [false, true] {
        let mut bench = routed();
        let id = request(&mut bench, b"a", Wait::Forever);
        let (_, mut asked) = the_one(&mut bench, 0);
        let server = usize::from(is_sent_elsewhere);
        if is_sent_elsewhere {
            refuse(&mut bench, 0, "ASK 97 1");
            asked = called(&mut bench, 1).pop().unwrap().1;
            bench.reply(1, &Frame::Simple("OK".into()));
        }
        let held = [stamp(&asked), bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0")];
        bench.reply(server, &Frame::Array(held.into()));
        assert_eq!(bench.machine.may_enter(id), !is_sent_elsewhere);
    }
}

#[test]
fn servers_that_disagree_are_asked_a_bounded_number_of_times() {
    let mut bench = routed();
    let id = acquire(&mut bench, b"a");
    let mut asked = 0;
    for server in [0, 1].into_iter().cycle().take(20) {
        if bench.machine.output_bytes(server).is_some() {
            asked += 1;
            the_one(&mut bench, server);
            refuse(&mut bench, server, &format!("MOVED 97 {}", 1 - server));
        }
    }
    assert_eq!((asked, granted(&mut bench, id)), (1 + u32::from(REPEATS_MAX), Some(false)));
    bench.machine.forget(id, bench.now);
    assert_eq!(bench.machine.len(), 0, "nothing has run");
}

#[test]
fn a_server_that_nobody_knew_is_dialled_and_asked_and_in_the_end_let_go() {
    let mut bench = routed();
    let id = request(&mut bench, b"a", Wait::Forever);
    the_one(&mut bench, 0);
    // The link that had no slot is let go, and leads there from now on.
    refuse(&mut bench, 0, "MOVED 97 new");
    assert_eq!((bench.machine.links(), bench.machine.address(2)), (3, "new"));
    bench.dial(2, Login::default());
    bench.answer(2, |command| {
        vec![if command[0] == "EVALSHA" { stamp(command) } else { greeting(command, "") }]
    });
    assert_eq!(granted(&mut bench, id), Some(true));
    bench.machine.forget(id, bench.now);
    bench.answer(2, |command| vec![stamp(command)]);
    lead(&mut bench, |_| Some(1));
    bench.effects.clear();
    bench.pass(Duration::from_secs(60));
    assert!(!bench.effects.iter().any(|effect| matches!(effect, Effect::Dial(..))));
}

/// It may have forgotten leases: that it is asked by way of another changes nothing.
#[test]
fn a_question_for_a_lock_is_not_sent_on_to_a_server_that_may_not_vote() {
    for why in ["MOVED 97 1", "ASK 97 1"] {
        let mut bench = routed();
        bench.machine.links[1].votes_at = bench.now.after(Duration::from_secs(60));
        let id = acquire(&mut bench, b"a");
        the_one(&mut bench, 0);
        refuse(&mut bench, 0, why);
        assert_eq!((granted(&mut bench, id), called(&mut bench, 1).len()), (Some(false), 0));
        bench.machine.forget(id, bench.now);
        assert_eq!(bench.machine.len(), 0, "nothing has run");
    }
}

fn both(bench: &mut Bench) -> LeaseId {
    let options = Options {
        kind: &BOTH,
        names: Names::new(b"", b"a").unwrap(),
        words: [b"b"[..].into()].into(),
        term: Term::new(Duration::from_secs(10), None).unwrap(),
        bounds: Bounds::default(),
        wait: Wait::Never,
        retry: Retry::default(),
        is_renewed: true,
        is_fair: false,
        said: Box::default(),
    };
    bench.machine.acquire(options, bench.now)
}

fn halves(slot: u16) -> Option<usize> {
    Some(usize::from(slot == u16::from(b'b')))
}

#[test]
fn locks_in_two_slots_wait_for_the_connection_that_each_takes() {
    let mut bench = routed();
    lead(&mut bench, halves);
    bench.close(1);
    bench.pass(Duration::ZERO);
    let id = both(&mut bench);
    assert_eq!((granted(&mut bench, id), called(&mut bench, 0).len()), (None, 0));
    bench.dial(1, Login::default());
    bench.answer(1, |command| {
        vec![if command[0] == "EVALSHA" { stamp(command) } else { greeting(command, "") }]
    });
    let (what, asked) = the_one(&mut bench, 0);
    assert_eq!((what, granted(&mut bench, id)), ("acquire", None));
    bench.reply(0, &stamp(&asked));
    assert_eq!(granted(&mut bench, id), Some(true));
}

#[test]
fn locks_in_two_slots_are_refused_for_the_server_that_was_dialled_in_vain() {
    let mut bench = routed();
    lead(&mut bench, halves);
    bench.close(1);
    let id = both(&mut bench);
    bench.dial(1, Login::default());
    bench.close(1);
    assert_eq!((granted(&mut bench, id), called(&mut bench, 0).len()), (Some(false), 0));
}

#[test]
fn locks_in_two_slots_are_held_once_both_are_granted() {
    let mut bench = routed();
    lead(&mut bench, halves);
    let id = both(&mut bench);
    let (_, one) = the_one(&mut bench, 0);
    let (_, other) = the_one(&mut bench, 1);
    assert!(text(&one[2..4]) == "1 a" && text(&other[2..4]) == "1 b", "{one:?} {other:?}");
    bench.reply(0, &stamp(&one));
    assert_eq!(granted(&mut bench, id), None);
    bench.reply(1, &stamp(&other));
    assert_eq!(granted(&mut bench, id), Some(true));
    bench.machine.release(id, bench.now);
    (0..2).for_each(|server| bench.answer(server, |command| vec![stamp(command)]));
    let end = bench.machine.poll_release(id, &Context::from_waker(Waker::noop()));
    assert_eq!(end, Poll::Ready(End::Released));
}

#[test]
fn of_locks_in_two_slots_the_one_that_was_granted_is_given_back_where_the_other_is_not() {
    let mut bench = routed();
    lead(&mut bench, halves);
    let id = both(&mut bench);
    let (_, one) = the_one(&mut bench, 0);
    let (_, other) = the_one(&mut bench, 1);
    bench.reply(0, &stamp(&one));
    let held = [stamp(&other), bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0")];
    bench.reply(1, &Frame::Array(held.into()));
    assert_eq!(granted(&mut bench, id), Some(false));
    bench.machine.forget(id, bench.now);
    assert_eq!(the_one(&mut bench, 0).0, "release");
    assert!(called(&mut bench, 1).is_empty());
}

#[test]
fn what_is_held_and_what_is_owed_go_with_their_slots() {
    let mut bench = routed();
    let [held, owed] = [b"a", b"b"].map(|name| {
        let id = acquire(&mut bench, name);
        bench.answer(0, |command| vec![stamp(command)]);
        id
    });
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    bench.machine.forget(owed, bench.now);
    lead(&mut bench, |_| Some(1));
    bench.is_told = true;
    let mut asked = Vec::new();
    bench.answer(1, |command| {
        let is_script = command[0] == "EVALSHA";
        asked.extend(is_script.then(|| text(&command[3..4])));
        vec![if is_script { stamp(command) } else { greeting(command, "") }]
    });
    asked.sort_unstable();
    assert_eq!(asked, ["a", "b"]);
    assert!(bench.machine.state(held).is_some_and(LeaseState::is_held));
    assert_eq!(bench.machine.len(), 1);
    // Its address may be another server's by now, which would be told the password.
    bench.machine.route(&["1".into()], &[], &|_| Some(0), bench.now);
    bench.machine.take_effects().clear();
    bench.effects.clear();
    bench.pass(Duration::from_secs(60));
    assert!(!bench.effects.iter().any(|effect| matches!(effect, Effect::Dial(0, _))));
}

/// One of them was told where the slot is, and the map says the same.
#[test]
fn a_map_that_says_nothing_new_leads_all_that_are_elsewhere() {
    let mut bench = routed();
    let held = acquire(&mut bench, b"a");
    bench.answer(0, |command| vec![stamp(command)]);
    request(&mut bench, b"a", Wait::Forever);
    assert_eq!(the_one(&mut bench, 0).0, "acquire");
    refuse(&mut bench, 0, "MOVED 97 1");
    assert_eq!(the_one(&mut bench, 1).0, "acquire");
    lead(&mut bench, |slot| Some(usize::from(slot == u16::from(b'a'))));
    assert_eq!(the_one(&mut bench, 1).0, "extend");
    assert!(bench.machine.state(held).is_some_and(LeaseState::is_held));
}

/// Asks the server of a lock what stands there, which replies so.
fn reads(bench: &mut Bench, watched: Option<usize>, reply: &Frame) -> CallId {
    let question = Call {
        script: None,
        is_whole: false,
        keys: [b"GET", &b"a"[..]].map(Box::from).into(),
        words: Box::default(),
        acts: false,
        changes: |_| false,
        watched,
    };
    let id = bench.machine.call(0, question, bench.now);
    let said = bench.said(0);
    let seal = said.iter().find(|command| command[0] == "ECHO").expect("a reply has no stamp");
    bench.reply(0, reply);
    bench.reply(0, &bulk(&seal[1]));
    id
}

/// The server that has the slot no more tells of nothing that happens to it.
#[test]
fn a_watched_question_is_told_that_its_slot_has_moved_as_another_was() {
    let mut bench = routed();
    let watched = reads(&mut bench, Some(1), &Frame::Null);
    let context = Context::from_waker(Waker::noop());
    assert!(bench.machine.poll_call(watched, &context).is_ready());
    assert!(bench.machine.poll_news(watched, &context).is_pending());
    acquire(&mut bench, b"a");
    assert_eq!(called(&mut bench, 0).pop().unwrap().0, "acquire");
    refuse(&mut bench, 0, "MOVED 97 1");
    assert!(bench.machine.poll_news(watched, &context).is_ready());
}

/// The map has it only once its first slot has moved.
#[test]
fn a_node_without_slots_is_not_let_go_while_a_question_waits_for_it() {
    let mut bench = routed();
    reads(&mut bench, None, &error("ASK 97 new"));
    lead(&mut bench, |_| Some(0));
    bench.dial(2, Login::default());
    let mut asked = Vec::new();
    bench.answer(2, |command| {
        asked.push(command[0].clone());
        vec![greeting(command, "")]
    });
    assert!(asked.contains(&"GET".into()), "{asked:?}");
}

#[test]
fn a_question_for_a_lock_waits_for_a_node_without_slots_whatever_the_map_says_again() {
    let mut bench = routed();
    let id = request(&mut bench, b"a", Wait::Forever);
    the_one(&mut bench, 0);
    refuse(&mut bench, 0, "ASK 97 new");
    lead(&mut bench, |_| Some(0));
    assert!(called(&mut bench, 0).is_empty(), "it is not asked again where it was");
    bench.dial(2, Login::default());
    bench.answer(2, |command| {
        vec![if command[0] == "EVALSHA" { stamp(command) } else { greeting(command, "") }]
    });
    assert_eq!(granted(&mut bench, id), Some(true));
}

/// Its name leads to another server by now, which a new connection finds.
#[test]
fn a_server_that_names_itself_for_what_it_has_no_more_is_left() {
    let mut bench = routed();
    let id = acquire(&mut bench, b"a");
    the_one(&mut bench, 0);
    refuse(&mut bench, 0, "MOVED 97 0");
    assert_eq!((granted(&mut bench, id), called(&mut bench, 0).len()), (Some(false), 0));
    bench.effects.clear();
    bench.pass(Duration::from_secs(60));
    assert!(bench.effects.iter().any(|effect| matches!(effect, Effect::Close(0, _))));
}

#[test]
fn an_extension_of_several_slots_asks_for_all_of_them_at_a_node_that_comes_back() {
    let mut bench = routed();
    let id = both(&mut bench);
    bench.answer(0, |command| vec![stamp(command)]);
    assert_eq!(granted(&mut bench, id), Some(true));
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    bench.machine.extend(id, bench.now);
    bench.dial(0, Login::default());
    let extend = bench.machine.settings().scripts.extend;
    let mut asked = 0;
    bench.answer(0, |command| {
        asked += usize::from(command.get(1).is_some_and(|word| word[..] == *extend.digest));
        vec![greeting(command, "")]
    });
    assert_eq!(asked, 2);
}

/// A node that was cut off from the others, or has lost what it knew of them, stays connected.
#[test]
fn a_node_that_serves_no_slot_has_the_map_asked_for() {
    let mut bench = routed();
    request(&mut bench, b"a", Wait::Forever);
    the_one(&mut bench, 0);
    bench.effects.clear();
    refuse(&mut bench, 0, "CLUSTERDOWN Hash slot not served");
    bench.effects.append(bench.machine.take_effects());
    assert!(bench.effects.iter().any(|effect| matches!(effect, Effect::Demoted(0))));
}

/// It may never answer: its place was taken, and it does not know yet.
#[test]
fn a_release_that_a_server_has_not_answered_goes_with_its_slot() {
    let mut bench = routed();
    let id = acquire(&mut bench, b"a");
    bench.answer(0, |command| vec![stamp(command)]);
    bench.machine.forget(id, bench.now);
    assert_eq!(the_one(&mut bench, 0).0, "release");
    lead(&mut bench, |_| Some(1));
    let (name, release) = the_one(&mut bench, 1);
    assert_eq!(name, "release");
    bench.reply(1, &stamp(&release));
    assert_eq!(bench.machine.len(), 0);
}

/// Markers have a slot each.
const MARKED: Routing = Routing {
    slot_of: |key| {
        let number =
            |key: &[u8]| text_of(key).strip_prefix("{leasehold:")?.split('}').next()?.parse().ok();
        number(key).unwrap_or_else(|| key[0].into())
    },
    ..ROUTING
};

fn text_of(key: &[u8]) -> &str {
    std::str::from_utf8(key).expect("it is readable")
}

/// The markers that a server is asked for now: it has reigned for long.
fn markers(bench: &mut Bench, server: usize) -> Vec<String> {
    let mut asked = Vec::new();
    bench.answer(server, |command| {
        match &command[0][..] {
            b"EVAL" => {}
            b"EVALSHA" => return vec![stamp(command)],
            _ => return vec![greeting(command, "")],
        }
        asked.push(text_of(&command[3]).to_owned());
        vec![Frame::Array([&command[4][..], b"run id 1", b"60000000"].map(bulk).into())]
    });
    asked
}

#[test]
fn a_server_that_took_over_is_asked_for_the_marker_of_all_its_slots_once_they_are_known() {
    let (of_all, of_one) = ("{leasehold:0}:reign", "{leasehold:97}:reign");
    for is_answered in [true, false] {
        let mut bench = Bench::new(2, settings(1));
        let longest_ttl = Duration::from_secs(10);
        bench.machine.keeps_grace(Grace { longest_ttl, prefix: Box::default(), script: REIGN });
        bench.machine.routes_by(MARKED);
        bench.dial(0, Login::default());
        markers(&mut bench, 0);
        lead(&mut bench, |_| Some(0));
        assert_eq!(markers(&mut bench, 0), [of_all]);
        acquire(&mut bench, b"a");
        the_one(&mut bench, 0);
        refuse(&mut bench, 0, "MOVED 97 1");
        bench.dial(1, Login::default());
        if !is_answered {
            // Up to the question.
            while !bench.machine.links[1].is_ready() {
                for command in bench.said(1) {
                    bench.reply(1, &greeting(&command, ""));
                }
            }
        }
        // It is known to have one slot: all of this have met it so.
        if is_answered {
            assert_eq!(markers(&mut bench, 1), [of_one]);
            lead(&mut bench, |_| Some(1));
            assert_eq!(markers(&mut bench, 1), [of_all]);
        } else {
            lead(&mut bench, |_| Some(1));
            assert_eq!(markers(&mut bench, 1), [of_one, of_all]);
        }
    }
}

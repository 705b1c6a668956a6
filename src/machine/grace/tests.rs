use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use leasehold_resp::Decimal;

use super::super::tests::{
    Bench, ROUTING, acquire, bulk, error, greeting, request, request_of, settings, stamp, text,
};
use super::super::{Alone, FENCED, Kind, Login, Means, Routing};
use super::*;
use crate::machine::command::Script;
use crate::policy::{Bounds, LeaseState, Wait};
use crate::scripts::REIGN;

const TTL: Duration = Duration::from_secs(10);
/// By the server's clock, in microseconds.
const CLOCK: u64 = 1_800_000_000_000_000;
/// It does not tell what it is.
const SILENT: &str = "REIGN the server does not tell its run_id, its role and its master_replid";

fn with_grace(servers: usize, voters: usize) -> Bench {
    let mut bench = Bench::new(servers, settings(voters));
    let prefix = Box::default();
    bench.machine.keeps_grace(Grace { longest_ttl: TTL, prefix, script: REIGN });
    bench.is_told = true;
    bench
}

/// What a server says that tells of nothing, in the order of what it is asked.
fn other(command: &[Bytes]) -> Frame {
    match &command[0][..] {
        b"SUBSCRIBE" | b"CLIENT" => error("NOPERM of a test"),
        _ => greeting(command, ""),
    }
}

fn is_look(command: &[Bytes]) -> bool {
    command[0] == "EVAL" && command[1] == REIGN.text
}

fn is_call(command: &[Bytes], script: Script) -> bool {
    command.get(1).is_some_and(|word| word[..] == *script.digest)
}

/// A server that has reigned for this long.
fn reigns(command: &[Bytes], for_secs: u64) -> Frame {
    let began = CLOCK - for_secs * 1_000_000;
    let words = [stamp(command), bulk(format!("run id {began}")), bulk(CLOCK.to_string())];
    Frame::Array(words.into())
}

/// It is met, and has reigned for this long.
fn meet(bench: &mut Bench, server: usize, for_secs: u64) {
    bench.dial(server, Login::default());
    while bench.machine.links[server].met.reign.is_none() {
        for command in bench.said(server) {
            let reply = match is_look(&command) {
                true => reigns(&command, for_secs),
                false => other(&command),
            };
            bench.reply(server, &reply);
        }
    }
}

/// It does what it is asked.
fn answer(command: &[Bytes]) -> Vec<Frame> {
    vec![match &command[0][..] {
        _ if is_look(command) => reigns(command, 60),
        b"EVALSHA" => stamp(command),
        _ => other(command),
    }]
}

fn is_granted(bench: &mut Bench, id: LeaseId) -> bool {
    bench.machine.poll_acquire(id, &Context::from_waker(Waker::noop())) == Poll::Ready(Ok(()))
}

#[test]
fn holders_say_in_batches_that_they_hold_and_each_is_answered_for_itself() {
    let mut bench = with_grace(1, 1);
    meet(&mut bench, 0, 60);
    let held: Vec<LeaseId> = (0..20).map(|at| acquire(&mut bench, &[b'a' + at])).collect();
    bench.answer(0, answer);
    assert!(held.iter().all(|id| is_granted(&mut bench, *id)));
    bench.close(0);
    meet(&mut bench, 0, 1);
    let repair = bench.machine.settings().scripts.repair;
    let by = (CLOCK + 9_000_000).to_string();
    let (mut counts, mut refused) = (Vec::new(), Vec::new());
    bench.answer(0, |command| {
        if !is_call(command, repair) {
            return vec![other(command)];
        }
        let count: usize = text(&command[2..3]).parse().unwrap();
        let (keys, words) = command[3..].split_at(count);
        assert_eq!((words.len(), &words[words.len() - 2][..]), (count / 2 * 3 + 2, by.as_bytes()));
        counts.push(count / 2);
        // The second of each is another's.
        refused.push(keys[2].clone());
        let kept = (0..count / 2).map(|at| Frame::Integer(i64::from(at != 1)));
        vec![Frame::Array([stamp(command)].into_iter().chain(kept).collect())]
    });
    assert_eq!(counts, [16, 4]);
    for (at, id) in (0..20).zip(held) {
        let is_held = bench.machine.state(id).is_some_and(LeaseState::is_held);
        assert_eq!(is_held, !refused.contains(&Bytes::copy_from_slice(&[b'a' + at])), "{at}");
    }
}

#[test]
fn one_of_several_that_did_not_say_since_when_it_reigns_is_asked_again_for_each_lock() {
    let mut bench = with_grace(3, 3);
    for server in 0..2 {
        meet(&mut bench, server, 60);
    }
    bench.dial(2, Login::default());
    let acquire_script = bench.machine.settings().scripts.acquire;
    // What it is asked, each time that it is: for its reign, and for a lock.
    let asked = |bench: &mut Bench, says: bool| {
        let mut asked = (0, 0);
        bench.answer(2, |command| {
            asked.0 += usize::from(is_look(command));
            asked.1 += usize::from(is_call(command, acquire_script));
            vec![match () {
                () if is_look(command) && says => reigns(command, 60),
                () if is_look(command) => error(SILENT),
                () if is_call(command, acquire_script) => stamp(command),
                () => other(command),
            }]
        });
        asked
    };
    assert_eq!(asked(&mut bench, false), (1, 0));
    let second = Duration::from_secs(1);
    for (name, after, says, is_asked) in [
        // One that failed is asked again after a while.
        (b"a", second, false, (1, 0)),
        (b"b", second, true, (1, 0)),
        // What it said has lapsed.
        (b"c", second, true, (1, 1)),
        (b"d", Duration::ZERO, true, (0, 1)),
    ] {
        bench.pass(after);
        let id = acquire(&mut bench, name);
        for server in 0..2 {
            bench.answer(server, answer);
        }
        assert!(is_granted(&mut bench, id), "a quorum does without it");
        assert_eq!(asked(&mut bench, says), is_asked);
    }
}

#[test]
fn where_a_lock_and_its_counter_are_at_two_servers_its_holder_extends_it() {
    let mut bench = with_grace(2, 1);
    bench.machine.routes_by(ROUTING);
    for server in 0..2 {
        bench.dial(server, Login::default());
        bench.answer(server, |command| vec![other(command)]);
    }
    let serves = |_| Some(0);
    bench.machine.route(&["0".into(), "1".into()], &[], &serves, bench.now);
    let id = acquire(&mut bench, b"a");
    bench.answer(0, answer);
    assert!(is_granted(&mut bench, id));
    bench.close(0);
    meet(&mut bench, 0, 1);
    let scripts = bench.machine.settings().scripts;
    let (mut repairs, mut extensions) = (0, 0);
    bench.answer(0, |command| {
        repairs += usize::from(is_call(command, scripts.repair));
        extensions += usize::from(is_call(command, scripts.extend));
        assert!(repairs < 2, "it would be refused again and again");
        vec![match () {
            () if is_call(command, scripts.repair) => error("TRYAGAIN they are apart"),
            () if is_call(command, scripts.extend) => stamp(command),
            () => other(command),
        }]
    });
    assert_eq!((repairs, extensions), (1, 1));
    assert!(bench.machine.state(id).is_some_and(LeaseState::is_held));
}

/// What leaves the lock to somebody else, and what takes that back.
static LEFT: Kind = Kind {
    alone: Some(Alone {
        extend: |question| {
            let words = [question.owner, &question.words[0], &*Decimal::new(question.ttl_ms)];
            question.command.call_whole(&question.scripts.queue, &[question.names.lock()], &words);
        },
        read: Answer::of_owned,
        repair: |_| {},
        means: Means::SCRIPTS,
    }),
    ..FENCED
};

/// What has a key tracked goes right before the script that reads it, also where the reign is asked for again.
#[test]
fn a_renewal_that_looks_at_the_reign_first_is_tracked() {
    let mut bench = with_grace(1, 1);
    meet(&mut bench, 0, 60);
    let id = acquire(&mut bench, b"a");
    let may_track = |command: &[Bytes]| match &command[0][..] {
        b"SUBSCRIBE" | b"CLIENT" => vec![greeting(command, "")],
        _ => answer(command),
    };
    bench.answer(0, may_track);
    assert!(is_granted(&mut bench, id));
    bench.pass(TTL / 5);
    let (mut place, now) = (None, bench.now);
    let _ = bench.machine.poll_lost(id, &mut place, &Context::from_waker(Waker::noop()), now);
    let mut said = Vec::new();
    for _ in 0..4 {
        bench.pass(TTL / 20);
        bench.answer(0, |command| {
            said.push((is_look(command), text(&command[..command.len().min(2)])));
            may_track(command)
        });
    }
    let renewal = said.iter().position(|(_, it)| it.starts_with("EVALSHA")).expect("it is renewed");
    assert!(said[..renewal].iter().any(|(is_look, _)| *is_look), "{said:?}");
    assert!(said[renewal - 1].1.starts_with("CLIENT CACHING"), "{said:?}");
}

/// A lease whose only server has a new primary, which has heard nothing of it yet.
fn held_into_a_grace() -> (Bench, LeaseId) {
    let mut bench = with_grace(1, 1);
    meet(&mut bench, 0, 60);
    let id = acquire(&mut bench, b"a");
    bench.answer(0, answer);
    bench.close(0);
    meet(&mut bench, 0, 1);
    (bench, id)
}

#[test]
fn a_lock_is_left_to_a_ticket_in_a_grace_too_and_others_are_freed_by_their_key_alone() {
    for kind in [&LEFT, &FENCED] {
        let (mut bench, id) = held_into_a_grace();
        bench.answer(0, answer);
        let is_left = std::ptr::eq(kind, &LEFT);
        if is_left {
            assert!(bench.machine.part(id, kind, [b"x"[..].into()].into(), TTL, bench.now));
        } else {
            bench.machine.release(id, bench.now);
        }
        let said = bench.said(0);
        let release = said.iter().find(|it| it[0].starts_with(b"EVAL")).expect("it is given back");
        let queue = bench.machine.settings().scripts.queue;
        assert_eq!(release[1] == queue.text, is_left, "{}", text(release));
        assert_eq!((&release[2][..], &release[3][..]), (&b"1"[..], &b"a"[..]));
    }
}

/// Until it arrives, and makes a key.
#[test]
fn a_release_behind_what_a_holder_has_said_on_an_earlier_connection_is_sent_once_more() {
    let (mut bench, id) = held_into_a_grace();
    assert!(bench.said(0).iter().any(|it| is_call(it, bench.machine.settings().scripts.repair)));
    bench.close(0);
    bench.machine.forget(id, bench.now);
    bench.dial(0, Login::default());
    let (scripts, mut released) = (bench.machine.settings().scripts, 0);
    for _ in 0..2 {
        bench.answer(0, |command| {
            released += usize::from(is_call(command, scripts.release));
            answer(command)
        });
        bench.pass(Duration::from_millis(600));
    }
    assert_eq!(released, 2);
}

/// Another of the process has that lock since, with a larger token.
#[test]
fn what_several_holders_have_said_is_repeated_for_those_that_still_hold() {
    let mut bench = with_grace(1, 1);
    meet(&mut bench, 0, 60);
    let held: Vec<LeaseId> = [b"a", b"b", b"c"].map(|name| acquire(&mut bench, name)).into();
    bench.answer(0, answer);
    bench.close(0);
    meet(&mut bench, 0, 1);
    let said = bench.said(0);
    let repair = bench.machine.settings().scripts.repair;
    let batch = said.iter().find(|it| is_call(it, repair)).expect("they say so");
    assert_eq!(batch[2], "6");
    bench.machine.release(held[0], bench.now);
    for command in &said {
        let is_it = is_call(command, repair);
        bench.reply(0, &if is_it { error("NOSCRIPT no") } else { other(command) });
    }
    let mut counts = Vec::new();
    bench.answer(0, |command| {
        let is_repair = command[0] == "EVAL" && command.len() > 6;
        counts.extend(is_repair.then(|| text(&command[2..3])));
        answer(command)
    });
    assert_eq!(counts, ["4"]);
}

/// Two nodes, which have reigned for a minute when they are asked. A slot is the first byte of a key, or of a marker's
/// number.
fn nodes(owner_of: fn(u16) -> Option<usize>) -> Bench {
    let mut bench = with_grace(2, 1);
    let slot_of = |key: &[u8]| key.strip_prefix(b"{leasehold:").unwrap_or(key)[0].into();
    bench.machine.routes_by(Routing { slot_of, ..ROUTING });
    for server in 0..2 {
        bench.dial(server, Login::default());
        bench.answer(server, |command| vec![other(command)]);
    }
    bench.machine.route(&["0".into(), "1".into()], &[], &owner_of, bench.now);
    for server in 0..2 {
        bench.answer(server, answer);
    }
    bench
}

/// Its connection stays, and nobody asks there any more since when it reigns.
#[test]
fn one_that_waits_in_the_queue_of_a_node_that_has_lost_its_slots_comes_back() {
    let mut bench = nodes(|_| Some(0));
    let id = request(&mut bench, b"a", Wait::Forever);
    let held = [bulk("held"), bulk("x"), Frame::Integer(60_000), bulk("0"), Frame::Integer(0)];
    let asked = bench.said(0);
    let reply = [stamp(&asked[0])].into_iter().chain(held).collect();
    bench.reply(0, &Frame::Array(reply));
    bench.answer(0, answer);
    bench.machine.enter(id, 0, bench.now);
    bench.pass(Duration::from_secs(1));
    assert!(bench.machine.entry_must_look(id, 0, bench.now), "as it has lapsed");
    assert!(bench.machine.entry(id).is_some() && bench.machine.links[0].met.waiting == [id]);
    bench.answer(0, answer);
    bench.machine.route(&["0".into(), "1".into()], &[], &|_| Some(1), bench.now);
    bench.pass(Duration::from_secs(1));
    bench.answer(0, answer);
    assert!(bench.machine.entry_must_look(id, 0, bench.now));
    assert!(bench.machine.entry(id).is_none() && bench.machine.links[0].met.waiting.is_empty());
}

/// A lock, and one more in another slot.
static SEVERAL: Kind = Kind { also: |_| ALSO.get_or_init(|| [b"z"[..].into()]), ..FENCED };
static ALSO: OnceLock<[Box<[u8]>; 1]> = OnceLock::new();

/// One after the other, the first would have lapsed again when the last one answers.
#[test]
fn all_servers_that_have_to_grant_are_looked_at_at_once() {
    let mut bench = nodes(|slot| Some(usize::from(slot % 2)));
    bench.pass(Duration::from_secs(1));
    let id = request_of(&SEVERAL, &mut bench, b"a", Wait::Never, Bounds::default());
    let asked: Vec<_> = (0..2).map(|server| bench.said(server)).collect();
    for asked in &asked {
        assert!(matches!(&asked[..], [one] if is_look(one)), "{asked:?}");
    }
    bench.now = bench.now.after(Duration::from_millis(400));
    (0..2).for_each(|server| bench.reply(server, &reigns(&asked[server][0], 60)));
    (0..2).for_each(|server| bench.answer(server, answer));
    assert!(is_granted(&mut bench, id));
}

/// It would look without end.
#[test]
fn what_has_waited_for_a_look_is_asked_however_long_that_took() {
    let mut bench = with_grace(1, 1);
    meet(&mut bench, 0, 60);
    bench.pass(Duration::from_secs(1));
    let id = acquire(&mut bench, b"a");
    let look = bench.said(0);
    assert!(is_look(&look[0]));
    bench.now = bench.now.after(Duration::from_millis(600));
    bench.reply(0, &reigns(&look[0], 60));
    let asked = bench.said(0);
    assert!(is_call(&asked[0], bench.machine.settings().scripts.acquire));
    bench.reply(0, &stamp(&asked[0]));
    assert!(is_granted(&mut bench, id), "it came in time");
}

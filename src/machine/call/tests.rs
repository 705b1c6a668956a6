use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};

use bytes::Bytes;
use leasehold_resp::Frame;

use super::super::tests::{Bench, acquire, bulk, error, greeting, settings, stamp, text};
use super::super::{Fault, Login, Script};
use super::*;

const MISSING: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// What calls a script that is none of a lock's, with this key.
fn question(key: &str, is_watched: bool) -> Call {
    let digest = b"0123456789012345678901234567890123456789";
    Call {
        script: Some(Script { text: "return 9", digest }),
        is_whole: false,
        keys: Box::new([key.as_bytes().into(), b"beside"[..].into()]),
        words: Box::new([b"word"[..].into()]),
        acts: !is_watched,
        changes: |_| true,
        watched: is_watched.then_some(0),
    }
}

fn called(bench: &mut Bench, id: CallId) -> Poll<Called> {
    bench.machine.poll_call(id, &Context::from_waker(Waker::noop())).map(|(_, called)| called)
}

fn has_news(bench: &mut Bench, id: CallId) -> bool {
    bench.machine.poll_news(id, &Context::from_waker(Waker::noop())).is_ready()
}

fn call(bench: &mut Bench, question: Call) -> CallId {
    bench.machine.call(0, question, bench.now)
}

/// The one script that is called.
fn asked(bench: &mut Bench) -> Vec<Bytes> {
    let said = bench.said(0).into_iter().filter(|command| command[0].starts_with(b"EVAL"));
    let [command] = &said.collect::<Vec<_>>()[..] else { panic!() };
    command.clone()
}

#[test]
fn a_question_is_answered_once_and_a_late_reply_is_nobodys() {
    let mut bench = Bench::connected(1);
    let id = call(&mut bench, question("k", false));
    let command = asked(&mut bench);
    assert_eq!(text(&command[2..6]), "2 k beside word");
    assert!(called(&mut bench, id).is_pending());
    bench.machine.forget_call(id, false, bench.now);
    let other = call(&mut bench, question("k", false));
    bench.reply(0, &Frame::Array([stamp(&command), Frame::Integer(1)].into()));
    assert!(called(&mut bench, other).is_pending());
    let command = asked(&mut bench);
    bench.reply(0, &Frame::Array([stamp(&command), Frame::Integer(2)].into()));
    let Poll::Ready(Called::Replied(reply)) = called(&mut bench, other) else { panic!() };
    assert_eq!(reply, Frame::Array([stamp(&command), Frame::Integer(2)].into()));
}

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn who_asks_again_and_again_is_woken_once_there_is_news() {
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let context = Context::from_waker(&waker);
    let mut bench = Bench::connected(1);
    let wakes = |bench: &mut Bench| {
        bench.effects.append(bench.machine.take_effects());
        for effect in bench.effects.drain(..) {
            if let Effect::Wake(waker) = effect {
                waker.wake();
            }
        }
        woken.0.swap(0, Ordering::Relaxed)
    };
    let id = call(&mut bench, Call { acts: true, ..question("k", true) });
    let command = asked(&mut bench);
    for _ in 0..2 {
        assert!(bench.machine.poll_call(id, &context).is_pending());
        assert_eq!(wakes(&mut bench), 0);
    }
    bench.reply(0, &Frame::Array([stamp(&command), Frame::Integer(1)].into()));
    assert_eq!(wakes(&mut bench), 1);
    assert!(bench.machine.poll_call(id, &context).is_ready());
    // It may have changed its key itself.
    for _ in 0..2 {
        assert!(bench.machine.poll_news(id, &context).is_pending());
        assert_eq!(wakes(&mut bench), 0);
    }
    bench.machine.changed(Some(b"k"), bench.now);
    assert_eq!(wakes(&mut bench), 1);
    assert!(bench.machine.poll_news(id, &context).is_ready());
}

#[test]
fn a_missing_script_is_sent_itself_and_another_error_is_the_answer() {
    let mut bench = Bench::connected(1);
    let id = call(&mut bench, question("k", false));
    for why in [MISSING, "ERR why not"] {
        asked(&mut bench);
        bench.reply(0, &error(why));
        let seal = bench.said(0).into_iter().find(|command| command[0] == "ECHO");
        bench.reply(0, &bulk(&seal.unwrap()[1]));
    }
    let Poll::Ready(Called::Refused { text, script, keys }) = called(&mut bench, id) else {
        panic!()
    };
    assert_eq!((&text[..], script), (&b"ERR why not"[..], "return 9"));
    assert_eq!(keys.iter().map(|key| &key[..]).collect::<Vec<_>>(), [&b"k"[..], b"beside"]);
}

#[test]
fn of_several_servers_the_first_call_on_each_connection_brings_the_script() {
    let mut bench = Bench::connected(3);
    // Nobody waits for what comes of the last before the script is missed.
    let put = |bench: &mut Bench, is_missed: bool| {
        let id = call(bench, question("k", false));
        let command = asked(bench);
        bench.machine.forget_call(id, false, bench.now);
        bench.reply(0, &if is_missed { error(MISSING) } else { stamp(&command) });
        let seal = bench.said(0).into_iter().find(|command| command[0] == "ECHO");
        seal.into_iter().for_each(|seal| bench.reply(0, &bulk(&seal[1])));
        text(&command[..1])
    };
    assert_eq!(put(&mut bench, false), "EVAL");
    assert_eq!(put(&mut bench, true), "EVALSHA");
    assert_eq!(put(&mut bench, false), "EVAL");
    assert_eq!(put(&mut bench, false), "EVALSHA");
    bench.close(0);
    bench.dial(0, Login::default());
    bench.answer(0, |command| vec![greeting(command, "")]);
    assert_eq!(put(&mut bench, false), "EVAL");
}

#[test]
fn what_a_reply_says_to_be_as_it_was_is_no_news_and_what_nobody_waits_for_may_be() {
    let mut bench = Bench::connected(1);
    let reply = |command: &[Bytes]| match &command[0][..] {
        b"EVALSHA" => vec![stamp(command)],
        _ => vec![greeting(command, "")],
    };
    let watched = call(&mut bench, question("k", true));
    bench.answer(0, reply);
    assert!(called(&mut bench, watched).is_ready());
    for is_forgotten in [false, true] {
        let id = call(&mut bench, Call { changes: |_| false, ..question("k", false) });
        if is_forgotten {
            bench.machine.forget_call(id, false, bench.now);
        }
        assert_eq!(has_news(&mut bench, watched), is_forgotten);
        bench.answer(0, reply);
        assert_eq!(has_news(&mut bench, watched), is_forgotten);
    }
}

#[test]
fn a_question_waits_for_a_connection_that_may_come_and_for_no_other() {
    let mut bench = Bench::new(1, settings(1));
    let ids = [(); 2].map(|()| call(&mut bench, question("k", false)));
    bench.dial(0, Login::default());
    bench.answer(0, |command| match &command[0][..] {
        b"EVALSHA" => vec![],
        _ => vec![greeting(command, "")],
    });
    assert!(ids.map(|id| called(&mut bench, id)).iter().all(Poll::is_pending));
    bench.close(0);
    for id in ids {
        assert!(matches!(called(&mut bench, id), Poll::Ready(Called::Unknown)));
    }
    let waiting = call(&mut bench, question("k", false));
    assert!(called(&mut bench, waiting).is_pending(), "it is dialled again");
    bench.pass(std::time::Duration::from_secs(2));
    bench.machine.disconnected(0, Fault::Undialled { is_lasting: false }, bench.now);
    let late = call(&mut bench, question("k", false));
    for id in [waiting, late] {
        assert!(matches!(called(&mut bench, id), Poll::Ready(Called::Unreached)));
    }
}

#[test]
fn a_watched_question_hears_of_what_others_do_and_of_what_its_own_connection_does() {
    let mut bench = Bench::connected(1);
    let changes: [fn(&mut Bench); 5] = [
        |bench| bench.machine.changed(Some(b"k"), bench.now),
        |bench| _ = call(bench, question("k", false)),
        |bench| _ = acquire(bench, b"k"),
        |bench| bench.close(0),
        |bench| _ = bench.machine.shut_down(bench.now),
    ];
    for change in changes {
        let id = call(&mut bench, question("k", true));
        if !bench.machine.serves(0) {
            bench.dial(0, Login::default());
        }
        let reply = |command: &[Bytes]| match &command[0][..] {
            b"EVALSHA" => vec![stamp(command)],
            _ => vec![greeting(command, "")],
        };
        bench.answer(0, reply);
        assert!(matches!(called(&mut bench, id), Poll::Ready(Called::Replied(_))));
        call(&mut bench, question("other", false));
        bench.answer(0, reply);
        bench.machine.changed(Some(b"beside"), bench.now);
        assert!(!has_news(&mut bench, id));
        change(&mut bench);
        bench.answer(0, reply);
        assert!(has_news(&mut bench, id));
        bench.machine.forget_call(id, false, bench.now);
    }
}

//! Steps as the commands' pages at redis.io/docs/latest/commands describe them (HELLO, AUTH, CLIENT SETNAME, SELECT,
//! SCRIPT LOAD), and what real servers were seen to say.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use leasehold_resp::{Decoder, Limits, encode_frame};

use super::super::tests::{Bench, bulk, error, greeting, settings, stamp, text};
use super::super::{Effect, Fault, Login, Options, PLAIN, Refusal, Said};
use super::*;
use crate::names::Names;
use crate::policy::fitness::{Rules, Unfit};
use crate::policy::{Bounds, Failing, Retry, Setback, Term, Wait};
use crate::support::recorded;

const RULES: Rules = Rules {
    restart_quarantine: Some(Duration::from_secs(10)),
    strict: false,
    in_cluster: false,
    by_sentinels: false,
};

fn login() -> Login {
    let [user, password] = ["u", "hunter2"].map(|text| Some(text.to_owned()));
    Login { user, password, database: 3, lasts: None }
}

fn info() -> String {
    recorded::with(&recorded::of("redis-7.0.15").info("standalone"), "uptime_in_seconds", "500")
}

/// A machine of one server that is judged, and what came of a handshake that is answered so.
fn greeted(by: impl FnMut(&[Bytes]) -> Vec<Frame>) -> Bench {
    let mut bench = Bench::new(1, Settings { rules: Some(RULES), ..settings(1) });
    bench.dial(0, login());
    bench.answer(0, by);
    bench
}

fn fault(by: impl Fn(&[Bytes]) -> Frame) -> Fault {
    let bench = greeted(|command| vec![by(command)]);
    match &bench.faults()[..] {
        [fault] => (*fault).clone(),
        faults => panic!("{faults:?}"),
    }
}

/// Whether the server may be asked for locks.
fn votes(bench: &Bench, server: usize) -> bool {
    bench.machine.links[server].refusal(bench.now).is_none()
}

#[test]
fn all_steps_are_said_before_any_is_answered() {
    let mut bench = Bench::new(1, Settings { rules: Some(RULES), ..settings(1) });
    bench.dial(0, login());
    let said: Vec<String> = bench.said(0).iter().map(|words| text(words)).collect();
    let (seals, said): (Vec<_>, Vec<_>) = said.into_iter().partition(|it| it.starts_with("ECHO "));
    assert_eq!(seals.len(), 2);
    assert_eq!(
        said,
        [
            "HELLO 3 AUTH u hunter2 SETNAME leasehold",
            "CLIENT SETINFO LIB-NAME leasehold",
            concat!("CLIENT SETINFO LIB-VER ", env!("CARGO_PKG_VERSION")),
            "INFO server",
            "INFO memory",
            "INFO replication",
            "INFO server",
            "SELECT 3",
            "SCRIPT LOAD return 1",
            "SCRIPT LOAD return 2",
            "SCRIPT LOAD return 3",
            "SCRIPT LOAD return 4",
            "SCRIPT LOAD return 5"
        ]
    );
}

/// Nobody is logged in until the server is asked in RESP2.
#[test]
fn a_server_that_refuses_hello_in_any_words_is_spoken_to_in_resp2_once() {
    for refusal in [
        "ERR unknown command 'HELLO'",
        "NOPROTO unsupported protocol version",
        "ERR unsupported command 'hello'",
        "ERR command not supported",
        "ERR invalid command",
        "ERR This command is not allowed",
        "ERR Syntax error in HELLO option 'SETNAME'",
    ] {
        let mut said = Vec::new();
        let bench = greeted(|command| {
            said.push(text(command));
            match (&command[0][..], said.iter().any(|it| it.starts_with("AUTH"))) {
                (b"HELLO", _) => vec![error(refusal)],
                (_, false) => vec![error("NOAUTH Authentication required.")],
                _ => vec![greeting(command, &info())],
            }
        });
        assert!(votes(&bench, 0), "{:?}", bench.faults());
        let second = said.iter().position(|it| it == "AUTH u hunter2").unwrap();
        assert_eq!(said[second + 1], "CLIENT SETNAME leasehold");
        assert_eq!(said.iter().filter(|it| it.starts_with("AUTH")).count(), 1);
    }
}

#[test]
fn a_server_that_closes_at_hello_is_spoken_to_in_resp2_once() {
    let now = Moment::from_nanos(7);
    let ends_at = now.after(Duration::from_secs(5));
    let greets = [Handshake::new, Handshake::bare];
    // What comes before the end, and whether that may be for want of HELLO.
    for (came, is_of_hello) in [
        ("", true),
        ("-ERR unknown command 'HELLO'\r\n", true),
        ("-ERR max number of clients reached\r\n", false),
        ("-DENIED Redis is running in protected mode\r\n", false),
        ("-NOAUTH Authentication required.\r\n", false),
        ("%1\r\n+server\r\n+redis\r\n", false),
    ] {
        for greet in greets {
            let mut handshake = greet(settings(1), login(), ends_at, now);
            let later = now.after(Duration::from_millis(1));
            let heard = handshake.received(&mut BytesMut::from(came), later);
            handshake.output().clear();
            let is_again = heard.is_ok() && handshake.begins_again(later);
            let is_bare = handshake.is_bare();
            // One that proves nothing has spoken in RESP2 by then, and heard why not.
            assert_eq!(is_again, is_of_hello && (!is_bare || came.is_empty()), "{came}");
            if is_again {
                let said = handshake.output().split();
                assert!(said.starts_with(b"*3\r\n$4\r\nAUTH\r\n"), "{said:?}");
                assert!(!handshake.begins_again(later));
            }
        }
    }
}

/// What it says of its run would count for that of another connection: seed 19015445 of the simulation, in which no time
/// passes between the write and the answers.
#[test]
fn one_that_was_answered_begins_no_other_connection_whatever_the_clock_says() {
    let (settings, now) = (Settings { rules: Some(RULES), ..settings(1) }, Moment::from_nanos(1));
    let mut handshake = Handshake::new(settings, login(), now.after(Duration::from_secs(1)), now);
    let (mut said, mut replies) = (handshake.output().split(), BytesMut::new());
    let mut decoder = Decoder::new(Limits::default());
    while let Ok(Some(Frame::Array(words))) = decoder.decode(&mut said) {
        let words: Vec<Bytes> = words.iter().filter_map(Frame::as_bytes).cloned().collect();
        encode_frame(&mut replies, &greeting(&words, &info()));
        if words[0] == "ECHO" {
            break;
        }
    }
    assert!(handshake.received(&mut replies, now).is_ok_and(|is_over| !is_over));
    assert!(!handshake.info.is_empty() && !handshake.begins_again(now));
}

/// The bug of lettuce #2313: the fallback hid an authentication error.
#[test]
fn one_that_is_bare_asks_for_the_login_alone_and_proves_nothing() {
    let steps: [(bool, &[&str]); 2] =
        [(false, &["HELLO", "SELECT"]), (true, &["HELLO", "SELECT", "AUTH", "CLIENT", "SELECT"])];
    for (is_old, steps) in steps {
        let now = Moment::from_nanos(7);
        let ends_at = now.after(Duration::from_secs(5));
        let mut handshake = Handshake::bare(settings(1), login(), ends_at, now);
        let (mut decoder, mut bytes) = (Decoder::new(Limits::default()), BytesMut::new());
        let mut said = Vec::new();
        loop {
            let mut out = handshake.output().split();
            while let Some(Frame::Array(words)) = decoder.decode(&mut out).unwrap() {
                let words: Vec<_> = words.iter().map(|it| it.as_bytes().unwrap().clone()).collect();
                let reply = match &words[0][..] {
                    b"HELLO" if is_old => error("ERR unknown command 'HELLO'"),
                    b"CLIENT" => error("NOPERM no"),
                    _ => greeting(&words, ""),
                };
                encode_frame(&mut bytes, &reply);
                said.push(text(&words[..1]));
            }
            if handshake.received(&mut bytes, now).unwrap() {
                break;
            }
        }
        assert_eq!(
            (said, handshake.is_resp3()),
            (steps.iter().map(|it| (*it).into()).collect(), !is_old)
        );
        handshake.ask(&[b"TIME"], now);
        assert!(handshake.heard(&mut bytes, now).unwrap().is_empty());
        encode_frame(&mut bytes, &error("NOPERM hunter2 may not"));
        let [heard] = &handshake.heard(&mut bytes, now).unwrap()[..] else { panic!() };
        assert!(!String::from_utf8_lossy(heard.error().unwrap()).contains("hunter2"), "{heard:?}");
        encode_frame(&mut bytes, &bulk("one too many"));
        assert_eq!(handshake.heard(&mut bytes, now).unwrap_err(), Fault::Misplaced);
    }
}

#[test]
fn a_refused_login_is_never_taken_for_a_missing_protocol() {
    let refused = |step, text: &'static str| Fault::Refused { step, text: text.into() };
    let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
    let fault_of = fault(|command| match &command[0][..] {
        b"HELLO" => error(wrong),
        _ => error("NOAUTH Authentication required."),
    });
    assert_eq!(fault_of, refused(Step::Hello, wrong));
    let fault_of = fault(|command| match &command[0][..] {
        b"HELLO" => error("ERR unknown command 'HELLO'"),
        b"AUTH" => error("ERR invalid password"),
        _ => error("NOAUTH Authentication required."),
    });
    assert_eq!(fault_of, refused(Step::Auth, "ERR invalid password"));
}

#[test]
fn what_a_server_refuses_ends_the_handshake_or_is_done_without() {
    let refusing = |what: &'static [u8], text: &'static str| {
        greeted(move |command| {
            vec![if command[0][..] == *what { error(text) } else { greeting(command, &info()) }]
        })
    };
    for (what, text) in [
        (&b"CLIENT"[..], "ERR Unknown subcommand or wrong number of arguments for 'SETINFO'"),
        (b"CLIENT", "NOPERM this user has no permissions to run the 'client|setinfo' command"),
        // The first call sends the script itself.
        (b"SCRIPT", "ERR unknown command 'SCRIPT'"),
        (b"SCRIPT", "ERR this subcommand is not allowed"),
        (b"SCRIPT", "NOPERM this user has no permissions to run the 'script|load' command"),
    ] {
        assert!(votes(&refusing(what, text), 0), "{text}");
    }
    for (what, step, text) in [
        (&b"SCRIPT"[..], Step::Load, "LOADING Redis is loading the dataset in memory"),
        (b"SELECT", Step::Select, "ERR DB index is out of range"),
        (
            b"INFO",
            Step::Info("server"),
            "NOPERM this user has no permissions to run the 'info' command",
        ),
    ] {
        let bench = refusing(what, text);
        assert_eq!(bench.faults(), [&Fault::Refused { step, text: text.into() }]);
    }
    let denied = "NOPERM this user has no permissions to run the 'info' command";
    let mut bench =
        Bench::new(1, Settings { info_if_allowed: &["server", "memory"], ..settings(1) });
    bench.dial(0, login());
    bench.answer(0, |command| {
        vec![if command[0] == "INFO" { error(denied) } else { greeting(command, &info()) }]
    });
    assert!(votes(&bench, 0));
    let lacks = Some("+info|server".to_owned());
    assert_eq!(bench.machine.denied(0), Some((lacks, denied.as_bytes())));
    let bench = refusing(b"ECHO", "ERR unknown command 'ECHO'");
    assert!(votes(&bench, 0), "{:?}", bench.faults());
    let bench = refusing(b"ECHO", "NOPERM no permissions to run the 'echo' command");
    assert!(matches!(bench.faults()[..], [Fault::Unsealed(_)]), "{:?}", bench.faults());
}

/// Servers echo what they do not understand, and the password is in it.
#[test]
fn a_server_that_echoes_the_password_does_not_get_it_into_a_fault() {
    let echo = |command: &[Bytes]| error(&format!("ERR unknown command {}", text(command)));
    let fault = fault(echo);
    assert!(matches!(fault, Fault::Refused { step: Step::Auth, .. }), "{fault:?}");
    assert!(!format!("{fault:?}").contains("hunter2"), "{fault:?}");
}

#[test]
fn what_is_no_server_of_ours_is_told_from_one_that_has_no_room() {
    let heard = |bytes: &[u8], is_closed| {
        let mut bench = Bench::new(1, settings(1));
        bench.dial(0, Login::default());
        bench.hear(0, bytes);
        if is_closed {
            bench.close(0);
        }
        let link = &bench.machine.links[0];
        (link.fault.clone().unwrap(), link.refusal(bench.now).unwrap())
    };
    let (fault, failing) = heard(b"\x15\x03\x01\x00\x02\x02\x46", false);
    assert!(matches!(fault, Fault::Garbled(_)) && failing == Failing::Hopeless, "{fault:?}");
    let (fault, failing) = heard(b"HTTP/1.1 400 Bad Request\r\n", false);
    assert!(matches!(fault, Fault::Garbled(_)) && failing == Failing::Otherwise, "{fault:?}");
    assert_eq!(heard(b"", true), (Fault::Closed, Failing::Otherwise));
    let word = "ERR max number of clients reached";
    let refused = Fault::Refused { step: Step::Hello, text: word.into() };
    let no_room = heard(format!("-{word}\r\n").as_bytes(), true);
    assert_eq!(no_room, (refused, Failing::Otherwise));
}

/// A Redis 6.2.14 under `CLIENT PAUSE .. WRITE` answered HELLO, ECHO and INFO at once, and nothing from SCRIPT LOAD on
/// until the pause was over.
#[test]
fn a_server_that_holds_up_the_scripts_is_given_up_long_before_the_rest() {
    let mut is_held_up = false;
    let mut bench = greeted(|command| {
        is_held_up |= command[0] == "SCRIPT";
        if is_held_up { vec![] } else { vec![greeting(command, &info())] }
    });
    bench.pass(SCRIPTS_WITHIN - Duration::from_millis(1));
    assert!(bench.faults().is_empty());
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.faults(), [&Fault::HeldUp]);
}

#[test]
fn a_server_that_says_nothing_is_given_up_when_dial_and_handshake_have_had_their_time() {
    let mut bench = greeted(|_| vec![]);
    bench.pass(Duration::from_secs(5));
    assert_eq!(bench.faults(), [&Fault::Late]);
}

#[derive(Clone, Copy, Debug)]
enum Harmed {
    Lost,
    Twice,
}

/// A handshake of which one reply is lost or comes twice. The server refuses what old ones do not know, or users have no
/// right to; or speaks RESP2 alone.
fn harmed(harm: Option<Harmed>, at: usize, refuses: bool, is_old: bool) -> Result<usize, String> {
    let mut replies = 0;
    let mut bench = greeted(|command| {
        let reply = match &command[0][..] {
            b"HELLO" if is_old => error("ERR unknown command 'HELLO'"),
            b"CLIENT" if refuses => error("NOPERM no"),
            _ => greeting(command, &info()),
        };
        replies += 1;
        match harm.filter(|_| replies - 1 == at) {
            Some(Harmed::Lost) => vec![],
            Some(Harmed::Twice) => vec![reply.clone(), reply],
            None => vec![reply],
        }
    });
    let is_ready = |bench: &Bench| votes(bench, 0);
    if harm.is_none() {
        return is_ready(&bench).then_some(replies).ok_or(format!("{:?}", bench.faults()));
    }
    // A reply too many can come behind the last; one that lacks is noticed in time.
    bench.pass(Duration::from_secs(5));
    let are_right =
        |fault: &&Fault| matches!(fault, Fault::Misplaced | Fault::Late | Fault::HeldUp);
    if !bench.faults().iter().all(are_right) || bench.faults().is_empty() {
        return Err(format!("{:?}", bench.faults()));
    }
    bench.dial(0, login());
    bench.answer(0, |command| vec![greeting(command, &info())]);
    is_ready(&bench).then_some(replies).ok_or("not again".to_owned())
}

/// Safety rule 13 in a handshake.
#[test]
fn a_reply_that_is_lost_or_doubled_is_never_taken_for_the_answer_to_another_step() {
    for (refuses, is_old) in [(false, false), (true, false), (false, true), (true, true)] {
        let replies = harmed(None, 0, refuses, is_old).unwrap();
        assert!(replies > 13, "{replies}");
        for at in 0..replies {
            for harm in [Harmed::Lost, Harmed::Twice] {
                let came = harmed(Some(harm), at, refuses, is_old);
                assert!(came.is_ok(), "{harm:?} {at} of {replies}, {refuses} {is_old}: {came:?}");
            }
        }
    }
}

#[test]
fn a_server_that_calls_a_script_by_another_digest_is_out_of_step() {
    let wrong = fault(|command| match &command[0][..] {
        b"SCRIPT" => bulk("e0e1f9fabfc9d4800c877a703b823ac0578ff8db"),
        _ => greeting(command, &info()),
    });
    assert_eq!(wrong, Fault::Misplaced);
}

#[test]
fn servers_that_are_unfit_get_no_connection() {
    for of in recorded::all() {
        let unfit = |mode: &str| {
            let info = of.info(mode);
            fault(move |command| greeting(command, &info))
        };
        assert_eq!(unfit("replica"), Fault::Unfit(Unfit::Replica), "{}", of.name);
        assert_eq!(unfit("cluster"), Fault::Unfit(Unfit::ClusterNode), "{}", of.name);
        let lacking = recorded::without(&of.info("standalone"), "run_id");
        let unreadable = fault(move |command| greeting(command, &lacking));
        assert_eq!(unreadable, Fault::Unfit(Unfit::Unreadable("run_id")), "{}", of.name);
    }
}

/// It answers HELLO or INFO, and knows no ECHO and no script.
#[test]
fn a_sentinel_is_told_from_a_server() {
    for of in recorded::all() {
        let sentinel = of.info("sentinel");
        let hello = |mode| Frame::Map([(bulk("mode"), bulk(mode))].into());
        let hellos = [hello("sentinel"), hello("standalone"), error("ERR unknown command")];
        for (at, hello) in hellos.into_iter().enumerate() {
            let fault_of = fault(|command| match &command[0][..] {
                b"HELLO" => hello.clone(),
                b"INFO" if at > 0 => bulk(&sentinel),
                b"AUTH" | b"CLIENT" => Frame::Simple("OK".into()),
                b"PING" => bulk(&command[1]),
                _ => error("ERR unknown command"),
            });
            let is_known = matches!(fault_of, Fault::Unfit(Unfit::Sentinel));
            assert!(is_known, "{} {at}: {fault_of:?}", of.name);
        }
    }
}

#[test]
fn what_is_wrong_but_no_reason_to_refuse_a_server_is_noted() {
    let evicts = recorded::with(&info(), "maxmemory_policy", "allkeys-lru");
    let bench = greeted(|command| vec![greeting(command, &evicts)]);
    assert!(votes(&bench, 0));
    let warnings = bench.machine.warnings(0);
    assert!(warnings.contains(&Unfit::Evicts("allkeys-lru".into())), "{warnings:?}");
}

#[test]
fn one_server_given_twice_votes_once_and_a_name_may_lead_there_again() {
    let mut bench = Bench::new(2, Settings { rules: Some(RULES), ..settings(2) });
    for server in 0..2 {
        bench.dial(server, login());
        bench.answer(server, |command| vec![greeting(command, &info())]);
    }
    assert_eq!(bench.faults(), [&Fault::SameAs(0)]);
    assert!(votes(&bench, 0) && !votes(&bench, 1));
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    // Its votes count for as long as a round lasts.
    for is_over in [false, true] {
        bench.dial(1, login());
        bench.answer(1, |command| vec![greeting(command, &info())]);
        assert_eq!(votes(&bench, 1), is_over);
        bench.pass(settings(2).timeout);
    }
    bench.machine.disconnected(1, Fault::Closed, bench.now);
    bench.pass(settings(2).timeout);
    bench.dial(0, login());
    bench.answer(0, |command| vec![greeting(command, &info())]);
    assert!(votes(&bench, 0));
}

#[test]
fn a_young_run_is_connected_and_votes_once_it_is_old_enough() {
    let young = recorded::with(&info(), "uptime_in_seconds", "4");
    let mut bench = greeted(|command| vec![greeting(command, &young)]);
    let wait = Duration::from_secs(7);
    assert_eq!(bench.machine.links[0].refusal(bench.now), Some(Failing::Quarantined(wait)));
    bench.pass(wait - Duration::from_millis(1));
    assert!(!votes(&bench, 0));
    bench.pass(Duration::from_millis(1));
    assert!(votes(&bench, 0));
}

#[test]
fn a_login_that_ends_is_made_again_in_time_and_again_where_that_fails() {
    let mut bench = Bench::new(1, settings(1));
    let lasts = |bench: &Bench| Some((bench.now, Duration::from_secs(80)));
    bench.dial(0, Login { lasts: lasts(&bench), ..login() });
    bench.answer(0, |command| vec![greeting(command, &info())]);
    let is_asked_for = |bench: &mut Bench, most| {
        bench.effects.clear();
        bench.pass(Duration::from_secs(most));
        bench.effects.iter().any(|effect| matches!(effect, Effect::Login(0)))
    };
    assert!(!is_asked_for(&mut bench, 45) && is_asked_for(&mut bench, 10));
    // The provider has none, and then the server refuses them.
    bench.machine.log_in(0, None, bench.now);
    assert!(is_asked_for(&mut bench, 1));
    for (reply, is_done) in [(error("WRONGPASS no"), false), (Frame::Simple("OK".into()), true)] {
        let next = Login { lasts: lasts(&bench), ..login() };
        bench.machine.log_in(0, Some(&next), bench.now);
        bench.answer(0, |command| match &command[0][..] {
            b"AUTH" => vec![reply.clone()],
            _ => vec![greeting(command, "")],
        });
        assert_eq!(is_asked_for(&mut bench, 45), !is_done);
    }
    assert!(bench.faults().is_empty());
}

#[test]
fn the_only_server_is_waited_for_until_the_first_try_to_connect_has_ended() {
    let options = || Options {
        kind: &PLAIN,
        names: Names::new(b"", b"a").unwrap(),
        term: Term::DEFAULT,
        bounds: Bounds::default(),
        wait: Wait::Never,
        retry: Retry::default(),
        is_renewed: false,
        is_fair: false,
        words: Box::default(),
        said: Box::default(),
    };
    let context = Context::from_waker(Waker::noop());
    let mut bench = Bench::new(1, settings(1));
    let id = bench.machine.acquire(options(), bench.now);
    bench.dial(0, Login::default());
    assert!(bench.machine.poll_acquire(id, &context).is_pending());
    bench.answer(0, |command| vec![greeting(command, "")]);
    assert_eq!(bench.machine.poll_acquire(id, &context), Poll::Ready(Ok(())));

    bench.machine.disconnected(0, Fault::Closed, bench.now);
    let refusal = Refusal::Setback { setback: Setback::Failing, is_over: false };
    let refused = Poll::Ready(Err(refusal));
    // The driver dials meanwhile.
    let id = bench.machine.acquire(options(), bench.now);
    assert!(bench.machine.poll_acquire(id, &context).is_pending());
    bench.pass(Duration::from_millis(50));
    let waits = Options { wait: Wait::Forever, ..options() };
    let waiting = bench.machine.acquire(waits, bench.now);
    bench.machine.disconnected(0, Fault::Undialled { is_lasting: false }, bench.now);
    assert_eq!(bench.machine.poll_acquire(id, &context), refused);
    // From here on one that does not wait is told so at once, until the server is there again.
    for _ in 0..2 {
        let id = bench.machine.acquire(options(), bench.now);
        assert_eq!(bench.machine.poll_acquire(id, &context), refused);
        let report = bench.machine.report(id, bench.now).next().unwrap();
        let why = Some(&Fault::Undialled { is_lasting: false });
        assert!(matches!(report.said, Said::Unreached(said) if said == why));
        bench.dial(0, Login::default());
    }
    assert!(bench.machine.poll_acquire(waiting, &context).is_pending());
    bench.answer(0, |command| match &command[0][..] {
        b"EVALSHA" => vec![stamp(command)],
        _ => vec![greeting(command, "")],
    });
    let id = bench.machine.acquire(options(), bench.now);
    assert!(bench.machine.poll_acquire(id, &context).is_pending());
}

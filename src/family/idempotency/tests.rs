use super::super::agreement::is_accepted;
use super::super::stint;
use super::super::tests::{Simulated, Texts, World, said, search, texts};
use super::*;

const SECOND: i64 = 1_000_000;
const NOW: i64 = 1_763_700_000 * SECOND;
const KEY: &str = "{k}:idempotent";

#[test]
fn replies_are_read_as_the_scripts_head_says() {
    let Frame::Array(items) = said(&["started", "2"]) else { unreachable!() };
    let token = Frame::Bulk("1763700000000000".into());
    let started = Frame::Array([&items[..], &[token]].concat().into());
    let fence = FencingToken(1_763_700_000_000_000);
    assert_eq!(Said::read(&started), Some(Said::Started(Attempt { number: 2, fence })));
    assert_eq!(Said::read(&said(&["done", "r"])), Some(Said::Done("r".into())));
    let running = Said::Running(Duration::from_millis(9));
    assert_eq!(Said::read(&said(&["running", "9"])), Some(running));
    assert_eq!(Said::read(&said(&["other"])), Some(Said::Other));
}

/// Safety rule 13.
#[test]
fn replies_that_the_script_cannot_give_start_nothing() {
    let strange: [&[&str]; 7] = [
        &["started", "1"],
        &["started", "0", "x"],
        &["running", "0"],
        &["running"],
        &["done"],
        &["x"],
        &[],
    ];
    for words in strange {
        assert_eq!(Said::read(&said(words)), None, "{words:?}");
    }
    assert_eq!(Said::read(&Frame::Integer(1)), None);
}

/// What is kept may hold any bytes, and a fingerprint that begins as another is another.
#[test]
fn fingerprints_and_results_are_kept_byte_for_byte() {
    let scripts = texts([&SCRIPT, &stint::SETTLE], None);
    let [begin, settle] = &*scripts;
    for (fingerprint, result) in [("", ""), ("7 7", "1 2 3 4 5 6"), ("a\0\nb", "\r\n\0%s(.*)$")] {
        let mut server = Simulated::at(NOW);
        let ask = |server: &mut Simulated, owner: &str, fingerprint: &str| {
            let fingerprint = format!("{} {fingerprint}", fingerprint.len());
            Said::read(&server.call(begin, KEY, &[owner, &fingerprint, "5000", "60000"])).unwrap()
        };
        let started = ask(&mut server, "a", fingerprint);
        assert!(matches!(started, Said::Started(Attempt { number: 1, .. })));
        assert!(matches!(ask(&mut server, "b", fingerprint), Said::Running(_)));
        assert_eq!(ask(&mut server, "b", &format!("{fingerprint}x")), Said::Other);
        let settled = server.call(settle, KEY, &["a", "finish", "5000", "60000", result]);
        assert!(matches!(settled, Frame::Bulk(_)), "{settled:?}");
        let done = Said::Done(Bytes::from(result.to_owned()));
        assert_eq!(ask(&mut server, "c", fingerprint), done);
        assert_eq!(server.keyspace.ends_in_ms(KEY.as_bytes()), Some(60_000));
    }
}

/// What was sent on a connection that was given up may arrive when the attempt has failed: others would wait for its
/// TTL.
#[test]
fn a_late_delivery_begins_no_attempt_that_has_failed() {
    let (mut server, question) = (Simulated::at(NOW), |owner| [owner, "1 f", "5000", "60000"]);
    let settle = |how| ["a", how, "5000", "60000", ""];
    let begun = server.call(SCRIPT.text, KEY, &question("a"));
    assert!(matches!(Said::read(&begun), Some(Said::Started(_))), "{begun:?}");
    let mut settled = |how| {
        let reply = server.call(stint::SETTLE.text, KEY, &settle(how));
        is_accepted(&reply).unwrap()
    };
    assert!(settled("extend") && settled("fail") && settled("fail"));
    assert!(!settled("extend"));
    let late = server.call(SCRIPT.text, KEY, &question("a"));
    assert!(matches!(Said::read(&late), Some(Said::Running(_))), "{late:?}");
    let another = server.call(SCRIPT.text, KEY, &question("b"));
    let Some(Said::Started(attempt)) = Said::read(&another) else { panic!("{another:?}") };
    assert_eq!(attempt.number, 2);
}

/// Some attempts at one request on one server, each with an owner of its own, and a result that says whose.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Attempts {
    scripts: Texts<2>,
    server: Simulated,
    /// When the lease ends for an attempt that is under way, and its token.
    running: [Option<(i64, u64)>; 3],
    began: [bool; 3],
    time_left: [u8; 2],
    /// The attempt whose result the server has confirmed.
    done: Option<usize>,
    highest: u64,
}

impl Attempts {
    fn new(bug: Option<(&str, &str)>) -> Self {
        let scripts = texts([&SCRIPT, &stint::SETTLE], bug);
        let server = Simulated::at(NOW);
        let (running, began) = ([None; 3], [false; 3]);
        Self { scripts, server, running, began, time_left: [2, 1], done: None, highest: 0 }
    }

    /// Each with a TTL of its own: redis-semaphore and distkit judge others by the caller's.
    fn ttl_ms(attempt: usize) -> i64 {
        [9000, 500, 3000][attempt]
    }

    fn begin(&self, attempt: usize) -> Result<Self, String> {
        let mut next = self.clone();
        let (owner, ttl) = (attempt.to_string(), Self::ttl_ms(attempt).to_string());
        let reply = next.server.call(&self.scripts[0], KEY, &[&owner, "1 f", &ttl, "60000"]);
        match Said::read(&reply).ok_or_else(|| format!("{reply:?}"))? {
            Said::Started(Attempt { fence, .. }) => {
                if self.done.is_some() {
                    return Err("what is done is begun again".into());
                }
                if !self.began[attempt] && fence.get() <= self.highest {
                    return Err("a token does not rise".into());
                }
                next.began[attempt] = true;
                next.highest = self.highest.max(fence.get());
                next.running[attempt] =
                    Some((self.server.now + Self::ttl_ms(attempt) * 1000, fence.get()));
            }
            Said::Done(result) => match self.done {
                Some(done) if *result != *done.to_string().as_bytes() => {
                    return Err("a result changed".into());
                }
                _ => {}
            },
            Said::Running(_) => {}
            Said::Other => return Err("it is the same request".into()),
        }
        let is_running = |(ends, _): &&(i64, u64)| *ends > next.server.now;
        match next.running.iter().flatten().filter(is_running).count() {
            0 | 1 => Ok(next),
            _ => Err("two attempts are under way".into()),
        }
    }

    fn settle(&self, attempt: usize, how: &str) -> Result<Self, String> {
        let mut next = self.clone();
        let (owner, ttl) = (attempt.to_string(), Self::ttl_ms(attempt).to_string());
        let result = if how == "finish" { &*owner } else { "" };
        let arguments = [&*owner, how, &*ttl, "60000", result];
        let reply = next.server.call(&self.scripts[1], KEY, &arguments);
        let is_settled = matches!(reply, Frame::Bulk(_));
        if is_settled && how == "finish" {
            if self.done.is_some_and(|done| done != attempt) {
                return Err("two attempts have a result".into());
            }
            next.done = Some(attempt);
        } else if is_settled && how == "extend" {
            let token = self.running[attempt].map_or(0, |(_, token)| token);
            next.running[attempt] = Some((self.server.now + Self::ttl_ms(attempt) * 1000, token));
        } else {
            next.running[attempt] = None;
        }
        Ok(next)
    }
}

impl World for Attempts {
    fn next(&self) -> Result<Vec<Self>, String> {
        let mut all = Vec::new();
        for attempt in 0..self.running.len() {
            // An owner begins once; its question may be delivered twice.
            if !self.began[attempt] || self.running[attempt].is_some() {
                all.push(self.begin(attempt)?);
            }
            if self.running[attempt].is_some() {
                for how in ["extend", "finish", "fail"] {
                    all.push(self.settle(attempt, how)?);
                }
            }
        }
        for (step, micros) in [SECOND, 4 * SECOND].into_iter().enumerate() {
            if self.time_left[step] > 0 {
                let mut next = self.clone();
                next.time_left[step] -= 1;
                next.server.now += micros;
                all.push(next);
            }
        }
        Ok(all)
    }
}

#[test]
fn whatever_attempts_do_one_is_under_way_and_the_first_result_stays() {
    let states = search(Attempts::new(None)).unwrap();
    assert!(states > 1000, "{states}");
}

#[test]
fn known_bugs_are_found() {
    let bugs = [
        // redis-semaphore, distkit: a caller with a short TTL ends another's longer lease.
        (
            "elseif ends > now then",
            "elseif ends > now + ARGV[3] then",
            "two attempts are under way",
        ),
        (
            "elseif ends == 0 then\nreturn {stamp, 'done'",
            "elseif false then\nreturn {stamp, 'done'",
            "begun again",
        ),
        (
            "if not kept or string.sub(kept, 1, #owner) ~= owner then",
            "if not kept then",
            "two attempts",
        ),
        ("math.max(tonumber(token), fence + 1)", "0", "does not rise"),
    ];
    for (right, wrong, found) in bugs {
        let broken = search(Attempts::new(Some((right, wrong)))).unwrap_err();
        assert!(broken.contains(found), "{right}: {broken}");
    }
}

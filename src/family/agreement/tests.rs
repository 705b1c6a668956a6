use super::super::tests::{Simulated, Texts, World, said, search, texts};
use super::*;

const SECOND: i64 = 1_000_000;
const NOW: i64 = 1_763_700_000 * SECOND;
const KEY: &str = "{k}:idempotent";
const SERVERS: usize = 3;

fn with_text(reply: Frame, text: &'static str, at: usize) -> Frame {
    let Frame::Array(items) = reply else { unreachable!() };
    let (before, after) = items.split_at(at);
    Frame::Array([before, &[Frame::Bulk(text.into())], after].concat().into())
}

#[test]
fn replies_are_read_as_the_scripts_heads_say() {
    let clock_ms = 1_763_700_000_000;
    let promised = with_text(said(&["promised", "2", "", "", "1763700000000"]), "0", 3);
    let nothing = Said::Promised { starts: 2, accepted: None, clock_ms };
    assert_eq!(Said::of_proposal(&promised), Some(nothing));
    let promised = with_text(said(&["promised", "2", "f", "r", "1763700000000"]), "7", 3);
    let value = Value { fingerprint: "f".into(), text: "r".into() };
    let accepted = Said::Promised { starts: 2, accepted: Some((7, value)), clock_ms };
    assert_eq!(Said::of_proposal(&promised), Some(accepted));
    for (word, is_other) in [("running", false), ("other", true)] {
        let reply = with_text(said(&[word, "9"]), "7", 3);
        let left = Duration::from_millis(9);
        assert_eq!(Said::of_proposal(&reply), Some(Said::Running { is_other, left, token: 7 }));
    }
    assert_eq!(Said::of_proposal(&with_text(said(&["stale"]), "7", 2)), Some(Said::Stale(7)));
    assert_eq!(Said::of_proposal(&with_text(said(&["ahead"]), "7", 2)), Some(Said::Ahead(7)));
    assert_eq!(is_accepted(&Frame::Bulk("8123456789012345".into())), Some(true));
    assert_eq!(is_accepted(&said(&["0"])), Some(false));
}

/// Safety rule 13.
#[test]
fn replies_that_the_scripts_cannot_give_agree_on_nothing() {
    let strange: [&[&str]; 8] = [
        &["promised", "1", "x", "", "", "5"],
        &["promised", "x", "", "", "5"],
        &["running", "0", "x"],
        &["running", "9"],
        &["stale", "7"],
        &["ahead"],
        &["x"],
        &[],
    ];
    for words in strange {
        assert_eq!(Said::of_proposal(&said(words)), None, "{words:?}");
    }
    let value_of_nobody = with_text(said(&["promised", "2", "f", "r", "5"]), "0", 3);
    assert_eq!(Said::of_proposal(&value_of_nobody), None);
    assert_eq!(Said::of_proposal(&Frame::Integer(1)), None);
    let seen = with_text(said(&["seen", "2", "", "", "5"]), "0", 3);
    let promised = with_text(said(&["promised", "2", "", "", "5"]), "0", 3);
    assert!(Said::of_look(&seen).is_some() && Said::of_proposal(&promised).is_some());
    assert_eq!([Said::of_look(&promised), Said::of_proposal(&seen)], [None, None]);
    for reply in [said(&["1"]), said(&[]), Frame::Null] {
        assert_eq!(is_accepted(&reply), None);
    }
}

#[test]
fn fingerprints_and_values_are_kept_byte_for_byte() {
    let scripts = texts([&PROMISE, &ACCEPT], None);
    let [promise, accept] = &*scripts;
    for (fingerprint, text) in [("", ""), ("7 7", "1 2 3 4 5 6"), ("a\0\nb", "\r\n\0%s(.*)$")] {
        let mut server = Simulated::at(NOW);
        let mut ask = |owner: &str, token: i64| {
            let token = token.to_string();
            let arguments = [owner, fingerprint, "5000", "60000", &token, "vote"];
            Said::of_proposal(&server.call(promise, KEY, &arguments)).unwrap()
        };
        assert!(matches!(ask("a", NOW), Said::Promised { starts: 1, accepted: None, .. }));
        assert!(matches!(ask("b", NOW + 1), Said::Running { is_other: false, .. }));
        let token = NOW.to_string();
        let arguments = ["a", "finish", "5000", "60000", &token, fingerprint, text];
        assert_eq!(is_accepted(&server.call(accept, KEY, &arguments)), Some(true));
        assert_eq!(server.keyspace.ends_in_ms(KEY.as_bytes()), Some(60_000));
        server.now += SECOND;
        let mut before = server.clone();
        before.keyspace.set_now(server.now);
        let reply = server.call(promise, KEY, &["c", "other", "9000", "90000", "0", "vote"]);
        let Some(Said::Promised { starts: 1, accepted: Some((_, seen)), .. }) =
            Said::of_look(&reply)
        else {
            panic!("{reply:?}");
        };
        assert_eq!((&*seen.fingerprint, &*seen.text), (fingerprint.as_bytes(), text.as_bytes()));
        assert!(server.keyspace == before.keyspace, "who looks changes nothing");
        // A reader promises nothing about how long the value is kept.
        let arguments = ["c", "other", "9000", "90000", &(NOW + 1).to_string(), "vote"];
        let reply = Said::of_proposal(&server.call(promise, KEY, &arguments)).unwrap();
        let Said::Promised { starts: 2, accepted: Some((token, value)), .. } = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(token, NOW.unsigned_abs());
        assert_eq!((&*value.fingerprint, &*value.text), (fingerprint.as_bytes(), text.as_bytes()));
        assert_eq!(server.keyspace.ends_in_ms(KEY.as_bytes()), Some(59_000));
    }
}

#[test]
fn a_result_whose_key_somebody_keeps_for_ever_outlives_a_promise() {
    let scripts = texts([&PROMISE, &ACCEPT], None);
    let [promise, accept] = &*scripts;
    let mut server = Simulated::at(NOW);
    let (first, second) = (NOW.to_string(), (NOW + 1).to_string());
    server.call(promise, KEY, &["a", "f", "5000", "60000", &first, "vote"]);
    server.call(accept, KEY, &["a", "finish", "5000", "60000", &first, "f", "result"]);
    let kept = server.keyspace.peek(KEY.as_bytes()).unwrap();
    server.keyspace.run(&["SET".into(), KEY.into(), kept]);
    assert_eq!(server.keyspace.ends_in_ms(KEY.as_bytes()), None);
    let reply = server.call(promise, KEY, &["b", "f", "5000", "60000", &second, "vote"]);
    let promised = Said::of_proposal(&reply);
    assert!(matches!(promised, Some(Said::Promised { accepted: Some(_), .. })), "{reply:?}");
    assert_eq!(server.keyspace.ends_in_ms(KEY.as_bytes()), Some(60_000));
}

/// What was sent on a connection that was given up may arrive when the attempt has failed: others would wait for its
/// TTL.
#[test]
fn a_late_extension_begins_no_lease_of_an_attempt_that_has_failed() {
    let scripts = texts([&PROMISE, &ACCEPT], None);
    let [promise, accept] = &*scripts;
    let (mut server, token) = (Simulated::at(NOW), NOW.to_string());
    server.call(promise, KEY, &["a", "f", "5000", "60000", &token, "vote"]);
    let mut settled = |how| {
        let arguments = ["a", how, "5000", "60000", &token, "", ""];
        is_accepted(&server.call(accept, KEY, &arguments)).unwrap()
    };
    assert!(settled("extend") && settled("fail") && settled("fail"));
    assert!(!settled("extend"));
    let next = ["b", "f", "5000", "60000", &(NOW + 1).to_string(), "vote"];
    let reply = Said::of_proposal(&server.call(promise, KEY, &next));
    assert!(matches!(reply, Some(Said::Promised { starts: 2, .. })), "{reply:?}");
}

/// Safety rule 16.
#[test]
fn a_proposal_far_ahead_is_refused_unless_servers_led_to_it() {
    let promise = &texts([&PROMISE], None)[0];
    let mut server = Simulated::at(NOW);
    let ahead = (NOW + SECOND + 1).to_string();
    let mut ask = |led: &str| {
        Said::of_proposal(&server.call(promise, KEY, &["a", "", "0", "60000", &ahead, led]))
            .unwrap()
    };
    assert_eq!(ask("vote"), Said::Ahead(NOW.unsigned_abs()));
    assert!(matches!(ask("outbid"), Said::Promised { .. }));
    assert_eq!(ask("outbid"), Said::Stale((NOW + SECOND + 1).unsigned_abs()));
}

#[test]
fn a_server_that_knows_nothing_accepts_nothing() {
    let accept = &texts([&ACCEPT], None)[0];
    let mut server = Simulated::at(NOW);
    for how in ["finish", "extend", "fail"] {
        let reply = server.call(accept, KEY, &["a", how, "5000", "60000", "9", "f", "r"]);
        assert_eq!(is_accepted(&reply), Some(false), "{how}");
    }
    assert_eq!(server.keyspace.ends_in_ms(KEY.as_bytes()), None);
}

/// Its promise ended with the key, and one with a smaller token, of a caller whose clock is behind, was kept since.
#[test]
fn a_result_that_comes_after_its_promise_has_ended_replaces_no_other() {
    let scripts = texts([&PROMISE, &ACCEPT], None);
    let [promise, accept] = &*scripts;
    let mut server = Simulated::at(NOW);
    let (first, second) = (NOW.to_string(), (NOW - SECOND).to_string());
    server.call(promise, KEY, &["a", "f", "1000", "1000", &first, "vote"]);
    server.now += 2 * SECOND;
    server.call(promise, KEY, &["b", "f", "1000", "60000", &second, "vote"]);
    let mut finish = |owner: &str, token: &str| {
        let arguments = [owner, "finish", "1000", "60000", token, "f", owner];
        is_accepted(&server.call(accept, KEY, &arguments)).unwrap()
    };
    assert!(finish("b", &second));
    assert!(!finish("a", &first) && !finish("a", &second));
    let reply = server.call(promise, KEY, &["c", "f", "0", "60000", "0", "vote"]);
    let Some(Said::Promised { accepted: Some((_, value)), .. }) = Said::of_look(&reply) else {
        panic!("{reply:?}");
    };
    assert_eq!(value.text, "b");
}

/// What one attempt and one server have said to one another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Letter {
    Sent,
    /// With what it had accepted: under which token, and whose.
    Promised(Option<(u64, usize)>),
    Accepted,
}

/// Some attempts at one request on three servers, each with a result that says whose it is.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Attempts {
    scripts: Texts<2>,
    servers: [Simulated; SERVERS],
    letters: [[Letter; SERVERS]; 2],
    tokens: [i64; 2],
    /// Whose result an attempt has accepted; its own, if it has done the work.
    value: [Option<usize>; 2],
    /// When it asked first: its lease counts from then.
    asked: [Option<u8>; 2],
    /// Those that work under leases that have not ended.
    at_work: [bool; 2],
    told: Option<usize>,
    time_left: u8,
}

impl Attempts {
    fn new(tokens: [i64; 2], bug: Option<(&str, &str)>) -> Self {
        Self {
            scripts: texts([&PROMISE, &ACCEPT], bug),
            servers: [(); SERVERS].map(|()| Simulated::at(NOW)),
            letters: [[Letter::Sent; SERVERS]; 2],
            tokens,
            value: [None; 2],
            asked: [None; 2],
            at_work: [false; 2],
            told: None,
            time_left: 2,
        }
    }

    fn quorum() -> Quorum {
        Quorum::new(SERVERS, None).unwrap()
    }

    fn token(&self, attempt: usize) -> String {
        (NOW + self.tokens[attempt]).to_string()
    }

    fn promise(&self, attempt: usize, server: usize) -> Result<Option<Self>, String> {
        let mut next = self.clone();
        let (owner, token) = (attempt.to_string(), self.token(attempt));
        let arguments = [&*owner, "f", "900", "60000", &token, "vote"];
        let reply = next.servers[server].call(&self.scripts[0], KEY, &arguments);
        let Said::Promised { accepted, .. } =
            Said::of_proposal(&reply).ok_or_else(|| format!("{reply:?}"))?
        else {
            return Ok(None);
        };
        let number = |value: Value| std::str::from_utf8(&value.text).unwrap().parse().unwrap();
        let accepted = accepted.map(|(token, value)| (token, number(value)));
        next.letters[attempt][server] = Letter::Promised(accepted);
        next.asked[attempt].get_or_insert(self.time_left);
        Ok(Some(next))
    }

    fn choose(&self, attempt: usize) -> Result<Option<Self>, String> {
        let promised = self.letters[attempt].iter().filter_map(|letter| match letter {
            Letter::Promised(accepted) => Some(*accepted),
            _ => None,
        });
        let Some(reading) = Reading::of(Self::quorum(), promised) else { return Ok(None) };
        let mut next = self.clone();
        match reading {
            Reading::Nothing => {
                let is_in_time = self.asked[attempt] == Some(self.time_left);
                if is_in_time && self.at_work.contains(&true) {
                    return Err("two attempts are at work".into());
                }
                (next.value[attempt], next.at_work[attempt]) = (Some(attempt), is_in_time);
            }
            Reading::Open(value) => next.value[attempt] = Some(value),
            Reading::Decided(value) => {
                next.value[attempt] = Some(value);
                next.tell(value)?;
            }
        }
        Ok(Some(next))
    }

    fn accept(&self, attempt: usize, server: usize) -> Result<Option<Self>, String> {
        let Some(value) = self.value[attempt] else { return Ok(None) };
        let mut next = self.clone();
        let (owner, token, text) = (attempt.to_string(), self.token(attempt), value.to_string());
        let arguments = [&*owner, "finish", "900", "60000", &token, "f", &text];
        let reply = next.servers[server].call(&self.scripts[1], KEY, &arguments);
        if !is_accepted(&reply).ok_or_else(|| format!("{reply:?}"))? {
            return Ok(None);
        }
        next.letters[attempt][server] = Letter::Accepted;
        next.at_work[attempt] = false;
        let accepted = |letter: &&Letter| **letter == Letter::Accepted;
        let accepted = next.letters[attempt].iter().filter(accepted).count();
        if Self::quorum().verdict(accepted, 0) == Verdict::Won {
            next.tell(value)?;
        }
        Ok(Some(next))
    }

    fn tell(&mut self, value: usize) -> Result<(), String> {
        match self.told.replace(value) {
            Some(before) if before != value => Err("two results are told".into()),
            _ => Ok(()),
        }
    }
}

impl World for Attempts {
    fn next(&self) -> Result<Vec<Self>, String> {
        let mut all = Vec::new();
        for attempt in 0..self.value.len() {
            if self.value[attempt].is_none() {
                all.extend(self.choose(attempt)?);
            }
            for server in 0..SERVERS {
                if self.letters[attempt][server] == Letter::Sent {
                    all.extend(self.promise(attempt, server)?);
                }
                if self.letters[attempt][server] != Letter::Accepted {
                    all.extend(self.accept(attempt, server)?);
                }
            }
        }
        if self.time_left > 0 {
            let mut next = self.clone();
            next.time_left -= 1;
            next.at_work = [false; 2];
            next.servers.iter_mut().for_each(|server| server.now += SECOND);
            all.push(next);
        }
        Ok(all)
    }
}

#[test]
fn whatever_attempts_do_one_works_under_a_lease_and_one_result_is_told() {
    for tokens in [[1, 2], [1, 1]] {
        let states = search(Attempts::new(tokens, None)).unwrap();
        assert!(states > 1000, "{states}");
    }
}

#[test]
fn known_bugs_are_found() {
    let bugs = [
        ("its ~= ARGV[1] or tonumber(promised) ~= token", "not its", "two results"),
        ("token <= promised", "token == -1", "two results"),
        ("if under ~= '0' then", "if false then", "two results"),
        // A caller with a short TTL ends another's longer lease.
        ("tonumber(ends) > now then", "tonumber(ends) > now + ARGV[3] then", "at work"),
    ];
    for (right, wrong, found) in bugs {
        let broken = search(Attempts::new([1, 2], Some((right, wrong)))).unwrap_err();
        assert!(broken.contains(found), "{right}: {broken}");
    }
}

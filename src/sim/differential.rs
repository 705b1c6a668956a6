//! Compares the model with a real redis-server: random commands and scripts, expiry included.
//!
//! It is unknown by which millisecond a real server ran a command, only between which two. So the
//! model is a set: every state that agrees with all replies so far.

use std::collections::HashSet;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use leasehold_resp::{Frame, encode_frame};

use super::keyspace::Keyspace;
use super::lua;
use super::prng::Prng;
use super::server::{Server, Session};
use crate::extra::sharing as shares;
use crate::family::agreement::{ACCEPT, PROMISE};
use crate::family::barrier::BARRIER;
use crate::family::nomination::NOMINATE;
use crate::scripts;
use crate::support::{Client, RedisServer};

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
const VALUES: [&str; 6] = ["one", "two", "7", "007", "9007199254740990", "9007199254740993"];
const MEMBERS: [&str; 3] = ["one", "two", "three"];
const SCORES: [&str; 4] = ["1", "-3", "1700000000000", "x"];
const BOUNDS: [&str; 6] = ["-inf", "+inf", "5", "(5", "1700000000000", "x"];
const TTLS: [&str; 7] = ["1", "2", "5", "20", "60000", "0", "x"];
/// Scripts for every conversion between Lua and the protocol.
const CONVERSIONS: [&str; 12] = [
    "return 3.99",
    "return -3.99",
    "return {1, 2.5, 'x', false, true, {ok = 'fine'}, {3, {4}}}",
    "return {1, nil, 3}",
    "return {err = 'CODE words'}",
    "return redis.error_reply('CODE words')",
    "return redis.status_reply('PONG')",
    "return redis.call('SET', KEYS[1], 1700000000000000)",
    // Redis 7.0 and its successors write 0.5 alike, but not 0.1.
    "return redis.call('SET', KEYS[1], 0.5)",
    "return redis.pcall('GET', KEYS[1])",
    "return redis.call('INCRBY', KEYS[1], ARGV[1])",
    "return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), type(redis.call('GET', 'none'))}",
];

/// A prelude of a script: somebody holds the lock.
const HELD: &str = "redis.call('SET', KEYS[1], string.rep('a', 32) .. ':label')\n";
/// The same with a shared lock. The shares have no end yet: the rest of one counts from when the script began,
/// which need not be the time of `TIME`.
const SHARED: &str = "redis.call('SET', KEYS[1], string.rep('a', 32) .. '*2:label')
redis.call('DEL', KEYS[2])
redis.call('ZADD', KEYS[2], '32503680000000', ARGV[1], '1', 'gone')\n";

enum Step {
    Plain(Vec<String>),
    Script { text: String, keys: Vec<String>, argv: Vec<String> },
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

impl Step {
    fn random(prng: &mut Prng) -> Self {
        if prng.percent(45) { Self::script(prng) } else { Self::Plain(command(prng)) }
    }

    fn script(prng: &mut Prng) -> Self {
        let owner = prng.pick(&["one", "two"]);
        let ttl = prng.pick(&["1", "3", "20", "60000"]);
        let key = prng.pick(&KEYS);
        let number = prng.index(scripts::CATALOG.len() + 7);
        let token = prng.pick(&["5", "8", "1700000000000000"]);
        // If servers take their own clocks, no two agree on the microsecond.
        let decides = prng.pick(&[if token.len() > 1 { "outbid" } else { "mint" }, "vote"]);
        let (keys, argv) = match number {
            0 => {
                let mut argv = words(&[owner, ttl, token]);
                argv.push(decides.into());
                argv.push(prng.pick(&["take", "turn", "look"]).into());
                if prng.percent(30) {
                    argv.push(prng.pick(&["one", "two"]).into());
                }
                (vec![key.into(), format!("{key}:f"), format!("{key}:q")], argv)
            }
            1 => (words(&[key, "b"]), words(&[owner, ttl, "two", "9"])),
            2 => {
                let mut argv = words(&[owner, prng.pick(&["", "leave"])]);
                if prng.percent(30) {
                    argv.push("two".into());
                }
                (vec![key.into(), format!("{key}:f"), format!("{key}:q")], argv)
            }
            3 => (vec![key.into(), format!("{key}:f")], words(&[owner, ttl, token])),
            4 => {
                let word = prng.pick(&["enter", "beat"]);
                let owner = prng.pick(&["one", "aa:one", "bb!3:two", "cc!7:one"]);
                let argv = words(&[owner, ttl, word, "channel", "60000"]);
                (vec![key.into(), format!("{key}:f"), format!("{key}:q")], argv)
            }
            5 => (words(&[key]), vec![]),
            6 => {
                let led = prng.pick(&["vote", "outbid"]);
                let token = prng.pick(&["0", "5", "8", token]);
                (words(&["q"]), words(&[owner, "f", prng.pick(&["0", ttl]), ttl, token, led]))
            }
            7 => {
                let how = prng.pick(&["finish", "extend", "fail"]);
                (words(&["q"]), words(&[owner, how, ttl, ttl, token, "f", "1 f"]))
            }
            8 => (vec![key.into(), format!("{key}:s")], words(&[owner, ttl])),
            9 => {
                let mut keys = words(&[key]);
                keys.extend(["f", "q", "s"].map(|end| format!("{key}:{end}")));
                let how = prng.pick(&["take", "enter", "beat", "", "single", "leave"]);
                let of_take = [ttl, "0", "1", "channel", "60000"];
                let gives_back = matches!(how, "" | "single" | "leave");
                let more = if gives_back { &[] } else { &of_take[..] };
                (keys, words(&[&[owner, how], more].concat()))
            }
            10 => (vec![format!("{key}:q")], words(&[owner])),
            11 => {
                let how = prng.pick(&["arrive", "look", "wait"]);
                let generation = prng.pick(&["1", "2", "3", "5"]);
                (words(&["r", "p"]), words(&[how, "2", ttl, generation, owner]))
            }
            _ => (words(&[key]), words(&[prng.pick(&VALUES)])),
        };
        let stamp = 9_007_199_254_740_000 + prng.within(0..992);
        let argv = argv.into_iter().chain([stamp.to_string()]).collect();
        let known = scripts::CATALOG.iter().chain([&PROMISE, &ACCEPT]).map(|it| it.text);
        let known = known.chain([shares::PROLONG.text, scripts::SHARE.text]);
        let mut known = known.chain([NOMINATE.text, BARRIER.text]);
        let text = match known.nth(number) {
            // The token of a grant is the server's clock, on which no two servers agree.
            Some(script) if number == 4 || number == 9 => format!("{HELD}{script}"),
            Some(script) if number == 8 => format!("{SHARED}{script}"),
            Some(script) => script.to_owned(),
            None => prng.pick(&CONVERSIONS).to_owned(),
        };
        Self::Script { text, keys, argv }
    }

    fn on_the_server(&self) -> Vec<String> {
        match self {
            Self::Plain(words) => words.clone(),
            Self::Script { text, keys, argv } => {
                let head = ["EVAL".to_owned(), text.clone(), keys.len().to_string()];
                head.into_iter().chain(keys.iter().chain(argv).cloned()).collect()
            }
        }
    }

    fn on_the_model(&self, model: &mut Keyspace) -> Frame {
        let bytes = |words: &[String]| -> Vec<Bytes> {
            words.iter().map(|word| word.clone().into()).collect()
        };
        match self {
            Self::Plain(words) => model.run(&bytes(words)),
            Self::Script { text, keys, argv } => {
                lua::run(model, &lua::script(text.clone().into()), &bytes(keys), &bytes(argv))
            }
        }
    }
}

fn command(prng: &mut Prng) -> Vec<String> {
    let key = prng.pick(&KEYS);
    let value = prng.pick(&VALUES);
    let ttl = prng.pick(&TTLS);
    match prng.index(29) {
        0 => words(&["GET", key]),
        1 => words(&["GETRANGE", key, prng.pick(&["0", "2"]), prng.pick(&["0", "3", "511"])]),
        2 => words(&["SET", key, value]),
        3 | 4 => words(&["SET", key, value, prng.pick(&["NX", "XX", "GET", "KEEPTTL"])]),
        5 | 6 => words(&["SET", key, value, "PX", ttl]),
        7 => words(&["SET", key, value, "NX", "GET", "PX", ttl]),
        8 => words(&[prng.pick(&["DEL", "UNLINK"]), key, "b"]),
        9 => words(&["EXISTS", key, "a"]),
        10 => words(&["PTTL", key]),
        11 => words(&["PEXPIRE", key, ttl]),
        12 if prng.percent(30) => words(&["RPUSH", key, "x", "y"]),
        12 => words(&["PEXPIRE", key, ttl, prng.pick(&["GT", "LT", "NX", "XX"])]),
        13 => words(&["INCRBY", key, prng.pick(&["1", "-3", "x", "9223372036854775807"])]),
        14 => words(&["HGET", prng.pick(&["h", key]), prng.pick(&["1", "first"])]),
        15 if prng.percent(50) => words(&["HMGET", prng.pick(&["h", key]), "1", "first", "none"]),
        15 => words(&["HLEN", prng.pick(&["h", key])]),
        16 => words(&["HSET", prng.pick(&["h", key]), "1", value, "last", "x", "1", "y"]),
        17 => words(&["HSET", prng.pick(&["h", key]), prng.pick(&["1", "first"]), value]),
        18 => words(&["HDEL", prng.pick(&["h", key]), "1", prng.pick(&["first", "last"])]),
        19 => words(&["APPEND", key, value]),
        20 | 21 => {
            let scored = [prng.pick(&SCORES), prng.pick(&MEMBERS), "5", "three"];
            words(&[&["ZADD", prng.pick(&["z", key])], &scored[..]].concat())
        }
        22 => words(&["ZSCORE", prng.pick(&["z", key]), prng.pick(&MEMBERS)]),
        23 => words(&["ZREM", prng.pick(&["z", key]), prng.pick(&MEMBERS), "three"]),
        24 => words(&["ZCARD", prng.pick(&["z", key])]),
        25 => words(&["ZCOUNT", "z", prng.pick(&BOUNDS), prng.pick(&BOUNDS)]),
        26 => {
            let range = ["ZRANGEBYSCORE", "z", prng.pick(&BOUNDS), prng.pick(&BOUNDS)];
            let options = ["WITHSCORES", "LIMIT", "0", prng.pick(&["0", "1", "9"])];
            let from = prng.pick(&["0", "1", "4"]).parse().unwrap_or(0);
            words(&[&range[..], &options[from..]].concat())
        }
        27 => words(&["ZREVRANGE", prng.pick(&["z", key]), "0", "0", "WITHSCORES"]),
        _ => words(&["PUBLISH", "channel", value]),
    }
}

fn wall_micros(client: &mut Client) -> i64 {
    let Frame::Array(parts) = client.call(&["TIME"]) else { panic!("TIME answers with two parts") };
    let part = |index: usize| -> i64 {
        let text = parts[index].as_bytes().expect("text");
        std::str::from_utf8(text).expect("digits").parse().expect("a number")
    };
    part(0) * 1_000_000 + part(1)
}

/// The comparable part of a reply: of errors the code, because servers add different places in the script; of a clock
/// in a waiter's reply the milliseconds, which a model knows.
fn comparable(reply: &Frame) -> BytesMut {
    let mut out = BytesMut::new();
    let reply = match reply {
        Frame::Error(text) => {
            let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
            &Frame::Error(Bytes::copy_from_slice(code))
        }
        Frame::Array(items) => match &items[..] {
            [shown @ .., Frame::Integer(clock)] if items.len() == 7 => {
                let clock = Frame::Integer(clock / 1000);
                &Frame::Array(shown.iter().cloned().chain([clock]).collect())
            }
            _ => reply,
        },
        other => other,
    };
    encode_frame(&mut out, reply);
    out
}

/// Maximum models, one for each possible reading of the server's clock: a slow machine needs more.
/// Beyond these, server and models begin again from nothing.
const MODELS_MAX: usize = 100;
/// How often all steps are repeated from nothing if server and models disagree: a script that a busy machine
/// interrupts writes by two readings of the clock, and a model has one.
const REPETITIONS: usize = 3;

/// A server, and the models that agree with all its replies.
struct Compared {
    client: Client,
    models: HashSet<Keyspace>,
}

impl Compared {
    fn begin_again(&mut self) {
        self.client.call(&["FLUSHALL"]);
        self.models = HashSet::from([Keyspace::default()]);
    }

    /// Takes one step with both.
    ///
    /// # Errors
    ///
    /// The replies, if no model agrees.
    fn take(&mut self, pause: Option<Duration>, step: &Step) -> Result<(), String> {
        if let Some(pause) = pause {
            #[expect(
                clippy::disallowed_methods,
                reason = "a real server's keys expire in real time"
            )]
            std::thread::sleep(pause);
        }
        let sent = step.on_the_server();
        let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
        let from = wall_micros(&mut self.client);
        let reply = self.client.call(&sent);
        let to = wall_micros(&mut self.client);
        let expected = comparable(&reply);
        let mut agreeing = HashSet::new();
        let mut said = Vec::new();
        for model in &self.models {
            for ms in from / 1000..=to / 1000 {
                let mut model = model.clone();
                model.set_now(ms * 1000);
                let answer = step.on_the_model(&mut model);
                let _ = model.take_touched();
                model.set_now(0);
                if comparable(&answer) == expected {
                    agreeing.insert(model);
                } else {
                    said.push(answer);
                }
            }
        }
        if agreeing.is_empty() {
            return Err(format!("{sent:?}\nserver {reply:?}\nmodel {said:?}"));
        }
        self.models = agreeing;
        Ok(())
    }
}

#[test]
fn the_model_answers_as_a_real_server_does() {
    let seed = std::env::var("LEASEHOLD_SIM_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(crate::clock::random_bits);
    let server = RedisServer::builder().start();
    let mut both = Compared { client: server.client(), models: HashSet::default() };
    both.begin_again();
    let mut prng = Prng::new(seed);
    let mut taken = Vec::new();
    for number in 0..4000 {
        let pause = prng.percent(8).then(|| Duration::from_micros(prng.within(200..6000)));
        let step = Step::random(&mut prng);
        let mut result = both.take(pause, &step);
        taken.push((pause, step));
        for _ in 0..REPETITIONS {
            if result.is_ok() {
                break;
            }
            both.begin_again();
            result = taken.iter().try_for_each(|(pause, step)| both.take(*pause, step));
        }
        if let Err(said) = result {
            panic!("LEASEHOLD_SIM_SEED={seed}, step {number}: {said}");
        }
        if both.models.len() > MODELS_MAX {
            both.begin_again();
            taken.clear();
        }
    }
}

/// Commands of a connection with client tracking.
const SAID: [&[&str]; 11] = [
    &["GET", "KEY"],
    &["EXISTS", "KEY"],
    &["PTTL", "KEY"],
    &["SET", "KEY", "own"],
    &["EVAL", "return redis.call('GET', KEYS[1])", "1", "KEY"],
    &["EVAL", "return redis.call('SET', KEYS[1], 'own')", "1", "KEY"],
    &["ECHO", "text"],
    &["PING", "text"],
    &["CLIENT", "SETNAME", "name"],
    &["CLIENT", "CACHING", "YES"],
    &["CLIENT", "CACHING", "YES"],
];

/// One connection reads in every way, and another one writes: the pushes, and their order, are compared.
#[test]
fn the_model_tells_of_keys_as_a_real_server_does() {
    let real = RedisServer::builder().start();
    let mut prng = Prng::new(crate::clock::random_bits());
    for mode in [&["ON", "NOLOOP"][..], &["ON", "OPTIN", "NOLOOP"], &["OFF"]] {
        let (mut reader, mut writer) = (real.client(), real.client());
        let mut model = Server::new(1, || 1_000_000, 0, false);
        let (mut reads, mut writes) = (Session::new(1), Session::new(2));
        let bytes = |words: &[&str]| -> Vec<Bytes> {
            words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
        };
        writer.call(&["FLUSHALL"]);
        reader.call(&["HELLO", "3"]);
        let tracking = [&["CLIENT", "TRACKING"], mode].concat();
        reader.call(&tracking);
        model.run(&mut reads, &bytes(&tracking));
        let mut said = Vec::new();
        for _ in 0..500 {
            let key = prng.pick(&KEYS[..2]);
            let told = if prng.percent(40) {
                let words = [prng.pick(&["SET", "APPEND"]), key, "other"];
                writer.call(&words);
                said.push(words.join(" "));
                model.run(&mut writes, &bytes(&words)).1
            } else {
                let words = SAID[prng.index(SAID.len())];
                let words: Vec<_> =
                    words.iter().map(|word| if *word == "KEY" { key } else { word }).collect();
                said.push(words.join(" "));
                let (answer, told) = model.run(&mut reads, &bytes(&words));
                let reply = reader.call(&words);
                assert_eq!(comparable(&reply), comparable(&answer), "{mode:?}: {said:?}");
                told
            };
            let mut really_told = Vec::new();
            // This leaves `CLIENT CACHING YES` in force.
            reader.send(&["CLIENT", "ID"]).unwrap();
            while let push @ Frame::Push(_) = reader.next_frame().unwrap() {
                really_told.push((1, push));
            }
            assert_eq!(told, really_told, "{mode:?}: {said:?}");
        }
    }
}

//! All that a few processes can do with the shares of one lock: the shipped scripts, on a simulated server.

use std::collections::BTreeSet;

use leasehold_resp::Frame;

use super::{Simulated, Texts, World, search, texts};
use crate::scripts;
use crate::scripts::script;

const KEYS: [&str; 4] = ["k", "{k}:fence", "{k}:queue", "{k}:shares"];
const SECOND: i64 = 1_000_000;
const NOW: i64 = 1_763_700_000 * SECOND;
/// For how long an entry of the queue lives.
const LIFE_MS: &str = "30000";
const ATTEMPTS_MAX: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Want {
    /// By the lock's own scripts, which know of no shares.
    Whole,
    Read,
    Permit {
        weight: u8,
    },
}

/// How a process stands with its present owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stand {
    Idle,
    /// With the moment of the last question that was answered, and what was pushed.
    Waits {
        asked_at: i64,
        since: u32,
        pushed: Option<i64>,
    },
    /// Until then as far as it knows; whether somebody broke its lock meanwhile.
    Holds {
        until: i64,
        is_whole: bool,
        token: i64,
        is_broken: bool,
    },
    /// It is gone for good.
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    want: Want,
    ttl_ms: i64,
    stand: Stand,
    attempts: u8,
    is_deaf: bool,
    /// With a priority above that of all others.
    is_candidate: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Crowd {
    scripts: Texts<6>,
    limit: &'static str,
    server: Simulated,
    processes: Vec<Process>,
    /// How often each span of this many seconds may still pass.
    spans: Vec<(i64, u8)>,
    breaks: u8,
    crashes: u8,
    issued: i64,
    /// Entries of the queue so far.
    entered: u32,
}

const TAKES_SHARES: usize = 0;
const PROLONGS: usize = 1;
const ACQUIRES: usize = 2;
const EXTENDS: usize = 3;
const RELEASES: usize = 4;
const WAITS: usize = 5;

fn crowd(
    limit: &'static str,
    wants: &[(Want, i64)],
    spans: &[(i64, u8)],
    [breaks, crashes]: [u8; 2],
    bug: Option<(&str, &str)>,
) -> Crowd {
    let all = [
        &script!("share.lua"),
        &script!("prolong.lua"),
        &scripts::ACQUIRE,
        &scripts::EXTEND,
        &scripts::RELEASE,
        &scripts::QUEUE,
    ];
    let mut server = Simulated::at(NOW);
    let process = |(number, &(want, ttl_ms)): (usize, &(Want, i64))| {
        server.keyspace.subscribe(number as u64, &channel(number).into());
        Process {
            want,
            ttl_ms,
            stand: Stand::Idle,
            attempts: 0,
            is_deaf: false,
            is_candidate: false,
        }
    };
    let processes = wants.iter().enumerate().map(process).collect();
    let scripts = texts(all, bug);
    Crowd {
        scripts,
        limit,
        server,
        processes,
        spans: spans.to_vec(),
        breaks,
        crashes,
        issued: 0,
        entered: 1,
    }
}

fn channel(process: usize) -> String {
    format!("channel{process}")
}

/// What a script says behind its stamp.
fn parts(reply: &Frame) -> Vec<String> {
    match reply {
        Frame::Bulk(_stamp) => vec![],
        Frame::Array(items) => {
            let text = |item: &Frame| match item {
                Frame::Integer(number) => number.to_string(),
                other => String::from_utf8_lossy(other.as_bytes().unwrap()).into_owned(),
            };
            items[1..].iter().map(text).collect()
        }
        other => vec![format!("{other:?}")],
    }
}

impl Crowd {
    fn owner(&self, process: usize) -> String {
        let Process { attempts, is_candidate, .. } = self.processes[process];
        let rank = if is_candidate { "@0a1b2c3d!9" } else { "" };
        format!("{:032x}~{rank}:", process * 16 + usize::from(attempts))
    }

    fn holds(&self, process: usize) -> Option<(bool, i64)> {
        match self.processes[process].stand {
            Stand::Holds { until, is_whole, token, is_broken: false }
                if until > self.server.now =>
            {
                Some((is_whole, token))
            }
            _ => None,
        }
    }

    /// Runs a script, and has the pushes heard that it publishes.
    fn call(&mut self, script: usize, keys: &[&str], arguments: &[&str]) -> Vec<String> {
        let text = self.scripts[script].clone();
        let reply = self.server.call_with(&text, keys, arguments);
        for (link, _, text) in self.server.keyspace.take_published() {
            let text = String::from_utf8_lossy(&text).into_owned();
            let (token, owner) = text.split_once(' ').unwrap();
            let process = usize::try_from(link).unwrap();
            // With 1 it is told to ask, as it may at any time.
            if self.owner(process) == owner && token != "1" {
                if let Stand::Waits { pushed, .. } = &mut self.processes[process].stand {
                    *pushed = Some(token.parse().unwrap());
                }
            }
        }
        parts(&reply)
    }

    fn grant(&mut self, process: usize, asked_at: i64, is_whole: bool, token: i64) {
        let until = asked_at + self.processes[process].ttl_ms * 1000;
        self.processes[process].stand = Stand::Holds { until, is_whole, token, is_broken: false };
    }

    /// A first attempt, or the first question of a waiter, or a later one.
    fn ask(&self, process: usize, how: &str) -> Result<Self, String> {
        let mut next = self.clone();
        let before = self.waiting();
        if how != "beat" {
            next.processes[process].attempts += 1;
        }
        let (owner, Process { want, is_candidate, .. }) =
            (next.owner(process), next.processes[process].clone());
        let ttl = self.processes[process].ttl_ms.to_string();
        let channel = channel(process);
        let said = match (want, how) {
            (Want::Whole, "take") => {
                let proposal = self.server.now.to_string();
                let arguments = [&*owner, &ttl, &proposal, "mint", "turn"];
                next.call(ACQUIRES, &KEYS[..3], &arguments)
            }
            (Want::Whole, _) => {
                next.call(WAITS, &KEYS[..3], &[&owner, &ttl, how, &channel, LIFE_MS])
            }
            (Want::Read, _) => {
                let arguments = [&*owner, how, &ttl, "0", "1", &channel, LIFE_MS];
                next.call(TAKES_SHARES, &KEYS, &arguments)
            }
            (Want::Permit { weight }, _) => {
                let weight = weight.to_string();
                let arguments = [&*owner, how, &ttl, self.limit, &weight, &channel, LIFE_MS];
                next.call(TAKES_SHARES, &KEYS, &arguments)
            }
        };
        let now = self.server.now;
        match &said.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            // With the token that was proposed.
            [] => next.grant(process, now, true, now),
            ["granted", token] => {
                next.grant(process, now, want == Want::Whole, token.parse().unwrap());
            }
            ["held" | "queued", ..] if how == "take" => next.processes[process].stand = Stand::Idle,
            ["held" | "queued", ..] => {
                let (since, pushed) = match self.processes[process].stand {
                    Stand::Waits { since, pushed, .. } => (since, pushed),
                    _ if is_candidate => (0, None),
                    _ => (self.entered, None),
                };
                next.entered = self.entered.max(since + 1);
                next.processes[process].stand = Stand::Waits { asked_at: now, since, pushed };
            }
            ["0"] => next.processes[process].stand = Stand::Idle,
            other => return Err(format!("the reply is not one of the script's: {other:?}")),
        }
        let may_pass = how == "beat" || is_candidate;
        if !may_pass && next.holds(process).is_some() && !before.is_empty() {
            return Err("who waits is overtaken by who has just come".into());
        }
        next.check(&before)
    }

    fn settle(&self, process: usize, how: &str) -> Result<Self, String> {
        let mut next = self.clone();
        let before = self.waiting();
        let (owner, Process { want, ttl_ms, stand, .. }) =
            (self.owner(process), self.processes[process].clone());
        let ttl = ttl_ms.to_string();
        let now = self.server.now;
        match how {
            "" | "leave" if want == Want::Whole => {
                next.call(RELEASES, &KEYS[..3], &[&owner, how]);
                next.processes[process].stand = Stand::Idle;
            }
            "" | "leave" => {
                let is_single = how.is_empty() && want == Want::Permit { weight: 1 };
                let how = if is_single { "single" } else { how };
                next.call(TAKES_SHARES, &KEYS, &[&owner, how]);
                next.processes[process].stand = Stand::Idle;
            }
            "extend" => {
                let Stand::Holds { until, is_whole, token, .. } = stand else { unreachable!() };
                let (script, keys) = match is_whole {
                    true => (EXTENDS, &KEYS[..1]),
                    false => (PROLONGS, &[KEYS[0], KEYS[3]][..]),
                };
                let said = next.call(script, keys, &[&owner, &ttl]);
                next.processes[process].stand = match said.is_empty() {
                    true => {
                        let until = until.max(now + ttl_ms * 1000);
                        Stand::Holds { until, is_whole, token, is_broken: false }
                    }
                    false => Stand::Idle,
                };
            }
            _ => {
                // Another owner takes over, as with every new question.
                next.processes[process].attempts += 1;
                let its = next.owner(process);
                let said = next.call(TAKES_SHARES, &KEYS, &[&its, how, &ttl, &owner]);
                match &said.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                    ["granted", token] => {
                        next.grant(process, now, how == "upgrade", token.parse().unwrap());
                    }
                    ["held", _, _, _, others] if *others != "0" => {
                        next.processes[process].attempts -= 1;
                    }
                    ["0"] => next.processes[process].stand = Stand::Idle,
                    other => return Err(format!("not a reply to {how}: {other:?}")),
                }
            }
        }
        next.check(&before)
    }

    /// The waiters that have entered the queue at this place.
    fn waiting(&self) -> BTreeSet<(u32, usize)> {
        let waits = |(number, process): (usize, &Process)| match process.stand {
            Stand::Waits { since, pushed: None, asked_at }
                if !process.is_deaf && asked_at + 30 * SECOND >= self.server.now =>
            {
                Some((since, number))
            }
            _ => None,
        };
        self.processes.iter().enumerate().filter_map(waits).collect()
    }

    fn check(mut self, before: &BTreeSet<(u32, usize)>) -> Result<Self, String> {
        let holding: Vec<_> =
            (0..self.processes.len()).filter_map(|it| Some((it, self.holds(it)?))).collect();
        if holding.len() > 1 && holding.iter().any(|(_, (is_whole, _))| *is_whole) {
            return Err("a writer and another hold the lock".into());
        }
        let weight = |(process, _): &(usize, _)| match self.processes[*process].want {
            Want::Permit { weight } => i64::from(weight),
            _ => 0,
        };
        if holding.iter().map(weight).sum::<i64>() > self.limit.parse().unwrap() {
            return Err("more permits than the limit".into());
        }
        for &(_, (is_whole, token)) in &holding {
            if is_whole && token > self.issued {
                self.issued = token;
            } else if token < self.issued && !is_whole {
                return Err("a reader's token is below a writer's before it".into());
            } else if is_whole && token < self.issued {
                return Err("a writer's token is below another's".into());
            }
        }
        // A waiter that was granted something in this step, or pushed it, waits no longer.
        let still: BTreeSet<_> = self.waiting();
        let gone = before.difference(&still).filter(|(_, process)| {
            self.holds(*process).is_some()
                || matches!(self.processes[*process].stand, Stand::Waits { pushed: Some(_), .. })
        });
        for (place, _) in gone {
            if still.iter().any(|(other, _)| other < place) {
                return Err("the first in the queue is overtaken".into());
            }
        }
        for key in [KEYS[0], KEYS[2], KEYS[3]] {
            let is_there = self.server.keyspace.run(&["EXISTS".into(), key.into()]);
            if is_there == Frame::Integer(1)
                && self.server.keyspace.ends_in_ms(key.as_bytes()).is_none()
            {
                return Err(format!("{key} stays for ever"));
            }
        }
        let _ = self.server.keyspace.take_touched();
        Ok(self)
    }

    /// When all that is held has ended, one of the waiters is let in at its next question.
    fn is_served(&self) -> Result<(), String> {
        let waiting = self.waiting();
        if waiting.is_empty() {
            return Ok(());
        }
        let mut later = self.clone();
        // A waiter that is gone may be first, and be given what it waits for, once each.
        for _ in 0..8 {
            for (_, process) in &waiting {
                later = later.ask_plainly(*process)?;
                let stand = later.processes[*process].stand;
                if matches!(stand, Stand::Holds { .. } | Stand::Waits { pushed: Some(_), .. }) {
                    return Ok(());
                }
            }
            later.server.now += 16 * SECOND;
        }
        Err("nobody who waits is let in".into())
    }

    /// A later question, of which nothing is checked.
    fn ask_plainly(&self, process: usize) -> Result<Self, String> {
        let mut next = self.clone();
        let (owner, Process { want, ttl_ms, .. }) = (self.owner(process), &self.processes[process]);
        let (ttl, channel) = (ttl_ms.to_string(), channel(process));
        let (limit, weight) = match want {
            Want::Permit { weight } => (self.limit, weight.to_string()),
            _ => ("0", "1".to_owned()),
        };
        let said = match want {
            Want::Whole => next.call(WAITS, &KEYS[..3], &[&owner, &ttl, "beat", &channel, LIFE_MS]),
            _ => {
                let arguments = [&*owner, "beat", &ttl, limit, &weight, &channel, LIFE_MS];
                next.call(TAKES_SHARES, &KEYS, &arguments)
            }
        };
        if said.first().is_some_and(|word| word == "granted") {
            let now = next.server.now;
            next.grant(process, now, *want == Want::Whole, said[1].parse().unwrap());
        }
        Ok(next)
    }
}

impl World for Crowd {
    fn next(&self) -> Result<Vec<Self>, String> {
        self.is_served()?;
        let mut all = Vec::new();
        for (number, process) in self.processes.iter().enumerate() {
            match process.stand {
                Stand::Dead => continue,
                Stand::Idle => {
                    if process.attempts < ATTEMPTS_MAX {
                        all.extend([self.ask(number, "take")?, self.ask(number, "enter")?]);
                    }
                    continue;
                }
                Stand::Waits { asked_at, pushed, .. } => {
                    all.extend([self.ask(number, "beat")?, self.settle(number, "leave")?]);
                    if let Some(token) = pushed {
                        let mut next = self.clone();
                        let is_whole = process.want == Want::Whole;
                        next.grant(number, asked_at, is_whole, token);
                        all.push(next.check(&self.waiting())?);
                    }
                }
                Stand::Holds { until, is_whole, .. } if until > self.server.now => {
                    all.extend([self.settle(number, "")?, self.settle(number, "extend")?]);
                    if process.want == Want::Read && process.attempts < ATTEMPTS_MAX + 1 {
                        let how = if is_whole { "downgrade" } else { "upgrade" };
                        all.push(self.settle(number, how)?);
                    }
                }
                // A renewal that comes late, and a release.
                Stand::Holds { .. } => {
                    all.extend([self.settle(number, "")?, self.settle(number, "extend")?]);
                }
            }
            if self.crashes > 0 {
                let mut next = self.clone();
                next.crashes -= 1;
                next.processes[number].stand = Stand::Dead;
                all.push(next);
            }
        }
        for (number, &(seconds, left)) in self.spans.iter().enumerate() {
            if left > 0 {
                let mut next = self.clone();
                next.spans[number].1 -= 1;
                next.server.now += seconds * SECOND;
                all.push(next);
            }
        }
        if self.breaks > 0 {
            let mut next = self.clone();
            next.breaks -= 1;
            next.server.keyspace.run(&["DEL".into(), KEYS[0].into()]);
            let _ = next.server.keyspace.take_touched();
            for process in &mut next.processes {
                match &mut process.stand {
                    Stand::Holds { is_broken, .. } => *is_broken = true,
                    // It will not hear of what it was granted.
                    Stand::Waits { pushed: Some(_), .. } => process.stand = Stand::Dead,
                    _ => {}
                }
            }
            all.push(next);
        }
        Ok(all)
    }
}

const READER: (Want, i64) = (Want::Read, 4000);
const LONG_READER: (Want, i64) = (Want::Read, 20_000);
const WRITER: (Want, i64) = (Want::Whole, 10_000);

fn permit(weight: u8, ttl_ms: i64) -> (Want, i64) {
    (Want::Permit { weight }, ttl_ms)
}

fn readers_and_a_writer(bug: Option<(&str, &str)>) -> Crowd {
    crowd("99", &[READER, LONG_READER, WRITER], &[(5, 1)], [0, 0], bug)
}

fn renewed(bug: Option<(&str, &str)>) -> Crowd {
    crowd("99", &[LONG_READER, WRITER, READER], &[(15, 2)], [0, 0], bug)
}

fn left_behind(bug: Option<(&str, &str)>) -> Crowd {
    crowd("99", &[LONG_READER, LONG_READER, WRITER], &[(5, 1)], [0, 0], bug)
}

/// The last reader may come while the writer waits.
fn overtaken(bug: Option<(&str, &str)>) -> Crowd {
    crowd("99", &[LONG_READER, READER, WRITER, READER], &[], [0, 0], bug)
}

fn broken(bug: Option<(&str, &str)>) -> Crowd {
    crowd("99", &[READER, WRITER, READER], &[], [1, 0], bug)
}

/// A candidate of an election passes those that wait for shares.
fn passed(bug: Option<(&str, &str)>) -> Crowd {
    let mut crowd = crowd("99", &[WRITER, READER, WRITER], &[], [0, 0], bug);
    crowd.processes[2].is_candidate = true;
    crowd
}

fn permits(bug: Option<(&str, &str)>) -> Crowd {
    let wants = [permit(1, 4000), permit(2, 20_000), permit(1, 10_000)];
    crowd("2", &wants, &[(5, 1)], [0, 1], bug)
}

fn late(bug: Option<(&str, &str)>) -> Crowd {
    let wants = [permit(1, 4000), permit(1, 20_000), permit(1, 20_000)];
    crowd("2", &wants, &[(5, 1)], [0, 0], bug)
}

fn heavy(bug: Option<(&str, &str)>) -> Crowd {
    crowd("2", &[permit(1, 20_000), permit(2, 4000)], &[(5, 1)], [0, 0], bug)
}

#[test]
fn whatever_readers_and_writers_do_a_writer_is_alone() {
    for setting in [readers_and_a_writer, renewed, left_behind, overtaken, passed] {
        let states = search(setting(None)).unwrap();
        assert!(states > 100, "{states}");
    }
}

#[test]
fn whatever_is_broken_a_holder_that_has_renewed_since_holds_with_no_other() {
    let states = search(broken(None)).unwrap();
    assert!(states > 1000, "{states}");
}

#[test]
fn whatever_callers_do_no_more_permits_are_held_than_there_are() {
    for setting in [permits, late, heavy] {
        let states = search(setting(None)).unwrap();
        assert!(states > 100, "{states}");
    }
}

type Setting = fn(Option<(&str, &str)>) -> Crowd;

#[test]
fn known_bugs_are_found() {
    let bugs: [(Setting, &str, &str, &str); 20] = [
        // redis-semaphore 5.8.0: the caller's TTL says which permits have ended.
        (
            permits,
            "call('ZCOUNT', shares, whole(now), '+inf')",
            "call('ZCOUNT', shares, whole(now + (tonumber(ARGV[3]) or 0)), '+inf')",
            "more permits",
        ),
        // A candidate with a priority took a sharer's place in the queue for an empty one.
        (
            passed,
            "entry and string.match(entry, '^%d+ %S+ %S+ (.*)$')",
            "entry and string.match(entry, '^%d+ %d+ %S+ (.*)$')",
            "overtaken",
        ),
        // Redisson's #7098: a renewal brings back a share that has ended.
        (
            late,
            "local score = is_shared and call('ZSCORE', shares, owner)",
            "local score = is_shared and tostring(now)",
            "more permits",
        ),
        // distkit 0.7.1: a writer comes in during a reader's longer lease.
        (
            readers_and_a_writer,
            "limit == its_limit and call('PTTL', shares) >= tonumber(ttl)",
            "limit == its_limit",
            "a writer and another",
        ),
        (
            readers_and_a_writer,
            "or call('PTTL', shares) < tonumber(its_ttl)",
            "",
            "a writer and another",
        ),
        (renewed, "call('PTTL', shares) < tonumber(ttl)", "false", "a writer and another"),
        (left_behind, "(last[2] - now) * 1.125", "1", "a writer and another"),
        (readers_and_a_writer, "not is_of(owner) and used > 1", "false", "a writer and another"),
        (broken, "if not holder then\ncall('UNLINK', shares)\nend", "", "token"),
        (
            broken,
            "local is_shared = type(holder)",
            "local is_shared = true or type(holder)",
            "a writer and another",
        ),
        (permits, "used + its_weight <= tonumber(limit)", "used < tonumber(limit)", "more permits"),
        (heavy, "+ ARGV[5] <= tonumber(limit)", "< tonumber(limit)", "more permits"),
        (permits, "if has_room and passed == place then", "if has_room then", "overtaken"),
        (
            readers_and_a_writer,
            "if has_room and passed == place then",
            "if has_room then",
            "overtaken",
        ),
        (readers_and_a_writer, "local upgraded, why = draw()", "local upgraded = 1", "token"),
        // Nobody looks at the queue of a shared lock that is not marked.
        (
            readers_and_a_writer,
            "if string.byte(holder, -1) ~= 0 and",
            "if string.byte(holder, 33) ~= 42 and",
            "overtaken",
        ),
        (permits, "local knows_marks =", "local knows_marks = not limit and", "overtaken"),
        (overtaken, "(is_waited_for and '\\0' or '')", "''", "overtaken"),
        (renewed, "(string.byte(holder, -1) == 0 and '\\0' or '')", "''", "overtaken"),
        (
            permits,
            "used, given = used + its_weight, given + its_weight",
            "given = given + its_weight",
            "more permits",
        ),
    ];
    for (setting, right, wrong, found) in bugs {
        match search(setting(Some((right, wrong)))) {
            Ok(states) => panic!("{right}: not found in {states} states"),
            Err(broken) => assert!(broken.contains(found), "{right}: {broken}"),
        }
    }
}

#[test]
fn a_downgrade_lets_nobody_in_that_has_gone() {
    let mut crowd = crowd("99", &[READER, READER], &[], [0, 0], None);
    let [holder, gone] = [0, 1].map(|process| crowd.owner(process));
    let sharer = format!("{:032x}~:", 99);
    let now = NOW.to_string();
    crowd.call(ACQUIRES, &KEYS[..3], &[&holder, "10000", &now, "mint", "take"]);
    let enters = [&*gone, "enter", "4000", "0", "1", "nobody", LIFE_MS];
    assert_eq!(crowd.call(TAKES_SHARES, &KEYS, &enters)[0], "held");
    let said = crowd.call(TAKES_SHARES, &KEYS, &[&sharer, "downgrade", "4000", &holder]);
    assert_eq!(said[0], "granted");
    assert_eq!(crowd.call(TAKES_SHARES, &KEYS, &[&sharer, "look"]), ["1"]);
}

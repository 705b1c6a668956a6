//! The order of candidates in the queue, held against a list: `queue.lua` and `nominate.lua` in Lua.

use leasehold_resp::Frame;

use super::super::tests::{Simulated, Texts, World, search, texts};
use super::*;
use crate::scripts;

const NOW: i64 = 1_763_700_000_000_000;
const KEYS: [&str; 3] = ["k", "{k}:fence", "{k}:queue"];
const CANDIDATES: usize = 4;

/// A holder, and candidates, each of which enters the queue once.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Race {
    scripts: Texts<2>,
    server: Simulated,
    priorities: [u8; CANDIDATES],
    has_entered: [bool; CANDIDATES],
    /// The waiters, the next one first.
    line: Vec<usize>,
    is_held: bool,
    nominations: u8,
}

impl Race {
    fn new(priorities: [u8; CANDIDATES], bug: Option<(&str, &str)>) -> Self {
        let scripts = texts([&scripts::QUEUE, &NOMINATE], bug);
        let mut race = Self {
            scripts,
            server: Simulated::at(NOW),
            priorities,
            has_entered: [false; CANDIDATES],
            line: Vec::new(),
            is_held: true,
            nominations: 1,
        };
        race.server.keyspace.subscribe(1, &"channel".into());
        race.server.call(
            "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])",
            KEYS[0],
            &["holder", "9000"],
        );
        race
    }

    fn owner(&self, candidate: usize) -> String {
        let id = format!("{candidate:x}").repeat(32);
        match self.priorities[candidate] {
            0 => format!("{id}~:{candidate}"),
            priority => format!("{id}~@0a1b2c3d!{priority}:{candidate}"),
        }
    }

    /// The candidate's question, and whether the lock was granted.
    fn ask(&mut self, candidate: usize, how: &str) -> Result<bool, String> {
        let owner = self.owner(candidate);
        let arguments = [&*owner, "9000", how, "channel", "9000"];
        let reply = self.server.call_with(&self.scripts[0], &KEYS, &arguments);
        let Frame::Array(items) = &reply else { return Err(format!("{reply:?}")) };
        match items.get(1).and_then(Frame::as_bytes).map(|word| &word[..]) {
            Some(b"granted") => Ok(true),
            Some(b"held" | b"queued") => Ok(false),
            _ => Err(format!("a candidate is lost: {reply:?}")),
        }
    }

    /// What the list says that comes of a candidate's question.
    fn asked_once(&self, candidate: usize, how: &str) -> Result<Self, String> {
        let mut next = self.clone();
        let is_granted = next.ask(candidate, how)?;
        if is_granted != (!self.is_held && self.line.first() == Some(&candidate)) {
            return Err(format!("{candidate} is out of turn in {:?}", self.line));
        }
        if is_granted {
            next.line.remove(0);
            next.is_held = true;
        }
        Ok(next)
    }

    /// The same, where nothing is left of candidates that do not wait: `inspect.lua` counts by that.
    fn asked(&self, candidate: usize, how: &str) -> Result<Self, String> {
        let mut next = self.asked_once(candidate, how)?;
        let fields = next.server.keyspace.run(&["HLEN", KEYS[2]].map(Into::into));
        let waiting = next.line.len();
        match fields.as_integer().and_then(|fields| usize::try_from(fields).ok()) {
            Some(fields) if fields == 2 * waiting + 2 || fields == 2 * waiting => Ok(next),
            fields => Err(format!("{fields:?} fields for {:?}", next.line)),
        }
    }

    fn enter(&self, candidate: usize) -> Result<Self, String> {
        let mut next = self.clone();
        next.has_entered[candidate] = true;
        let smaller = |other: &&usize| self.priorities[**other] < self.priorities[candidate];
        let passed = self.line.iter().rev().take_while(smaller).count();
        next.line.insert(self.line.len() - passed, candidate);
        next.asked(candidate, "enter")
    }

    fn nominate(&self, candidate: usize) -> Result<Self, String> {
        let mut next = self.clone();
        next.nominations -= 1;
        let label = candidate.to_string();
        let reply = next.server.call(&self.scripts[1], KEYS[2], &[&label]);
        let at = self.line.iter().position(|other| *other == candidate);
        if is_accepted(&reply) != Some(at.is_some()) {
            return Err(format!("{candidate} in {:?}: {reply:?}", self.line));
        }
        if let Some(at) = at {
            next.line.remove(at);
            next.line.insert(0, candidate);
        }
        Ok(next)
    }
}

impl World for Race {
    fn next(&self) -> Result<Vec<Self>, String> {
        let mut all = Vec::new();
        for candidate in 0..CANDIDATES {
            if !self.has_entered[candidate] {
                all.push(self.enter(candidate)?);
            } else if self.line.contains(&candidate) {
                all.push(self.asked(candidate, "beat")?);
            }
            if self.nominations > 0 {
                all.push(self.nominate(candidate)?);
            }
        }
        if self.is_held {
            let mut freed = self.clone();
            freed.server.keyspace.run(&["DEL", KEYS[0]].map(Into::into));
            freed.is_held = false;
            all.push(freed);
        }
        Ok(all)
    }
}

const PRIORITIES: [[u8; CANDIDATES]; 3] = [[0, 0, 0, 0], [0, 1, 1, 2], [3, 0, 200, 3]];

#[test]
fn the_highest_priority_is_next_and_of_equals_the_one_that_waits_longest() {
    for priorities in PRIORITIES {
        let found = search(Race::new(priorities, None)).unwrap();
        assert!(found > 1000, "{found} states");
    }
}

#[test]
fn known_bugs_are_found() {
    let bugs = [
        ("priority(its_owner) >= rank", "priority(its_owner) > rank"),
        ("redis.call('HSET', queue, its_owner, behind)", ""),
        ("redis.call('HSET', queue, behind, entry)", ""),
        ("last = math.max(next.last, place)", "last = next.last"),
        ("if ticket or others then", "if ticket then"),
        ("place, passes = ahead + 1 - at, passes + 1", "place, passes = ahead, passes + 1"),
        ("'^[%x~+@]*!(%d+)'", "'!(%d+)$'"),
        ("redis.call('HDEL', KEYS[1], ticket)", ""),
        ("redis.call('HSET', KEYS[1], 'first', front)", ""),
        ("redis.call('HSET', KEYS[1], owner, front)", ""),
        ("if place > first then", "if place > first + 1 then"),
    ];
    for bug in bugs {
        let finds = |priorities| search(Race::new(priorities, Some(bug))).is_err();
        assert!(PRIORITIES.into_iter().any(finds), "{bug:?}");
    }
}

/// They are those of waits that ran out.
#[test]
fn a_priority_is_not_spent_on_empty_places() {
    let mut race = Race::new([0, 1, 0, 0], None).enter(0).unwrap();
    race.server.keyspace.run(&["HSET", KEYS[2], "last", "201"].map(Into::into));
    let mut race = race.enter(1).unwrap();
    race.server.keyspace.run(&["DEL", KEYS[0]].map(Into::into));
    race.is_held = false;
    race.asked(1, "beat").unwrap();
}

/// Its process may be gone.
#[test]
fn a_candidate_that_was_silent_for_too_long_is_not_nominated() {
    let mut race = Race::new([0; CANDIDATES], None).enter(0).unwrap().enter(1).unwrap();
    race.server.now += 8_000_000;
    let mut race = race.asked(0, "beat").unwrap();
    race.server.now += 2_000_000;
    let nominated = |race: &mut Race, label: &str| {
        is_accepted(&race.server.call(&race.scripts[1].clone(), KEYS[2], &[label])).unwrap()
    };
    assert!(!nominated(&mut race, "1") && nominated(&mut race, "0"));
    assert!(!nominated(&mut race, "") && !nominated(&mut race, "nobody"));
}

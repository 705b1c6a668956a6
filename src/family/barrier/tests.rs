use super::super::tests::{Simulated, Texts, World, said, search, texts};
use super::*;

const NOW: i64 = 1_763_700_000_000_000;
const KEYS: [&str; 2] = ["{b}:barrier", "{b}:passed"];
const PARTIES: usize = 3;
/// How far the search goes.
const GENERATIONS: u64 = 3;

#[test]
fn replies_are_read_as_the_scripts_head_says() {
    assert_eq!(Said::read(&said(&["open", "4"])), Some(Said::Open(4)));
    assert_eq!(Said::read(&said(&["closed", "4", "2"])), Some(Said::Closed(4, Some(2))));
    assert_eq!(Said::read(&said(&["closed", "4", "-1"])), Some(Said::Closed(4, None)));
    assert_eq!(Said::read(&said(&["caught up", "4", "2"])), Some(Said::Closed(4, Some(2))));
    assert_eq!(Said::read(&said(&["other", "7"])), Some(Said::Other(7)));
}

/// Safety rule 13.
#[test]
fn replies_that_the_script_cannot_give_let_nobody_go() {
    let strange: [&[&str]; 9] = [
        &["open"],
        &["open", "0"],
        &["open", "1", "1"],
        &["closed", "1"],
        &["caught up", "4", "-1"],
        &["closed", "1", "0"],
        &["closed", "0", "1"],
        &["other"],
        &[],
    ];
    for words in strange {
        assert_eq!(Said::read(&said(words)), None, "{words:?}");
    }
    assert_eq!(Said::read(&Frame::Integer(1)), None);
}

/// Parties that go from generation to generation, each of whose questions may be delivered again at any time.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Rounds {
    scripts: Texts<1>,
    server: Simulated,
    /// The generation that each party arrives for.
    generation: [u64; PARTIES],
    /// Whether its arrival for that one was delivered.
    has_arrived: [bool; PARTIES],
    may_forget: bool,
    has_forgotten: bool,
}

impl Rounds {
    fn new(may_forget: bool, bug: Option<(&str, &str)>) -> Self {
        let (generation, has_arrived) = ([1; PARTIES], [false; PARTIES]);
        let server = Simulated::at(NOW);
        let scripts = texts([&BARRIER], bug);
        Self { scripts, server, generation, has_arrived, may_forget, has_forgotten: false }
    }

    fn ask(&mut self, how: &str, generation: u64, party: usize) -> Result<Said, String> {
        let (generation, party) = (generation.to_string(), party.to_string());
        let arguments = [how, "3", "60000", &*generation, &*party];
        let reply = self.server.call_with(&self.scripts[0], &KEYS, &arguments);
        Said::read(&reply).ok_or_else(|| format!("{reply:?}"))
    }

    /// The party's question for this generation, which may be an old one.
    fn asked(&self, how: &str, generation: u64, party: usize) -> Result<Self, String> {
        let mut next = self.clone();
        let reply = next.ask(how, generation, party)?;
        let is_present = generation == self.generation[party];
        if how == "arrive" && is_present {
            next.has_arrived[party] = true;
        }
        let has_come = |other: usize| {
            let (its, has_arrived) = (self.generation[other], next.has_arrived[other]);
            its > generation || its == generation && has_arrived
        };
        let all_have_come = (0..PARTIES).all(has_come);
        match reply {
            Said::Open(opened) if opened != generation => return Err("another is let go".into()),
            Said::Open(_) if !all_have_come => return Err("some are let go too early".into()),
            Said::Open(_) if is_present => {
                next.generation[party] += 1;
                next.has_arrived[party] = false;
            }
            Said::Closed(..) if all_have_come && how == "arrive" && !self.has_forgotten => {
                return Err("all have come, and are not let go".into());
            }
            Said::Other(_) => return Err("it is the same barrier".into()),
            Said::Open(_) | Said::Closed(..) => {}
        }
        Ok(next)
    }
}

impl World for Rounds {
    fn next(&self) -> Result<Vec<Self>, String> {
        let mut all = Vec::new();
        for party in 0..PARTIES {
            let present = self.generation[party];
            for generation in 1..=present.min(GENERATIONS) {
                all.push(self.asked("arrive", generation, party)?);
            }
            if self.has_arrived[party] {
                all.push(self.asked("wait", present, party)?);
                all.push(self.asked("look", present, party)?);
            }
        }
        if self.may_forget {
            let mut forgot = self.clone();
            (forgot.may_forget, forgot.has_forgotten) = (false, true);
            forgot.server = Simulated::at(NOW);
            all.push(forgot);
        }
        Ok(all)
    }
}

#[test]
fn a_generation_is_let_go_when_all_have_arrived_and_not_before_however_late_arrivals_are() {
    let found = search(Rounds::new(false, None)).unwrap();
    assert!(found > 50, "{found} states");
}

/// A party that was let go before says so by the generation that it comes for, and late arrivals count for no other.
#[test]
fn a_server_that_forgets_lets_nobody_go_too_early() {
    let found = search(Rounds::new(true, None)).unwrap();
    assert!(found > 200, "{found} states");
}

#[test]
fn known_bugs_are_found() {
    let bugs = [
        ("meant <= last then", "meant < last then"),
        ("meant > 0 and meant <= last", "meant > 0 and meant < 0"),
        ("'p' .. ARGV[5], ''", "'p' .. redis.call('HLEN', KEYS[1]), ''"),
        ("parties + 1 - redis", "parties - redis"),
        ("parties .. string.format(' %.0f', meant)", "parties .. string.format(' %.0f', last)"),
    ];
    for bug in bugs {
        assert!(search(Rounds::new(false, Some(bug))).is_err(), "{bug:?}");
    }
}

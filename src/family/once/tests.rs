use super::super::stint;
use super::super::tests::{Simulated, Texts, World, said, search, texts};
use super::*;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 24 * 3600 * SECOND;
/// Slots are 10 s apart.
const NOW: i64 = 1_763_700_000 * SECOND;
const TTL_MS: &str = "5000";

#[test]
fn replies_are_read_as_the_scripts_head_says() {
    let at = |ms| UNIX_EPOCH + Duration::from_millis(ms);
    let run = Run { slot: at(7000), attempt: 2, unfinished: Some(at(6000)) };
    let claimed = Said::Claimed { run, next_in: Some(Duration::from_millis(5)) };
    assert_eq!(Said::read(&said(&["claimed", "7000", "2", "6000", "5"])), Some(claimed));
    let taken = Said::Taken { last: None, next_in: None };
    assert_eq!(Said::read(&said(&["taken", "-1", "-1"])), Some(taken));
    let left = Duration::from_millis(9);
    let running = Said::Running { slot: at(7000), left };
    assert_eq!(Said::read(&said(&["running", "9", "7000"])), Some(running));
    let early = Said::Early { due_in: left };
    assert_eq!(Said::read(&said(&["early", "9"])), Some(early));
}

/// Safety rule 13.
#[test]
fn replies_that_the_script_cannot_give_start_no_run() {
    let strange: [&[&str]; 9] = [
        &["claimed", "7000", "0", "-1", "-1"],
        &["claimed", "-7", "1", "-1", "-1"],
        &["claimed", "7000", "1", "-1"],
        &["claimed", "7000", "1", "-1", "-1", "1"],
        &["claimed", "7000", "1", "x", "-1"],
        &["taken", "-2", "-1"],
        &["running", "0", "7000"],
        &["early", "0"],
        &[],
    ];
    for words in strange {
        assert_eq!(Said::read(&said(words)), None, "{words:?}");
    }
    assert_eq!(Said::read(&Frame::Integer(1)), None);
}

#[test]
fn slots_that_cannot_be_are_refused() {
    let refused = |slot: Slot| slot.arguments().unwrap_err();
    assert!(refused(Slot::at(UNIX_EPOCH - Duration::from_secs(1))).contains("after 1970"));
    let day = Duration::from_secs(86_400);
    for period in [Duration::ZERO, Duration::from_micros(999), day * 7 + Duration::from_millis(1)] {
        assert!(refused(Slot::every(period)).starts_with("the period of a schedule must be"));
    }
    // The command's users read it, too.
    let long = "the period of a schedule must be between 1 ms and 168 h, not 200 h";
    assert_eq!(refused(Slot::every(Duration::from_secs(200 * 3600))), long);
    assert_eq!(Slot::every(day * 7).arguments(), Ok((String::new(), "604800000".to_owned())));
}

/// Some runs of a job on one server, each with an owner of its own.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Fleet {
    scripts: Texts<2>,
    ttl: &'static str,
    server: Simulated,
    runs: [Option<Claim>; 3],
    /// How much time may still pass: a second, a TTL, a slot; and more than a week.
    steps: [u8; 4],
    /// Slots of which a server has confirmed that their run is finished.
    finished: Vec<SystemTime>,
    claimed: Vec<(usize, SystemTime)>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Claim {
    slot: SystemTime,
    /// When its lease ends for it.
    ends: i64,
}

impl Fleet {
    fn new(ttl: &'static str, bug: Option<(&str, &str)>) -> Self {
        let scripts = texts([&SCRIPT, &stint::SETTLE], bug);
        let (server, runs) = (Simulated::at(NOW), [const { None }; 3]);
        let steps = if ttl == "0" { [0, 0, 1, 2] } else { [1, 2, 1, 0] };
        Self { scripts, ttl, server, runs, steps, finished: vec![], claimed: vec![] }
    }

    /// A run asks for the latest slot, or for that of the beginning; a second delivery is the same.
    fn ask(&self, run: usize, is_first_slot: bool) -> Result<Self, String> {
        let mut next = self.clone();
        let slot = (NOW / 1000).to_string();
        let (slot, period) = if is_first_slot { (&*slot, "0") } else { ("", "10000") };
        let owner = run.to_string();
        let reply =
            next.server.call(&self.scripts[0], "{j}:once", &[&owner, slot, period, self.ttl]);
        let answer = Said::read(&reply).ok_or_else(|| format!("{reply:?}"))?;
        if let Said::Claimed { run: Run { slot, .. }, .. } = answer {
            if self
                .claimed
                .iter()
                .any(|&(other, its)| its == slot && other != run && self.ttl == "0")
            {
                return Err("a slot is claimed twice".into());
            }
            if self.finished.contains(&slot) {
                return Err("a finished slot is run again".into());
            }
            if !next.claimed.contains(&(run, slot)) {
                next.claimed.push((run, slot));
            }
            let ends = self.server.now + self.ttl.parse::<i64>().unwrap() * 1000;
            next.runs[run] = Some(Claim { slot, ends });
        }
        next.check()
    }

    fn settle(&self, run: usize, how: &str) -> Result<Self, String> {
        let mut next = self.clone();
        let arguments = [&*run.to_string(), how, TTL_MS, "604800000", ""];
        let reply = next.server.call(&self.scripts[1], "{j}:once", &arguments);
        let is_settled = matches!(reply, Frame::Bulk(_));
        let Some(claim) = &mut next.runs[run] else { return Ok(next) };
        match (how, is_settled) {
            ("extend", true) => claim.ends = self.server.now + 5 * SECOND,
            ("finish", true) => {
                next.finished.push(claim.slot);
                next.runs[run] = None;
            }
            _ => next.runs[run] = None,
        }
        next.check()
    }

    fn check(self) -> Result<Self, String> {
        let is_running = |claim: &&Claim| claim.ends > self.server.now;
        match self.runs.iter().flatten().filter(is_running).count() {
            0 | 1 => Ok(self),
            _ => Err("two runs are under way".into()),
        }
    }
}

impl World for Fleet {
    fn next(&self) -> Result<Vec<Self>, String> {
        let mut all = Vec::new();
        for run in 0..self.runs.len() {
            // An owner is for one claim, and may be delivered twice.
            let claims = self.claimed.iter().filter(|(other, _)| *other == run).count();
            if claims == 0 || self.runs[run].is_some() && self.ttl == "0" {
                all.extend([self.ask(run, true)?, self.ask(run, false)?]);
            }
            if self.runs[run].is_some() && self.ttl != "0" {
                for how in ["extend", "finish", "fail"] {
                    all.push(self.settle(run, how)?);
                }
            }
        }
        for (step, micros) in [SECOND, 6 * SECOND, 10 * SECOND, 8 * DAY].into_iter().enumerate() {
            if self.steps[step] > 0 {
                let mut next = self.clone();
                next.steps[step] -= 1;
                next.server.now += micros;
                all.push(next);
            }
        }
        Ok(all)
    }
}

#[test]
fn whatever_callers_do_a_slot_is_claimed_at_most_once() {
    let states = search(Fleet::new("0", None)).unwrap();
    assert!(states > 500, "{states}");
}

#[test]
fn whatever_callers_do_runs_do_not_overlap_and_what_is_finished_stays_so() {
    let states = search(Fleet::new(TTL_MS, None)).unwrap();
    assert!(states > 1000, "{states}");
}

/// A claim whose first reply is lost, and whose second delivery comes in a later slot, is of the slot that it had:
/// else nobody runs that one, and the caller is told that its own claim is in its way.
#[test]
fn a_second_delivery_in_a_later_slot_finds_its_own_claim() {
    for ttl in ["0", "15000"] {
        let mut server = Simulated::at(NOW);
        let question = ["0", "", "10000", ttl];
        let first = server.call(SCRIPT.text, "{j}:once", &question);
        assert!(matches!(Said::read(&first), Some(Said::Claimed { .. })), "{first:?}");
        server.now += 10 * SECOND;
        assert_eq!(server.call(SCRIPT.text, "{j}:once", &question), first);
    }
}

/// What was sent on a connection that was given up may arrive when the run is over: others would wait for its TTL,
/// and run a finished slot again.
#[test]
fn a_late_delivery_begins_no_run_that_is_over() {
    let question = |owner| [owner, "", "10000", TTL_MS];
    for (how, next) in [("finish", "taken"), ("fail", "claimed")] {
        let mut server = Simulated::at(NOW);
        let begun = server.call(SCRIPT.text, "{j}:once", &question("0"));
        assert!(matches!(Said::read(&begun), Some(Said::Claimed { .. })), "{begun:?}");
        let over = ["0", how, TTL_MS, "604800000", ""];
        let over = server.call(stint::SETTLE.text, "{j}:once", &over);
        assert!(matches!(over, Frame::Bulk(_)), "{over:?}");
        let late = server.call(SCRIPT.text, "{j}:once", &question("0"));
        assert!(matches!(Said::read(&late), Some(Said::Taken { .. })), "{late:?}");
        let another = server.call(SCRIPT.text, "{j}:once", &question("1"));
        let Frame::Array(items) = another else { panic!("{another:?}") };
        assert_eq!(items[1], Frame::Bulk(next.into()));
    }
}

/// ShedLock #6: a host whose clock is late comes when the key is gone. Here by far.
#[test]
fn known_bugs_are_found() {
    let bugs = [
        ("0", "slot < last or slot == last and ends == 0", "slot < last", "claimed twice"),
        ("0", "if slot <= now - 604800000 then", "if false then", "claimed twice"),
        (TTL_MS, "elseif ends > now then", "elseif false then", "two runs are under way"),
        (TTL_MS, "slot < last or slot == last and ends == 0", "slot < last", "run again"),
        (
            TTL_MS,
            "if not kept or string.sub(kept, 1, #owner) ~= owner then",
            "if not kept then",
            "two runs are under way",
        ),
    ];
    for (ttl, right, wrong, found) in bugs {
        let broken = search(Fleet::new(ttl, Some((right, wrong)))).unwrap_err();
        assert!(broken.contains(found), "{right}: {broken}");
    }
}

use std::time::Duration;

use bytes::Bytes;

use super::super::tests::{Bench, acquire, greeting, request_of, settings, stamp, text};
use super::super::{
    Alone, Command, Effect, FENCED, Fault, Kind, Login, Means, Question, Said, Script, Settings,
};
use super::*;
use crate::names::Names;
use crate::policy::fitness::Rules;
use crate::policy::{Bounds, Wait};
use crate::support::recorded;

const LONGEST: Duration = Duration::from_secs(10);

/// What a master says of itself that has run for long.
fn info(run: &str) -> String {
    let info = recorded::of("redis-7.0.15").info("standalone");
    recorded::with_each(&info, &[("uptime_in_seconds", "500"), ("run_id", run)])
}

struct All(Vec<Command>);

impl Memory for All {
    fn note(&mut self, release: &Command, _: Moment) {
        self.0.push(release.clone());
    }

    fn tell_again(&mut self, _: Moment, tell: &mut dyn FnMut(&Command)) {
        self.0.drain(..).for_each(|release| tell(&release));
    }
}

/// The server is met, and the link may lead to another from some time on.
fn followed() -> Bench {
    let rules = Rules {
        restart_quarantine: Some(LONGEST),
        strict: false,
        in_cluster: false,
        by_sentinels: true,
    };
    let mut bench = Bench::new(1, Settings { rules: Some(rules), ..settings(1) });
    bench.machine.remembers(0, Box::new(All(Vec::new())));
    meet(&mut bench, "a");
    bench
}

/// The link is up to this run; what is said there, each answered as done.
fn meet(bench: &mut Bench, run: &str) -> Vec<String> {
    bench.dial(0, Login::default());
    answer(bench, run)
}

fn answer(bench: &mut Bench, run: &str) -> Vec<String> {
    let (info, mut said) = (info(run), Vec::new());
    bench.answer(0, |command: &[Bytes]| {
        let is_script = command[0] == "EVALSHA";
        said.extend(is_script.then(|| text(&command[..command.len() - 1])));
        vec![if is_script { stamp(command) } else { greeting(command, &info) }]
    });
    said
}

fn holds(bench: &Bench, name: &[u8]) -> bool {
    bench.machine.holds(&Names::new(b"", name).unwrap())
}

#[test]
fn a_successor_is_told_what_was_given_back_and_asked_for_what_is_held() {
    let mut bench = followed();
    let [given_back, _kept] = [b"given back" as &[u8], b"kept"].map(|name| {
        let id = acquire(&mut bench, name);
        answer(&mut bench, "a");
        id
    });
    bench.machine.forget(given_back, bench.now);
    let released = answer(&mut bench, "a");
    assert!(released.len() == 1 && holds(&bench, b"kept"));
    // A connection that ends is none to another server.
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    assert!(!meet(&mut bench, "a").contains(&released[0]));
    bench.machine.moved(0, "b".into(), bench.now, bench.now);
    let said = meet(&mut bench, "b");
    assert!(said.contains(&released[0]), "{said:?}");
    let extend = text(&[Bytes::from_static(bench.machine.settings().scripts.extend.digest)]);
    assert!(said.iter().any(|it| it.contains(&extend) && it.contains("kept")), "{said:?}");
    assert!(holds(&bench, b"kept"));
}

/// It is kept by a command of its own.
static ALONE: Kind = Kind {
    goes_on: false,
    alone: Some(Alone {
        extend: |question| {
            let Question { command, names, owner, scripts, .. } = question;
            command.call(&scripts.queue, &[names.lock()], &[owner]);
        },
        read: FENCED.read,
        repair: FENCED.acquire,
        means: Means::SCRIPTS,
    }),
    ..FENCED
};

#[test]
fn a_successor_is_asked_for_each_lease_as_its_kind_is_kept() {
    let mut bench = followed();
    for (kind, name) in [(&FENCED, b"a"), (&ALONE, b"b"), (&FENCED, b"c")] {
        request_of(kind, &mut bench, name, Wait::Never, Bounds::default());
        answer(&mut bench, "a");
    }
    bench.machine.moved(0, "b".into(), bench.now, bench.now);
    let said = meet(&mut bench, "b");
    let scripts = bench.machine.settings().scripts;
    let asked = |script: Script| {
        let digest = text(&[Bytes::from_static(script.digest)]);
        let it = said.iter().filter(move |it| it.contains(&digest));
        it.map(|it| it.split(' ').nth(2).map(str::to_owned)).collect::<Vec<_>>()
    };
    // The number of keys of each.
    assert_eq!(asked(scripts.extend), [Some("2".to_owned())]);
    assert_eq!(asked(scripts.queue), [Some("1".to_owned())]);
}

#[test]
fn a_successor_votes_once_all_have_left_the_one_before_however_long_that_was_served() {
    let mut bench = followed();
    let wait = Duration::from_millis(1500);
    bench.machine.moved(0, "b".into(), bench.now.after(wait), bench.now);
    meet(&mut bench, "b");
    let id = acquire(&mut bench, b"a");
    assert!(answer(&mut bench, "b").is_empty());
    let report = bench.machine.report(id, bench.now).next().unwrap();
    assert!(matches!(report.said, Said::Settling(left) if left <= wait));
    bench.pass(wait);
    acquire(&mut bench, b"a");
    answer(&mut bench, "b");
    assert!(holds(&bench, b"a"));
}

#[test]
fn what_waits_for_the_connection_waits_for_the_successors() {
    let mut bench = followed();
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    acquire(&mut bench, b"a");
    bench.pass(Duration::from_millis(100));
    bench.machine.moved(0, "b".into(), bench.now, bench.now);
    meet(&mut bench, "b");
    assert!(holds(&bench, b"a"));
}

#[test]
fn what_is_dialled_when_a_successor_is_found_is_dialled_anew() {
    let mut bench = followed();
    bench.machine.disconnected(0, Fault::Closed, bench.now);
    bench.dial(0, Login::default());
    bench.effects.clear();
    bench.machine.moved(0, "b".into(), bench.now, bench.now);
    bench.pass(Duration::ZERO);
    let dials = |it: &&Effect| matches!(it, Effect::Dial(0, _));
    assert_eq!(bench.effects.iter().filter(dials).count(), 1);
}

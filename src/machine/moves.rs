//! What is known of a link that may lead to another server, which takes the place of the one before: a replica that was
//! promoted.
//!
//! It may know nothing of what the one before was told last. Leases are looked for there at once, as at another run of one
//! server; what was given back lately is given back once more. A release names an owner that is never used again, so it
//! can do no harm.

use std::collections::VecDeque;
use std::time::Duration;

use super::command::Command;
use crate::policy::Moment;

/// A server that serves for longer than this has passed its releases on by then.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// Maximum releases that are remembered: the oldest are forgotten.
const REMEMBERED_MAX: usize = 2048;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Moves {
    /// The server has still to be met.
    is_new: bool,
    /// It may not vote before.
    votes_at: Moment,
    /// Releases that were written lately.
    released: VecDeque<(Moment, Command)>,
}

impl Moves {
    /// The link leads to another server, which may not vote before this.
    pub(super) fn begin(&mut self, votes_at: Moment) {
        (self.is_new, self.votes_at) = (true, votes_at);
    }

    /// When the server may vote, where it may now but for this.
    pub(super) fn votes_at(&self, now: Moment) -> Moment {
        self.votes_at.max(now)
    }

    /// The server is met: what it is to be told once more, if it is for the first time.
    pub(super) fn met(&mut self, now: Moment) -> Option<impl Iterator<Item = Command> + use<>> {
        let is_new = std::mem::replace(&mut self.is_new, false);
        let released = is_new.then(|| std::mem::take(&mut self.released))?;
        let is_recent = move |at| now.since(at) <= REMEMBERED_FOR;
        Some(released.into_iter().filter(move |(at, _)| is_recent(*at)).map(|(_, release)| release))
    }

    /// A release is written.
    pub(super) fn remember(&mut self, release: &Command, now: Moment) {
        let is_old = |(at, _): &(Moment, Command)| now.since(*at) > REMEMBERED_FOR;
        while self.released.len() >= REMEMBERED_MAX || self.released.front().is_some_and(is_old) {
            self.released.pop_front();
        }
        self.released.push_back((now, release.clone()));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::tests::{Bench, acquire, greeting, settings, stamp, text};
    use super::super::{Effect, Fault, Login, Said, Settings};
    use super::*;
    use crate::names::Names;
    use crate::policy::fitness::Rules;
    use crate::support::recorded;

    const LONGEST: Duration = Duration::from_secs(10);

    /// What a master says of itself that has run for long.
    fn info(run: &str) -> String {
        let info = recorded::of("redis-7.0.15").info("standalone");
        recorded::with_each(&info, &[("uptime_in_seconds", "500"), ("run_id", run)])
    }

    /// The server is met, and the link may lead to another from some time on.
    fn followed() -> Bench {
        let rules = Rules {
            restart_guard: Some(LONGEST),
            strict: false,
            in_cluster: false,
            by_sentinels: true,
        };
        let mut bench = Bench::new(1, Settings { rules: Some(rules), ..settings(1) });
        bench.machine.moved(0, bench.now, bench.now);
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
        let [given_back, kept] = [b"given back" as &[u8], b"kept"].map(|name| {
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
        bench.machine.moved(0, bench.now, bench.now);
        let said = meet(&mut bench, "b");
        assert!(said.contains(&released[0]), "{said:?}");
        let extend = text(&[Bytes::from_static(bench.machine.settings().scripts.extend.digest)]);
        assert!(said.iter().any(|it| it.contains(&extend) && it.contains("kept")), "{said:?}");
        assert!(bench.machine.state(kept).is_some_and(|state| state.is_held()));
    }

    #[test]
    fn a_successor_votes_once_all_have_left_the_one_before_however_long_that_was_served() {
        let mut bench = followed();
        let wait = Duration::from_millis(1500);
        bench.machine.moved(0, bench.now.after(wait), bench.now);
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
    fn what_is_dialled_when_a_successor_is_found_is_dialled_anew() {
        let mut bench = followed();
        bench.machine.disconnected(0, Fault::Closed, bench.now);
        bench.dial(0, Login::default());
        bench.effects.clear();
        bench.machine.moved(0, bench.now, bench.now);
        bench.pass(Duration::ZERO);
        let dials = |it: &&Effect| matches!(it, Effect::Dial(0, _));
        assert_eq!(bench.effects.iter().filter(dials).count(), 1);
    }

    fn release(at: u64) -> Command {
        Command { bytes: at.to_string().as_bytes().into(), ..Command::new(true) }
    }

    #[test]
    fn what_was_given_back_lately_is_remembered_up_to_a_bound_and_for_one_successor() {
        let at = |ms| Moment::from_nanos(0).after(Duration::from_millis(ms));
        let mut moves = Moves::default();
        moves.remember(&release(0), at(0));
        moves.remember(&release(4000), at(4000));
        assert!(moves.met(at(6000)).is_none(), "it is the same server");
        moves.begin(at(0));
        let told: Vec<_> = moves.met(at(6000)).unwrap().map(|it| it.bytes).collect();
        assert_eq!(told, ["4000"]);
        moves.begin(at(0));
        assert_eq!(moves.met(at(6000)).unwrap().count(), 0);
        moves.remember(&release(0), at(0));
        moves.remember(&release(5001), at(5001));
        assert_eq!(moves.released.len(), 1, "what is old makes room");
        (0..3000).for_each(|_| moves.remember(&release(5002), at(5002)));
        moves.begin(at(0));
        assert_eq!(moves.met(at(5003)).unwrap().count(), REMEMBERED_MAX);
    }
}

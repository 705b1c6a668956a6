//! Which tokens were issued, and what they must never be to each other.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use leasehold::{Error, ErrorKind, Guard};
use leasehold_testing::leases::{self, Part};

use super::caller::LIMIT;
use super::course::{Course, Judged, stalled};
use super::{PROCESSES, has_grace};
use crate::history::{At, Lease, Recorder};

/// The names below are those of locks that one process each takes again and again.
pub(crate) const WANTED: usize = PROCESSES;
/// Has readers and writers.
pub(crate) const SHARED: usize = PROCESSES + 1;
/// Has permits.
pub(crate) const PERMITS: usize = PROCESSES + 2;
/// Nobody holds them, and they are asked for after a failover: one was held until shortly before.
pub(crate) const FREED: usize = PROCESSES + 3;
pub(crate) const FREE: usize = PROCESSES + 4;
/// Of grants that a failover is waited for with: one of each name, and of a writer of the shared one.
const WAITED_FOR: usize = PROCESSES + 4;

/// Maximum findings shown of each kind.
const SHOWN_MAX: usize = 2;

/// The name that each caller of a process takes.
pub(crate) fn duties(process: usize) -> [usize; 8] {
    [process, WANTED, WANTED, SHARED, SHARED, SHARED, PERMITS, PERMITS]
}

/// What all callers of one set of servers share.
pub(crate) struct Stage {
    pub(crate) recorder: Recorder,
    pub(crate) is_over: AtomicBool,
    /// Callers with a lock of their own sleep.
    pub(crate) is_night: AtomicBool,
    /// Leases outlive a failover, and none is stolen.
    pub(crate) is_long: bool,
    labels: AtomicU64,
    issued: Mutex<Issued>,
    course: Mutex<Course>,
    /// When the last of the grants were asked for, in microseconds.
    asked: [AtomicU64; WAITED_FOR],
}

#[derive(Default)]
struct Issued {
    leases: Vec<Lease>,
    /// The lease of each label, which no other has.
    by_label: BTreeMap<u64, usize>,
    /// Thieves, and the labels of those that they took the lock from.
    steals: Vec<(usize, u64)>,
}

fn micros(at: At) -> u64 {
    u64::try_from(at.as_micros()).expect("a run is short")
}

impl Stage {
    pub(crate) fn new(is_long: bool) -> Self {
        Self {
            recorder: Recorder::new(),
            is_over: AtomicBool::new(false),
            is_night: AtomicBool::new(false),
            is_long,
            labels: AtomicU64::new(0),
            issued: Mutex::default(),
            course: Mutex::default(),
            asked: Default::default(),
        }
    }

    pub(crate) fn now(&self) -> At {
        self.recorder.now()
    }

    pub(crate) fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().expect("nobody panicked")
    }

    pub(crate) fn label(&self) -> u64 {
        self.labels.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes the token of a guard that was granted just now; the number of the lease.
    pub(crate) fn note(&self, guard: &Guard, label: u64, lease: Lease) -> usize {
        self.recorder.count(lease.end);
        let is_written = lease.name == SHARED && lease.part == Part::Whole;
        let waited_for = if is_written { WAITED_FOR - 1 } else { lease.name };
        self.asked[waited_for].fetch_max(micros(lease.begun), Ordering::SeqCst);
        let report = guard.report();
        let victims = report.taken_from().filter_map(|it| it.label.as_ref()?.parse().ok());
        // A request that waits and has lost the lock before it knew comes back as another owner, later.
        let label = Some(label).filter(|_| lease.end != "waited for");
        self.issued.lock().expect("nobody panicked").note(lease, label, victims)
    }

    /// Its holder knew then that it held.
    pub(crate) fn is_held(&self, lease: usize, at: At) {
        self.issued.lock().expect("nobody panicked").leases[lease].until = at;
    }

    /// Whether each kind of grant was asked for and had after `at`.
    pub(crate) fn has_all_since(&self, at: At) -> bool {
        self.asked.iter().all(|asked| asked.load(Ordering::SeqCst) > micros(at))
    }

    pub(crate) fn refused(&self, call: &str, error: &Error) {
        self.recorder.expect_fault(call, error);
        self.recorder.count(if error.kind() == ErrorKind::Contended {
            "refused: held"
        } else if error.kind() == ErrorKind::Lost {
            "refused: lost"
        } else if error.is_unknown() {
            "refused: unknown"
        } else if error.kind() == ErrorKind::Unavailable {
            "refused: unavailable"
        } else if error.is_timeout() {
            "refused: no answer in time"
        } else {
            "refused: otherwise"
        });
    }

    /// What is broken, as text, and how much there was of what.
    pub(crate) fn verdict(&self) -> (String, BTreeMap<&'static str, u64>) {
        let mut history = std::mem::take(&mut *self.recorder.history());
        let issued = std::mem::take(&mut *self.issued.lock().expect("nobody panicked"));
        let mut report = String::new();
        let mut tell = |line: &str| writeln!(report, "{line}").expect("a string takes it");
        if let Some(first) = history.surprises.first() {
            let count = history.surprises.len();
            tell(&format!(
                "{count} errors that no fault explains, first at {:.6?}: {}",
                first.at, first.text
            ));
        }
        // Readers that outlive a failover lead others to a token from before it.
        let is_control = self.is_long && !has_grace();
        for (what, pairs) in issued.violations().into_iter().filter(|_| !is_control) {
            tell(&format!("{what}: {} times", pairs.len()));
            for (later, earlier) in pairs.into_iter().take(SHOWN_MAX) {
                let notes = history.notes.iter().map(|note| (note.at, note.text.clone()));
                let mut lines: Vec<(At, String)> =
                    notes.filter(|(at, _)| (earlier.begun..later.granted).contains(at)).collect();
                lines.extend([earlier, later].map(|lease| (lease.granted, told(lease))));
                lines.sort();
                lines.iter().for_each(|(at, line)| tell(&format!("    {at:.6?} {line}")));
            }
        }
        let count = |number| u64::try_from(number).expect("a count fits");
        let crowds = leases::crowds(&issued.leases, LIMIT);
        if self.is_long {
            history.counts.insert("doubly held", count(crowds.len()));
        }
        for crowd in crowds.iter().filter(|_| self.is_long && has_grace()).take(SHOWN_MAX) {
            tell("held together:");
            crowd.iter().for_each(|lease| tell(&format!("    {}", told(lease))));
        }
        if has_grace() {
            let origin = self.recorder.origin();
            let judged =
                self.course().judge(&issued.leases, |from, to| stalled(origin + from, origin + to));
            let Judged { broken, outliers, counts } = judged;
            outliers.iter().for_each(|line| println!("{line}"));
            broken.iter().for_each(|line| tell(line));
            history.counts.extend(counts);
        }
        history.counts.insert("checked: tokens", count(issued.leases.len()));
        history.counts.insert("checked: steals", count(issued.steals.len()));
        (report, history.counts)
    }
}

fn told(lease: &Lease) -> String {
    let Lease { name, client, part, token, begun, end, .. } = lease;
    format!(
        "client {client}, lock {name}, {part:?}, token {token}: {end}, asked for at {begun:.6?}"
    )
}

/// Two leases of one lock: what the first must not be to the second.
type Pair<'a> = (&'a Lease, &'a Lease);

impl Issued {
    fn note(
        &mut self,
        lease: Lease,
        label: Option<u64>,
        victims: impl Iterator<Item = u64>,
    ) -> usize {
        let index = self.leases.len();
        self.leases.push(lease);
        self.by_label.extend(label.map(|label| (label, index)));
        self.steals.extend(victims.map(|victim| (index, victim)));
        index
    }

    /// What is broken, by what the later lease is.
    fn violations(&self) -> BTreeMap<String, Vec<Pair<'_>>> {
        let kinds = [
            ("one token twice", leases::of_one_token(&self.leases)),
            ("no larger token than an earlier one", leases::out_of_order(&self.leases)),
            (
                "no larger token than the holder that it was taken from",
                self.thieves_below().collect(),
            ),
        ];
        let mut found: BTreeMap<String, Vec<Pair<'_>>> = BTreeMap::new();
        for (what, pairs) in kinds {
            for pair in pairs {
                let kind = match (pair.0.part, pair.0.name) {
                    (Part::Reader, _) => "reader",
                    (Part::Permit(_), _) => "permit",
                    (Part::Whole, SHARED) => "writer",
                    (Part::Whole, WANTED) => "lock that all want",
                    (Part::Whole, _) => "lock of one process",
                };
                found.entry(format!("{kind}: {what}")).or_default().push(pair);
            }
        }
        found
    }

    /// Whenever their victims were told of their own tokens.
    fn thieves_below(&self) -> impl Iterator<Item = Pair<'_>> {
        let pairs = self.steals.iter().filter_map(|(thief, victim)| {
            Some((&self.leases[*thief], &self.leases[*self.by_label.get(victim)?]))
        });
        pairs.filter(|(thief, victim)| thief.token <= victim.token)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn lease(part: Part, token: u64, begun_ms: u64) -> Lease {
        let begun = Duration::from_millis(begun_ms);
        let granted = begun + Duration::from_millis(1);
        let end = "taken";
        Lease {
            name: WANTED,
            client: 0,
            part,
            token,
            begun,
            granted,
            until: granted,
            extended: 0,
            end,
        }
    }

    /// How many violations there are of each kind.
    fn found(leases: &[Lease]) -> Vec<(String, usize)> {
        let issued = Issued { leases: leases.to_vec(), ..Issued::default() };
        issued.violations().into_iter().map(|(what, pairs)| (what, pairs.len())).collect()
    }

    #[track_caller]
    fn assert_found(leases: &[Lease], wanted: &[(&str, usize)]) {
        let wanted: Vec<_> =
            wanted.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect();
        assert_eq!(found(leases), wanted);
    }

    #[test]
    fn a_token_that_comes_twice_or_falls_is_found() {
        let permits = |tokens: [u64; 3]| {
            [(0, 0), (1, 10), (2, 20)]
                .map(|(index, begun)| lease(Part::Permit(1), tokens[index], begun))
        };
        assert_found(&permits([5, 6, 7]), &[]);
        let (falls, twice) =
            ("permit: no larger token than an earlier one", "permit: one token twice");
        assert_found(&permits([5, 9, 7]), &[(falls, 1)]);
        assert_found(&permits([5, 6, 5]), &[(falls, 1), (twice, 1)]);
        let together = [lease(Part::Permit(1), 5, 0), lease(Part::Permit(1), 5, 0)];
        assert_found(&together, &[(twice, 1)]);
        let locks = [lease(Part::Whole, 5, 0), lease(Part::Whole, 4, 10)];
        assert_found(&locks, &[("lock that all want: no larger token than an earlier one", 1)]);
    }

    #[test]
    fn a_reader_below_the_last_writer_is_found_and_so_is_a_writer_not_above_a_reader() {
        let reads = |token, begun| [lease(Part::Whole, 7, 0), lease(Part::Reader, token, begun)];
        assert_found(&reads(7, 10), &[]);
        assert_found(&reads(8, 10), &[]);
        assert_found(&reads(6, 10), &[("reader: no larger token than an earlier one", 1)]);
        // It was asked for before the writer was told.
        assert_found(&reads(6, 0), &[]);
        // Neither of the two has written.
        assert_found(&[lease(Part::Reader, 7, 10), lease(Part::Reader, 6, 20)], &[]);
        let upgrades = |token| [lease(Part::Reader, 7, 10), lease(Part::Whole, token, 20)];
        assert_found(&upgrades(8), &[]);
        assert_found(
            &upgrades(7),
            &[("lock that all want: no larger token than an earlier one", 1)],
        );
    }

    #[test]
    fn a_thief_that_is_not_above_its_victim_is_found_whichever_was_told_first() {
        let stolen = |token| {
            let mut issued = Issued::default();
            issued.note(lease(Part::Whole, token, 0), Some(4), [3].into_iter());
            issued.note(lease(Part::Whole, 7, 0), Some(3), [].into_iter());
            issued.thieves_below().count()
        };
        assert_eq!([6, 8].map(stolen), [1, 0]);
    }
}

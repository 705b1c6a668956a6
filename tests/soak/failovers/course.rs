//! How each failover of a service went, and what became of the locks that were held over it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use leasehold::Loss;
use leasehold_testing::leases::Part;

use super::caller::LONGEST;
use super::issued::{SHARED, duties};
use crate::history::{At, Lease};

/// Names are to be free again this long after their longest TTL, since a successor was named.
const A_MOMENT: Duration = Duration::from_secs(1);
/// A holder that learns of the successor so long before its lease ends is to keep the lease.
const IN_TIME: Duration = Duration::from_secs(1);
/// A thread that sleeps wakes no later, unless the machine stands still.
const STALL: Duration = Duration::from_millis(100);
const NAP: Duration = Duration::from_millis(10);

/// One failover of a service.
#[derive(Debug)]
pub(crate) struct Failover {
    /// The primary was about to be killed, or a replica to be promoted.
    pub(crate) begun: At,
    /// A replica said that it is the primary.
    pub(crate) promoted: At,
    pub(crate) successor: u16,
    /// All Sentinels, or the nodes, named the successor, and the other was no primary any more.
    pub(crate) agreed: At,
    /// Names that nobody held were granted again: the first and the last.
    pub(crate) had: [At; 2],
}

/// A lock that was lost.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) at: At,
    /// When the lease was to end.
    pub(crate) ends: At,
    pub(crate) why: Loss,
}

/// All failovers of a service.
#[derive(Debug, Default)]
pub(crate) struct Course {
    pub(crate) failovers: Vec<Failover>,
    /// When a process has learned that a server is a new primary.
    pub(crate) learned: Vec<(usize, u16, At)>,
    /// By the number of the lease.
    pub(crate) lost: BTreeMap<usize, Lost>,
}

/// What is broken, what is worth a look, and how much there was of what.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) broken: Vec<String>,
    pub(crate) outliers: Vec<String>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Judged {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn longest(&mut self, what: &'static str, time: Duration) {
        let longest = self.counts.entry(what).or_default();
        *longest = (*longest).max(u64::try_from(time.as_millis()).expect("a run is short"));
    }
}

impl Course {
    /// Shares and permits are lost where the successor has not heard of them.
    pub(crate) fn judge(&self, leases: &[Lease], stalled: impl Fn(At, At) -> Duration) -> Judged {
        let mut judged = Judged::default();
        let after = |at: At, from: At| at.saturating_sub(from);
        let ends = self.failovers.iter().skip(1).map(|next| next.begun).chain([At::MAX]);
        for (failover, end) in self.failovers.iter().zip(ends) {
            let Failover { begun, promoted, successor, agreed, had: [first_had, had] } = *failover;
            let learned = |process: Option<usize>| {
                let is_it = |it: &&(usize, u16, At)| {
                    process.is_none_or(|process| it.0 == process)
                        && it.1 == successor
                        && (begun..end).contains(&it.2)
                };
                self.learned.iter().find(is_it).map(|it| it.2)
            };
            let waited = after(had, promoted);
            let met = learned(None).map(|at| after(at, agreed)).unwrap_or_default();
            judged
                .longest("longest: ms since all were told until a process met the successor", met);
            let since_told = after(had, agreed);
            judged.longest("longest: ms since the promotion until names were had again", waited);
            judged
                .longest("longest: ms since all were told until names were had again", since_told);
            if first_had < begun + LONGEST {
                judged.broken.push(format!(
                    "a name was had at {first_had:.3?}, in the grace after a promotion at {promoted:.3?}"
                ));
            }
            if since_told > LONGEST + A_MOMENT {
                judged.count("names had again late");
                let stalled = stalled(begun, had);
                judged.outliers.push(format!(
                    "{promoted:.3?}: names were had again {waited:.3?} after the promotion, of which all were told \
                     after {:.3?} and the first process met it {met:.3?} later; the machine stood still for \
                     {stalled:.3?}",
                    after(agreed, promoted)
                ));
            }
            for (number, lease) in leases.iter().enumerate() {
                if lease.part == Part::Whole && lease.name < SHARED && lease.granted < begun {
                    let process = lease.client / duties(0).len();
                    let lost = self.lost.get(&number);
                    let lost = lost.filter(|lost| (begun..end).contains(&lost.at));
                    judged.lease(failover, lease, learned(Some(process)), lost, &stalled);
                }
            }
        }
        judged
    }
}

impl Judged {
    /// What became of a lock that had been granted before a failover.
    fn lease(
        &mut self,
        failover: &Failover,
        lease: &Lease,
        learned: Option<At>,
        lost: Option<&Lost>,
        stalled: impl Fn(At, At) -> Duration,
    ) {
        let Some(lost) = lost else {
            if learned.is_some_and(|at| lease.until > at) {
                self.count("locks held over a failover: kept");
            }
            return;
        };
        let Some(learned) = learned.filter(|at| *at < lost.ends) else {
            self.count(if lost.ends < failover.promoted {
                "locks held over a failover: ended before the promotion"
            } else {
                "locks held over a failover: ended before their holder reached the successor"
            });
            return;
        };
        let time = (lost.ends - learned).saturating_sub(stalled(learned, lost.at));
        let Lease { name, client, token, .. } = lease;
        let Lost { at, ends, why } = lost;
        let line = format!(
            "client {client}, lock {name}, token {token}: lost at {at:.3?}, {why}; it was to end at {ends:.3?}, and \
             the successor was reached at {learned:.3?} after a promotion at {:.3?}",
            failover.promoted
        );
        if time > IN_TIME {
            self.broken.push(line);
        } else {
            self.count(
                "locks held over a failover: reached the successor with less than a second left",
            );
            self.outliers.push(line);
        }
    }
}

/// When the machine stood still: from and for how long.
static STALLS: Mutex<Vec<(Instant, Duration)>> = Mutex::new(Vec::new());

/// Notes from here on when the machine stands still.
pub(crate) fn watch_for_stalls() {
    std::thread::spawn(|| {
        loop {
            let began = Instant::now();
            std::thread::sleep(NAP);
            let late = began.elapsed() - NAP;
            if late > STALL {
                STALLS.lock().expect("nobody panicked").push((began, late));
            }
        }
    });
}

/// For how long the machine stood still between the two.
pub(crate) fn stalled(from: Instant, to: Instant) -> Duration {
    let stalls = STALLS.lock().expect("nobody panicked");
    stalls.iter().filter(|(at, late)| *at < to && *at + *late > from).map(|stall| stall.1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(secs: u64) -> At {
        Duration::from_secs(secs)
    }

    fn judged(until: u64, lost: Option<u64>, learned: Option<u64>, stalled: u64) -> Judged {
        let failover = Failover {
            begun: at(10),
            promoted: at(12),
            successor: 7,
            agreed: at(12),
            had: [at(19); 2],
        };
        let (name, client, part, token) = (0, 9, Part::Whole, 1);
        let (begun, granted, until) = (at(8), at(9), at(until));
        let lease =
            Lease { name, client, part, token, begun, granted, until, extended: 0, end: "taken" };
        let lost = lost.map(|ends| (0, Lost { at: until, ends: at(ends), why: Loss::Gone }));
        let learned = learned.map(|secs| (1, 7, at(secs)));
        let course = Course {
            failovers: vec![failover],
            // Another process, another server, and another failover.
            learned: [(0, 7, at(12)), (1, 8, at(12)), (1, 7, at(9))]
                .into_iter()
                .chain(learned)
                .collect(),
            lost: lost.into_iter().collect(),
        };
        course.judge(&[lease], |_, _| at(stalled))
    }

    #[track_caller]
    fn assert_fate(judged: &Judged, fate: &str) {
        let told: Vec<_> = judged.counts.keys().filter(|what| what.contains("held over")).collect();
        assert!(told.iter().all(|what| what.ends_with(fate)) && told.len() == 1, "{judged:?}");
        assert!(judged.broken.is_empty());
    }

    #[test]
    fn a_lock_that_is_lost_though_its_successor_was_reached_in_time_is_found() {
        assert_fate(&judged(16, None, Some(13), 0), "kept");
        assert_fate(&judged(11, Some(11), Some(13), 0), "before the promotion");
        assert_fate(&judged(13, Some(13), Some(14), 0), "reached the successor");
        assert_fate(&judged(13, Some(14), None, 0), "reached the successor");
        assert_fate(&judged(14, Some(14), Some(13), 0), "a second left");
        assert_fate(&judged(15, Some(16), Some(13), 2), "a second left");
        assert_eq!(judged(14, Some(16), Some(13), 0).broken.len(), 1);
        assert!(
            !judged(12, None, Some(13), 0).counts.keys().any(|what| what.contains("held over"))
        );
    }

    #[test]
    fn names_that_are_had_in_the_grace_are_found_and_those_that_are_late_are_told() {
        let late = |had| {
            let (begun, promoted, agreed, had) = (at(0), at(1), at(2), [had; 2]);
            let failover = Failover { begun, promoted, successor: 7, agreed, had };
            let course = Course { failovers: vec![failover], ..Course::default() };
            let judged = course.judge(&[], |_, _| at(0));
            (judged.outliers.len(), judged.broken.len())
        };
        let last = at(2) + LONGEST + A_MOMENT;
        assert_eq!([last, last + NAP].map(late), [(0, 0), (1, 0)]);
        assert_eq!([LONGEST, LONGEST - NAP].map(late), [(0, 0), (0, 1)]);
    }
}

//! What a history shows, kind by kind.

use std::fmt;
use std::time::Duration;

use crate::checks::{self, Violation};
use crate::client::{STUCK, Stage};
use crate::history::{At, Disturbance, Lease};
use crate::plan::{Kind, Plan};

/// This many of each kind are shown.
const SHOWN_MAX: usize = 1;

pub(crate) struct Verdict {
    library: String,
    seed: u64,
    counts: Vec<(&'static str, u64)>,
    /// Each kind of fault: how often, and the first of them.
    faults: Vec<(&'static str, usize, Vec<String>)>,
}

impl Verdict {
    pub(crate) fn of(
        plan: &Plan,
        library: String,
        stage: &Stage,
        leases: &[(Lease, Duration)],
        more: Option<(&'static str, Vec<Violation>)>,
    ) -> Self {
        let mut history = std::mem::take(&mut *stage.recorder.history());
        let told: Vec<Lease> = leases.iter().map(|(lease, _)| lease.clone()).collect();
        history.leases.clone_from(&told);
        // A client that waited asked long before its lease began.
        let waited = plan.waiters.is_some();
        let since = |lease: &Lease| if waited { lease.granted } else { lease.begun };
        let within: Vec<Lease> =
            leases.iter().map(|(lease, ttl)| within_ttl(lease, since(lease), *ttl)).collect();
        let fenced: Vec<Lease> = told.iter().filter(|lease| lease.token != 0).cloned().collect();
        let permits = plan.kind.permits();
        let mut crowds = [checks::crowds(&within, permits), checks::crowds(&told, permits)];
        for found in &mut crowds {
            found.retain(|found| !is_excused(found, &history.disturbances));
        }
        let [within, told] = crowds;
        let violations = [
            ("more holders than permits, each within its TTL", within),
            ("more holders than permits, as the library told them", told),
            ("one token twice", checks::tokens_repeat(&fenced)),
            ("a later lease with no larger token", checks::tokens_disobey_time(&fenced)),
            ("a claim longer than the TTL", checks::claims_too_long(&history.claims)),
            (
                "a release that finds the lock gone, while its holder is told that it holds",
                checks::lost_undisturbed(&history.answers, &history.leases, &history.disturbances),
            ),
        ];
        let mut faults = Vec::new();
        for (kind, found) in violations.into_iter().chain(more) {
            let shown = found.iter().take(SHOWN_MAX);
            let show = |found: &Violation| {
                format!(
                    "lock {}: {}\n{}",
                    found.name,
                    found.text,
                    history.slice(found.name, found.from, found.to)
                )
            };
            faults.push((kind, found.len(), shown.map(show).collect()));
        }
        let outlived = history.surprises.iter().take(SHOWN_MAX).map(|note| note.text.clone());
        let kind = "a guard that outlived its lease unnoticed";
        faults.push((kind, history.surprises.len(), outlived.collect()));
        let stuck = history.counts.remove(STUCK).unwrap_or_default();
        faults.push((STUCK, usize::try_from(stuck).expect("it fits"), Vec::new()));
        if !matches!(plan.kind, Kind::Permits(_)) {
            let lost = |cell: fn(&crate::register::Register) -> u64| {
                usize::try_from(stage.registers.iter().map(cell).sum::<u64>()).expect("it fits")
            };
            // Nothing but a token protects from a holder that stands still before it writes.
            let work = if fenced.is_empty() {
                ("work lost: a write over somebody else's", lost(|it| it.control().lost()))
            } else {
                ("work lost in spite of tokens", lost(|it| it.fenced().lost()))
            };
            faults.push((work.0, work.1, Vec::new()));
        }
        let counts = history.counts.into_iter().collect();
        Self { library, seed: plan.seed, counts, faults }
    }

    /// What was found beside, of one kind.
    pub(crate) fn add(&mut self, kind: &'static str, found: &[String]) {
        let shown = found.iter().take(SHOWN_MAX).cloned().collect();
        self.faults.push((kind, found.len(), shown));
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.faults.iter().all(|(_, count, _)| *count == 0)
    }
}

/// A lease ends with its TTL at the latest, whatever its holder is told.
fn within_ttl(lease: &Lease, since: At, ttl: Duration) -> Lease {
    Lease { until: lease.until.min(since + ttl), ..lease.clone() }
}

/// Whether keys were lost while somebody was granted the lock.
fn is_excused(found: &Violation, disturbances: &[Disturbance]) -> bool {
    let is_near = |lost: &Disturbance| lost.begun <= found.to && lost.ended >= found.from;
    disturbances.iter().any(is_near)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, --seed {}", self.library, self.seed)?;
        for (what, count) in &self.counts {
            writeln!(f, "{count:8} {what}")?;
        }
        for (kind, count, shown) in &self.faults {
            let mark = if *count == 0 { "  " } else { "!!" };
            writeln!(f, "{mark} {count:5} {kind}")?;
            for text in shown {
                for line in text.lines() {
                    writeln!(f, "           {line}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_testing::leases::Part;

    fn lease(client: usize, granted: u64, until: u64) -> Lease {
        let [begun, granted, until] = [0, granted, until].map(Duration::from_millis);
        let part = Part::Whole;
        Lease { name: 0, client, part, token: 0, begun, granted, until, extended: 0, end: "" }
    }

    #[test]
    fn two_holders_are_excused_by_keys_that_were_lost_meanwhile_alone() {
        let found = &checks::crowds(&[lease(1, 10, 30), lease(2, 20, 40)], 1)[0];
        let lost = |begun, ended| {
            let [begun, ended] = [begun, ended].map(Duration::from_millis);
            is_excused(found, &[Disturbance { name: None, begun, ended }])
        };
        assert!(lost(15, 16) && lost(5, 10) && lost(20, 50));
        assert!(!lost(5, 9) && !lost(21, 50));
    }

    #[test]
    fn what_a_holder_is_told_counts_no_longer_than_the_ttl() {
        let ttl = Duration::from_millis(200);
        let kept = within_ttl(&lease(1, 10, 500), At::ZERO, ttl);
        assert_eq!(kept.until, Duration::from_millis(200));
        assert_eq!(within_ttl(&lease(1, 10, 50), At::ZERO, ttl).until, Duration::from_millis(50));
    }
}

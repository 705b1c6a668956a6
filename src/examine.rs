//! Examines whether servers are fit for locks, for [`Builder::examine`](crate::Builder::examine).

// `gather` reads one server's `facts`; `judge` and `together` make findings of them, without I/O. All servers are
// examined at once, each in bounded time.

mod facts;
mod failover;
mod gather;
mod judge;
mod met;
mod plan;
mod reign;
mod report;
mod scratch;
mod survey;
mod together;

use std::sync::Arc;

use tokio::task::JoinSet;

use self::facts::{ClockReading, Facts, shown};
use self::gather::{Questions, gather, run_id};
pub(crate) use self::judge::Standard;
use self::judge::judge;
use self::met::{asked, unmet};
pub(crate) use self::plan::{Candidates, Plan};
pub use self::report::{Check, Examination, Finding, ServerExamination, ServerKind, Severity};
pub use self::scratch::Capability;
pub(crate) use self::scratch::Scratch;
use self::survey::Survey;
use crate::clock;
use crate::endpoint::Endpoint;
use crate::policy::Quorum;

/// One server, connected or not.
struct Patient {
    report: ServerExamination,
    facts: Facts,
}

/// # Cancel safety
///
/// Nothing stays but scratch keys, which expire.
pub(crate) async fn examine(plan: Plan) -> Examination {
    let plan = Arc::new(plan);
    let survey = survey::survey(&plan).await;
    let Survey { servers, mut asked, mut findings } = survey;
    let mut patients = examine_all(&plan, servers).await;
    find_same_runs(&mut patients);
    let known_clocks = patients.iter().filter_map(|patient| {
        Some((patient.report.server.as_str(), *patient.facts.clock.known()?))
    });
    let clocks: Vec<(&str, ClockReading)> = known_clocks.collect();
    findings.extend(together::clocks(&clocks));
    findings.push(match &plan.quorum {
        Ok(quorum) => tolerance(&plan, *quorum, &patients),
        Err(why) => Finding::error(Check::Tolerance, why.as_str()),
    });
    asked.extend(patients.into_iter().map(|patient| patient.report));
    let quorum = plan.quorum.as_ref().ok();
    Examination {
        servers: asked,
        findings,
        votes: plan.votes,
        quorum: quorum.map(|quorum| quorum.needed()),
        tolerance: quorum.map(|quorum| quorum.tolerance()),
    }
}

/// Examines all at once; returns them in the order given.
async fn examine_all(plan: &Arc<Plan>, servers: Vec<Result<Endpoint, Finding>>) -> Vec<Patient> {
    let mut examining = JoinSet::new();
    for (index, server) in servers.into_iter().enumerate() {
        let plan = Arc::clone(plan);
        examining.spawn(async move {
            let patient = match server {
                Ok(endpoint) => examine_one(&plan, &endpoint).await,
                Err(finding) => Patient::unmet(&format!("URL {}", index + 1), finding),
            };
            (index, patient)
        });
    }
    // A task that panicked would be missing here, but none does.
    let mut patients: Vec<(usize, Patient)> = Vec::new();
    while let Some(examined) = examining.join_next().await {
        patients.extend(examined.ok());
    }
    patients.sort_by_key(|(index, _)| *index);
    patients.into_iter().map(|(_, patient)| patient).collect()
}

async fn examine_one(plan: &Plan, endpoint: &Endpoint) -> Patient {
    let server = endpoint.address.text();
    let meet = || plan.ways.interview(endpoint, plan.greeting, &[]);
    let mut interview = match meet().await {
        Ok(interview) => interview,
        Err(reason) => return Patient::unmet(&server, unmet(&reason)),
    };
    let questions = Questions {
        scratch: &plan.scratch,
        markers: &plan.markers,
        in_cluster: plan.standard.in_cluster,
        within: plan.standard.command_timeout,
    };
    let mut facts = gather(&mut interview, &questions).await;
    // A second connection beside the open first one; skipped if the server has stopped answering.
    if facts.broken_off.is_none() {
        if let Ok(mut other) = meet().await {
            facts.other_run = run_id(&mut other, &questions).await;
        }
    }
    let user = interview.user().unwrap_or("default");
    let findings = judge(&facts, &plan.standard, user, clock::now());
    let (version, round_trip) = (facts.software(), facts.round_trip());
    let (server, kind) = (shown(&server), ServerKind::Server);
    Patient { report: ServerExamination { server, kind, version, round_trip, findings }, facts }
}

impl Patient {
    fn unmet(server: &str, finding: Finding) -> Self {
        Self { report: asked(server, ServerKind::Server, finding), facts: Facts::default() }
    }

    fn run(&self) -> (&str, Option<&str>) {
        (&self.report.server, self.facts.run_id())
    }

    fn is_fit(&self) -> bool {
        self.report.severity() < Severity::Error
    }

    /// Whether the server may not vote yet, but will.
    fn waits(&self) -> bool {
        let waits = |finding: &Finding| {
            matches!(finding.check, Check::RestartQuarantine | Check::Grace)
                && finding.severity == Severity::Warning
        };
        self.is_fit() && self.report.findings.iter().any(waits)
    }

    fn may_vote(&self) -> bool {
        self.is_fit() && !self.waits()
    }
}

fn find_same_runs(patients: &mut [Patient]) {
    let runs: Vec<_> = patients.iter().map(Patient::run).collect();
    let same: Vec<Option<Finding>> = (0..runs.len())
        .map(|index| together::same_run(&runs, index).map(together::given_twice))
        .collect();
    for (patient, finding) in patients.iter_mut().zip(same) {
        let findings = &mut patient.report.findings;
        findings.extend(finding);
        findings.sort_by_key(|finding| finding.check);
    }
}

/// The finding on all servers together. A Cluster or a service has one vote, if all of it is fit.
fn tolerance(plan: &Plan, quorum: Quorum, patients: &[Patient]) -> Finding {
    let count = |is: fn(&Patient) -> bool| patients.iter().filter(|patient| is(patient)).count();
    let (voting, waiting) = (count(Patient::may_vote), count(Patient::waits));
    let partly = match plan.candidates {
        Candidates::Fixed(_) => {
            return together::tolerance(quorum, plan.votes, voting, waiting);
        }
        Candidates::Cluster(_) => together::partly(patients.len(), voting + waiting),
        Candidates::Service(_) => None,
    };
    let is_whole = |of: usize| usize::from(of > 0 && of == patients.len());
    let (voting, waiting) = (is_whole(voting), is_whole(voting + waiting));
    partly.unwrap_or_else(|| together::tolerance(quorum, plan.votes, voting, waiting))
}

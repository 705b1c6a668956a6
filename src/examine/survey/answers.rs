//! Asks all parties that know servers.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::endpoint::Endpoint;
use crate::examine::plan::Plan;
use crate::examine::report::{Finding, ServerExamination, Severity};
use crate::net::reason::Reason;

/// The servers to examine, the parties that named them, and findings on all.
#[derive(Default)]
pub(in crate::examine) struct Survey {
    pub(in crate::examine) servers: Vec<Result<Endpoint, Finding>>,
    pub(in crate::examine) asked: Vec<ServerExamination>,
    pub(in crate::examine) findings: Vec<Finding>,
}

/// Each party's answer, in the order given.
pub(super) async fn ask_all<T: Send + 'static, F>(
    plan: &Arc<Plan>,
    endpoints: &[Endpoint],
    ask: impl Fn(Arc<Plan>, Endpoint) -> F,
) -> Vec<(String, Result<T, Reason>)>
where
    F: Future<Output = Result<T, Reason>> + Send + 'static,
{
    let mut asking = JoinSet::new();
    for (index, endpoint) in endpoints.iter().enumerate() {
        let (server, answer) = (endpoint.address.text(), ask(Arc::clone(plan), endpoint.clone()));
        asking.spawn(async move { (index, server, answer.await) });
    }
    let mut answers = Vec::new();
    while let Some(answer) = asking.join_next().await {
        answers.extend(answer.ok());
    }
    answers.sort_by_key(|(index, ..)| *index);
    answers.into_iter().map(|(_, server, answer)| (server, answer)).collect()
}

/// Lowers findings to warnings, if another party answered.
pub(super) fn make_light_of(asked: &mut [ServerExamination]) {
    for finding in asked.iter_mut().flat_map(|one| &mut one.findings) {
        finding.severity = finding.severity.min(Severity::Warning);
    }
}

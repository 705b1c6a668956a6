//! Which servers to examine: those given, or those that a Cluster's nodes or Sentinels name.

use std::sync::Arc;

mod answers;
#[cfg_attr(not(feature = "cluster"), path = "survey/no_cluster.rs")]
pub(in crate::examine) mod cluster;
#[cfg_attr(not(feature = "sentinel"), path = "survey/no_service.rs")]
pub(in crate::examine) mod service;

pub(super) use self::answers::Survey;
use super::plan::{Candidates, Plan};
use super::report::{Check, Finding};

pub(super) async fn survey(plan: &Arc<Plan>) -> Survey {
    match &plan.candidates {
        Candidates::Fixed(candidates) => {
            let wrong = |why: &String| Finding::error(Check::Url, why.as_str());
            let servers = candidates.iter().map(|it| it.as_ref().cloned().map_err(wrong));
            Survey { servers: servers.collect(), ..Survey::default() }
        }
        Candidates::Cluster(seeds) => cluster::survey(plan, seeds).await,
        Candidates::Service(watched) => service::survey(plan, watched).await,
    }
}

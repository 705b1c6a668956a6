//! The first meeting with the servers.

use std::sync::Arc;

use crate::error::{Error, FailureKind, Report, ServerReport, Vote};
use crate::lock::answer::Reason;
use crate::lock::core::Core;
use crate::net::transport::Address;
use crate::policy::fitness::Refusal;
use crate::server::node::{LEASES, Node};

/// Maximum servers of one place that an error names: a Cluster may have thousands.
const TOLD_MAX: usize = 16;

/// Waits until every place has been tried; there has to be this number of them, and no server that
/// could never serve.
pub(super) async fn all(core: &Core, least: usize) -> Result<(), Error> {
    let mut failed = Vec::new();
    let mut met = 0;
    for place in core.places() {
        match any(&place.nodes()).await {
            Ok(()) => met += 1,
            Err(reasons) => failed.extend(reasons),
        }
    }
    let is_setup_wrong = failed.iter().any(|(_, reason)| reason.kind() == FailureKind::Misuse);
    if is_setup_wrong || met < least {
        return Err(unmet(failed));
    }
    Ok(())
}

/// Waits until one of the servers of one place has been met, or all have been tried: then what is
/// wrong with the first of them.
async fn any(nodes: &[Arc<Node>]) -> Result<(), Vec<(Address, Reason)>> {
    let mut failed = Vec::new();
    for node in nodes {
        match one(node).await {
            Ok(()) => return Ok(()),
            Err(reason) if failed.len() < TOLD_MAX => {
                failed.push((node.endpoint().address.clone(), reason));
            }
            Err(_) => {}
        }
    }
    Err(failed)
}

/// The error of servers that could not be met.
pub(super) fn unmet(servers: impl IntoIterator<Item = (Address, Reason)>) -> Error {
    let servers = servers.into_iter().map(|(server, reason)| ServerReport {
        server: server.to_string(),
        vote: Vote::Failed { kind: reason.kind(), reason: reason.to_string() },
        round_trip: None,
    });
    Error::connect(Report { servers: servers.collect() })
}

async fn one(node: &Node) -> Result<(), Reason> {
    node.tried().await.map_err(Reason::NoConnection)?;
    // One that may not vote yet is well otherwise.
    match node.check(LEASES) {
        Err(refusal @ Refusal::Unfit(_)) => Err(Reason::Refusal(refusal)),
        _ => Ok(()),
    }
}

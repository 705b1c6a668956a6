//! The first meeting with the servers.

use crate::error::{Error, FailureKind, Report, ServerReport, Vote};
use crate::lock::answer::Reason;
use crate::lock::core::Core;
use crate::server::node::{Node, Refusal};

/// Waits until every server has been tried; there has to be a quorum of them, and none that could
/// never serve.
pub(super) async fn all(core: &Core, lanes: usize) -> Result<(), Error> {
    let mut failed = Vec::new();
    let mut is_setup_wrong = false;
    for node in core.nodes() {
        let Err(reason) = one(node, lanes).await else { continue };
        is_setup_wrong |= reason.kind() == FailureKind::Misuse;
        failed.push(ServerReport {
            server: node.endpoint().address.to_string(),
            vote: Vote::Failed { kind: reason.kind(), reason: reason.to_string() },
            round_trip: None,
        });
    }
    if is_setup_wrong || core.nodes().len() - failed.len() < core.quorum().needed() {
        return Err(Error::connect(Report { servers: failed }));
    }
    Ok(())
}

async fn one(node: &Node, lanes: usize) -> Result<(), Reason> {
    for lane in 0..lanes {
        node.tried(lane).await.map_err(Reason::NoConnection)?;
        match node.check(lane) {
            // It may not vote yet, and is well otherwise.
            Ok(()) | Err(Refusal::Quarantined(_)) => {}
            Err(refusal) => return Err(Reason::Refusal(refusal)),
        }
    }
    Ok(())
}

//! The masters that the nodes of a Cluster name.

use std::sync::Arc;

use super::answers::{Survey, ask_all, make_light_of};
use crate::cluster::map::Map;
use crate::cluster::slot::SLOTS;
use crate::endpoint::Seeds;
use crate::examine::met::{asked, unmet};
use crate::examine::plan::Plan;
use crate::examine::report::{Check, Finding, ServerKind};

pub(super) async fn survey(plan: &Arc<Plan>, seeds: &Seeds) -> Survey {
    let seeds = seeds.endpoints();
    let answers = ask_all(plan, seeds, |plan, seed| async move {
        plan.ways.map_of(&seed, plan.greeting, None).await
    });
    let mut survey = Survey::default();
    let (mut best, mut first): (Option<Map>, _) = (None, None);
    for (server, answer) in answers.await {
        match answer {
            Ok(map) => {
                survey.findings.extend(strangers(&mut first, &server, &map.nodes));
                let covered = best.as_ref().map_or(0, Map::covered);
                best = if map.covered() > covered { Some(map) } else { best };
            }
            Err(reason) => survey.asked.push(asked(&server, ServerKind::Seed, unmet(&reason))),
        }
    }
    if best.is_some() {
        make_light_of(&mut survey.asked);
    }
    survey.findings.push(topology(best.as_ref()));
    let masters = best.iter().flat_map(Map::masters);
    let endpoint = |master| seeds[0].at(master);
    survey.servers = masters.map(|master| Ok(plan.ways.reach(endpoint(master.into())))).collect();
    survey
}

/// The first seed that names nodes, with these, and another seed.
fn strangers(
    first: &mut Option<(String, Vec<[u8; 40]>)>,
    server: &str,
    nodes: &[[u8; 40]],
) -> Option<Finding> {
    // Old servers name none.
    if nodes.is_empty() {
        return None;
    }
    let (one, known) = first.get_or_insert_with(|| (server.to_owned(), nodes.to_vec()));
    if known.iter().any(|node| nodes.contains(node)) {
        return None;
    }
    let reason = format!("{one} and {server} are nodes of different Clusters");
    let finding = Finding::error(Check::Topology, reason);
    Some(finding.cured_by("give nodes of one Cluster alone"))
}

pub(in crate::examine) fn topology(map: Option<&Map>) -> Finding {
    const CHECK: Check = Check::Topology;
    let Some(map) = map else {
        return Finding::error(CHECK, "no node named the Cluster's masters")
            .cured_by("fix the nodes named above, or give others");
    };
    let (masters, missing) = (map.masters().len(), SLOTS - map.covered());
    if missing == 0 {
        return Finding::ok(CHECK, format!("{masters} masters serve all slots"));
    }
    let reason = format!("{missing} slots have no reachable master: no lock in them can be taken");
    Finding::error(CHECK, reason)
        .cured_by("run redis-cli --cluster check, and redis-cli --cluster fix")
}

#[cfg(test)]
mod tests;

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
    let (mut best, mut first): (Option<Map>, Option<(String, _)>) = (None, None);
    for (server, answer) in answers.await {
        match answer {
            Ok(map) => {
                let (one, nodes) = first.get_or_insert_with(|| (server.clone(), map.nodes.clone()));
                survey.findings.extend(strangers((one, nodes), (&server, &map.nodes)));
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

/// Two seeds, each with the nodes that it names.
fn strangers(one: (&str, &[[u8; 40]]), other: (&str, &[[u8; 40]])) -> Option<Finding> {
    let has_ids = !one.1.is_empty() && !other.1.is_empty();
    if !has_ids || one.1.iter().any(|node| other.1.contains(node)) {
        return None;
    }
    let reason = format!("{} and {} are nodes of different Clusters", one.0, other.0);
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

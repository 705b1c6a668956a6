//! Which servers are to be examined: those given, or those that a Cluster's nodes or Sentinels name.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::failover::{DOWN_AFTER, failover};
use super::report::{Check, Finding, ServerExamination, ServerKind, Severity};
use super::{Candidates, Plan, asked, open, unmet};
use crate::net::handshake::OpenError;
use crate::net::transport::Address;
use crate::policy::Evidence;
use crate::server::cluster::ask_for_map;
use crate::server::cluster::map::Map;
use crate::server::cluster::slot::SLOTS;
use crate::server::endpoint::Endpoint;
use crate::server::sentinel::{self, Known};

/// Who was found, who was asked for it, and what is to be said of all.
#[derive(Default)]
pub(super) struct Survey {
    pub(super) servers: Vec<Result<Endpoint, Finding>>,
    pub(super) asked: Vec<ServerExamination>,
    pub(super) findings: Vec<Finding>,
}

pub(super) async fn survey(plan: &Arc<Plan>) -> Survey {
    match &plan.candidates {
        Candidates::Fixed(candidates) => {
            let wrong = |why: &String| Finding::error(Check::Url, why.as_str());
            let servers = candidates.iter().map(|it| it.as_ref().cloned().map_err(wrong));
            Survey { servers: servers.collect(), ..Survey::default() }
        }
        Candidates::Cluster(seeds) => of_cluster(plan, seeds).await,
        Candidates::Service { sentinels, name, template } => {
            of_service(plan, sentinels, name, template).await
        }
    }
}

/// What one who was asked said, in the order in which they were given.
async fn ask_all<T: Send + 'static, F>(
    plan: &Arc<Plan>,
    endpoints: &[Endpoint],
    ask: impl Fn(Arc<Plan>, Endpoint) -> F,
) -> Vec<(String, Result<T, OpenError>)>
where
    F: Future<Output = Result<T, OpenError>> + Send + 'static,
{
    let mut asking = JoinSet::new();
    for (index, endpoint) in endpoints.iter().enumerate() {
        let (server, answer) =
            (endpoint.address.to_string(), ask(Arc::clone(plan), endpoint.clone()));
        asking.spawn(async move { (index, server, answer.await) });
    }
    let mut answers = Vec::new();
    while let Some(answer) = asking.join_next().await {
        answers.extend(answer.ok());
    }
    answers.sort_by_key(|(index, ..)| *index);
    answers.into_iter().map(|(_, server, answer)| (server, answer)).collect()
}

async fn of_cluster(plan: &Arc<Plan>, seeds: &[Endpoint]) -> Survey {
    let answers = ask_all(plan, seeds, |plan, seed| async move {
        let connection = open(&plan, &seed).await?;
        ask_for_map(&connection, &seed).await
    });
    let mut survey = Survey::default();
    let mut best: Option<Map> = None;
    for (server, answer) in answers.await {
        match answer {
            Ok(map) => {
                let covered = best.as_ref().map_or(0, Map::covered);
                best = if map.covered() > covered { Some(map) } else { best };
            }
            Err(error) => survey.asked.push(asked(&server, ServerKind::Seed, unmet(error))),
        }
    }
    if best.is_some() {
        make_light_of(&mut survey.asked);
    }
    survey.findings.push(topology(best.as_ref()));
    let masters = best.iter().flat_map(Map::masters);
    survey.servers =
        masters.map(|master| Ok(Endpoint { address: master.into(), ..seeds[0].clone() })).collect();
    survey
}

/// Where others could say it, one who could not keeps nobody from locks.
fn make_light_of(asked: &mut [ServerExamination]) {
    for finding in asked.iter_mut().flat_map(|one| &mut one.findings) {
        finding.severity = finding.severity.min(Severity::Warning);
    }
}

fn topology(map: Option<&Map>) -> Finding {
    const CHECK: Check = Check::Topology;
    let Some(map) = map else {
        return Finding::error(CHECK, "no node could say which masters the Cluster has")
            .cured_by("mend the nodes named above, or name others");
    };
    let (masters, missing) = (map.masters().len(), SLOTS - map.covered());
    if missing == 0 {
        return Finding::ok(CHECK, format!("{masters} masters serve all slots"));
    }
    let reason = format!("{missing} slots have no master that can be reached: no locks in them");
    Finding::error(CHECK, reason).cured_by("redis-cli --cluster check, and fix")
}

async fn of_service(
    plan: &Arc<Plan>,
    sentinels: &[Endpoint],
    name: &str,
    template: &Endpoint,
) -> Survey {
    let answers = ask_all(plan, sentinels, |plan, sentinel| {
        let name = name.to_owned();
        async move {
            let connection = open(&plan, &sentinel).await?;
            let known = sentinel::ask(&connection, &name).await?;
            Ok((known, connection.is_resp3(), sentinel::subscribe(&connection).await))
        }
    });
    let mut survey = Survey::default();
    let mut all: Vec<Known> = Vec::new();
    for (server, answer) in answers.await {
        let finding = match answer {
            Ok((known, is_resp3, untold)) => {
                let named = format!("it names {} as the master", known.word.master);
                all.push(known);
                match untold {
                    Some(error) if is_resp3 => {
                        let reason = format!("it does not tell of a new master: {error}");
                        Finding::warning(Check::Rights, reason)
                            .cured_by("without it, a new master is found some seconds later")
                    }
                    _ => Finding::ok(Check::Reachable, named.escape_debug().to_string()),
                }
            }
            Err(error) => unmet(error),
        };
        survey.asked.push(asked(&server, ServerKind::Sentinel, finding));
    }
    if !all.is_empty() {
        make_light_of(&mut survey.asked);
    }
    let others = all.iter().filter_map(|known| known.others).max();
    let silence = all.iter().filter_map(|known| known.down_after).max();
    let said = Evidence::of(all.into_iter().map(|known| known.word).collect());
    survey.findings.push(agreement(&said, sentinels.len()));
    survey.findings.extend(others.and_then(|others| unnamed(others + 1, sentinels.len())));
    survey.findings.extend(silence.map(|silence| failover(DOWN_AFTER, silence, plan.standard.ttl)));
    let master = said.newest(|_| true).map(|word| word.master.clone());
    survey.servers.extend(master.map(|address| Ok(Endpoint { address, ..template.clone() })));
    survey
}

/// Sentinels that the URL does not name.
fn unnamed(known: usize, named: usize) -> Option<Finding> {
    (known > named).then(|| {
        let reason =
            format!("the URL names {named} of {known} Sentinels: it depends on them alone");
        Finding::note(Check::Topology, reason).cured_by("name them all")
    })
}

fn agreement(said: &Evidence<Address>, sentinels: usize) -> Finding {
    const CHECK: Check = Check::Topology;
    let masters = &said.words;
    let Some(newest) = said.newest(|_| true) else {
        return Finding::error(CHECK, "no Sentinel could say which server is the master")
            .cured_by("mend the Sentinels named above, or check the service's name");
    };
    let address = newest.master.to_string().escape_debug().to_string();
    let agreeing = masters.iter().filter(|word| word.master == newest.master).count();
    let reason = format!("{agreeing} of {sentinels} Sentinels name {address} as the master");
    if agreeing == masters.len() {
        Finding::ok(CHECK, reason)
    } else {
        Finding::warning(CHECK, format!("{reason}, others do not"))
            .cured_by("wait for a failover to end; where there is none, see SENTINEL CKQUORUM")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Word;

    #[test]
    fn sentinels_that_disagree_are_warned_of_and_the_newest_is_believed() {
        let master = |epoch, host: &str| {
            let master = Address::Tcp { host: host.to_owned(), port: 1 };
            Word { epoch, watched: master.clone(), master, is_down: false }
        };
        let agreement = |words: &[_]| agreement(&Evidence::of(words.to_vec()), 3);
        let severity = |words: &[_]| agreement(words).severity;
        assert_eq!(severity(&[]), Severity::Error);
        assert_eq!(severity(&[master(1, "a"), master(1, "a")]), Severity::Ok);
        let split = [master(1, "a"), master(2, "b"), master(1, "a")];
        assert_eq!(severity(&split), Severity::Warning);
        assert!(agreement(&split).reason.contains("1 of 3 Sentinels name b:1"));
    }

    #[test]
    fn sentinels_that_the_url_does_not_name_are_counted() {
        assert!(unnamed(3, 3).is_none() && unnamed(2, 3).is_none());
        assert!(unnamed(3, 1).unwrap().reason.contains("1 of 3 Sentinels"));
    }

    #[test]
    fn a_cluster_without_a_map_has_no_masters() {
        assert_eq!(topology(None).severity, Severity::Error);
    }
}

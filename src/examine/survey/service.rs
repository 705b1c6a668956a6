//! The server that the Sentinels of a service name.

use std::sync::Arc;
use std::time::Duration;

use super::answers::{Survey, ask_all, make_light_of};
use crate::driver::interview::Interview;
use crate::driver::sentinels::word::Known;
use crate::driver::sentinels::{CHANNELS, known, untold};
use crate::endpoint::Watched;
use crate::examine::failover::{DOWN_AFTER, failover};
use crate::examine::met::{asked, unmet};
use crate::examine::plan::Plan;
use crate::examine::report::{Check, Finding, ServerKind};
use crate::net::reason::Reason;
use crate::net::transport::Address;
use crate::policy::Evidence;

pub(super) async fn survey(plan: &Arc<Plan>, watched: &Watched) -> Survey {
    let Watched { sentinels, service: name, template } = watched;
    let answers = ask_all(plan, sentinels, |plan, sentinel| {
        let name = name.clone();
        async move {
            let interview = plan.ways.interview(&sentinel, plan.greeting, &CHANNELS).await;
            let mut interview = interview.map_err(Reason::of_sentinel)?;
            let within = plan.standard.command_timeout;
            let known = ask(&mut interview, &name, within).await?;
            let untold = untold(&interview.answers).into_iter().next();
            Ok((known, untold))
        }
    });
    let mut survey = Survey::default();
    let mut all: Vec<Known> = Vec::new();
    for (server, answer) in answers.await {
        let finding = match answer {
            Ok((known, untold)) => {
                let named = format!("names {} as the master", known.word.master);
                all.push(known);
                match untold {
                    Some(error) => {
                        let reason = format!(
                            "it announces no new master: {error}; a new one is found some seconds later"
                        );
                        Finding::warning(Check::Rights, reason)
                            .cured_by("grant the user what docs/acl.md lists for Sentinels")
                    }
                    None => Finding::ok(Check::Reachable, named.escape_debug().to_string()),
                }
            }
            Err(reason) => unmet(&reason),
        };
        survey.asked.push(asked(&server, ServerKind::Sentinel, finding));
    }
    if !all.is_empty() {
        make_light_of(&mut survey.asked);
    }
    let others = all.iter().filter_map(|known| known.others).max();
    let quorum = all.iter().filter_map(|known| known.quorum).max();
    let answering = all.len();
    let silence = all.iter().filter_map(|known| known.down_after).max();
    let said = Evidence::of(all.into_iter().map(|known| known.word).collect());
    survey.findings.push(agreement(&said, sentinels.len()));
    let known = others.map(|others| others + 1);
    survey.findings.extend(known.and_then(|known| unnamed(known, sentinels.len())));
    let stuck = known.zip(quorum).and_then(|(known, quorum)| {
        let up = answering + known.saturating_sub(sentinels.len());
        stuck(name, quorum, known, up)
    });
    let replaced = || silence.map(|silence| failover(DOWN_AFTER, silence, plan.standard.ttl));
    survey.findings.extend(stuck.or_else(replaced));
    let master = said.newest(&|_| true).map(|word| word.master.clone());
    let master = master.map(|address| template.at(address));
    survey.servers.extend(master.map(|master| Ok(plan.ways.reach(master))));
    survey
}

async fn ask(interview: &mut Interview, service: &str, within: Duration) -> Result<Known, Reason> {
    let of = |what: &'static [u8]| [b"SENTINEL", what, service.as_bytes()];
    let commands = [&of(b"MASTER")[..], &of(b"GET-MASTER-ADDR-BY-NAME")];
    let replies = interview.ask(&commands, within).await.map_err(Reason::NoReply)?;
    let [master, address] = &replies[..] else { return Err(Reason::Unexpected) };
    known(master, address).map_err(Reason::NoConnection)
}

/// The finding if the URL does not name all Sentinels.
pub(in crate::examine) fn unnamed(known: usize, named: usize) -> Option<Finding> {
    (known > named).then(|| {
        let reason =
            format!("the URL names only {named} of {known} Sentinels, and depends on them");
        Finding::note(Check::Topology, reason).cured_by("name them all")
    })
}

/// The finding if a dead master would not be replaced, with `up` of `known` Sentinels.
pub(in crate::examine) fn stuck(
    service: &str,
    quorum: usize,
    known: usize,
    up: usize,
) -> Option<Finding> {
    let (majority, harm) =
        (known / 2 + 1, "a dead master is not replaced, and no lock can be taken then");
    let service = service.escape_debug();
    let (reason, cure) = if quorum > known {
        (
            format!(
                "{quorum} Sentinels have to agree (quorum), and there are only {known}: {harm}"
            ),
            format!("run SENTINEL SET {service} quorum {majority} on each Sentinel"),
        )
    } else if up < quorum.max(majority) {
        let needed = quorum.max(majority);
        (
            format!("only {up} of {known} Sentinels are up, and a failover takes {needed}: {harm}"),
            format!(
                "bring them back; those that are gone for good are forgotten by SENTINEL RESET {service} on each of the others"
            ),
        )
    } else {
        return None;
    };
    Some(Finding::warning(Check::Failover, reason).cured_by(cure))
}

pub(in crate::examine) fn agreement(said: &Evidence<Address>, sentinels: usize) -> Finding {
    const CHECK: Check = Check::Topology;
    let masters = &said.words;
    let Some(newest) = said.newest(&|_| true) else {
        return Finding::error(CHECK, "no Sentinel named a master")
            .cured_by("fix the Sentinels named above, or check the service's name");
    };
    let address = newest.master.to_string().escape_debug().to_string();
    let agreeing = masters.iter().filter(|word| word.master == newest.master).count();
    let reason = format!("{agreeing} of {sentinels} Sentinels name {address} as the master");
    if agreeing == masters.len() {
        Finding::ok(CHECK, reason)
    } else {
        Finding::warning(CHECK, format!("{reason}, the others name another"))
            .cured_by("wait for the failover to end; if there is none, run SENTINEL CKQUORUM")
    }
}

#[cfg(test)]
mod tests;

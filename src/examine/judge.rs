//! From the facts about one server to findings. Pure.

use std::time::Duration;

use super::facts::{ClockReading, Facts, Fields, Reading, TrialOutcome, Tried, shown};
use super::failover::{NODE_TIMEOUT, failover};
use super::reign::grace;
use super::report::{Check, Finding, Severity};
use super::scratch::COMPARISON;
use crate::net::refusal::Code;
use crate::policy::fitness::{FORGETS, KEEP, MODE_FIELD};
use crate::policy::{Moment, Run, Units, quarantine};

/// Older versions lack commands that the scripts use.
const MAJOR_VERSION_MIN: u64 = 5;
/// Wall clocks farther apart are not synchronized.
pub(super) const CLOCKS_APART_MAX: Duration = Duration::from_secs(1);
/// A median round trip above the command timeout divided by this is close to a timeout.
const ROUND_TRIP_SHARE: u32 = 2;

/// The cure if the server requires a login.
const LOG_IN: &str = "give the URL a password, as in redis://user:password@host:port, by LEASEHOLD_URL or a \
                                 password file";

/// Without this right, a name that moves to another server goes unnoticed.
const SEES_MOVES: &str = "+info|server";

/// What locks need of a server.
#[derive(Clone, Debug)]
pub(crate) struct Standard {
    /// The TTL of leases.
    pub(crate) ttl: Duration,
    /// The longest TTL of any client, if the restart quarantine is on.
    pub(crate) restart_quarantine: Option<Duration>,
    /// The longest TTL of any client, if a failover has a grace.
    pub(crate) grace: Option<Duration>,
    /// Whether a server that may evict keys is refused.
    pub(crate) strict: bool,
    pub(crate) in_cluster: bool,
    /// Whether locks do without scripts.
    pub(crate) is_scriptless: bool,
    /// Whether INFO is required, not just useful.
    pub(crate) is_judged: bool,
    /// The command timeout.
    pub(crate) command_timeout: Duration,
}

/// The findings on a server with these facts at `now`.
pub(super) fn judge(facts: &Facts, standard: &Standard, user: &str, now: Moment) -> Vec<Finding> {
    // Some servers require a login only for commands after the handshake.
    if let Some(error) = facts.server.refusal().filter(|error| error.code() == Code::Auth) {
        let finding = Finding::error(Check::Login, shown(error.text()));
        return vec![finding.cured_by(LOG_IN)];
    }
    let mut findings = vec![reachable(facts)];
    findings.push(version(facts));
    findings.extend(commands(facts, standard));
    findings.extend(legible(facts, standard.is_judged));
    findings.push(protocol(facts));
    findings.extend(role(facts));
    findings.extend(kind_of_server(facts, standard.in_cluster));
    // A node of a Cluster redirects commands for keys that it does not serve.
    findings.extend(if standard.in_cluster { None } else { two_servers(facts) });
    let keeps_locks =
        facts.role().is_none_or(|role| role == "master") && facts.mode() != Some("sentinel");
    if keeps_locks {
        findings.extend(rights(facts, standard, user));
        findings.extend(writes(facts));
        findings.extend(eviction(facts, standard.strict));
        findings.extend(persistence(facts, standard.restart_quarantine.is_some()));
        findings.extend(restart_quarantine(facts, standard.restart_quarantine, now));
        findings.extend(standard.grace.and_then(|longest| grace(facts, longest, user)));
        findings.extend(standard.in_cluster.then(|| outliving(facts, standard.ttl)).flatten());
    }
    findings.extend(clock(facts));
    findings.extend(round_trip(facts, standard.command_timeout));
    // After a command without a reply, what was not asked is in no finding: the first finding says why.
    findings
}

fn reachable(facts: &Facts) -> Finding {
    match &facts.broken_off {
        None => Finding::ok(Check::Reachable, "answers"),
        Some(why) => Finding::error(
            Check::Reachable,
            format!("connected, but left questions without an answer: {}", shown(why)),
        )
        .cured_by("check whether it hangs or is overloaded, and whether the network drops packets"),
    }
}

/// A note that something is unknown, and which right would show it; none if it was not asked.
fn unknown<T>(check: Check, reading: &Reading<T>, right: &str) -> Option<Finding> {
    let error = reading.refusal()?;
    let finding = Finding::note(check, format!("unknown: {}", shown(error.text())));
    Some(match error.code() {
        Code::Permission => finding.cured_by(format!("grant the user {right} to see it")),
        _ => finding,
    })
}

fn version(facts: &Facts) -> Finding {
    let (Some(version), Some(software)) = (facts.version(), facts.software()) else {
        let unknown = unknown(Check::Version, &facts.server, "+info|server");
        return unknown
            .unwrap_or_else(|| Finding::note(Check::Version, "unknown: INFO names no version"));
    };
    let major = version.split('.').next().and_then(|major| major.parse::<u64>().ok());
    if major.is_some_and(|major| major < MAJOR_VERSION_MIN) {
        return Finding::error(Check::Version, format!("{software} is too old"))
            .cured_by(format!("use Redis {MAJOR_VERSION_MIN} or later, or Valkey"));
    }
    Finding::ok(Check::Version, software)
}

/// The finding if INFO lacks fields that the rules need.
fn legible(facts: &Facts, is_judged: bool) -> Option<Finding> {
    let needed = [
        (&facts.server, "run_id"),
        (&facts.server, "uptime_in_seconds"),
        (&facts.memory, "maxmemory_policy"),
        (&facts.replication, "role"),
    ];
    let is_missing = |(section, name): &(&Reading<Fields>, &'static str)| {
        section.known().is_some_and(|fields| fields.get(name).is_none())
    };
    let mut missing: Vec<_> = needed.into_iter().filter(is_missing).map(|(_, name)| name).collect();
    if facts.server.known().is_some() && facts.mode_in_info().is_none() {
        missing.push(MODE_FIELD);
    }
    let refused = [&facts.server, &facts.memory, &facts.replication].into_iter().find_map(|it| {
        it.refusal().filter(|error| !matches!(error.code(), Code::Permission | Code::Later))
    });
    (is_judged && (refused.is_some() || !missing.is_empty())).then(|| {
        let reason = match refused {
            Some(error) => format!("it does not say how it is: {}", shown(error.text())),
            None => format!("its INFO lacks {}", missing.join(", ")),
        };
        Finding::error(Check::Version, reason)
            .cured_by("give the address of the server itself, not of a proxy")
    })
}

fn protocol(facts: &Facts) -> Finding {
    if facts.is_resp3 {
        return Finding::ok(Check::Protocol, "RESP3");
    }
    Finding::warning(
        Check::Protocol,
        "RESP2 only: waiters poll, and a deleted lock is noticed only at the next renewal",
    )
    .cured_by("use Redis 6 or later, without a proxy that speaks RESP2")
}

fn role(facts: &Facts) -> Option<Finding> {
    if facts.mode() == Some("sentinel") {
        let finding = Finding::error(Check::Role, "a Sentinel, which cannot grant locks");
        return Some(finding.cured_by("give redis-sentinel://host:port/service"));
    }
    match facts.role() {
        None => unknown(Check::Role, &facts.replication, "+info|replication")
            .or_else(|| facts.replication.known().map(|_| Finding::note(Check::Role, "unknown"))),
        Some("master") => {
            let replicas = facts.replication.known().and_then(|it| it.number("connected_slaves"));
            Some(Finding::ok(
                Check::Role,
                match replicas {
                    None => "master".to_owned(),
                    Some(1) => "master, with 1 replica".to_owned(),
                    Some(count) => format!("master, with {count} replicas"),
                },
            ))
        }
        Some(_) if facts.is_active_replica() => {
            let reason = "one of several masters that replicate from each other: two of them can grant one lock";
            let cure = "set active-replica no, or give independent servers (Redlock)";
            Some(Finding::error(Check::Role, reason).cured_by(cure))
        }
        Some(_) => {
            let finding = Finding::error(Check::Role, "a replica, which cannot grant locks");
            let master = facts
                .replication
                .known()
                .and_then(|fields| Some((fields.get("master_host")?, fields.get("master_port")?)));
            Some(match master {
                Some((host, port)) => {
                    finding.cured_by(format!("give its master, {}:{}", shown(host), shown(port)))
                }
                None => finding.cured_by("give its master's address"),
            })
        }
    }
}

fn kind_of_server(facts: &Facts, in_cluster: bool) -> Option<Finding> {
    match (facts.mode()?, in_cluster) {
        ("cluster", false) => Some(
            Finding::error(
                Check::Independence,
                "a Redis Cluster node, which serves only some keys and is no independent server",
            )
            .cured_by("give redis-cluster://host:port alone, or independent servers"),
        ),
        (mode, true) if mode != "cluster" => Some(
            Finding::error(Check::Independence, "not a Redis Cluster node")
                .cured_by("give redis://host:port"),
        ),
        _ => None,
    }
}

/// The finding if a name leads to different servers on two connections.
fn two_servers(facts: &Facts) -> Option<Finding> {
    let (one, other) = (facts.run_id()?, facts.other_run.as_deref()?);
    (one != other).then(|| {
        Finding::error(
            Check::Independence,
            format!(
                "one connection led to one server and the next to another (run_id {} and {}): a balancer over \
                 several servers, or a name that is moving",
                shown(one),
                shown(other)
            ),
        )
        .cured_by("let the name lead to one server; if that restarted just now, run the doctor again")
    })
}

/// The finding on commands that the server lacks.
fn commands(facts: &Facts, standard: &Standard) -> Option<Finding> {
    let missing = |tried: &Tried| match &tried.outcome {
        TrialOutcome::Missing(name) => Some(name.clone()),
        _ => None,
    };
    let mut names: Vec<String> = facts.trials.iter().filter_map(missing).collect();
    names.dedup();
    let compares = !names.iter().any(|name| name == COMPARISON);
    if !standard.is_scriptless {
        names.retain(|name| name != COMPARISON);
        let lacks = |command: &str| names.iter().any(|name| name == command);
        if lacks("EVAL") && (lacks("EVALSHA") || lacks("SCRIPT|LOAD")) {
            return Some(runs_no_scripts(&names, compares && !standard.in_cluster));
        }
    } else if !compares {
        let reason =
            format!("the server does not have {COMPARISON}, which locks without scripts take");
        return Some(Finding::error(Check::Commands, reason).cured_by(
            "use Redis 8.4, Valkey 8.1 or later; or leave Builder::scriptless (--scriptless) out, where the server runs \
             scripts",
        ));
    } else if names.is_empty() && !facts.trials.is_empty() {
        let reason = format!("locks are taken without scripts: {WITHOUT_SCRIPTS}");
        return Some(Finding::note(Check::Commands, reason));
    }
    let reason = format!("the server does not have {}", names.join(", "));
    let cannot = facts.trials.iter().any(|tried| tried.is_essential && missing(tried).is_some());
    if cannot {
        let finding =
            Finding::error(Check::Commands, format!("{reason}: there are no locks without"));
        return Some(
            finding.cured_by("use Redis, Valkey or another server that docs/managed.md lists"),
        );
    }
    let reason = format!("{reason}: docs/managed.md says what is done without");
    (!names.is_empty()).then(|| Finding::note(Check::Commands, reason))
}

/// What works without scripts, and what does not.
const WITHOUT_SCRIPTS: &str = "plain locks work, in no order of waiters; lock_all, shares, elections, stealing, tickets, looking and what is beside \
     locks do not (docs/managed.md)";

fn runs_no_scripts(missing: &[String], compares: bool) -> Finding {
    let reason = format!("the server runs no scripts (it does not have {})", missing.join(", "));
    let finding = Finding::error(Check::Commands, reason);
    if compares {
        let cure = "take locks without scripts (Builder::scriptless, --scriptless)";
        return finding.cured_by(format!("{cure}: {WITHOUT_SCRIPTS}"));
    }
    finding.cured_by(
        "use a server that runs scripts, or one server of Redis 8.4, Valkey 8.1 or later without them (Builder::scriptless, \
         --scriptless)",
    )
}

/// Whether the server refuses all commands for now, of any user.
fn is_held_up(words: &str) -> bool {
    ["BUSY", "LOADING", "MASTERDOWN"].iter().any(|word| words.starts_with(word))
}

fn rights(facts: &Facts, standard: &Standard, user: &str) -> Option<Finding> {
    let held_up =
        |tried: &Tried| matches!(&tried.outcome, TrialOutcome::Failed(words) if is_held_up(words));
    if facts.trials.is_empty() || facts.trials.iter().any(held_up) {
        return None;
    }
    let (mut lacking, mut is_essential) = (Vec::new(), false);
    for tried in &facts.trials {
        if let TrialOutcome::Lacking(right) = &tried.outcome {
            is_essential |= tried.is_essential;
            lacking.push(right.clone());
        }
    }
    for (section, right) in [
        (&facts.server, SEES_MOVES),
        (&facts.memory, "+info|memory"),
        (&facts.replication, "+info|replication"),
    ] {
        let is_refused = section.refusal().is_some_and(|error| error.code() == Code::Permission);
        let is_of_use = right == SEES_MOVES && !standard.in_cluster;
        if is_refused && (standard.is_judged || is_of_use) {
            is_essential |= standard.is_judged;
            lacking.push(right.to_owned());
        }
    }
    lacking.sort();
    lacking.dedup();
    if lacking.is_empty() {
        let tried = "all that is needed, tried on scratch keys";
        return Some(Finding::ok(Check::Rights, tried));
    }
    let rights = lacking.join(" ").escape_debug().to_string();
    let user = user.escape_debug();
    let finding = if is_essential {
        Finding::error(Check::Rights, format!("the user {user} lacks {rights}"))
    } else {
        let without = without(&lacking);
        Finding::warning(Check::Rights, format!("the user {user} lacks {rights}: {without}"))
    };
    Some(finding.cured_by(format!("ACL SETUSER {user} {rights}")))
}

/// What is worse without these rights, all of them optional.
fn without(lacking: &[String]) -> String {
    let mut worse: Vec<&str> = lacking
        .iter()
        .map(|right| match &**right {
            SEES_MOVES => "a name that leads to another server goes unnoticed",
            "+publish" | "+pubsub|numsub" => "waiters learn of a release by client tracking",
            _ => "waiters poll",
        })
        .collect();
    worse.sort_unstable();
    worse.dedup();
    worse.join("; ")
}

fn writes(facts: &Facts) -> Option<Finding> {
    let failed = facts.trials.iter().find_map(|tried| match &tried.outcome {
        TrialOutcome::Failed(words) => Some(words),
        _ => None,
    });
    let Some(words) = failed else {
        let is_refused = |tried: &Tried| matches!(tried.outcome, TrialOutcome::Lacking(_));
        let is_all_allowed = !facts.trials.iter().any(is_refused);
        let is_elsewhere = |tried: &Tried| tried.outcome == TrialOutcome::Elsewhere;
        let said = match facts.trials.iter().any(is_elsewhere) {
            true => {
                "not tried: the keys of each lock that was tried are in a slot of another master"
            }
            false => "accepted",
        };
        return (is_all_allowed && !facts.trials.is_empty())
            .then(|| Finding::ok(Check::Writes, said));
    };
    let cure = match words.split(' ').next().unwrap_or_default() {
        "OOM" => "raise maxmemory, or delete keys",
        "MISCONF" => "make it save again: its log says what failed, such as a full disk",
        "NOREPLICAS" => "bring its replicas back, or lower min-replicas-to-write",
        "READONLY" => "give its master's address",
        "LOADING" => "wait until it has loaded its data",
        "BUSY" => "wait for the script that it runs, or end that by SCRIPT KILL",
        "CLUSTERDOWN" => "bring back the masters of the missing slots",
        _ => "check the server's log and settings",
    };
    Some(Finding::error(Check::Writes, format!("refused: {words}")).cured_by(cure))
}

fn eviction(facts: &Facts, strict: bool) -> Option<Finding> {
    let Reading::Known(memory) = &facts.memory else {
        return unknown(Check::Eviction, &facts.memory, "+info|memory");
    };
    let Some(policy) = memory.get("maxmemory_policy") else {
        return Some(Finding::note(Check::Eviction, "unknown: INFO names no policy"));
    };
    if policy == "noeviction" {
        return Some(Finding::ok(Check::Eviction, "none (noeviction)"));
    }
    let severity = if strict { Severity::Error } else { Severity::Warning };
    let yet = if memory.is("maxmemory", "0") { " once maxmemory is set" } else { "" };
    let reason = format!(
        "it may evict locks (maxmemory-policy {}){yet}: another takes an evicted lock, and its holder hears of that only \
         with the next renewal",
        shown(policy)
    );
    let finding = Finding::new(Check::Eviction, severity, reason);
    Some(finding.cured_by(
        "run CONFIG SET maxmemory-policy noeviction, and set it in redis.conf; where the server is rented, in its \
         parameters; else give locks a server of their own",
    ))
}

fn persistence(facts: &Facts, is_guarded: bool) -> Option<Finding> {
    const CHECK: Check = Check::Persistence;
    let Reading::Known(state) = &facts.persistence else {
        return unknown(CHECK, &facts.persistence, "+info|persistence");
    };
    if state.get("aof_enabled").is_none() {
        return Some(Finding::note(CHECK, "unknown: INFO names no aof_enabled"));
    }
    let failed = ["aof_last_write_status", "rdb_last_bgsave_status"];
    if let Some(which) = failed.into_iter().find(|name| state.is(name, "err")) {
        let finding = Finding::warning(CHECK, format!("the last save failed ({which}:err)"));
        return Some(finding.cured_by("check the server's log, and whether its disk is full"));
    }
    let (reason, is_kept) = match (state.is("aof_enabled", "1"), &facts.settings) {
        (false, settings) => (snapshots(settings.known()), false),
        (true, Reading::Known(settings)) => log(settings),
        (true, settings) => {
            let finding = unknown(CHECK, settings, "+config|get")?;
            let reason = format!("appendonly yes; appendfsync {}", finding.reason);
            return Some(Finding { reason, ..finding });
        }
    };
    if is_kept {
        return Some(Finding::ok(CHECK, format!("{reason}: a restart keeps locks")));
    }
    Some(if is_guarded {
        let reason = format!(
            "{reason}: a restart may forget locks, which the restart quarantine makes up for"
        );
        Finding::ok(CHECK, reason)
    } else {
        Finding::warning(CHECK, format!("{reason}: {FORGETS}")).cured_by(KEEP)
    })
}

/// What a server without an append-only file saves.
fn snapshots(settings: Option<&Fields>) -> String {
    match settings.and_then(|settings| settings.get("save")) {
        Some("") => "nothing is saved to disk".to_owned(),
        Some(save) => format!("only snapshots are saved to disk (save {})", shown(save)),
        None => "appendonly no".to_owned(),
    }
}

/// How the append-only file is written, and whether it always has all writes.
fn log(settings: &Fields) -> (String, bool) {
    match settings.get("appendfsync") {
        Some("always") if settings.is("no-appendfsync-on-rewrite", "yes") => {
            ("appendfsync always, except while the AOF is rewritten".to_owned(), false)
        }
        Some("always") => ("appendfsync always".to_owned(), true),
        other => (format!("appendfsync {}", shown(other.unwrap_or("unknown"))), false),
    }
}

fn restart_quarantine(
    facts: &Facts,
    longest_ttl: Option<Duration>,
    now: Moment,
) -> Option<Finding> {
    const CHECK: Check = Check::RestartQuarantine;
    let Some(longest_ttl) = longest_ttl else {
        return Some(Finding::ok(CHECK, "off: the server votes at once after a restart"));
    };
    let Reading::Known(server) = &facts.server else {
        return unknown(CHECK, &facts.server, "+info|server");
    };
    let Some(uptime_secs) = server.number("uptime_in_seconds") else {
        return Some(Finding::note(CHECK, "unknown: INFO names no uptime"));
    };
    let run = Run { uptime_secs, first_seen: now, not_before: None };
    Some(match quarantine(longest_ttl, run, now) {
        Duration::ZERO => Finding::ok(CHECK, format!("may vote: up for {uptime_secs} s")),
        wait => Finding::warning(
            CHECK,
            format!(
                "restarted {uptime_secs} s ago, so it may not vote for another {:.0}: it may have \
                 forgotten leases of up to {}",
                Units(wait),
                Units(longest_ttl)
            ),
        )
        .cured_by("wait, or shorten the longest TTL"),
    })
}

fn outliving(facts: &Facts, ttl: Duration) -> Option<Finding> {
    let replicas = facts.replication.known().and_then(|fields| fields.number("connected_slaves"));
    if replicas == Some(0) {
        let reason = "it has no replica: when it dies, nobody takes its place, and names in its slots cannot be locked until \
                      it is back";
        let cure = "add a replica: redis-cli --cluster add-node NEW EXISTING --cluster-slave";
        return Some(Finding::note(Check::Failover, reason).cured_by(cure));
    }
    let Reading::Known(settings) = &facts.settings else {
        return unknown(Check::Failover, &facts.settings, "+config|get");
    };
    let silence_ms = settings.number(NODE_TIMEOUT)?.try_into().ok()?;
    Some(failover(NODE_TIMEOUT, Duration::from_millis(silence_ms), ttl))
}

fn clock(facts: &Facts) -> Option<Finding> {
    let Reading::Known(ClockReading { ahead_micros, within }) = &facts.clock else {
        return unknown(Check::Clock, &facts.clock, "+time");
    };
    let apart = Duration::from_micros(ahead_micros.unsigned_abs());
    let side = if *ahead_micros < 0 { "behind" } else { "ahead of" };
    let reason = format!("{:.1} {side} this machine's (± {:.1})", Units(apart), Units(*within));
    Some(if apart.saturating_sub(*within) > CLOCKS_APART_MAX {
        let reason = format!("{reason}: harmless until a clock is stepped");
        Finding::note(Check::Clock, reason).cured_by("run NTP on both")
    } else {
        Finding::ok(Check::Clock, reason)
    })
}

fn round_trip(facts: &Facts, command_timeout: Duration) -> Option<Finding> {
    let (median, longest) = (facts.round_trip()?, facts.round_trips.iter().max()?);
    let count = facts.round_trips.len();
    let reason =
        format!("{:.1} (median of {count}, maximum {:.1})", Units(median), Units(*longest));
    Some(if median > command_timeout / ROUND_TRIP_SHARE {
        let reason = format!("{reason}: commands time out after {}", Units(command_timeout));
        Finding::warning(Check::RoundTrip, reason).cured_by(
            "use nearer servers, or a longer command timeout (Builder::command_timeout, \
                 --command-timeout)",
        )
    } else {
        Finding::ok(Check::RoundTrip, reason)
    })
}

#[cfg(test)]
mod tests;

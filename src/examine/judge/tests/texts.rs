//! The doctor's findings, side by side in `tests/texts/doctor.txt`.

use super::*;
use crate::examine::facts::ClockReading;
use crate::examine::failover::failover;
use crate::examine::met::unmet;
use crate::examine::survey::{cluster, service};
use crate::examine::together;
use crate::net::open_error::OpenError;
use crate::net::reason::Reason;
use crate::net::transport::Address;
use crate::policy::{Evidence, Quorum, Word};
use crate::support::texts;

const IN_CLUSTER: Standard = Standard { in_cluster: true, ..STANDARD };
const GRACED: Standard = Standard { grace: Some(Duration::from_secs(10)), ..STANDARD };
const SCRIPTLESS: Standard = Standard { is_scriptless: true, ..STANDARD };
const STRICT: Standard = Standard { strict: true, ..STANDARD };

type Change = fn(&mut Facts);

/// Commands that the server lacks.
fn lacking(commands: &[&str]) -> Vec<Tried> {
    let missing = |name: &&str| tried(TrialOutcome::Missing((*name).to_owned()));
    commands.iter().map(missing).collect()
}

/// Each with its standard.
const CASES: [(Standard, Change); 55] = [
    (STANDARD, |_| ()),
    (GUARDED, |_| ()),
    (IN_CLUSTER, |_| ()),
    (STANDARD, |it| it.broken_off = Some("the server did not reply".into())),
    (STANDARD, |it| it.server = forbidden()),
    (STANDARD, |it| it.server = info(&[("redis_version", "4.0.1")])),
    (GUARDED, |it| it.memory = info_without("maxmemory_policy")),
    (STANDARD, |it| it.is_resp3 = false),
    (STANDARD, |it| it.server = fields(&recorded::of("redis-7.0.15").info("sentinel"))),
    (STANDARD, |it| it.replication = info(&[("connected_slaves", "1")])),
    (STANDARD, |it| it.replication = info_of_replica(&[])),
    (STANDARD, |it| it.replication = info_without("role")),
    (STANDARD, |it| it.server = fields(&recorded::of("redis-7.0.15").info("cluster"))),
    (STANDARD, |it| it.other_run = Some("0".repeat(40))),
    (STANDARD, |it| it.trials.push(tried(TrialOutcome::Lacking("+get".into())))),
    (STANDARD, |it| {
        let outcome = TrialOutcome::Lacking("+client|tracking".into());
        it.trials.push(Tried { is_essential: false, outcome });
    }),
    (STANDARD, |it| it.trials.push(tried(TrialOutcome::Elsewhere))),
    (STANDARD, |it| it.trials.push(tried(TrialOutcome::Failed("OOM command".into())))),
    (STANDARD, |it| it.trials.push(tried(TrialOutcome::Failed("MISCONF Redis".into())))),
    (STANDARD, |it| it.trials.push(tried(TrialOutcome::Failed("NOREPLICAS Not".into())))),
    (STANDARD, |it| it.trials.push(tried(TrialOutcome::Failed("READONLY You".into())))),
    (STANDARD, |it| it.trials.push(tried(TrialOutcome::Failed("LOADING Redis".into())))),
    (STANDARD, |it| it.trials.push(tried(TrialOutcome::Failed("CLUSTERDOWN The".into())))),
    (STANDARD, |it| it.trials.push(tried(TrialOutcome::Failed("BUSY Redis".into())))),
    (STANDARD, |it| it.trials.push(tried(TrialOutcome::Failed("ERR what".into())))),
    (STANDARD, |it| it.trials.push(tried(TrialOutcome::Missing("HSET".into())))),
    (STANDARD, |it| {
        let outcome = TrialOutcome::Missing("ECHO".into());
        it.trials.push(Tried { is_essential: false, outcome });
    }),
    (STANDARD, |it| it.trials.extend(lacking(&["EVAL", "EVALSHA", "SCRIPT|LOAD"]))),
    (STANDARD, |it| it.trials.extend(lacking(&["EVAL", "SCRIPT|LOAD", "SET .. IFEQ"]))),
    (IN_CLUSTER, |it| it.trials.extend(lacking(&["EVAL", "EVALSHA"]))),
    (SCRIPTLESS, |_| ()),
    (SCRIPTLESS, |it| it.trials.extend(lacking(&["SET .. IFEQ"]))),
    (STANDARD, |it| it.server = refused("NOAUTH Authentication required.")),
    (GUARDED, |it| it.memory = refused("ERR unknown command `INFO`")),
    (STANDARD, |it| it.replication = fields("role:active-replica")),
    (STANDARD, |it| it.persistence = info_without("aof_enabled")),
    (STANDARD, |it| it.memory = info(&[("maxmemory_policy", "allkeys-lru"), ("maxmemory", "1")])),
    (STRICT, |it| it.memory = info(&[("maxmemory_policy", "volatile-ttl")])),
    (STANDARD, |it| it.memory = info_without("maxmemory_policy")),
    (STANDARD, |it| it.persistence = info(&[("rdb_last_bgsave_status", "err")])),
    (STANDARD, |it| it.persistence = info(&[])),
    (GUARDED, |it| it.persistence = info(&[])),
    (STANDARD, |it| it.settings = fields("appendfsync:always\nno-appendfsync-on-rewrite:yes")),
    (STANDARD, |it| it.settings = forbidden()),
    (GUARDED, |it| it.server = info(&[("uptime_in_seconds", "3")])),
    (STANDARD, |it| {
        let within = Duration::from_millis(1);
        it.clock = Reading::Known(ClockReading { ahead_micros: -3_000_000, within });
    }),
    (STANDARD, |it| it.round_trips = vec![Duration::from_millis(300)]),
    (GRACED, |it| it.signs = signs(it, None, false)),
    (GRACED, |it| it.signs = signs(it, Some(3), true)),
    (GRACED, |it| it.signs = signs(it, Some(3), false)),
    (GRACED, |it| it.signs = signs(it, Some(3_000), false)),
    (GRACED, |it| {
        it.signs = signs(it, None, false).map(|it| Signs { writing: forbidden(), ..it });
    }),
    (GRACED, |it| {
        let in_script = refused("ERR This Redis command is not allowed from script");
        it.signs = signs(it, None, false).map(|it| Signs { in_script, ..it });
    }),
    (GRACED, |it| {
        let in_script = info_without("master_replid");
        it.signs = signs(it, None, false).map(|it| Signs { in_script, ..it });
    }),
    (GRACED, |it| {
        it.server = info_without("run_id");
        it.signs = signs(it, None, false);
    }),
];

#[test]
fn texts_of_findings_change_only_on_purpose() {
    let mut of_one: Vec<Finding> = Vec::new();
    for (standard, change) in &CASES {
        let mut facts = fit();
        change(&mut facts);
        for finding in findings(&facts, standard) {
            if !of_one.contains(&finding) {
                of_one.push(finding);
            }
        }
    }
    of_one.sort_by_key(|finding| (finding.check, finding.severity));
    texts::hold(
        "doctor.txt",
        &[
            ("One server", lines(of_one)),
            ("A server that could not be connected to", of_the_unmet()),
            ("All servers together", of_all()),
            ("A Cluster's nodes, and Sentinels", of_those_that_move()),
        ],
    );
}

fn lines(findings: impl IntoIterator<Item = Finding>) -> Vec<String> {
    findings.into_iter().map(|finding| finding.to_string()).collect()
}

fn of_the_unmet() -> Vec<String> {
    let refused = ServerError::new(b"WRONGPASS invalid username-password pair");
    let refusal =
        |text: &str| OpenError::Refused { step: "HELLO", error: ServerError::new(text.as_bytes()) };
    let errors = [
        refusal("DENIED Redis is running in protected mode"),
        refusal("ERR max number of clients reached"),
        OpenError::Timeout(Duration::from_secs(2)),
        OpenError::WantsTls,
        OpenError::Refused { step: "AUTH", error: refused },
    ];
    lines(errors.map(|error| unmet(&Reason::NoConnection(error))))
}

fn of_all() -> Vec<String> {
    let tolerance = |servers, needed, voting| {
        together::tolerance(Quorum::new(servers, needed).unwrap(), servers, voting, 0)
    };
    let waiting =
        |servers| together::tolerance(Quorum::new(servers, None).unwrap(), servers, 0, servers);
    let clocks = |ahead_micros| {
        let reading = |ahead_micros| {
            let within = Duration::from_millis(1);
            ClockReading { ahead_micros, within }
        };
        let readings = [("10.0.0.1:6379", reading(0)), ("10.0.0.2:6379", reading(ahead_micros))];
        together::clocks(&readings).unwrap()
    };
    lines([
        together::given_twice("10.0.0.1:6379"),
        clocks(20_000),
        clocks(5_000_000),
        tolerance(1, None, 0),
        tolerance(1, None, 1),
        tolerance(3, None, 1),
        tolerance(3, None, 2),
        tolerance(3, Some(3), 3),
        tolerance(3, None, 3),
        waiting(1),
        waiting(3),
        together::partly(3, 2).unwrap(),
    ])
}

fn of_those_that_move() -> Vec<String> {
    let secs = Duration::from_secs;
    let word = |host: &str| {
        let master = Address::Tcp { host: host.to_owned(), port: 6379 };
        Word { epoch: 1, watched: master.clone(), master, is_down: false, is_new: false }
    };
    let agreement = |words: &[_]| service::agreement(&Evidence::of(words.to_vec()), 3);
    lines([
        failover("cluster-node-timeout", secs(15), secs(30)),
        failover("cluster-node-timeout", secs(15), secs(10)),
        service::stuck("main", 5, 3, 3).unwrap(),
        service::stuck("main", 2, 3, 1).unwrap(),
        cluster::topology(None),
        agreement(&[]),
        agreement(&[word("a"), word("a"), word("a")]),
        agreement(&[word("a"), word("b")]),
        service::unnamed(3, 1).unwrap(),
    ])
}

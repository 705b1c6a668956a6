#[cfg(all(feature = "cluster", feature = "sentinel"))]
mod texts;

use super::super::facts::{Signs, Tried};
use super::*;
use crate::net::refusal::ServerError;
use crate::support::recorded;

const STANDARD: Standard = Standard {
    ttl: Duration::from_secs(10),
    restart_quarantine: None,
    grace: None,
    strict: false,
    in_cluster: false,
    is_scriptless: false,
    is_judged: false,
    command_timeout: Duration::from_millis(500),
};
const GUARDED: Standard =
    Standard { restart_quarantine: Some(Duration::from_secs(10)), is_judged: true, ..STANDARD };

fn fields(text: &str) -> Reading<Fields> {
    Reading::Known(Fields::of_info(text.as_bytes()))
}

fn refused<T>(text: &str) -> Reading<T> {
    Reading::Refused(ServerError::new(text.as_bytes()))
}

fn forbidden<T>() -> Reading<T> {
    refused("NOPERM this user has no permissions to run the 'x' command")
}

fn tried(outcome: TrialOutcome) -> Tried {
    Tried { is_essential: true, outcome }
}

/// INFO of this server after this uptime.
fn aged(name: &str) -> String {
    recorded::with(&recorded::of(name).info("standalone"), "uptime_in_seconds", "500")
}

/// INFO of Redis 7.0, with other values of some fields.
fn info(changed: &[(&str, &str)]) -> Reading<Fields> {
    fields(&recorded::with_each(&aged("redis-7.0.15"), changed))
}

/// INFO of a replica, which has more fields.
fn info_of_replica(changed: &[(&str, &str)]) -> Reading<Fields> {
    fields(&recorded::with_each(&recorded::of("redis-7.0.15").info("replica"), changed))
}

/// INFO without a field.
fn info_without(name: &str) -> Reading<Fields> {
    fields(&recorded::without(&aged("redis-7.0.15"), name))
}

/// A server without any problem.
fn fit() -> Facts {
    Facts {
        is_resp3: true,
        round_trips: [1, 2, 30].map(Duration::from_millis).to_vec(),
        hello: Fields::default(),
        server: info(&[]),
        memory: info(&[]),
        persistence: info(&[("aof_enabled", "1")]),
        replication: info(&[("connected_slaves", "2")]),
        settings: fields("appendfsync:always\nno-appendfsync-on-rewrite:no\nsave:"),
        clock: Reading::Known(ClockReading { ahead_micros: -300, within: Duration::ZERO }),
        trials: vec![tried(TrialOutcome::Allowed)],
        other_run: None,
        signs: None,
        broken_off: None,
    }
}

/// A server's clock, in microseconds.
const CLOCK: u64 = 1_800_000_000_000_000;

/// Its marker is of this reign, in seconds, if it exists; of another run if `is_anothers`.
fn signs(facts: &Facts, secs: Option<u64>, is_anothers: bool) -> Option<Signs> {
    let field = |section: &Reading<Fields>, name| section.known()?.get(name).map(str::to_owned);
    let run = field(&facts.server, "run_id").filter(|_| !is_anothers).unwrap_or_default();
    let id = field(&facts.replication, "master_replid").unwrap_or_default();
    let marker = secs.map(|secs| format!("{run} {id} {}", CLOCK - secs * 1_000_000));
    Some(Signs {
        marker: Reading::Known(marker),
        writing: Reading::Known(()),
        in_script: info(&[]),
        clock: Some(CLOCK),
    })
}

fn findings(facts: &Facts, standard: &Standard) -> Vec<Finding> {
    judge(facts, standard, "worker", Moment::from_nanos(0))
}

/// The findings above a note.
fn wrong(change: impl FnOnce(&mut Facts), standard: &Standard) -> Vec<Finding> {
    let mut facts = fit();
    change(&mut facts);
    let all = findings(&facts, standard).into_iter();
    all.filter(|finding| finding.severity > Severity::Note).collect()
}

/// The one finding of this check.
#[track_caller]
fn about(check: Check, change: impl FnOnce(&mut Facts), standard: &Standard) -> Finding {
    let mut facts = fit();
    change(&mut facts);
    let found: Vec<_> =
        findings(&facts, standard).into_iter().filter(|finding| finding.check == check).collect();
    let [finding] = &found[..] else { panic!("{found:?}") };
    finding.clone()
}

#[test]
fn of_a_server_that_is_fit_nothing_is_wrong() {
    assert_eq!(wrong(|_| (), &STANDARD), []);
    assert_eq!(wrong(|_| (), &GUARDED), []);
    assert_eq!(wrong(|it| it.other_run = it.run_id().map(str::to_owned), &STANDARD), []);
    let all = findings(&fit(), &STANDARD);
    assert!(all.is_sorted_by_key(|finding| finding.check), "{all:?}");
    assert!(all.iter().all(|finding| finding.severity == Severity::Ok), "{all:?}");
}

#[test]
fn every_server_can_be_judged() {
    for server in recorded::all() {
        let info = aged(&server.name);
        let whole = |it: &mut Facts| {
            (it.server, it.memory, it.replication) = (fields(&info), fields(&info), fields(&info));
        };
        assert_eq!(wrong(whole, &GUARDED), [], "{}", server.name);
        let found = about(Check::Version, whole, &GUARDED).to_string();
        assert!(found.contains(server.name.split('-').nth(1).unwrap()), "{found}");
    }
}

#[test]
fn each_fault_has_a_finding_of_its_own_with_a_cure() {
    type Change = fn(&mut Facts);
    let cases: [(Change, Check, Severity, &str); 15] = [
        (|it| it.broken_off = Some("silent".into()), Check::Reachable, Severity::Error, "silent"),
        (
            |it| it.server = info(&[("redis_version", "4.0.1")]),
            Check::Version,
            Severity::Error,
            "4.0.1",
        ),
        (|it| it.is_resp3 = false, Check::Protocol, Severity::Warning, "RESP2"),
        (|it| it.replication = info_of_replica(&[]), Check::Role, Severity::Error, "replica"),
        (
            |it| it.server = fields(&recorded::of("valkey-9.1.2").info("sentinel")),
            Check::Role,
            Severity::Error,
            "Sentinel",
        ),
        (
            |it| it.server = fields(&recorded::of("redis-7.0.15").info("cluster")),
            Check::Independence,
            Severity::Error,
            "Cluster",
        ),
        (
            |it| it.trials.push(tried(TrialOutcome::Lacking("+get".into()))),
            Check::Rights,
            Severity::Error,
            "worker lacks +get",
        ),
        (
            |it| it.trials.push(tried(TrialOutcome::Failed("OOM no".into()))),
            Check::Writes,
            Severity::Error,
            "OOM",
        ),
        (
            |it| it.other_run = Some("0123".into()),
            Check::Independence,
            Severity::Error,
            "a balancer over several servers",
        ),
        (
            |it| it.memory = info(&[("maxmemory_policy", "allkeys-lru")]),
            Check::Eviction,
            Severity::Warning,
            "allkeys-lru",
        ),
        (
            |it| it.persistence = info(&[]),
            Check::Persistence,
            Severity::Warning,
            "nothing is saved",
        ),
        (
            |it| it.settings = fields("appendfsync:everysec"),
            Check::Persistence,
            Severity::Warning,
            "everysec",
        ),
        (
            |it| it.settings = fields("appendfsync:always\nno-appendfsync-on-rewrite:yes"),
            Check::Persistence,
            Severity::Warning,
            "rewritten",
        ),
        (
            |it| it.persistence = info(&[("aof_enabled", "1"), ("aof_last_write_status", "err")]),
            Check::Persistence,
            Severity::Warning,
            "failed",
        ),
        (
            |it| it.round_trips = vec![Duration::from_millis(300)],
            Check::RoundTrip,
            Severity::Warning,
            "300",
        ),
    ];
    for (change, check, severity, part) in cases {
        let wrong = wrong(change, &STANDARD);
        let [finding] = &wrong[..] else { panic!("{check}: {wrong:?}") };
        assert_eq!((finding.check, finding.severity), (check, severity), "{finding}");
        assert!(finding.reason.contains(part) && finding.cure.is_some(), "{finding}");
    }
}

#[test]
fn a_right_that_is_only_of_use_is_a_warning() {
    let optional = |it: &mut Facts| {
        let outcome = TrialOutcome::Lacking("+client|tracking".into());
        it.trials.push(Tried { is_essential: false, outcome });
    };
    let finding = about(Check::Rights, optional, &STANDARD);
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(finding.cure.unwrap(), "ACL SETUSER worker +client|tracking");
}

#[test]
fn missing_rights_are_named_once_and_together() {
    let several = |it: &mut Facts| {
        it.trials = ["~a*", "+set", "~a*"].map(|r| tried(TrialOutcome::Lacking(r.into()))).to_vec();
        it.memory = forbidden();
    };
    let cure = |standard| about(Check::Rights, several, standard).cure.unwrap();
    assert_eq!(cure(&STANDARD), "ACL SETUSER worker +set ~a*");
    // With several servers each needs this INFO.
    assert_eq!(cure(&GUARDED), "ACL SETUSER worker +info|memory +set ~a*");
}

#[test]
fn what_may_not_be_asked_is_unknown_and_no_fault() {
    type Change = fn(&mut Facts);
    let cases: [(Change, Check, &str); 5] = [
        (|it| it.replication = forbidden(), Check::Role, "+info|replication"),
        (|it| it.memory = forbidden(), Check::Eviction, "+info|memory"),
        (|it| it.persistence = forbidden(), Check::Persistence, "+info|persistence"),
        (|it| it.settings = forbidden(), Check::Persistence, "+config|get"),
        (|it| it.clock = forbidden(), Check::Clock, "+time"),
    ];
    for (change, check, right) in cases {
        let finding = about(check, change, &STANDARD);
        assert_eq!(finding.severity, Severity::Note, "{finding}");
        assert!(finding.cure.as_ref().unwrap().contains(right), "{finding}");
        assert_eq!(wrong(change, &STANDARD), []);
    }
    // A single server needs it only to notice that its name moves.
    let nameless = |it: &mut Facts| it.server = forbidden();
    assert_eq!(about(Check::Version, nameless, &STANDARD).severity, Severity::Note);
    let of_use = about(Check::Rights, nameless, &STANDARD);
    assert_eq!(of_use.severity, Severity::Warning);
    assert!(of_use.reason.contains("goes unnoticed"), "{of_use}");
    let in_cluster = Standard { in_cluster: true, ..STANDARD };
    assert_eq!(about(Check::Rights, nameless, &in_cluster).severity, Severity::Ok);
    // A proxy's INFO has other fields.
    let foreign = |it: &mut Facts| it.persistence = fields("proxy_version:1");
    assert_eq!(about(Check::Persistence, foreign, &STANDARD).severity, Severity::Note);
    // With CONFIG renamed there is no right to it.
    let renamed = |it: &mut Facts| it.settings = refused("ERR unknown command 'CONFIG'");
    assert_eq!(about(Check::Persistence, renamed, &STANDARD).cure, None);
}

#[test]
fn a_server_that_has_to_say_how_it_is_and_does_not_is_refused() {
    let vague = |it: &mut Facts| {
        it.memory = info_without("maxmemory_policy");
        it.replication = info_without("role");
    };
    let wrong = wrong(vague, &GUARDED);
    let [finding] = &wrong[..] else { panic!("{wrong:?}") };
    assert_eq!((finding.check, finding.severity), (Check::Version, Severity::Error));
    assert!(finding.reason.contains("lacks maxmemory_policy, role"), "{finding}");
    assert_eq!(about(Check::Role, vague, &STANDARD).severity, Severity::Note);
}

/// INFO in the form of KeyDB's source, with `active-replica yes` and a master.
#[test]
fn a_master_that_follows_another_is_no_replica_with_a_master_to_give() {
    let active = |it: &mut Facts| {
        it.replication = fields("role:active-replica\nmaster_host:h\nmaster_port:1");
        it.trials.clear();
    };
    let role = about(Check::Role, active, &STANDARD);
    assert!(role.severity == Severity::Error && role.reason.contains("two of them"), "{role}");
    assert!(!role.cure.as_ref().unwrap().contains("h:1"), "{role}");
}

#[test]
fn a_node_without_a_replica_is_replaced_by_nobody() {
    let in_cluster = Standard { in_cluster: true, ..STANDARD };
    let node = |replicas: &'static str| {
        move |it: &mut Facts| {
            it.server = fields(&recorded::of("redis-7.0.15").info("cluster"));
            it.replication = info(&[("connected_slaves", replicas)]);
            it.settings = fields("appendfsync:always\nsave:\ncluster-node-timeout:3000");
        }
    };
    assert!(about(Check::Failover, node("0"), &in_cluster).reason.contains("it has no replica"));
    assert!(about(Check::Failover, node("1"), &in_cluster).reason.contains("is replaced"));
}

#[test]
fn a_strict_set_up_refuses_what_may_evict() {
    let evicts = |it: &mut Facts| it.memory = info(&[("maxmemory_policy", "volatile-ttl")]);
    let strict = Standard { strict: true, ..STANDARD };
    assert_eq!(about(Check::Eviction, evicts, &strict).severity, Severity::Error);
}

#[test]
fn the_restart_quarantine_covers_what_is_not_kept_and_says_how_long_it_waits() {
    let forgets = |it: &mut Facts| it.persistence = info(&[]);
    assert_eq!(about(Check::Persistence, forgets, &GUARDED).severity, Severity::Ok);
    let young = |it: &mut Facts| it.server = info(&[("uptime_in_seconds", "3")]);
    let finding = about(Check::RestartQuarantine, young, &GUARDED);
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.reason.contains("3 s ago") && finding.reason.contains("another 8 s"));
    assert_eq!(about(Check::RestartQuarantine, young, &STANDARD).severity, Severity::Ok);
}

#[test]
fn a_replica_names_its_master_and_is_asked_no_more() {
    let replica = |it: &mut Facts| {
        it.replication = info_of_replica(&[("master_host", "h\x1b[2J")]);
        it.trials.clear();
    };
    let mut facts = fit();
    replica(&mut facts);
    let all = findings(&facts, &GUARDED);
    let checks: Vec<_> = all.iter().map(|finding| finding.check).collect();
    assert!(!checks.contains(&Check::Persistence) && !checks.contains(&Check::RestartQuarantine));
    let role = all.iter().find(|finding| finding.check == Check::Role).unwrap();
    assert_eq!(role.cure.as_deref(), Some(r"give its master, h\u{1b}[2J:1"));
}

#[test]
fn nodes_of_a_cluster_belong_into_one() {
    let in_cluster = Standard { in_cluster: true, ..STANDARD };
    for server in recorded::all() {
        let node = |it: &mut Facts| it.server = fields(&server.info("cluster"));
        assert_eq!(wrong(node, &in_cluster), [], "{}", server.name);
        assert_eq!(about(Check::Independence, node, &STANDARD).severity, Severity::Error);
    }
    assert_eq!(about(Check::Independence, |_| (), &in_cluster).severity, Severity::Error);
}

#[test]
fn what_servers_say_cannot_write_to_a_terminal_and_has_an_end() {
    let hostile = format!("x\x1b[2J\u{202e}{}", "y".repeat(100_000));
    let facts = Facts {
        server: info(&[("redis_version", &hostile), ("uptime_in_seconds", &hostile)]),
        memory: info(&[("maxmemory_policy", &hostile)]),
        persistence: refused(&hostile),
        replication: info_of_replica(&[("role", &hostile), ("master_host", &hostile)]),
        clock: refused(&hostile),
        broken_off: Some(hostile.escape_debug().to_string()),
        ..fit()
    };
    for finding in findings(&facts, &GUARDED) {
        let text = finding.to_string();
        assert!(text.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{text}");
        assert!(text.len() < 2000, "{}", text.len());
    }
}

#[test]
fn what_was_not_asked_any_more_is_not_mentioned() {
    let facts = Facts { broken_off: Some("silent".into()), is_resp3: true, ..Facts::default() };
    let checks: Vec<_> = findings(&facts, &GUARDED).iter().map(|it| it.check).collect();
    assert_eq!(checks, [Check::Reachable, Check::Version, Check::Protocol]);
}

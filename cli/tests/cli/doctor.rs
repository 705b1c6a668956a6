//! `leasehold doctor`, and `Builder::examine` beneath it, against real servers.

use std::process::Output;
use std::time::Duration;

use crate::command::{code, end, leasehold, output, stderr, stdout};
use leasehold::examine::{Capability, Check, Examination, Finding, Severity};
use leasehold::{Builder, Locker};
use leasehold_testing::old::{Age, OldServer};
use leasehold_testing::rights::{self, PREFIX};
use leasehold_testing::{
    Action, Authority, Cluster, FaultProxy, Fleet, RedisServer, ScriptedServer, Sentinels,
    eventually, ports, scripted, soon,
};
use leasehold_testing::{binary, recorded};
use serde_json::Value;

pub async fn doctor(url: &str, words: &[&str]) -> Output {
    output(leasehold(url, &["doctor"]).args(words)).await
}

pub async fn examine(builder: &Builder) -> Examination {
    soon("an examination", builder.examine()).await.unwrap()
}

/// With patience, so that a busy machine makes no server slow.
pub fn of(urls: impl IntoIterator<Item = String>) -> Builder {
    const PATIENCE: Duration = Duration::from_secs(5);
    Locker::builder().nodes(urls).command_timeout(PATIENCE).connect_timeout(PATIENCE)
}

/// A server that remembers all it was told.
pub fn fit() -> RedisServer {
    RedisServer::builder().append_only().start()
}

/// What is wrong, as check and severity, with the number of the server.
pub fn wrong(examination: &Examination) -> Vec<(usize, Check, Severity)> {
    let servers = &examination.servers;
    let place = |server: &leasehold::examine::ServerExamination| {
        servers.iter().position(|other| std::ptr::eq(other, server)).expect("it is one of them")
    };
    let all = examination.all().filter(|(_, finding)| finding.severity > Severity::Note);
    let all = all.map(|(server, finding)| {
        (server.map_or(servers.len(), place), finding.check, finding.severity)
    });
    all.collect()
}

/// The finding about this of the server with this number.
#[track_caller]
pub fn finding(examination: &Examination, server: usize, check: Check) -> &Finding {
    let findings = &examination.servers[server].findings;
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("no {check} in {findings:?}"))
}

fn is_harmless(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}')
}

#[tokio::test]
async fn a_server_that_is_fit_is_said_to_be_and_keeps_nothing() {
    let server = fit();
    let said = doctor(&server.url(), &["--key-prefix", "app:"]).await;
    assert_eq!((code(&said), &*stderr(&said)), (0, ""), "{said:?}");
    let table = stdout(&said);
    assert!(table.contains(&binary::version().to_string()), "{table}");
    assert!(table.contains("appendfsync always"), "{table}");
    assert!(table.ends_with("fit for locks\n") && !table.contains('\x1b'), "{table}");
    assert_eq!(server.cli_text(&["DBSIZE"]), "0");
    let quiet = doctor(&server.url(), &["-q"]).await;
    assert!(!stdout(&quiet).contains("persistence"), "{quiet:?}");
}

#[tokio::test]
async fn the_code_is_that_of_the_worst() {
    let (fit, forgetful) = (fit(), RedisServer::start());
    let nobody = format!("redis://127.0.0.1:{}", ports::free());
    for (url, expected) in [(&fit.url(), 0), (&forgetful.url(), 1), (&nobody, 2)] {
        assert_eq!(code(&doctor(url, &[]).await), expected, "{url}");
        assert_eq!(code(&doctor(url, &["--json"]).await), expected, "{url}");
    }
    let misused: [(&[&str], i32); 3] =
        [(&["--ttl", "0"], 78), (&["--key-prefix", "}"], 78), (&["--nonsense"], 64)];
    for (words, expected) in misused {
        assert_eq!(code(&doctor(&fit.url(), words).await), expected, "{words:?}");
    }
}

/// One that cannot be asked keeps the others from nothing.
#[tokio::test]
async fn servers_that_hang_or_are_gone_are_said_to_and_the_others_reported() {
    let (fit, frozen) = (fit(), RedisServer::start());
    let mute = ScriptedServer::start(|command| {
        scripted::greeting(command).filter(|_| !command.is(&["INFO"])).unwrap_or(Action::Silence)
    });
    frozen.stop();
    let nobody = format!("redis://127.0.0.1:{}", ports::free());
    let urls = [fit.url(), frozen.url(), mute.url(), nobody];
    let examination = examine(&of(urls).ttl(Duration::from_millis(100)).quorum(3)).await;
    frozen.cont();
    let unreachable = [1, 2, 3].map(|server| (server, Check::Reachable, Severity::Error));
    let wrong = wrong(&examination);
    assert!(unreachable.iter().all(|one| wrong.contains(one)), "{wrong:?}");
    assert!(
        !wrong.iter().any(|(server, check, _)| *server == 0 && *check != Check::RestartQuarantine)
    );
    assert!(wrong.contains(&(4, Check::Tolerance, Severity::Error)), "{wrong:?}");
    let partly = finding(&examination, 2, Check::Reachable);
    assert!(partly.reason.contains("left questions without an answer"), "{partly}");
    assert!(examination.servers[2].round_trip.is_some());
}

#[tokio::test]
async fn a_wrong_url_is_a_finding_and_repeats_no_password() {
    let server = fit();
    let urls = format!("{} http://:hunter2@h redis-cluster://127.0.0.1:1", server.url());
    let said = doctor(&urls, &["--ttl", "1h"]).await;
    assert_eq!(code(&said), 2);
    let table = stdout(&said);
    for part in ["URL 2", "http://", "URL 3", "must be given alone", "appendfsync always"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!table.contains("hunter2"), "{table}");
    let said = doctor("redis://:hunter2@h:port", &["--json"]).await;
    assert!(code(&said) == 2 && !stdout(&said).contains("hunter2"), "{said:?}");
}

#[tokio::test]
async fn a_refused_login_is_said_to_be_one_and_repeats_no_password() {
    let server = RedisServer::builder().arg("--requirepass").arg("secret").start();
    let address = server.address();
    for login in ["", ":hunter2@", "nobody:hunter2@"] {
        let url = format!("redis://{login}{address}");
        let examination = examine(&of([url])).await;
        let refused = finding(&examination, 0, Check::Login);
        assert!(refused.severity == Severity::Error && refused.cure.is_some());
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
    }
    let url = format!("{}/99", server.url());
    let database = examine(&of([url])).await;
    assert!(finding(&database, 0, Check::Login).reason.contains("database"));
}

/// One name, and another server from one connection to the next.
#[tokio::test]
async fn a_balancer_over_two_masters_is_found() {
    let servers = [fit(), fit()];
    let proxy = FaultProxy::start(servers[0].address());
    assert_eq!(wrong(&examine(&of([proxy.url()])).await), []);
    proxy.lead_in_turn(servers.iter().map(RedisServer::address).collect());
    let examination = examine(&of([proxy.url()])).await;
    let found = finding(&examination, 0, Check::Independence);
    assert_eq!(found.severity, Severity::Error, "{found}");
    assert!(found.reason.contains("a balancer over several servers"), "{found}");
    assert!(found.cure.is_some(), "{found}");
}

/// The page of rights, right by right.
#[tokio::test]
async fn each_missing_right_is_named_with_its_cure() {
    let server = fit();
    let builder = of([rights::url(&server)]).key_prefix(PREFIX);
    let all = rights::of("waiting");
    rights::grant(&server, &all);
    let examination = examine(&builder).await;
    assert_eq!(finding(&examination, 0, Check::Rights).severity, Severity::Ok);
    let unknown = finding(&examination, 0, Check::Persistence);
    assert_eq!(unknown.severity, Severity::Note);
    assert!(unknown.cure.as_ref().unwrap().contains("+info|persistence"), "{unknown}");
    assert_eq!(wrong(&examination), []);
    let optional = [
        "+client|caching",
        "+client|tracking",
        "+info|server",
        "+publish",
        "+pubsub|numsub",
        "+subscribe",
        "&leasehold:*",
    ];
    for right in &all {
        let others: Vec<String> = all.iter().filter(|rule| *rule != right).cloned().collect();
        rights::grant(&server, &others);
        let examination = examine(&builder).await;
        let lacking = finding(&examination, 0, Check::Rights);
        let is_optional = optional.contains(&&**right);
        let severity = if is_optional { Severity::Warning } else { Severity::Error };
        assert_eq!(lacking.severity, severity, "{right}: {lacking}");
        assert_eq!(lacking.cure, Some(format!("ACL SETUSER worker {right}")), "{lacking}");
    }
    eventually("nothing is left", || server.cli_text(&["DBSIZE"]) == "0").await;
}

/// The page's other rows, right by right.
#[tokio::test]
async fn each_missing_right_of_what_is_beside_locks_is_named_where_it_is_asked_for() {
    const ROWS: [(&str, &[&str]); 5] = [
        ("looking", &["looking"]),
        ("shares", &["shares"]),
        ("family", &["limits", "once", "idempotency"]),
        ("latches", &["latches"]),
        ("barriers", &["barriers"]),
    ];
    let server = fit();
    let builder = of([rights::url(&server)]).key_prefix(PREFIX);
    let known = rights::of("waiting");
    for (row, names) in ROWS {
        let uses: Vec<Capability> =
            Capability::ALL.into_iter().filter(|it| names.contains(&it.as_str())).collect();
        assert_eq!(uses.len(), names.len());
        let own: Vec<String> =
            rights::row(row).into_iter().filter(|right| !known.contains(right)).collect();
        let rights_found = async |granted: &[String]| {
            rights::grant(&server, &[&known, granted].concat());
            let examination = soon("an examination", builder.examine_for(&uses)).await.unwrap();
            finding(&examination, 0, Check::Rights).clone()
        };
        let content = rights_found(&own).await;
        assert_eq!(content.severity, Severity::Ok, "{row}: {content}");
        for right in &own {
            let others: Vec<_> = own.iter().filter(|it| *it != right).cloned().collect();
            let lacking = rights_found(&others).await;
            assert_eq!(lacking.severity, Severity::Error, "{row}: {right}: {lacking}");
            assert_eq!(lacking.cure, Some(format!("ACL SETUSER worker {right}")), "{lacking}");
        }
        rights::grant(&server, &known);
        let alone = examine(&builder).await;
        assert_eq!(finding(&alone, 0, Check::Rights).severity, Severity::Ok, "{row}");
    }
    eventually("nothing is left", || server.cli_text(&["DBSIZE"]) == "0").await;
    let said =
        doctor(&rights::url(&server), &["--key-prefix", PREFIX, "--for", "shares,once"]).await;
    let table = stdout(&said);
    assert!(code(&said) == 2 && table.contains("~{app:*}:once"), "{table}");
    assert!(table.contains("+zrangebyscore") && !table.contains(":latch"), "{table}");
    let said = doctor(&server.url(), &["--for", "locks"]).await;
    assert!(code(&said) == 64 && stderr(&said).contains("barriers"), "{said:?}");
}

#[tokio::test]
async fn several_servers_need_rights_to_say_how_they_are() {
    let fleet = Fleet::start(2);
    fleet.iter().for_each(|server| rights::grant(server, &rights::of("waiting")));
    let builder = of(fleet.iter().map(rights::url)).key_prefix(PREFIX);
    let lacking = finding(&examine(&builder).await, 1, Check::Rights).clone();
    assert_eq!(lacking.severity, Severity::Error);
    let cure = "ACL SETUSER worker +info|memory +info|replication";
    assert_eq!(lacking.cure.as_deref(), Some(cure));
    fleet.iter().for_each(|server| rights::grant(server, &rights::of("several")));
    assert_eq!(finding(&examine(&builder).await, 1, Check::Rights).severity, Severity::Ok);
}

#[tokio::test]
async fn the_same_server_twice_is_found_whatever_it_is_called() {
    let (server, other) = (fit(), fit());
    let by_name = format!("redis://localhost:{}", server.port());
    let examination = examine(&of([server.url(), other.url(), by_name, other.url()])).await;
    let twice = |server| finding(&examination, server, Check::Independence);
    assert!(twice(2).reason.contains(&server.address().to_string()), "{}", twice(2));
    assert!(twice(3).reason.contains(&other.address().to_string()), "{}", twice(3));
    assert_eq!((twice(2).severity, twice(3).severity), (Severity::Error, Severity::Error));
    let blamed = wrong(&examination);
    assert!(!blamed.iter().any(|(server, check, _)| *server < 2 && *check == Check::Independence));
}

#[tokio::test]
async fn nodes_of_a_cluster_are_no_servers_of_a_redlock() {
    let node = RedisServer::builder().arg("--cluster-enabled").arg("yes").start();
    for urls in [vec![node.url()], vec![node.url(), fit().url()]] {
        let examination = examine(&of(urls)).await;
        let finding = finding(&examination, 0, Check::Independence);
        assert_eq!(finding.severity, Severity::Error);
        assert!(finding.cure.as_ref().unwrap().contains("redis-cluster://"), "{finding}");
    }
}

#[tokio::test]
async fn a_server_that_may_evict_is_warned_of_and_refused_where_that_is_asked() {
    let server =
        RedisServer::builder().append_only().arg("--maxmemory-policy").arg("allkeys-lru").start();
    for (words, expected) in [(&[][..], 1), (&["--refuse-evicting"], 2)] {
        let said = doctor(&server.url(), words).await;
        assert_eq!(code(&said), expected, "{said:?}");
        let table = stdout(&said);
        assert!(table.contains("allkeys-lru") && table.contains("noeviction"), "{table}");
    }
}

#[tokio::test]
async fn a_server_of_another_age_is_examined_as_far_as_it_goes() {
    let server = fit();
    for (age, has_tracking) in [(Age::Redis5, false), (Age::Redis6, true), (Age::NoProto, false)] {
        let old = OldServer::start(age, server.address());
        let examination = examine(&of([old.url("")])).await;
        let expected = (!has_tracking).then_some((0, Check::Protocol, Severity::Warning));
        assert_eq!(wrong(&examination), Vec::from_iter(expected), "{age:?}");
        assert_eq!(finding(&examination, 0, Check::Rights).severity, Severity::Ok);
        assert!(examination.servers[0].round_trip.is_some());
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_are_an_error() {
    let nonsense = ScriptedServer::start(|command| match command.name().as_str() {
        "INFO" => Action::Reply(leasehold_resp::Frame::Integer(1)),
        _ => scripted::greeting(command).unwrap_or(Action::ok()),
    });
    let examination = examine(&of([nonsense.url()])).await;
    let finding = finding(&examination, 0, Check::Reachable);
    assert!(finding.severity == Severity::Error && finding.reason.contains("INFO"), "{finding}");
}

#[tokio::test]
async fn a_server_that_takes_no_writes_says_why() {
    let full = RedisServer::builder().append_only().arg("--maxmemory").arg("1").start();
    let examination = examine(&of([full.url()])).await;
    let finding = finding(&examination, 0, Check::Writes);
    assert!(finding.severity == Severity::Error && finding.reason.contains("OOM"), "{finding}");
}

#[tokio::test]
async fn a_replica_names_its_master_and_nothing_is_written_to_it() {
    let master = fit();
    let port = master.port().to_string();
    let replica = RedisServer::builder().arg("--replicaof").arg("127.0.0.1").arg(port);
    let replica = replica.arg("--replica-read-only").arg("no").start();
    let linked = || replica.cli_text(&["INFO", "replication"]).contains("link_status:up");
    eventually("it follows", linked).await;
    let examination = examine(&of([replica.url()])).await;
    let role = finding(&examination, 0, Check::Role);
    assert_eq!(role.severity, Severity::Error);
    assert!(role.cure.as_ref().unwrap().contains(&master.address().to_string()), "{role}");
    assert_eq!(replica.cli_text(&["DBSIZE"]), "0");
    let stats = replica.cli_text(&["INFO", "commandstats"]);
    assert!(!stats.contains("cmdstat_set:"), "{stats}");
}

#[tokio::test]
async fn servers_that_have_just_started_may_not_vote_yet() {
    let fleet = Fleet::start_as(3, &RedisServer::builder().append_only());
    let builder = of(fleet.urls()).ttl(Duration::from_secs(3600));
    let examination = examine(&builder).await;
    let waits = |server| (server, Check::RestartQuarantine, Severity::Warning);
    let not_yet = (3, Check::Tolerance, Severity::Warning);
    assert_eq!(wrong(&examination), [waits(0), waits(1), waits(2), not_yet]);
    assert_eq!((examination.votes, examination.quorum), (3, Some(2)));
    let tolerance = examination.tolerance.unwrap();
    assert_eq!((tolerance.memory_losses, tolerance.outages), (0, 1));
    let alone = examine(&builder.restart_quarantine(false)).await;
    assert_eq!(wrong(&alone), []);
    let no_majority = examine(&of(fleet.urls()).quorum(1)).await;
    assert!(wrong(&no_majority).contains(&(3, Check::Tolerance, Severity::Error)));
}

#[tokio::test]
async fn clocks_that_differ_are_warned_of() {
    let builder = RedisServer::builder().append_only().wall_clock();
    let fleet = Fleet::start_as(3, &builder);
    fleet[1].set_wall_clock(90);
    let builder = of(fleet.urls()).restart_quarantine(false);
    let examination = examine(&builder).await;
    assert_eq!(wrong(&examination), [(3, Check::Clock, Severity::Warning)]);
    let own = finding(&examination, 1, Check::Clock);
    assert!(own.severity == Severity::Note && own.reason.contains("ahead"), "{own}");
    assert_eq!(finding(&examination, 0, Check::Clock).severity, Severity::Ok);
}

#[tokio::test]
async fn what_a_hostile_server_says_does_nothing_and_has_an_end() {
    let server = ScriptedServer::start(|command| {
        let hostile = format!("\x1b[2J\u{202e}{}", "y".repeat(20_000));
        match command.name().as_str() {
            "HELLO" if command.index == 0 => scripted::greeting(command).unwrap(),
            "INFO" => {
                let info = recorded::of("redis-7.0.15").info("standalone");
                let changed = [
                    ("redis_version", &hostile[..]),
                    ("run_id", &hostile),
                    ("maxmemory_policy", &hostile),
                    ("aof_enabled", "1"),
                    ("uptime_in_seconds", "-5"),
                ];
                Action::bulk(recorded::with_each(&info, &changed))
            }
            "CONFIG" => Action::Sequence(vec![
                Action::raw("*2\r\n$11\r\nappendfsync\r\n"),
                Action::bulk(&hostile),
            ]),
            // Longer lines break the protocol.
            _ => Action::error(&format!("NOPERM '{}'", &hostile[..10_000])),
        }
    });
    for words in [&[][..], &["--json"]] {
        let said = doctor(&server.url(), words).await;
        let text = stdout(&said);
        assert_eq!(code(&said), 2, "{text}");
        assert!(is_harmless(&text) && text.contains(r"\u{1b}[2J"), "{text}");
        assert!(text.len() < 20_000 && stderr(&said).is_empty(), "{}", text.len());
    }
}

#[tokio::test]
async fn json_has_the_fields_that_the_page_promises() {
    let said = doctor(&fit().url(), &["--json"]).await;
    let json: Value = serde_json::from_str(&stdout(&said)).unwrap();
    let page = std::fs::read_to_string(leasehold_testing::repository("docs/command.md")).unwrap();
    let names =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let (server, finding) = (&json["servers"][0], &json["servers"][0]["findings"][0]);
    for name in [names(&json), names(server), names(finding)].concat() {
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/command.md");
    }
    assert_eq!(json["severity"], "ok");
    assert_eq!((&json["votes"], &json["quorum"]), (&1.into(), &1.into()));
    assert_eq!(server["version"], binary::version().to_string());
    assert!(server["round_trip_us"].is_u64() && server["kind"] == "server");
    assert_eq!((&finding["check"], &finding["cure"]), (&"reachable".into(), &Value::Null));
}

/// Nobody reads what it says.
#[tokio::test]
async fn closed_outputs_harm_nothing() {
    let server = RedisServer::start();
    let binary = env!("CARGO_BIN_EXE_leasehold");
    let lines = [
        format!("{binary} doctor >&- 2>&-; test $? = 1"),
        // The reader is gone before anything is written.
        format!("{{ sleep 0.2; {binary} doctor; echo $? >&2; }} | true"),
    ];
    for line in lines {
        let mut shell = tokio::process::Command::new("sh");
        shell.args(["-c", &line]).env("LEASEHOLD_URL", server.url()).kill_on_drop(true);
        let done = output(&mut shell).await;
        assert_eq!(code(&done), 0, "{line}: {done:?}");
        assert!(["", "1\n"].contains(&&*stderr(&done)), "{done:?}");
    }
    if std::path::Path::new("/dev/full").exists() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut doctor = leasehold(&server.url(), &["doctor"]);
        let done = end(doctor.stdout(full).spawn().unwrap()).await;
        assert!(code(&done) == 71 && stderr(&done).contains("standard output"), "{done:?}");
    }
}

#[tokio::test]
async fn the_masters_of_a_cluster_are_found_and_examined() {
    let cluster = Cluster::start();
    let nobody = format!("127.0.0.1:{}", ports::free());
    let url = format!("{},{nobody}", cluster.seed_url(2));
    let examination = examine(&of([url])).await;
    let kinds: Vec<_> = examination.servers.iter().map(|server| server.kind.as_str()).collect();
    assert_eq!(kinds, ["seed", "server", "server", "server"]);
    assert_eq!(examination.servers[0].server, nobody);
    let wrong = wrong(&examination);
    let not_kept = |server| (server, Check::Persistence, Severity::Warning);
    let expected =
        [(0, Check::Reachable, Severity::Warning), not_kept(1), not_kept(2), not_kept(3)];
    assert_eq!(wrong, expected);
    let topology = examination.findings.iter().find(|it| it.check == Check::Topology).unwrap();
    assert!(topology.reason.contains("3 masters serve all slots"), "{topology}");
    let none = examine(&of([format!("redis-cluster://{nobody}")])).await;
    assert!(none.severity() == Severity::Error && none.servers.len() == 1);
    let leftovers: Vec<_> = cluster.nodes().map(|node| node.cli_text(&["DBSIZE"])).collect();
    assert!(leftovers.iter().all(|count| count == "0"), "{leftovers:?}");
    let other = Cluster::of_masters(1);
    let url = format!("{},{}", cluster.seed_url(2), other[0].address());
    let strangers = examine(&of([url])).await;
    let wrong = strangers.findings.iter().find(|it| it.reason.contains("different Clusters"));
    assert_eq!(wrong.map(|it| it.severity), Some(Severity::Error));
}

#[tokio::test]
async fn the_master_of_a_service_is_found_and_examined() {
    let mut service = Sentinels::start();
    let examination = examine(&of([service.url()])).await;
    let kinds: Vec<_> = examination.servers.iter().map(|server| server.kind.as_str()).collect();
    assert_eq!(kinds, ["sentinel", "sentinel", "sentinel", "server"]);
    let master = format!("127.0.0.1:{}", service.master_port());
    assert_eq!(examination.servers[3].server, master);
    assert_eq!(wrong(&examination), [(3, Check::Persistence, Severity::Warning)]);
    let sentinel = format!("redis://127.0.0.1:{}", service.sentinel_ports()[0]);
    let mistaken = examine(&of([sentinel])).await;
    assert!(finding(&mistaken, 0, Check::Role).reason.contains("Sentinel"));
    service.kill_sentinel(0);
    let examination = examine(&of([service.url()])).await;
    assert_eq!(wrong(&examination)[0], (0, Check::Reachable, Severity::Warning));
    assert_eq!(examination.servers[3].server, master);
    let unknown = service.url().replace(leasehold_testing::sentinel::SERVICE, "nobody");
    let examination = examine(&of([unknown])).await;
    assert!(wrong(&examination).contains(&(3, Check::Topology, Severity::Error)));
}

#[tokio::test]
async fn tls_that_fails_says_why() {
    if binary::lacks(binary::has_tls(), "TLS") {
        return;
    }
    let authority = Authority::new();
    let server = RedisServer::builder().tls(&authority.issue(&["localhost"])).start();
    let untrusted = examine(&of([server.tls_url("localhost")])).await;
    assert_eq!(finding(&untrusted, 0, Check::Login).severity, Severity::Error);
    let plain = examine(&of([server.url().replace("redis://", "rediss://")])).await;
    let silent = finding(&plain, 0, Check::Reachable);
    assert!(silent.severity == Severity::Error && silent.reason.contains("TLS"), "{silent}");
    let tls = leasehold::Tls::new().ca_pem(authority.pem());
    let trusted = examine(&of([server.tls_url("localhost")]).tls(tls)).await;
    assert_eq!(wrong(&trusted), [(0, Check::Persistence, Severity::Warning)]);
}

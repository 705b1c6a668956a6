//! What the doctor says of servers that something is wrong with, and that nothing is once its cure was tried.

use std::io::Write;
use std::net::UdpSocket;
use std::time::Duration;

use leasehold::Locker;
use leasehold::examine::{Check, Examination, Finding, ServerExamination, Severity};
use leasehold_testing::old::{Age, OldServer};
use leasehold_testing::sentinel::SERVICE;
use leasehold_testing::{Cluster, RedisServer, Sentinels, eventually, soon};

use crate::command::{code, stdout};
use crate::doctor::{doctor, examine, finding, fit, of, wrong};

/// The finding about all servers together.
#[track_caller]
fn together(examination: &Examination, check: Check) -> &Finding {
    let found = examination.findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("no {check} in {:?}", examination.findings))
}

#[track_caller]
fn cure(finding: &Finding) -> &str {
    finding.cure.as_deref().unwrap_or_else(|| panic!("no cure: {finding}"))
}

/// The words behind `run` in a cure, up to `until`.
#[track_caller]
fn words(cure: &str, until: &str) -> Vec<String> {
    let (_, words) = cure.split_once("run ").unwrap_or_else(|| panic!("{cure}"));
    let (words, _) = words.split_once(until).unwrap_or_else(|| panic!("{cure}"));
    words.split(' ').map(str::to_owned).collect()
}

/// Has a server do what a cure says.
#[track_caller]
fn follow(server: &RedisServer, cure: &str, until: &str) {
    let words = words(cure, until);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(server.cli_text(&words), "OK", "{words:?}");
}

#[tokio::test]
async fn a_failover_that_never_comes_is_a_warning_until_enough_sentinels_are_there() {
    let mut service = Sentinels::start();
    let failover = async |service: &Sentinels| {
        let examination = examine(&of([service.url()])).await;
        together(&examination, Check::Failover).clone()
    };
    let of_good = failover(&service).await;
    assert!(of_good.reason.contains("is replaced"), "{of_good}");
    (0..3).for_each(|at| _ = service.ask(at, &["SENTINEL", "SET", SERVICE, "quorum", "5"]));
    let unreachable = failover(&service).await;
    assert_eq!(unreachable.severity, Severity::Warning);
    assert!(unreachable.reason.contains("5 Sentinels have to agree"), "{unreachable}");
    let words = words(cure(&unreachable), " on each");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    (0..3).for_each(|at| assert_eq!(service.ask(at, &words).error(), None));
    assert_eq!(failover(&service).await, of_good);
    service.kill_sentinel(0);
    assert_eq!(failover(&service).await, of_good);
    service.kill_sentinel(1);
    let dead = failover(&service).await;
    assert_eq!(dead.severity, Severity::Warning);
    assert!(dead.reason.contains("only 1 of 3 Sentinels are up"), "{dead}");
}

#[tokio::test]
async fn a_server_that_runs_a_script_lacks_no_right() {
    let server = RedisServer::builder().append_only().arg("--lua-time-limit").arg("1").start();
    let mut busy = server.client();
    busy.send(&["EVAL", "while true do end", "0"]).unwrap();
    let mut other = server.client();
    eventually("it is busy", || other.call(&["PING"]).error().is_some()).await;
    let examination = examine(&of([server.url()])).await;
    let writes = finding(&examination, 0, Check::Writes);
    assert!(writes.severity == Severity::Error && writes.reason.contains("BUSY"), "{writes}");
    let findings = &examination.servers[0].findings;
    assert!(!findings.iter().any(|finding| finding.check == Check::Rights), "{findings:?}");
    assert!(cure(writes).ends_with("end that by SCRIPT KILL"), "{writes}");
    assert_eq!(other.text(&["SCRIPT", "KILL"]), "OK");
    assert!(busy.next_frame().unwrap().error().is_some());
    assert_eq!(wrong(&examine(&of([server.url()])).await), []);
}

#[tokio::test]
async fn a_cluster_that_lacks_a_master_grants_what_the_others_can() {
    let builder = RedisServer::builder().append_only();
    let builder = builder.arg("--cluster-require-full-coverage").arg("no");
    let mut cluster = Cluster::of_masters_as(&builder, 3);
    let whole = examine(&of([cluster.url()])).await;
    assert_eq!(wrong(&whole), []);
    for server in &whole.servers {
        let failover = server.findings.iter().find(|it| it.check == Check::Failover).unwrap();
        assert!(failover.severity == Severity::Note, "{failover}");
        assert!(failover.reason.contains("it has no replica"), "{failover}");
    }
    let dead = cluster.master_of(cluster.slot("a"));
    cluster.kill(dead);
    let examination = examine(&of([cluster.url()])).await;
    let tolerance = together(&examination, Check::Tolerance);
    assert_eq!(tolerance.severity, Severity::Warning);
    assert!(tolerance.reason.contains("2 of 3 masters can grant locks"), "{tolerance}");
    let locker = soon("a locker", Locker::connect(&cluster.url())).await.unwrap();
    let mut names = ["b", "c", "d", "e"].into_iter();
    let name = names.find(|name| cluster.master_of(cluster.slot(name)) != dead).unwrap();
    soon("a lock", locker.lock(name).into_future()).await.unwrap().release().await.unwrap();
    cluster.restart(dead);
    let is_good = async || wrong(&examine(&of([cluster.url()])).await).is_empty();
    soon("it is whole", async { while !is_good().await {} }).await;
}

/// Whichever it is: keys are tried at each that are in its slots.
#[tokio::test]
async fn each_master_of_a_cluster_says_why_it_takes_no_writes() {
    let cluster = Cluster::of_masters_as(&RedisServer::builder().append_only(), 3);
    for node in cluster.nodes() {
        let limit = |bytes| node.cli_text(&["CONFIG", "SET", "maxmemory", bytes]);
        limit("1");
        let examination = examine(&of([cluster.url()])).await;
        let address = node.address().to_string();
        let is_it = |it: &ServerExamination| it.server == address;
        let server = examination.servers.iter().position(is_it).unwrap();
        let (refused, partly) =
            ((Check::Writes, Severity::Error), (Check::Tolerance, Severity::Warning));
        assert_eq!(wrong(&examination), [(server, refused.0, refused.1), (3, partly.0, partly.1)]);
        let writes = finding(&examination, server, Check::Writes);
        assert!(writes.reason.contains("OOM"), "{writes}");
        limit("0");
    }
}

#[tokio::test]
async fn a_server_that_does_not_say_how_it_is_is_not_said_to_be_bad() {
    let server = RedisServer::builder().arg("--rename-command").arg("INFO").arg("").start();
    let examination = examine(&of([server.url()])).await;
    assert_eq!(wrong(&examination), []);
    assert_eq!(finding(&examination, 0, Check::Persistence).severity, Severity::Note);
    // Where it has to say, the locker would not connect.
    let strict = examine(&of([server.url()]).refuse_evicting()).await;
    let version = wrong(&strict)[0];
    assert_eq!(version, (0, Check::Version, Severity::Error));
    let said = strict.servers[0].findings.iter().find(|it| it.severity == Severity::Error).unwrap();
    assert!(said.reason.contains("it does not say how it is: ERR unknown command"), "{said}");
    let connecting = of([server.url()]).refuse_evicting();
    assert!(soon("a refusal", connecting.connect()).await.is_err());
}

#[tokio::test]
async fn a_server_that_takes_no_more_clients_says_how_to_have_it_take_more() {
    let server = RedisServer::builder().append_only().arg("--maxclients").arg("4").start();
    let mut clients: Vec<_> = (0..4).map(|_| server.client()).collect();
    let examination = examine(&of([server.url()])).await;
    let full = finding(&examination, 0, Check::Reachable);
    assert!(full.severity == Severity::Error && full.reason.contains("max number"), "{full}");
    assert!(cure(full).contains("CONFIG SET maxclients"), "{full}");
    assert_eq!(clients[0].text(&["CONFIG", "SET", "maxclients", "100"]), "OK");
    assert_eq!(wrong(&examine(&of([server.url()])).await), []);
}

/// An address of this machine that is not its own alone.
fn address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then(|| address.to_string())
}

#[tokio::test]
async fn a_server_in_protected_mode_is_said_to_be() {
    let Some(host) = address() else {
        writeln!(std::io::stderr(), "NOT TRIED on a machine without a network").unwrap();
        return;
    };
    let server = fit();
    for (setting, value) in [("bind", &*format!("127.0.0.1 {host}")), ("protected-mode", "yes")] {
        assert_eq!(server.cli_text(&["CONFIG", "SET", setting, value]), "OK");
    }
    let url = format!("redis://{host}:{}", server.port());
    let examination = examine(&of([url.clone()])).await;
    let protected = finding(&examination, 0, Check::Login);
    assert!(protected.severity == Severity::Error, "{protected}");
    assert!(protected.reason.contains("protected mode"), "{protected}");
    assert!(cure(protected).contains("requirepass"), "{protected}");
    let open = words(cure(protected).split_once("; or ").unwrap().1, " on the server's");
    let open: Vec<&str> = open.iter().map(String::as_str).collect();
    assert_eq!(server.cli_text(&open), "OK");
    assert_eq!(wrong(&examine(&of([url])).await), []);
}

#[tokio::test]
async fn an_old_server_with_a_password_asks_for_it() {
    let server = RedisServer::builder().append_only().arg("--requirepass").arg("secret").start();
    let old = OldServer::start(Age::Redis5, server.address());
    let examination = examine(&of([old.url("")])).await;
    let login = finding(&examination, 0, Check::Login);
    assert!(login.severity == Severity::Error && login.reason.contains("NOAUTH"), "{login}");
    assert!(cure(login).contains("redis://user:password@host:port"), "{login}");
    assert_eq!(examination.servers[0].findings.len(), 1, "{:?}", examination.servers[0].findings);
    let let_in = examine(&of([old.url(":secret@")])).await;
    assert_eq!(wrong(&let_in), [(0, Check::Protocol, Severity::Warning)]);
}

#[tokio::test]
async fn a_server_that_may_not_vote_yet_is_waited_for() {
    let server = fit();
    let guarded = of([server.url()]).restart_quarantine(true).ttl(Duration::from_secs(3600));
    let examination = examine(&guarded).await;
    let expected = [(0, Check::RestartQuarantine), (1, Check::Tolerance)];
    let warnings = expected.map(|(server, check)| (server, check, Severity::Warning));
    assert_eq!(wrong(&examination), warnings);
    let tolerance = together(&examination, Check::Tolerance);
    assert!(cure(tolerance).contains("wait until it may"), "{tolerance}");
    let short = of([server.url()]).restart_quarantine(true).ttl(Duration::from_millis(100));
    let votes = async || wrong(&examine(&short).await).is_empty();
    soon("it votes", async { while !votes().await {} }).await;
}

#[tokio::test]
async fn a_command_that_the_server_lacks_is_named_and_judged_by_what_is_done_without() {
    let lacking = |command| {
        let builder = RedisServer::builder().append_only().arg("--rename-command");
        builder.arg(command).arg("").start()
    };
    for command in ["ECHO", "EVALSHA", "PUBLISH", "SCRIPT", "SUBSCRIBE", "TIME"] {
        let server = lacking(command);
        let examination = examine(&of([server.url()])).await;
        assert_eq!(wrong(&examination), [], "{command}");
        let commands = finding(&examination, 0, Check::Commands);
        assert!(commands.severity == Severity::Note, "{commands}");
        assert!(commands.reason.contains(command), "{commands}");
    }
    for command in ["APPEND", "GET", "HSET", "SET"] {
        let server = lacking(command);
        let examination = examine(&of([server.url()])).await;
        let commands = finding(&examination, 0, Check::Commands);
        assert!(commands.severity == Severity::Error, "{commands}");
        assert!(commands.reason.contains(command) && commands.cure.is_some(), "{commands}");
    }
}

/// Each is set right by the words of its cure.
#[tokio::test]
async fn the_cures_of_settings_cure() {
    let evicts = RedisServer::builder().append_only().arg("--maxmemory-policy").arg("volatile-lru");
    let evicts = evicts.start();
    let examination = examine(&of([evicts.url()])).await;
    let eviction = finding(&examination, 0, Check::Eviction);
    assert!(eviction.reason.contains("another takes an evicted lock"), "{eviction}");
    follow(&evicts, cure(eviction), ", and set it");
    assert_eq!(wrong(&examine(&of([evicts.url()])).await), []);

    let forgets = RedisServer::start();
    let examination = examine(&of([forgets.url()])).await;
    let persistence = cure(finding(&examination, 0, Check::Persistence));
    assert!(
        persistence.starts_with("set appendonly yes and appendfsync always, or"),
        "{persistence}"
    );
    assert_eq!(forgets.cli_text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
    assert_eq!(forgets.cli_text(&["CONFIG", "SET", "appendfsync", "always"]), "OK");
    assert_eq!(wrong(&examine(&of([forgets.url()])).await), []);
    let quiet = RedisServer::start();
    let guarded = doctor(&quiet.url(), &["--restart-quarantine", "on", "--ttl", "100ms"]).await;
    assert!(stdout(&guarded).contains("which the restart quarantine makes up for"), "{guarded:?}");

    let full = RedisServer::builder().append_only().arg("--maxmemory").arg("1").start();
    let writes = examine(&of([full.url()])).await;
    let writes = cure(finding(&writes, 0, Check::Writes));
    assert!(writes.starts_with("raise maxmemory"), "{writes}");
    assert_eq!(full.cli_text(&["CONFIG", "SET", "maxmemory", "0"]), "OK");
    assert_eq!(code(&doctor(&full.url(), &[]).await), 0);

    let lonely = RedisServer::builder().append_only().arg("--min-replicas-to-write").arg("1");
    let lonely = lonely.start();
    let writes = examine(&of([lonely.url()])).await;
    let writes = cure(finding(&writes, 0, Check::Writes));
    assert!(writes.ends_with("lower min-replicas-to-write"), "{writes}");
    assert_eq!(lonely.cli_text(&["CONFIG", "SET", "min-replicas-to-write", "0"]), "OK");
    assert_eq!(wrong(&examine(&of([lonely.url()])).await), []);

    let follower = fit();
    let master = fit();
    follower.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    let replica = examine(&of([follower.url()])).await;
    let replica = cure(finding(&replica, 0, Check::Role));
    let address = replica.strip_prefix("give its master, ").unwrap();
    assert_eq!(wrong(&examine(&of([format!("redis://{address}")])).await), []);
}

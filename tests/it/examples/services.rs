//! Leaders, schedules and services that end.

use std::collections::BTreeMap;
use std::process::Command;

use leasehold_testing::program::{build_example, request};
use leasehold_testing::{Program, RedisServer, eventually, soon};

fn candidate(server: &RedisServer, name: &str) -> Program {
    let mut command = Command::new(build_example("leader"));
    Program::start(command.arg(server.url()).arg(name), &[])
}

/// The last token under which this one has led.
fn token(program: &Program) -> Option<u64> {
    let lines = program.lines();
    let mut tokens = lines.iter().filter_map(|line| line.split_once("leads, under token "));
    tokens.next_back().map(|(_, token)| token.parse().unwrap())
}

#[tokio::test]
async fn another_leads_when_the_leader_is_paused_and_it_steps_down_when_it_goes_on() {
    let server = RedisServer::start();
    let mut first = candidate(&server, "first");
    eventually("it leads", || token(&first).is_some()).await;
    let mut second = candidate(&server, "second");
    eventually("it waits", || server.cli_text(&["EXISTS", "{example:leader}:queue"]) == "1").await;

    first.signal("STOP");
    eventually("the other leads", || token(&second).is_some()).await;
    assert!(token(&second) > token(&first));
    first.signal("CONT");
    first.said("first steps down: ").await;

    // A loss that nobody but the server could know of.
    let newest = || token(&first).max(token(&second));
    let before = newest();
    server.cli(&["DEL", "example:leader"]);
    second.said("second steps down: ").await;
    eventually("one of them leads", || newest() > before).await;

    for program in [&mut first, &mut second] {
        program.signal("TERM");
        let (status, lines) = program.end().await;
        assert!(status.success() && lines.contains(&"all have retired".to_owned()), "{lines:?}");
    }
    assert_eq!(server.cli_text(&["EXISTS", "example:leader"]), "0", "it is given back");
}

#[tokio::test]
async fn three_candidates_of_one_process_lead_one_at_a_time() {
    let server = RedisServer::start();
    let program = Program::example("leader", &[("LEASEHOLD_URL", &server.url())]);
    program.said(" leads, under token ").await;
    server.cli(&["DEL", "example:leader"]);
    program.said(" steps down: ").await;
    let count = |words: &str| program.lines().iter().filter(|line| line.contains(words)).count();
    eventually("the next leads", || count(" leads") == 2).await;
    assert_eq!(count("steps down"), 1);
}

#[tokio::test]
async fn every_slot_is_run_by_one_of_several_hosts() {
    let server = RedisServer::start();
    let program = build_example("scheduled");
    let start = |ticks: &str| {
        let mut command = Command::new(&program);
        command.env("LEASEHOLD_TICKS", ticks);
        Program::start(command.arg(server.url()), &[])
    };
    let mut runs: BTreeMap<String, u32> = BTreeMap::new();
    for host in &mut ["3", "4", "5"].map(start) {
        let (status, lines) = host.end().await;
        assert!(status.success() && lines.last().is_some_and(|line| line == "done"), "{lines:?}");
        let ran = lines.into_iter().filter(|line| line.ends_with(" runs here"));
        ran.for_each(|line| *runs.entry(line).or_default() += 1);
    }
    // Each host asks in three slots at least; and a host that is late finds the slot of its time taken.
    assert!(runs.len() >= 3 && runs.values().all(|times| *times == 1), "{runs:?}");
}

#[tokio::test]
async fn hosts_share_a_pace_and_a_client_that_asks_too_often_is_refused() {
    let server = RedisServer::start();
    let mut program = Program::example("limit", &[("LEASEHOLD_URL", &server.url())]);
    let (status, lines) = program.end().await;
    assert!(status.success(), "{lines:?}");
    let count = |words: &str| lines.iter().filter(|line| line.contains(words)).count();
    assert_eq!((count("is fetched"), count("is tried"), count("429")), (5, 3, 1), "{lines:?}");
}

#[tokio::test]
async fn readers_share_a_catalog_and_two_reports_are_made_at_a_time() {
    let server = RedisServer::start();
    let mut program = Program::example("sharing", &[("LEASEHOLD_URL", &server.url())]);
    let (status, lines) = program.end().await;
    assert!(status.success(), "{lines:?}");
    let token = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(token(&lines[2]) < token(&lines[3]), "{lines:?}");
    assert_eq!(lines[0], "two read at once");
    assert_eq!(lines[1], "no writing while another reads");
    assert_eq!(lines[4..], ["two reports are in the making", "the third is made once one is done"]);
}

#[tokio::test]
async fn no_worker_begins_a_round_before_all_have_ended_the_one_before() {
    let server = RedisServer::start();
    let mut program = Program::example("barrier", &[("LEASEHOLD_URL", &server.url())]);
    let (status, lines) = program.end().await;
    assert!(status.success(), "{lines:?}");
    let rounds: Vec<_> =
        lines.iter().filter_map(|line| line.split_once("has ended round ")).collect();
    assert_eq!(
        rounds.iter().map(|(_, round)| *round).collect::<Vec<_>>(),
        ["1", "1", "1", "2", "2", "2"]
    );
}

#[tokio::test]
async fn a_service_serves_once_all_shards_are_migrated() {
    let server = RedisServer::start();
    let mut program = Program::example("latch", &[("LEASEHOLD_URL", &server.url())]);
    let (status, lines) = program.end().await;
    assert!(status.success(), "{lines:?}");
    let shards = [1, 2, 3].map(|shard| format!("shard {shard} is migrated"));
    assert_eq!(lines[..3], shards);
    assert_eq!(lines[3..], ["serving"]);
}

#[tokio::test]
async fn a_payment_that_is_sent_twice_is_charged_once() {
    let server = RedisServer::start();
    let mut program = Program::example("idempotency", &[("LEASEHOLD_URL", &server.url())]);
    let (status, lines) = program.end().await;
    assert!(status.success(), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("charging ")).count(), 1, "{lines:?}");
    assert_eq!(
        lines[1..],
        [
            "POST 42 EUR to bob: 201 receipt 1",
            "POST 42 EUR to bob: 200 receipt 1, as before",
            "POST 7000 EUR to mallory: 422, the key belongs to another payment",
        ]
    );
}

/// The service, and where it serves.
async fn service(server: &RedisServer, extra: &[(&str, &str)]) -> (Program, String) {
    let url = server.url();
    let mut environment = vec![("LEASEHOLD_URL", &*url), ("LEASEHOLD_LISTEN", "127.0.0.1:0")];
    environment.extend(extra);
    let program = Program::example("axum", &environment);
    let address = program.said("serving at http://").await.replace('/', "");
    (program, address)
}

/// A charge that is under way: its status and its body.
async fn charge(server: &RedisServer, address: &str) -> tokio::task::JoinHandle<(u16, String)> {
    let to = address.to_owned();
    let asked = tokio::task::spawn_blocking(move || {
        request("POST", &to, "/invoices/42/charge").expect("it is answered")
    });
    let is_held = || server.cli_text(&["EXISTS", "example:invoice:42"]) == "1";
    eventually("it is under way", is_held).await;
    asked
}

#[tokio::test]
async fn a_service_that_is_told_to_end_finishes_what_it_does() {
    let server = RedisServer::start();
    let (mut program, address) = service(&server, &[("LEASEHOLD_WORK_MS", "1000")]).await;
    let charge = charge(&server, &address).await;
    program.signal("TERM");
    program.said("told to end").await;
    let refused = || request("POST", &address, "/invoices/43/charge").is_err();
    eventually("nobody is let in", refused).await;
    let (status, body) = soon("its answer", charge).await.unwrap();
    assert!(status == 200 && body.starts_with("charged under token "), "{status}: {body}");
    let (status, lines) = program.end().await;
    assert!(status.success() && lines.contains(&"given back: []".to_owned()), "{lines:?}");
    assert_eq!(server.cli_text(&["EXISTS", "example:invoice:42"]), "0");
    assert_eq!(server.cli_text(&["EXISTS", "example:invoice:43"]), "0");
}

#[tokio::test]
async fn a_service_ends_also_where_work_goes_on_for_too_long() {
    let server = RedisServer::start();
    let extra = [("LEASEHOLD_WORK_MS", "3600000"), ("LEASEHOLD_GRACE_MS", "50")];
    let (mut program, address) = service(&server, &extra).await;
    let charge = charge(&server, &address).await;
    program.signal("TERM");
    let (status, body) = soon("its answer", charge).await.unwrap();
    assert!(status == 503 && body.contains("the lease is lost"), "{status}: {body}");
    let (status, lines) = program.end().await;
    let report = r#"given back: ["example:invoice:42"]"#.to_owned();
    assert!(status.success() && lines.contains(&report), "{lines:?}");
    assert_eq!(server.cli_text(&["EXISTS", "example:invoice:42"]), "0");
}

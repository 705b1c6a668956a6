//! Leaders, schedules and services that end.

use std::collections::BTreeMap;
use std::process::Command;

use leasehold_testing::program::{build_example, request};
use leasehold_testing::{Program, RedisServer, eventually, soon};

/// How often something is tried that a busy machine may prevent.
const TRIES: u32 = 5;

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
    eventually("it waits", || server.cli_text(&["EXISTS", "{example:leader}:waiters"]) == "1")
        .await;

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

/// What some hosts said about their ticks.
struct Schedule(Vec<Vec<String>>);

impl Schedule {
    /// Has three hosts, of which one's clock is late, go through three ticks each.
    async fn run(server: &RedisServer, extra: &[(&str, &str)]) -> Self {
        let url = server.url();
        let program = build_example("scheduled");
        let start = |late: &str| {
            let mut command = Command::new(&program);
            command.env("LEASEHOLD_TICKS", "3").env("LEASEHOLD_LATE_MS", late);
            Program::start(command.arg(&url), extra)
        };
        let mut hosts = ["0", "0", "300"].map(start);
        let mut said = Vec::new();
        for host in &mut hosts {
            let (status, lines) = host.end().await;
            assert!(status.success() && lines.contains(&"done".to_owned()), "{lines:?}");
            said.push(lines);
        }
        Self(said)
    }

    /// The numbers behind these words, in all lines that have them.
    fn numbers(&self, before: &str, behind: &str) -> Vec<u64> {
        let lines = self.0.iter().flatten().filter(|line| line.contains(behind));
        let rest = lines.filter_map(|line| line.strip_prefix(before));
        rest.map(|rest| rest.split(' ').next().unwrap().parse().unwrap()).collect()
    }

    /// The ticks that any host was to try, and how often each was run.
    fn runs(&self) -> BTreeMap<u64, u32> {
        let first = self.numbers("ready for tick ", "");
        let tried = first.into_iter().flat_map(|first| first..first + 3);
        let mut runs: BTreeMap<u64, u32> = tried.map(|tick| (tick, 0)).collect();
        for tick in self.numbers("tick ", "runs here") {
            *runs.entry(tick).or_default() += 1;
        }
        runs
    }
}

#[tokio::test]
async fn every_tick_is_run_by_one_of_several_hosts_also_where_one_is_late() {
    let server = RedisServer::start();
    let said = Schedule::run(&server, &[]).await;
    let runs = said.runs();
    // On a machine that stands still for a second, a host may miss its tick, and says so.
    let missed = said.numbers("tick ", "is over");
    let is_right =
        |(tick, times): (&u64, &u32)| *times == 1 || *times == 0 && missed.contains(tick);
    assert!(runs.len() >= 3 && runs.iter().all(is_right), "{runs:?}: {:?}", said.0);
    assert!(runs.values().any(|times| *times == 1), "{:?}", said.0);
}

/// The control: it is the keeping of the lock that makes it once.
#[tokio::test]
async fn a_tick_whose_lock_is_given_back_early_is_run_again_by_who_is_late() {
    let server = RedisServer::start();
    for _ in 0..TRIES {
        let said = Schedule::run(&server, &[("LEASEHOLD_RELEASE_EARLY", "1")]).await;
        if said.runs().values().any(|times| *times > 1) {
            return;
        }
    }
    panic!("in {TRIES} goes no tick was run twice");
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

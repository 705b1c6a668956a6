//! `leasehold bench`, against real servers.

use std::path::PathBuf;
use std::process::Output;

use crate::command::{code, end, ended_by, leasehold, output, signal, stderr, stdout};
use leasehold_testing::rights::{self, PREFIX};
use leasehold_testing::{Fleet, RedisServer, eventually, ports, soon};
use serde_json::Value;
use tokio::process::Child;

/// Long enough for many pairs, and nothing is asserted of how many.
const SHORT: &str = "50ms";

async fn bench(url: &str, words: &[&str]) -> Output {
    output(leasehold(url, &["bench", "-d", SHORT]).args(words)).await
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn keys(server: &RedisServer) -> Vec<String> {
    let reply = server.cli(&["KEYS", "*"]);
    let leasehold_resp::Frame::Array(keys) = reply else { panic!("{reply:?}") };
    let text = |key: &leasehold_resp::Frame| String::from_utf8(key.as_bytes()?.to_vec()).ok();
    keys.iter().map(|key| text(key).expect("a text")).collect()
}

/// Starts one that does not end by itself, and returns when it measures.
async fn start(server: &RedisServer, words: &[&str]) -> Child {
    let before = releases(server);
    let child = leasehold(&server.url(), &["bench", "-d", "1h"]).args(words).spawn().unwrap();
    eventually("it measures", || releases(server) > before + 100).await;
    child
}

/// Errors that the server has replied.
fn errors(server: &RedisServer) -> u64 {
    let told = server.cli_text(&["INFO", "errorstats"]);
    told.split("count=")
        .skip(1)
        .map(|count| count.trim().lines().next().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// How many locks the server has deleted.
fn releases(server: &RedisServer) -> u64 {
    let stats = server.cli_text(&["INFO", "commandstats"]);
    let calls = stats.split_once("cmdstat_del:calls=").map(|(_, rest)| rest.split_once(','));
    calls.flatten().map_or(0, |(calls, _)| calls.parse().unwrap())
}

async fn interrupt(child: Child) -> Output {
    signal(&child, "INT");
    end(child).await
}

struct File(PathBuf);

impl File {
    fn new() -> Self {
        Self(std::env::temp_dir().join(leasehold_testing::unique_name("leasehold-bench")))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn what_was_measured_is_shown_and_no_lock_is_left() {
    let server = RedisServer::start();
    server.cli(&["SET", "0", "another's"]);
    let said = bench(&server.url(), &["-t", "3", "--key-prefix", "app:"]).await;
    assert_eq!((code(&said), &*stderr(&said)), (0, ""), "{said:?}");
    let text = stdout(&said);
    for part in ["1 URL, 3 tasks, fenced", "p99.9", "acquire", "release", "<= ", "###"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("errors"), "{text}");
    let of_ours = keys(&server).into_iter().filter(|key| key != "0").collect::<Vec<_>>();
    let is_counter =
        |key: &String| key.starts_with("{app:leasehold-bench:") && key.ends_with("}:fence");
    assert!(of_ours.len() == 3 && of_ours.iter().all(is_counter), "{of_ours:?}");
    assert_eq!(server.cli_text(&["GET", "0"]), "another's");
    bench(&server.url(), &["-t", "3", "--key-prefix", "app:"]).await;
    assert_eq!(keys(&server).len(), 4, "what stays does not grow");
}

#[tokio::test]
async fn without_tokens_nothing_stays() {
    let server = RedisServer::start();
    let said = bench(&server.url(), &["--unfenced", "--json"]).await;
    assert_eq!(code(&said), 0, "{said:?}");
    assert!(json(&said)["pairs"].as_u64().unwrap() > 0);
    assert_eq!((&json(&said)["fenced"], keys(&server)), (&false.into(), vec![]));
}

#[tokio::test]
async fn json_has_the_fields_that_the_page_promises_and_they_agree() {
    let server = RedisServer::start();
    let said = bench(&server.url(), &["--json", "-t", "5"]).await;
    let json = json(&said);
    let page = std::fs::read_to_string(leasehold_testing::repository("docs/command.md")).unwrap();
    let names =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let all = [names(&json), names(&json["acquire"]), names(&json["histogram"][0])].concat();
    for name in all.iter().map(String::as_str).chain(["kind", "first"]) {
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/command.md");
    }
    let rows = json["histogram"].as_array().unwrap().iter();
    let counted: u64 = rows.map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!((counted, &json["tasks"]), (json["pairs"].as_u64().unwrap(), &5.into()));
    for which in ["acquire", "release", "pair"] {
        let at = |name: &str| json[which][name].as_f64().unwrap();
        let rising = ["min_us", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"].map(at);
        assert!(rising.is_sorted() && rising[0] > 0.0, "{which}: {rising:?}");
    }
}

#[tokio::test]
async fn two_at_once_do_not_meet() {
    let server = RedisServer::start();
    let first = start(&server, &["--json"]).await;
    let second = bench(&server.url(), &["--json"]).await;
    let first = interrupt(first).await;
    for said in [&first, &second] {
        assert!(!stdout(said).contains("contended"), "{said:?}");
        assert!(json(said)["pairs"].as_u64().unwrap() > 0, "{said:?}");
    }
}

#[tokio::test]
async fn ctrl_c_ends_it_gives_all_back_and_shows_what_there_is() {
    let server = RedisServer::start();
    let running = start(&server, &["-t", "20"]).await;
    let said = interrupt(running).await;
    assert_eq!((ended_by(&said), &*stderr(&said)), (2, ""), "{said:?}");
    assert!(stdout(&said).contains("p50"), "{said:?}");
    let left = keys(&server);
    assert!(left.len() == 20 && left.iter().all(|key| key.ends_with(":fence")), "{left:?}");
}

#[tokio::test]
async fn errors_are_counted_and_named_and_end_nothing() {
    let server = RedisServer::start();
    let running = start(&server, &["--json", "-t", "2"]).await;
    assert_eq!(server.cli_text(&["ACL", "SETUSER", "default", "-set"]), "OK");
    // Some were there before: this server does not know all that a handshake says.
    let before = errors(&server);
    eventually("a lock is refused", || errors(&server) > before).await;
    let until = releases(&server);
    assert_eq!(server.cli_text(&["ACL", "SETUSER", "default", "+set"]), "OK");
    eventually("it goes on", || releases(&server) > until + 100).await;
    let said = json(&interrupt(running).await);
    let error = &said["errors"][0];
    assert!(error["kind"] == "auth" && error["count"].as_u64().unwrap() > 0, "{said}");
    let first = error["first"].as_str().unwrap();
    assert!(first.contains("+set"), "{said}");
}

#[tokio::test]
async fn where_nothing_works_it_says_why() {
    let locked = RedisServer::builder().arg("--requirepass").arg("secret").start();
    let limited = RedisServer::start();
    rights::grant(&limited, &rights::of("waiting"));
    let limited_url = rights::url(&limited);
    let without_password = format!("redis://{}", locked.address());
    let nobody = format!("redis://127.0.0.1:{}", ports::free());
    let cases: [(&str, &[&str], i32, &str); 9] = [
        (&nobody, &[], 69, "127.0.0.1"),
        ("http://h", &[], 78, "http"),
        (&without_password, &[], 77, "NOAUTH"),
        (&limited_url, &[], 77, "grant"),
        (&limited_url, &["--key-prefix", PREFIX], 0, ""),
        (&limited_url, &["--key-prefix", "}"], 78, "hash tag"),
        (&limited_url, &["--svg", "/nowhere/x.svg"], 73, "/nowhere/x.svg"),
        (&limited_url, &["-t", "0"], 64, "0"),
        (&limited_url, &["--ttl", "0"], 78, "TTL"),
    ];
    for (url, words, expected, part) in cases {
        let failed = bench(url, words).await;
        let said = stderr(&failed);
        assert_eq!(code(&failed), expected, "{words:?}: {said}");
        assert!(said.contains(part) && said.len() < 2000, "{said}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_ends_it_all_the_same() {
    let server = RedisServer::start();
    let running = start(&server, &[]).await;
    server.stop();
    let said = interrupt(running).await;
    assert!(ended_by(&said) == 2 && stdout(&said).contains("p50"), "{said:?}");
    let refused = bench(&server.url(), &[]).await;
    assert_eq!(code(&refused), 69, "{refused:?}");
    server.cont();
}

#[tokio::test]
async fn a_chart_is_drawn() {
    let server = RedisServer::start();
    let file = File::new();
    let said = bench(&server.url(), &["--svg", file.path()]).await;
    assert_eq!(code(&said), 0, "{said:?}");
    let svg = std::fs::read_to_string(&file.0).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
    for part in ["acquire", "release", "99 %", "16 tasks"] {
        assert!(svg.contains(part), "{part}");
    }
}

/// Of these, the server keeps only what nobody holds any more.
#[tokio::test]
async fn hostile_names_are_measured_and_shown_harmlessly() {
    let server = RedisServer::start();
    for prefix in ["\x1b[2J", "two words\n", "\u{202e}", ""] {
        let said = bench(&server.url(), &["--unfenced", "--name-prefix", prefix]).await;
        assert_eq!(code(&said), 0, "{said:?}");
        let text = stdout(&said);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text}");
        let refused = bench(&server.url(), &["--name-prefix", &format!("{prefix}}}")]).await;
        let text = stderr(&refused);
        assert!(code(&refused) == 78 && text.lines().count() == 1, "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text}");
    }
    assert_eq!(keys(&server), [] as [String; 0]);
}

/// Nobody reads what it says.
#[tokio::test]
async fn closed_outputs_harm_nothing() {
    let server = RedisServer::start();
    let binary = env!("CARGO_BIN_EXE_leasehold");
    let bench = format!("{binary} bench --unfenced -d {SHORT}");
    for line in [format!("{bench} >&- 2>&-"), format!("{{ {bench}; echo $? >&2; }} | true")] {
        let mut shell = tokio::process::Command::new("sh");
        shell.args(["-c", &line]).env("LEASEHOLD_URL", server.url()).kill_on_drop(true);
        let done = output(&mut shell).await;
        assert_eq!(code(&done), 0, "{line}: {done:?}");
        assert!(["", "0\n"].contains(&&*stderr(&done)), "{done:?}");
    }
    if std::path::Path::new("/dev/full").exists() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut bench = leasehold(&server.url(), &["bench", "--unfenced", "-d", SHORT]);
        let done = end(bench.stdout(full).spawn().unwrap()).await;
        assert!(code(&done) == 71 && stderr(&done).contains("standard output"), "{done:?}");
    }
    assert_eq!(keys(&server), [] as [String; 0]);
}

#[tokio::test]
async fn several_servers_are_measured_together_once_they_may_vote() {
    let fleet = Fleet::start(3);
    let urls = fleet.urls().join(" ");
    // They have just restarted, as far as anybody knows.
    let said = soon("they may vote", async {
        loop {
            let said = bench(&urls, &["--ttl", "2s", "--json"]).await;
            if code(&said) == 0 {
                return said;
            }
            assert_eq!(code(&said), 69, "{said:?}");
        }
    });
    let json = json(&said.await);
    assert!(json["urls"] == 3 && json["pairs"].as_u64().unwrap() > 0, "{json}");
    let locks = fleet.iter().flat_map(keys).filter(|key| !key.ends_with(":fence"));
    assert_eq!(locks.count(), 0);
}

//! What the command `leasehold` shows of locks, against real servers.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use crate::command::{
    code, end, ended_by, hold, is_free, leasehold, output, signal, stderr, stdout,
};
use leasehold::{Guard, Locker};
use leasehold_testing::{Cluster, Fleet, RedisServer, eventually, ports, soon};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

/// The values of leases, as holders without a label write them.
const ONE: &str = "0123456789abcdef0123456789abcdef";
const TWO: &str = "f123456789abcdef0123456789abcdef";

/// Servers that have run for an hour, by their clocks: they have forgotten nothing.
fn fleet_of(servers: usize) -> Fleet {
    let fleet = Fleet::start_as(servers, &RedisServer::builder().wall_clock());
    fleet.iter().for_each(|server| server.set_wall_clock(3600));
    fleet
}

async fn hold_at(urls: &[String], name: &str) -> (Locker, Guard) {
    let builder = Locker::builder().nodes(urls).restart_quarantine(false).label("holder");
    let locker = builder.connect().await.unwrap();
    let guard = locker.lock(name).await.unwrap();
    (locker, guard)
}

async fn said(url: &str, words: &[&str]) -> String {
    let done = output(&mut leasehold(url, words)).await;
    assert_eq!((code(&done), &*stderr(&done)), (0, ""), "{words:?}: {done:?}");
    stdout(&done)
}

/// What `inspect` says of a lock that nobody holds.
async fn said_of_a_free_one(url: &str) -> String {
    let done = output(&mut leasehold(url, &["inspect", "job"])).await;
    assert_eq!((code(&done), &*stderr(&done)), (1, ""), "{done:?}");
    stdout(&done)
}

async fn json(url: &str, words: &[&str]) -> Vec<Value> {
    let text = said(url, words).await;
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The names that `list` finds, each once.
async fn names(url: &str, words: &[&str]) -> BTreeSet<String> {
    let found = json(url, &[&["list", "--json"], words].concat()).await;
    let names: BTreeSet<_> =
        found.iter().map(|lock| lock["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names.len(), found.len(), "{found:?}");
    names
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[tokio::test]
async fn a_lock_is_shown_with_holder_token_servers_and_time_left() {
    let mut fleet = fleet_of(5);
    let (_locker, guard) = hold_at(&fleet.urls(), "job").await;
    eventually("all have it", || fleet.holding("job") == 5).await;
    let urls = fleet.urls().join(" ");
    fleet[4].kill();
    let shown = said(&urls, &["inspect", "job"]).await;
    for part in
        ["job: held on 4 of 5 servers\n", "  holder   holder\n", " s\n", "  no answer from "]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.contains(&format!("  token    {}\n", guard.fence())), "{shown}");
    assert!(shown.contains(&fleet.addresses()[..4].join(", ")), "{shown}");

    let [lock] = &json(&urls, &["inspect", "--json", "job"]).await[..] else { panic!() };
    assert_eq!((&lock["state"], &lock["name"]), (&"held".into(), &"job".into()));
    let [holder] = &lock["holders"].as_array().unwrap()[..] else { panic!("{lock}") };
    assert_eq!(holder["tokens"], Value::from(vec![guard.fence().get()]));
    assert_eq!(holder["servers"], Value::from(fleet.addresses()[..4].to_vec()));
    assert!((1..=10_000).contains(&holder["left_ms"].as_u64().unwrap()), "{lock}");
    assert_eq!(lock["failures"][0]["server"], Value::from(fleet.addresses()[4].clone()));

    let listed = output(&mut leasehold(&urls, &["list"])).await;
    assert_eq!(code(&listed), 0, "four of five know every lock that is held");
    let (text, row) = (stdout(&listed), format!("  {}  job  ", guard.fence()));
    assert!(text.contains("held 4/5") && text.contains(&row), "{text}");
    assert!(text.ends_with(" holder\n"), "{text}");
    assert!(stderr(&listed).contains(&fleet.addresses()[4]));

    guard.release().await.unwrap();
    eventually("it is free", || fleet_free(&fleet)).await;
    assert!(said_of_a_free_one(&urls).await.starts_with("job: free\n"));
}

#[tokio::test]
async fn sharers_are_counted_in_words() {
    let server = RedisServer::start();
    let locker = Locker::builder().node(server.url()).label("web").connect().await.unwrap();
    let _one = locker.read("catalog").await.unwrap();
    let listed = said(&server.url(), &["list"]).await;
    assert!(listed.ends_with("  1 reader, first web\n"), "{listed}");
    let _two = locker.read("catalog").await.unwrap();
    let _permit = locker.semaphore("export", 1).acquire(1).await.unwrap();
    for (name, shared) in [("catalog", "2 readers"), ("export", "1 of 1 permit")] {
        let shown = said(&server.url(), &["inspect", name]).await;
        assert!(shown.contains(&format!("  shared   {shared}; the holder is one")), "{shown}");
    }
}

fn fleet_free(fleet: &Fleet) -> bool {
    fleet.iter().take(4).all(|server| is_free(server, "job"))
}

#[tokio::test]
async fn less_than_a_quorum_is_not_called_a_holder() {
    let mut fleet = fleet_of(5);
    let urls = fleet.urls().join(" ");
    let value = |owner: &str| format!("{owner}@0a1b2c3d");
    fleet[0].cli(&["SET", "job", &value(ONE), "PX", "60000"]);
    fleet[1].cli(&["SET", "job", &value(TWO)]);
    let shown = said_of_a_free_one(&urls).await;
    assert!(shown.contains("held by nobody: taken on 1 of 5 servers"), "{shown}");
    assert!(shown.contains(ONE) && shown.contains(TWO) && shown.contains("no end"), "{shown}");
    assert!(shown.contains("other servers or another quorum"), "{shown}");
    assert_eq!(names(&urls, &[]).await, set(["job"]));

    for server in 2..5 {
        fleet[server].kill();
    }
    let unknown = output(&mut leasehold(&urls, &["inspect", "job"])).await;
    assert_eq!(code(&unknown), 69);
    assert!(stdout(&unknown).contains("only 2 of 5 servers answered"), "{unknown:?}");
    let listed = output(&mut leasehold(&urls, &["list"])).await;
    assert_eq!(code(&listed), 69, "what the others hold is not known");
    assert!(stdout(&listed).contains("unknown 1/5"), "{listed:?}");
    let released = output(&mut leasehold(&urls, &["release", "--force", "--yes", "job"])).await;
    assert_eq!(code(&released), 69, "three may go on with it");
    assert!(stderr(&released).contains("too few servers answered"), "{released:?}");
}

/// A server that lost its memory knows nothing of leases that still run elsewhere.
#[tokio::test]
async fn what_a_server_may_have_forgotten_is_not_called_free() {
    let mut fleet = fleet_of(3);
    let urls = fleet.urls().join(" ");
    for server in 0..2 {
        fleet[server].cli(&["SET", "job", &format!("{ONE}@0a1b2c3d")]);
    }
    assert!(said(&urls, &["inspect", "job"]).await.starts_with("job: held on 2 of 3 servers\n"));
    fleet[1].restart();
    let unknown = output(&mut leasehold(&urls, &["inspect", "job"])).await;
    let text = stdout(&unknown);
    assert!(code(&unknown) == 69 && text.contains("only 2 of 3 servers answered"), "{text}");
    assert!(text.contains("may have forgotten leases"), "{text}");
    let listed = output(&mut leasehold(&urls, &["list"])).await;
    assert_eq!(code(&listed), 0, "every quorum has one of the other two: {listed:?}");
    assert!(stdout(&listed).contains("unknown 1/3"), "{listed:?}");
    assert!(stderr(&listed).contains("may have forgotten leases"), "{listed:?}");

    fleet[1].set_wall_clock(7200);
    let shown = said_of_a_free_one(&urls).await;
    assert!(shown.contains("held by nobody: taken on 1 of 3 servers"), "{shown}");
    fleet[1].restart();
    fleet[2].restart();
    let listed = output(&mut leasehold(&urls, &["list", "n*"])).await;
    assert_eq!((code(&listed), &*stdout(&listed)), (69, ""), "two may have forgotten one");
}

#[tokio::test]
async fn a_list_is_of_leases_whose_names_match_and_of_nothing_else() {
    let server = RedisServer::start();
    let (url, prefix) = (server.url(), r"a[p]*\p:");
    let locker = Locker::builder().node(&url).key_prefix(prefix).connect().await.unwrap();
    let names_held = ["invoice:1", "invoice:2", "in[v]oice", "{tag}:x", "\u{e9}"];
    let mut guards = Vec::new();
    for name in names_held {
        guards.push(locker.lock(name).await.unwrap());
    }
    server.cli(&["SET", "app:invoice:3", ONE]);
    for (key, value) in [("plain", "text"), ("redis-py", "8a7e0f9e"), ("empty", ""), ("long", ONE)]
    {
        let value = if key == "long" { value.repeat(200) } else { value.to_owned() };
        server.cli(&["SET", &format!("{prefix}{key}"), &value]);
    }
    server.cli(&["RPUSH", &format!("{prefix}list"), "x"]);
    server.cli(&["SET", &format!("{prefix}}}"), ONE]);
    let found =
        async |words: &[&str]| names(&url, &[&["--key-prefix", prefix], words].concat()).await;
    assert_eq!(found(&[]).await, set(names_held));
    assert_eq!(found(&["invoice:*"]).await, set(["invoice:1", "invoice:2"]));
    assert_eq!(found(&["invoice:?"]).await, set(["invoice:1", "invoice:2"]));
    assert_eq!(found(&[r"in\[v]*"]).await, set(["in[v]oice"]));
    assert_eq!(found(&["nothing*"]).await, set([]));

    let cut = output(&mut leasehold(&url, &["list", "--limit", "2", "--key-prefix", prefix])).await;
    assert_eq!((code(&cut), stdout(&cut).lines().count()), (0, 3));
    assert_eq!(stderr(&cut), "leasehold: there are more than 2\n");
    assert_eq!(found(&["--limit", "5"]).await.len(), 5);
}

/// By SCAN and never KEYS, however many keys there are.
#[tokio::test]
async fn looking_changes_nothing_and_asks_for_little_at_once() {
    let server = RedisServer::start();
    server.cli(&["SET", "job", ONE]);
    server.cli(&["RPUSH", "list", "x"]);
    server.cli(&["DEBUG", "POPULATE", "100000", "key", "40"]);
    server.cli(&["CONFIG", "RESETSTAT"]);
    let before = server.cli_text(&["DEBUG", "DIGEST"]);
    assert_eq!(names(&server.url(), &[]).await, set(["job"]));
    said(&server.url(), &["inspect", "job"]).await;
    assert_eq!(server.cli_text(&["DEBUG", "DIGEST"]), before);
    let stats = server.cli_text(&["INFO", "commandstats"]);
    let used = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next());
    let allowed = [
        "debug",
        "echo",
        "eval",
        "get",
        "getrange",
        "hello",
        "hlen",
        "info",
        "ping",
        "pttl",
        "scan",
        "script|load",
        "client|id",
        "client|setinfo",
        "config|resetstat",
        "client|tracking",
        "select",
        "time",
    ];
    let other: Vec<_> = used.filter(|name| !allowed.contains(name)).collect();
    assert_eq!(other, [""; 0]);
    let calls = |name: &str| {
        let line =
            stats.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:"))).unwrap();
        let (_, rest) = line.split_once("calls=").unwrap();
        rest.split_once(',').unwrap().0.parse::<u32>().unwrap()
    };
    // Each key is looked at once, and locks a second time.
    assert!(calls("scan") > 100 && calls("getrange") >= 100_000, "{stats}");
    assert!(calls("eval") == 7 && calls("get") < 10, "{stats}");
    let errors = server.cli_text(&["INFO", "errorstats"]);
    assert!(!errors.contains("WRONGTYPE"), "{errors}");
}

#[tokio::test]
async fn a_clusters_locks_are_found_on_all_of_its_masters() {
    let cluster = Cluster::start();
    let url = cluster.seed_url(1);
    let locker = Locker::connect(&url).await.unwrap();
    let names_held = ["a", "b", "c", "d", "e", "f"];
    let mut guards = Vec::new();
    for name in names_held {
        guards.push(locker.lock(name).label("holder").await.unwrap());
    }
    assert_eq!(names(&url, &[]).await, set(names_held));
    let (slot, from, to) = cluster.move_of("a");
    cluster.begin_migration(slot, from, to);
    cluster.migrate_keys(slot, from, to);
    let shown = said(&url, &["inspect", "a"]).await;
    assert!(shown.contains("a: held\n") && shown.contains("holder"), "{shown}");
    let listed = output(&mut leasehold(&url, &["list", "--json"])).await;
    let shown = stdout(&listed);
    assert!(
        names_held.iter().all(|name| shown.contains(&format!("\"name\":\"{name}\""))),
        "{shown}"
    );
    // While a slot moves, no list is sure to be complete.
    assert_eq!(code(&listed), 69, "{listed:?}");
    assert!(stderr(&listed).contains("a slot has moved"), "{listed:?}");
    said(&url, &["release", "--force", "--yes", "a"]).await;
    cluster.end_migration(slot, from, to);
    assert_eq!(names(&url, &[]).await, set(["b", "c", "d", "e", "f"]));
}

#[tokio::test]
async fn hostile_names_and_labels_are_shown_harmlessly_everywhere() {
    let server = RedisServer::start();
    let url = server.url();
    let long = "n".repeat(10_000);
    let csi = "c1 \u{9b}2J";
    for name in ["two words", "line\nbreak", "\x1b[2Jwiped", "-dash", "\u{202e}back", csi, &long] {
        let (_locker, guard) = hold(&server, name).await;
        let pattern = name.replace('[', r"\[");
        let commands: [&[&str]; 6] = [
            &["inspect", "--", name],
            &["inspect", "--json", "--", name],
            &["list", "--", &pattern],
            &["list", "--json", "--", &pattern],
            &["release", "--force", "--", name],
            &["release", "--force", "--yes", "--", name],
        ];
        for words in commands {
            let done = output(&mut leasehold(&url, words)).await;
            let said = stdout(&done) + &stderr(&done);
            let harmless = |c: char| c == '\n' || !c.is_control() && c != '\u{202e}';
            assert!(said.chars().all(harmless) && said.contains("mother"), "{words:?} {said:?}");
            if words.contains(&"--json") {
                let lock: Value = serde_json::from_str(&stdout(&done)).unwrap();
                assert_eq!((&lock["name"], lock.get("name_hex")), (&name.into(), None));
            } else {
                assert!(said.len() < 2000, "{said}");
            }
            let expected = if words == ["release", "--force", "--", name] { 64 } else { 0 };
            assert_eq!(code(&done), expected, "{words:?} {said}");
        }
        assert!(is_free(&server, name));
        drop(guard);
    }
}

#[tokio::test]
async fn a_name_that_is_no_text_has_its_bytes_in_the_json() {
    use std::os::unix::ffi::OsStrExt;
    let server = RedisServer::start();
    let locker = Locker::connect(&server.url()).await.unwrap();
    let _guard = locker.lock(b"\xff\x00").await.unwrap();
    let lock = json(&server.url(), &["list", "--json"]).await.remove(0);
    assert_eq!((&lock["name"], &lock["name_hex"]), (&"\u{fffd}\0".into(), &"ff00".into()));
    let _other = locker.lock(b"\xfe").await.unwrap();
    let mut command = leasehold(&server.url(), &["inspect", "--json"]);
    let done = output(command.arg(std::ffi::OsStr::from_bytes(b"\xfe"))).await;
    assert!(stdout(&done).contains(r#""state":"held""#), "{done:?}");
}

#[tokio::test]
async fn what_is_wrong_is_said_with_a_code_of_its_own() {
    let server = RedisServer::start();
    let frozen = RedisServer::start();
    frozen.stop();
    server.cli(&["RPUSH", "list", "x"]);
    server.cli(&["SET", "plain", "text"]);
    let (url, frozen_url) = (server.url(), frozen.url());
    let nobody = format!("redis://127.0.0.1:{}", ports::free());
    let looks: [&[&str]; 4] =
        [&["inspect", "job"], &["list"], &["watch"], &["release", "--force", "--yes", "job"]];
    for words in looks {
        let cases = [
            (&nobody, 69, "Connection refused"),
            (&frozen_url, 69, "within 100 ms"),
            (&"http://h".to_owned(), 78, "http"),
        ];
        for (url, expected, part) in cases {
            let words = [words, &["--timeout", "100ms"]].concat();
            let failed = output(&mut leasehold(url, &words)).await;
            let said = stderr(&failed);
            assert_eq!((code(&failed), &*stdout(&failed)), (expected, ""), "{words:?}: {said}");
            assert!(said.contains(part) && said.len() < 2000, "{said}");
        }
    }
    let cases: [(&[&str], i32, &str); 7] = [
        (&["inspect"], 64, "Usage"),
        (&["inspect", ""], 78, "name"),
        (&["inspect", "list"], 78, "another type"),
        (&["release", "--force", "--yes", "list"], 78, "another type"),
        (&["release", "--force", "--yes", "plain"], 78, "--foreign"),
        (&["release", "job"], 64, "--force"),
        (&["list", "--timeout", "0"], 78, "timeout"),
    ];
    for (words, expected, part) in cases {
        let failed = output(&mut leasehold(&url, words)).await;
        let said = stderr(&failed);
        assert_eq!(code(&failed), expected, "{words:?}: {said}");
        assert!(said.contains(part) && said.len() < 2000, "{said}");
    }
    assert_eq!(server.cli_text(&["GET", "plain"]), "text");
    said(&url, &["release", "--force", "--yes", "--foreign", "plain"]).await;
    assert!(is_free(&server, "plain"));
    assert_eq!(
        said(&url, &["release", "--force", "plain"]).await,
        "plain: free\nnothing was released\n"
    );
}

#[tokio::test]
async fn a_release_without_a_terminal_needs_a_yes() {
    let fleet = fleet_of(3);
    let urls = fleet.urls().join(" ");
    let (_locker, guard) = hold_at(&fleet.urls(), "job").await;
    eventually("all have it", || fleet.holding("job") == 3).await;
    let refused = output(&mut leasehold(&urls, &["release", "--force", "job"])).await;
    assert_eq!(code(&refused), 64);
    assert!(stderr(&refused).contains("without a terminal, --yes is required"), "{refused:?}");
    assert!(!guard.is_lost() && fleet.holding("job") == 3);

    let text = said(&urls, &["release", "--force", "--yes", "job"]).await;
    assert!(text.contains(&fleet.addresses().join(", ")) && text.contains("(holder)"), "{text}");
    soon("its holder learns of it", guard.lost()).await;
    assert_eq!(fleet.holding("job"), 0);
    assert_eq!(fleet.holding("{job}:fence"), 3);
}

#[tokio::test]
async fn a_watch_without_a_terminal_says_a_line_for_each_change() {
    let server = RedisServer::start();
    says_a_line_for_each_change(&server, "j*").await;
    assert!(server.cli_text(&["INFO", "commandstats"]).contains("cmdstat_scan:"));
}

#[tokio::test]
async fn a_watch_of_one_name_says_each_change_and_scans_nothing() {
    let server = RedisServer::start();
    says_a_line_for_each_change(&server, "job").await;
    assert!(!server.cli_text(&["INFO", "commandstats"]).contains("cmdstat_scan:"));
}

#[tokio::test]
async fn inspect_waits_until_nobody_holds_the_lock() {
    let server = RedisServer::start();
    let (_locker, guard) = hold(&server, "job").await;
    let mut waiting = leasehold(&server.url(), &["inspect", "--wait", "job"]).spawn().unwrap();
    let tracked = || !server.cli_text(&["INFO", "stats"]).contains("tracking_total_keys:0");
    eventually("it is told", tracked).await;
    assert!(waiting.try_wait().unwrap().is_none());
    guard.release().await.unwrap();
    let done = end(waiting).await;
    assert_eq!((code(&done), &*stdout(&done)), (0, "job: free\n"), "{done:?}");
    // It takes no place in the line.
    assert_eq!(server.cli_text(&["EXISTS", "{job}:queue"]), "0");
    let done = output(&mut leasehold(&server.url(), &["inspect", "-w", "job"])).await;
    assert_eq!((code(&done), &*stdout(&done)), (0, "job: free\n"), "{done:?}");
}

async fn says_a_line_for_each_change(server: &RedisServer, pattern: &str) {
    let mut command = leasehold(&server.url(), &["watch", "--interval", "20ms", pattern]);
    let mut watching = command.spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut line = async || {
        let line = soon("a line", lines.next_line()).await.unwrap().unwrap();
        let (time, line) = line.split_once(' ').unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z') && time.len() == 20, "{time}");
        line.to_owned()
    };
    let (_locker, guard) = hold(server, "job").await;
    let taken = line().await;
    assert!(taken.starts_with(r"job: held by the \u{1b}[31mother\n, token "), "{taken}");
    server.cli(&["SET", "other", ONE]);
    server.cli(&["SET", "job", TWO]);
    let another = line().await;
    assert!(another.starts_with(&format!("job: held by {TWO}, token ")), "{another}");
    server.cli(&["DEL", "job"]);
    assert_eq!(line().await, "job: free");
    drop(guard);
    crate::command::signal(&watching, "INT");
    assert_eq!(ended_by(&end(watching).await), 2);
}

/// A socket whose other end is closed.
fn closed() -> Stdio {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    OwnedFd::from(ours).into()
}

#[tokio::test]
async fn a_closed_output_is_a_quiet_end_and_a_full_one_is_not() {
    let server = RedisServer::start();
    let (_locker, _guard) = hold(&server, "job").await;
    let says: [&[&str]; 6] = [
        &["inspect", "job"],
        &["list"],
        &["watch"],
        &["man"],
        &["completions", "bash"],
        &["list", "--json"],
    ];
    for words in says {
        let done = leasehold(&server.url(), words).stdout(closed()).spawn().unwrap();
        let done = end(done).await;
        assert_eq!((code(&done), stderr(&done)), (0, String::new()), "{words:?}");
        if std::path::Path::new("/dev/full").exists() {
            let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
            let done = end(leasehold(&server.url(), words).stdout(full).spawn().unwrap()).await;
            assert_eq!(code(&done), 71, "{words:?}");
            assert!(stderr(&done).starts_with("leasehold: standard output: "), "{done:?}");
        }
    }
}

/// What is left to do is to write.
#[tokio::test]
async fn one_whose_reader_stands_still_ends_by_a_signal() {
    let server = RedisServer::start();
    let (_locker, _guard) = hold(&server, "job").await;
    for words in ["watch job", "bench -d 100ms", "release --force --yes job"] {
        let binary = env!("CARGO_BIN_EXE_leasehold");
        let line = format!("head -c 65536 /dev/zero; exec {binary} {words}");
        let mut shell = tokio::process::Command::new("sh");
        shell.args(["-c", &line]).env("LEASEHOLD_URL", server.url()).kill_on_drop(true);
        let mut running = shell.stdout(Stdio::piped()).spawn().unwrap();
        // That it writes cannot be seen.
        tokio::time::sleep(Duration::from_secs(2)).await;
        signal(&running, "TERM");
        let status = soon("its end", running.wait()).await.unwrap();
        assert_eq!(status.signal(), Some(15), "{words}");
    }
}

#[tokio::test]
async fn completions_and_manual_are_made_of_what_reads_the_command_line() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = said("", &["completions", shell]).await;
        for word in ["inspect", "release", "--foreign", "conflict-exit-code"] {
            assert!(script.contains(word.trim_start_matches('-')), "{shell}: {word}");
        }
    }
    let page = said("", &["man"]).await;
    assert!(page.contains(".TH leasehold 1") && page.contains(r"leasehold\-release(1)"), "{page}");
    let directory = std::env::temp_dir().join(leasehold_testing::unique_name("leasehold-man"));
    std::fs::create_dir(&directory).unwrap();
    said("", &["man", directory.to_str().unwrap()]).await;
    let release = std::fs::read_to_string(directory.join("leasehold-release.1")).unwrap();
    assert!(release.contains("foreign") && release.contains("is known to be dead or stuck"));
    std::fs::remove_dir_all(&directory).unwrap();
    let nowhere = output(&mut leasehold("", &["man", "/nowhere/at/all"])).await;
    assert_eq!(code(&nowhere), 71, "{nowhere:?}");
}

#[tokio::test]
async fn a_release_says_what_it_did_and_who_did_it_and_that_there_was_nothing_to_do() {
    let server = RedisServer::start();
    let url = server.url();
    let words = ["release", "--force", "--yes", "job"];
    let in_json = ["release", "--force", "--yes", "--json", "job"];
    for expected in ["job: free", "job: released on "] {
        let _held = match expected {
            "job: free" => None,
            _ => Some(hold(&server, "job").await),
        };
        let done = output(&mut leasehold(&url, &words)).await;
        assert_eq!(code(&done), 0, "{done:?}");
        let (said, is_free) = (stdout(&done), expected == "job: free");
        assert!(said.starts_with(expected), "{said}");
        assert_eq!(said.ends_with("\nnothing was released\n"), is_free, "{said}");
        assert_eq!(
            said.contains(" by ") && said.contains("Z; it was held by "),
            !is_free,
            "{said}"
        );
    }
    let json = async || -> Value {
        let done = output(&mut leasehold(&url, &in_json)).await;
        assert_eq!((code(&done), stderr(&done)), (0, String::new()));
        serde_json::from_str(&stdout(&done)).unwrap()
    };
    assert_eq!(json().await["released"], false);
    let _held = hold(&server, "job").await;
    let released = json().await;
    assert_eq!((&released["released"], &released["name"]), (&true.into(), &"job".into()));
    assert_eq!(released["servers"][0], server.address().to_string());
    assert!(released["holders"][0]["owner"].is_string() && released["by"].is_string());
    assert!(released["at"].as_str().unwrap().ends_with('Z'), "{released}");
}

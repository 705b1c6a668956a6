//! The command `leasehold`, against real servers.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::command::{
    code, end, ended_by, hold, is_free, leasehold, output, signal, stderr, stdout,
};
use crate::processes::{Directory, is_gone};
use leasehold::Locker;
use leasehold_testing::{Cluster, Fleet, RedisServer, eventually, ports};
use tokio::io::AsyncBufReadExt;
use tokio::process::Command;

#[tokio::test]
async fn a_command_runs_under_the_lock_and_its_code_is_ours() {
    let server = RedisServer::start();
    let script = "echo $LEASEHOLD_NAME $LEASEHOLD_FENCE $LEASEHOLD_DEADLINE_MS; exit 7";
    let done =
        output(&mut leasehold(&server.url(), &["run", "job", "--", "sh", "-c", script])).await;
    assert_eq!(code(&done), 7, "{done:?}");
    let said = stdout(&done);
    let [name, fence, deadline] = said.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{said}")
    };
    assert_eq!(name, "job");
    assert!(
        fence.parse::<u64>().unwrap() > 0 && deadline.parse::<u64>().unwrap() > fence.len() as u64
    );
    assert!(is_free(&server, "job"));
    for (line, expected) in [("kill -9 $$", 9), ("kill -TERM $$", 15), ("kill -SEGV $$", 11)] {
        let done = output(&mut leasehold(&server.url(), &["run", "-c", line, "job"])).await;
        assert_eq!((ended_by(&done), stderr(&done)), (expected, String::new()), "{line}");
        assert!(is_free(&server, "job"));
    }
}

/// By the line in docs/command.md.
#[tokio::test]
async fn a_script_begins_again_under_its_lock() {
    let page = include_str!("../../../docs/command.md");
    let line = page.lines().find(|line| line.contains("\"$0\" \"$@\"")).unwrap();
    let (server, directory) = (RedisServer::start(), Directory::new());
    let script = directory.file("script");
    directory.write("script", &format!("#!/bin/sh\n{line}\necho \"$LEASEHOLD_FENCE $# $2\"\n"));
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let binaries = Path::new(env!("CARGO_BIN_EXE_leasehold")).parent().unwrap().display();
    let path = format!("{binaries}:{}", std::env::var("PATH").unwrap());
    let run = async || {
        let mut script = Command::new(&script);
        script.args(["a", "b c"]).env("PATH", &path).env("LEASEHOLD_URL", server.url());
        output(script.kill_on_drop(true)).await
    };
    let done = run().await;
    let token = server.cli_text(&["GET", "{nightly}:fence"]);
    assert_eq!((code(&done), &*stdout(&done)), (0, &*format!("{token} 2 b c\n")), "{done:?}");
    let (_locker, _guard) = hold(&server, "nightly").await;
    let refused = run().await;
    assert_eq!((code(&refused), &*stdout(&refused)), (1, ""), "{refused:?}");
}

#[tokio::test]
async fn a_lock_that_cannot_be_had_is_refused_with_its_holder_and_the_wished_code() {
    let server = RedisServer::start();
    let (_locker, guard) = hold(&server, "job").await;
    let refused: [(&[&str], i32); 4] = [
        (&["run", "-n", "job", "true"], 1),
        (&["run", "-n", "-E", "42", "job", "true"], 42),
        (&["run", "-w", "500ms", "job", "true"], 1),
        (&["run", "-w", "0.5", "-E", "0", "job", "true"], 0),
    ];
    for (words, expected) in refused {
        let refused = output(&mut leasehold(&server.url(), words)).await;
        assert_eq!(code(&refused), expected, "{words:?}: {refused:?}");
        let said = stderr(&refused);
        assert!(said.contains("other") && !said.contains('\x1b'), "{said:?}");
    }
    for words in [["run", "-qn", "job", "true"], ["run", "-qw.5", "job", "true"]] {
        let refused = output(&mut leasehold(&server.url(), &words)).await;
        assert_eq!((code(&refused), stderr(&refused)), (1, String::new()), "{words:?}");
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn of_several_locks_that_will_do_the_first_that_is_free_is_had() {
    let server = RedisServer::start();
    let run = |url: &str, options: &[&str]| {
        let line = "echo $LEASEHOLD_NAME";
        leasehold(url, &[&["run"], options, &["--or", "b", "--or", "c", "-c", line, "a"]].concat())
    };
    let first = output(&mut run(&server.url(), &[])).await;
    assert_eq!((code(&first), &*stdout(&first)), (0, "a\n"), "{first:?}");
    let (locker, a) = hold(&server, "a").await;
    let b = locker.lock("b").await.unwrap();
    let third = output(&mut run(&server.url(), &["-n"])).await;
    assert_eq!((code(&third), &*stdout(&third)), (0, "c\n"), "{third:?}");
    let c = locker.lock("c").await.unwrap();
    let refused = output(&mut run(&server.url(), &["-n", "-E", "9"])).await;
    assert_eq!((code(&refused), &*stdout(&refused)), (9, ""), "{refused:?}");
    let waiting = run(&server.url(), &[]).spawn().unwrap();
    eventually("it waits", || server.cli_text(&["EXISTS", "{b}:queue"]) == "1").await;
    b.release().await.unwrap();
    let second = end(waiting).await;
    assert_eq!((code(&second), &*stdout(&second)), (0, "b\n"), "{second:?}");
    assert!(stderr(&second).contains("waiting for a or b or c, held by"), "{second:?}");
    assert!(is_free(&server, "b"));
    // A prefix belongs to the key, and not to the name.
    let prefixed = output(&mut run(&server.url(), &["--key-prefix", "x"])).await;
    assert_eq!((code(&prefixed), &*stdout(&prefixed)), (0, "a\n"), "{prefixed:?}");
    drop((a, c));
}

#[tokio::test]
async fn a_waiter_names_the_holder_and_gets_its_turn() {
    let server = RedisServer::start();
    let (_locker, guard) = hold(&server, "job").await;
    let waiting = leasehold(&server.url(), &["run", "job", "echo", "mine"]).spawn().unwrap();
    eventually("it waits", || server.cli_text(&["EXISTS", "{job}:queue"]) == "1").await;
    guard.release().await.unwrap();
    let done = end(waiting).await;
    assert_eq!((code(&done), &*stdout(&done)), (0, "mine\n"), "{done:?}");
    assert!(stderr(&done).contains(r"waiting for job, held by the \u{1b}[31mother\n, for "));
}

#[tokio::test]
async fn signals_end_a_wait_at_once_and_are_passed_on_to_the_command() {
    let server = RedisServer::start();
    let (_locker, guard) = hold(&server, "job").await;
    let waiting = leasehold(&server.url(), &["run", "job", "true"]).spawn().unwrap();
    eventually("it waits", || server.cli_text(&["EXISTS", "{job}:queue"]) == "1").await;
    signal(&waiting, "INT");
    assert_eq!(ended_by(&end(waiting).await), 2);
    guard.release().await.unwrap();

    let directory = Directory::new();
    for name in ["TERM", "INT"] {
        let script =
            "trap 'echo caught; exit 5' TERM INT; echo $$ > id; while :; do sleep 0.01; done";
        let mut command = leasehold(&server.url(), &["run", "-c", script, "job"]);
        let running = command.current_dir(&directory.0).spawn().unwrap();
        eventually("it runs", || directory.number("id").is_some()).await;
        signal(&running, name);
        let done = end(running).await;
        assert_eq!((code(&done), &*stdout(&done)), (5, "caught\n"));
        assert!(is_free(&server, "job"));
        directory.remove("id");
    }
}

/// All that a command has started ends with its lease, also what does not want to.
/// As cron does it on two hosts whose clocks are a little apart.
#[tokio::test]
async fn two_runs_that_begin_a_moment_apart_run_the_command_once() {
    let server = RedisServer::start();
    let words = ["run", "-n", "--hold-at-least", "1h", "job", "echo", "done"];
    let first = output(&mut leasehold(&server.url(), &words)).await;
    assert_eq!((code(&first), &*stdout(&first)), (0, "done\n"), "{first:?}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let second = output(&mut leasehold(&server.url(), &words)).await;
    assert_eq!((code(&second), &*stdout(&second)), (1, ""), "{second:?}");
    assert!(!is_free(&server, "job"));
}

/// `-s` is what it is with flock(1).
#[tokio::test]
async fn a_shared_lock_is_for_other_sharers_and_permits_are_counted() {
    let server = RedisServer::start();
    let url = server.url();
    let run = async |words: &[&str]| code(&output(&mut leasehold(&url, words)).await);
    let locker = Locker::connect(&url).await.unwrap();
    let reader = locker.read("job").await.unwrap();
    assert_eq!(run(&["run", "-n", "-s", "job", "true"]).await, 0);
    assert_eq!(run(&["run", "-n", "job", "true"]).await, 1);
    reader.release().await.unwrap();
    let writer = locker.write("job").await.unwrap();
    assert_eq!(run(&["run", "-n", "--shared", "job", "true"]).await, 1);
    writer.release().await.unwrap();
    let permit = locker.semaphore("job", 2).acquire(1).await.unwrap();
    assert_eq!(run(&["run", "-n", "--permits", "2", "job", "true"]).await, 0);
    let last = locker.semaphore("job", 2).acquire(1).await.unwrap();
    assert_eq!(run(&["run", "-n", "--permits", "2", "job", "true"]).await, 1);
    assert_ne!(run(&["run", "-n", "--permits", "3", "job", "true"]).await, 0);
    drop((permit, last));
}

#[tokio::test]
async fn shares_over_several_servers_are_counted_by_a_quorum_and_outlive_a_minority() {
    const OFF: [&str; 2] = ["--restart-quarantine", "off"];
    let mut fleet = Fleet::start(3);
    let urls = fleet.urls();
    let locker = Locker::builder().nodes(urls.clone()).restart_quarantine(false);
    let locker = locker.connect().await.unwrap();
    let run = async |words: &[&str]| {
        let done = output(&mut leasehold(&urls.join(" "), &[&OFF, words].concat())).await;
        assert!([0, 1, 78].contains(&code(&done)), "{done:?}");
        (code(&done), stdout(&done))
    };
    for is_one_down in [false, true] {
        if is_one_down {
            fleet[0].kill();
        }
        let echo = "echo $LEASEHOLD_NAME";
        let shared = ["run", "-n", "--shared", "-c", echo, "job"];
        let reader = locker.read("job").await.unwrap();
        assert_eq!(run(&shared).await, (0, "job\n".to_owned()));
        assert_eq!(run(&["run", "-n", "-c", echo, "job"]).await.0, 1);
        reader.release().await.unwrap();
        let writer = locker.write("job").await.unwrap();
        assert_eq!(run(&shared).await, (1, String::new()));
        writer.release().await.unwrap();

        let permits = ["run", "-n", "--permits", "2", "-c", echo, "pool"];
        let pool = locker.semaphore("pool", 2);
        let first = pool.acquire(1).await.unwrap();
        assert_eq!(run(&permits).await.0, 0);
        let last = pool.acquire(1).await.unwrap();
        assert_eq!(run(&permits).await, (1, String::new()));
        first.release().await.unwrap();
        last.release().await.unwrap();
    }
    let refused = run(&["run", "-n", "--permits", "65", "pool", "true"]).await;
    assert_eq!(refused.0, 78, "more permits than locks can stand for");
}

/// TERM comes while the lease is still held, so that its lock is given back.
#[tokio::test]
async fn a_command_is_ended_once_it_has_held_the_lock_for_as_long_as_it_may() {
    let server = RedisServer::start();
    let words = ["run", "--ttl", "1s", "--hold-at-most", "1500ms", "job", "sleep", "60"];
    let done = output(&mut leasehold(&server.url(), &words)).await;
    assert_eq!(code(&done), 75, "{done:?}");
    assert!(stderr(&done).contains("held for as long as its request allows"), "{done:?}");
    assert!(is_free(&server, "job"));
}

/// However short that is beside the TTL.
#[tokio::test]
async fn a_command_has_most_of_the_time_that_it_may_hold_the_lock_for() {
    let server = RedisServer::start();
    let words = ["run", "--hold-at-most", "3s", "job", "sleep", "0.1"];
    let done = output(&mut leasehold(&server.url(), &words)).await;
    assert_eq!(code(&done), 0, "{done:?}");
}

/// It ends behind all that a clock counts to.
#[tokio::test]
async fn a_lock_may_be_held_for_the_longest_time_that_there_is() {
    let server = RedisServer::start();
    let words = ["run", "--hold-at-most", "5124095576030430h", "job", "echo", "done"];
    let done = output(&mut leasehold(&server.url(), &words)).await;
    assert_eq!((code(&done), &*stdout(&done)), (0, "done\n"), "{done:?}");
}

/// Linux cuts the name of a process after 15 bytes.
#[tokio::test]
async fn a_command_whose_name_is_cut_inside_a_character_is_ended_too() {
    const SCRIPT: &str = "#!/bin/sh\necho $$ > id\nwhile :; do sleep 0.01; done\n";
    let (server, directory) = (RedisServer::start(), Directory::new());
    directory.write("äöüäöüäö", SCRIPT);
    let script = directory.file("äöüäöüäö");
    std::fs::set_permissions(&script, Permissions::from_mode(0o700)).unwrap();
    let words = ["run", "--ttl", "3s", "job", script.to_str().unwrap()];
    let running = leasehold(&server.url(), &words).current_dir(&directory.0).spawn().unwrap();
    eventually("it runs", || directory.number("id").is_some()).await;
    server.cli(&["DEL", "job"]);
    assert_eq!(code(&end(running).await), 75);
}

#[tokio::test]
async fn a_lost_lease_ends_all_that_the_command_has_started() {
    let server = RedisServer::start();
    let directory = Directory::new();
    let child = "trap '' TERM; echo $$ > child; while :; do sleep 0.01; done";
    let script = format!(
        "setsid sh -c \"{}\" & trap '' TERM; echo $$ > id; wait; wait",
        child.replace('$', "\\$")
    );
    let words = ["run", "--ttl", "3s", "-c", &script, "job"];
    let running = leasehold(&server.url(), &words).current_dir(&directory.0).spawn().unwrap();
    eventually("both run", || directory.number("id").and(directory.number("child")).is_some())
        .await;
    server.cli(&["SET", "job", "another"]);
    let done = end(running).await;
    assert_eq!(code(&done), 75, "{done:?}");
    assert!(stderr(&done).contains("the lease was lost"), "{done:?}");
    for name in ["id", "child"] {
        assert!(is_gone(&directory.number(name).unwrap()), "{name}");
    }
    assert_eq!(server.cli_text(&["GET", "job"]), "another");
}

#[tokio::test]
async fn a_lease_that_cannot_be_renewed_ends_the_command_before_its_end() {
    let server = RedisServer::start();
    let directory = Directory::new();
    let script = "echo $$ > id; trap 'echo asked; exit 0' TERM; while :; do sleep 0.01; done";
    let words = ["run", "--ttl", "3s", "-c", script, "job"];
    let running = leasehold(&server.url(), &words).current_dir(&directory.0).spawn().unwrap();
    eventually("it runs", || directory.number("id").is_some()).await;
    server.stop();
    let id = directory.number("id").unwrap();
    eventually("it has ended", || is_gone(&id)).await;
    // Its lease still stands there, or has just been given back; it is nobody else's.
    let done = end(running).await;
    server.cont();
    assert_eq!((code(&done), &*stdout(&done)), (75, "asked\n"), "{done:?}");
    assert!(stderr(&done).contains("could not be renewed, so the command was ended: "), "{done:?}");
    assert!(stderr(&done).contains("127.0.0.1:"), "{done:?}");
}

/// It answers all that changes nothing.
#[tokio::test]
async fn a_server_that_refuses_to_renew_a_lease_is_quoted() {
    let server = RedisServer::start();
    let directory = Directory::new();
    let script = "echo $$ > id; trap 'exit 0' TERM; while :; do sleep 0.01; done";
    let words = ["run", "--ttl", "3s", "-c", script, "job"];
    let running = leasehold(&server.url(), &words).current_dir(&directory.0).spawn().unwrap();
    eventually("it runs", || directory.number("id").is_some()).await;
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let done = end(running).await;
    assert_eq!(code(&done), 75, "{done:?}");
    let said = stderr(&done);
    assert!(said.contains("could not be renewed, so the command was ended: "), "{said}");
    let why = said.lines().find(|line| line.contains("could not be renewed")).unwrap();
    assert!(why.contains("127.0.0.1:") && why.contains("NOREPLICAS"), "{said}");
}

#[tokio::test]
async fn a_waiter_waits_for_a_server_as_well() {
    let mut server = RedisServer::start();
    server.kill();
    let waiting = leasehold(&server.url(), &["run", "-w", "1m", "job", "echo", "mine"]);
    let mut waiting = { waiting }.spawn().unwrap();
    let mut said = tokio::io::BufReader::new(waiting.stderr.take().unwrap()).lines();
    let line = leasehold_testing::soon("it waits", said.next_line()).await.unwrap().unwrap();
    assert!(line.contains("waiting for servers: ") && line.contains("refused"), "{line}");
    server.restart();
    let done = end(waiting).await;
    assert_eq!((code(&done), &*stdout(&done)), (0, "mine\n"), "{done:?}");

    server.kill();
    let failed = output(&mut leasehold(&server.url(), &["run", "-w", "50ms", "job", "true"])).await;
    assert_eq!(code(&failed), 69, "{failed:?}");
}

#[tokio::test]
async fn what_is_wrong_is_said_with_a_code_of_its_own() {
    let server = RedisServer::start();
    let url = server.url();
    let nobody = format!("redis://127.0.0.1:{}", ports::free());
    let cases: [(&str, &[&str], i32, &str); 7] = [
        (&nobody, &["run", "job", "true"], 69, "127.0.0.1"),
        ("http://h", &["run", "job", "true"], 78, "http"),
        (&url, &["run", "job", "--", "/nowhere/x"], 127, "/nowhere/x: No such file"),
        (&url, &["run", "job", "--", "/etc/passwd"], 126, "/etc/passwd: Permission denied"),
        (&url, &["run", "job"], 64, "Usage"),
        (&url, &["run", "--ttl", "0", "job", "true"], 78, "TTL"),
        (&url, &["run", "", "true"], 78, "name"),
    ];
    for (url, words, expected, part) in cases {
        let failed = output(&mut leasehold(url, words)).await;
        let said = stderr(&failed);
        assert_eq!(code(&failed), expected, "{words:?}: {said}");
        assert!(said.contains(part) && said.len() < 2000, "{said}");
    }
    assert!(is_free(&server, "job"));
}

#[tokio::test]
async fn hostile_names_are_locked_and_shown_harmlessly() {
    let server = RedisServer::start();
    let long = "n".repeat(10_000);
    for name in ["two words", "line\nbreak", "\x1b[2Jwiped", "-dash", "\u{202e}back", &long] {
        let (_locker, guard) = hold(&server, name).await;
        let refused =
            output(&mut leasehold(&server.url(), &["run", "-n", "--", name, "true"])).await;
        assert_eq!(code(&refused), 1, "{refused:?}");
        let said = stderr(&refused);
        let harmless = |c: char| c == '\n' || !c.is_control() && c != '\u{202e}';
        assert!(
            said.chars().all(harmless) && said.lines().count() == 1 && said.len() < 2000,
            "{said:?}"
        );
        guard.release().await.unwrap();
        let ran = output(&mut leasehold(&server.url(), &["run", "--", name, "true"])).await;
        assert_eq!(code(&ran), 0, "{ran:?}");
    }
}

/// Nobody reads what it says.
#[tokio::test]
async fn closed_outputs_harm_nothing() {
    let server = RedisServer::start();
    let binary = env!("CARGO_BIN_EXE_leasehold");
    let closed = format!("{binary} run job true >&- 2>&-; {binary} run -h >&- 2>&-");
    let mut shell = Command::new(OsStr::new("sh"));
    shell.args(["-c", &closed]).env("LEASEHOLD_URL", server.url()).kill_on_drop(true);
    assert_eq!(code(&output(&mut shell).await), 0);
    assert!(is_free(&server, "job"));
}

#[tokio::test]
async fn a_lock_is_had_in_a_slot_that_moves() {
    let cluster = Cluster::start();
    let url = cluster.seed_url(3);
    let (slot, from, to) = cluster.move_of("job");
    cluster.begin_migration(slot, from, to);
    let done = output(&mut leasehold(&url, &["run", "-w", "5", "job", "--", "echo", "done"])).await;
    assert_eq!((code(&done), &*stdout(&done)), (0, "done\n"), "{done:?}");
}

/// A slot that no node serves for a while is no reason to give up before the limit, however short
/// the TTL; and at the limit the reason is said.
#[tokio::test]
async fn a_wait_goes_on_while_the_cluster_cannot_serve() {
    const LEASE: Duration = Duration::from_secs(1);
    let cluster = Cluster::start();
    let url = cluster.seed_url(3);
    let slot = cluster.slot("job");
    let master = cluster.master_of(slot);
    let run = |limit: &str| {
        leasehold(&url, &["run", "--ttl", "1", "-w", limit, "job", "--", "echo", "done"])
    };
    cluster.unserve(slot);
    let failed = output(&mut run("2")).await;
    assert_ne!(code(&failed), 0);
    assert!(stderr(&failed).contains("CLUSTERDOWN"), "{failed:?}");
    let mut waiting = run("60").spawn().unwrap();
    tokio::time::sleep(3 * LEASE).await;
    assert!(waiting.try_wait().unwrap().is_none(), "it has given up");
    cluster.serve(slot, master);
    let done = end(waiting).await;
    assert_eq!((code(&done), &*stdout(&done)), (0, "done\n"), "{done:?}");
}

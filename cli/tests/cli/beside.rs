//! What the command `leasehold` shows of what is kept beside locks, against real servers.

use std::process::Stdio;
use std::time::Duration;

use leasehold::Locker;
use leasehold::limits::Rate;
use leasehold::once::Slot;
use leasehold_resp::Frame;
use leasehold_testing::{RedisServer, rights, soon};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::command::{code, leasehold, output, stderr, stdout};

/// So long that nothing ends because of it.
const LONG: Duration = Duration::from_secs(3600);

/// All of them under one name.
async fn keep(server: &RedisServer) -> Locker {
    let locker = Locker::connect(&server.url()).await.unwrap();
    locker.limit("job", Rate::new(3, LONG)).take(1).await.unwrap();
    let run = locker.once("job", Slot::every(LONG));
    run.run(async |_| Ok::<_, ()>(())).await.unwrap();
    let request = locker.idempotent("job", "f", LONG);
    request.run(async |_| Ok::<_, ()>("result")).await.unwrap();
    locker.latch("job", 2).count_down("x").await.unwrap();
    let mut party = locker.barrier("job", 2).party("x");
    party.arrive().await.unwrap();
    locker
}

#[tokio::test]
async fn inspect_and_list_show_each_primitive_with_its_state() {
    let server = RedisServer::start();
    let locker = keep(&server).await;
    let done = output(&mut leasehold(&server.url(), &["inspect", "job"])).await;
    assert_eq!((code(&done), stderr(&done)), (1, String::new()), "the lock is free");
    let text = stdout(&done);
    for part in [
        "job: free\n",
        "\n  limit    2 left of 3 per 1 h with bursts of 3; kept for ",
        "\n  job      slot ",
        "\n  request  started once, finished by ",
        "\n  latch    closed: 1 of 2 have to count down; kept for 24.0 h\n",
        "\n  barrier  generation 1: 1 of 2 have arrived; kept for 24.0 h\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let guard = locker.lock("job").await.unwrap();
    let done = output(&mut leasehold(&server.url(), &["inspect", "--json", "job"])).await;
    let whole: Value = serde_json::from_str(&stdout(&done)).unwrap();
    assert_eq!((code(&done), &whole["state"]), (0, &json!("held")));
    let latch = whole["primitives"].as_array().unwrap().iter();
    let latch = latch.into_iter().find(|it| it["primitive"] == "latch").unwrap();
    assert_eq!((&latch["parties"], &latch["left"]), (&json!(2), &json!(1)));

    let done = output(&mut leasehold(&server.url(), &["list", "--json"])).await;
    assert_eq!((code(&done), stderr(&done)), (0, String::new()));
    let mut kinds: Vec<String> = stdout(&done)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|it| it["primitive"].as_str().unwrap_or("a lock").to_owned())
        .collect();
    assert_eq!(kinds[0], "a lock");
    kinds.sort();
    assert_eq!(kinds, ["a lock", "barrier", "job", "latch", "limit", "request"]);
    let table = stdout(&output(&mut leasehold(&server.url(), &["list", "j*"])).await);
    assert!(table.contains("closed: 1 of 2 have to count down"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("barrier ")), "{table}");
    let done = output(&mut leasehold(&server.url(), &["list", "--limit", "2"])).await;
    assert_eq!(stdout(&done).lines().count(), 3, "{done:?}");
    drop(guard);
}

#[tokio::test]
async fn watch_says_what_becomes_of_a_latch() {
    let server = RedisServer::start();
    for pattern in ["deploy", "dep*"] {
        server.cli(&["FLUSHALL"]);
        let locker = Locker::connect(&server.url()).await.unwrap();
        let latch = locker.latch("deploy", 2);
        let mut command = leasehold(&server.url(), &["watch", "--interval", "20ms", pattern]);
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for (party, expected) in [
            ("x", "deploy: latch: closed: 1 of 2 have to count down"),
            ("y", "deploy: latch: open: all of 2 have counted down"),
        ] {
            latch.count_down(party).await.unwrap();
            let line = soon("a line", lines.next_line()).await.unwrap().unwrap();
            assert!(line.ends_with(expected), "{line}");
        }
        server.cli(&["DEL", "{deploy}:open"]);
        let line = soon("a line", lines.next_line()).await.unwrap().unwrap();
        assert!(line.ends_with("deploy: latch: gone"), "{line}");
        child.kill().await.unwrap();
    }
}

#[tokio::test]
async fn watch_asks_for_what_it_may_not_see_once() {
    let server = RedisServer::start();
    rights::grant(&server, &[rights::of("waiting"), rights::row("looking")].concat());
    let refusals = || match server.cli(&["ACL", "LOG"]) {
        Frame::Array(entries) => {
            let count = |entry: &Frame| match entry {
                Frame::Array(fields) => format!("{:?} {:?}", fields[1], fields[9]),
                other => panic!("{other:?}"),
            };
            entries.iter().map(count).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let words = ["--key-prefix", rights::PREFIX, "watch", "--interval", "20ms", "job"];
    let mut command = leasehold(&rights::url(&server), &words);
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let builder = Locker::builder().node(server.url()).key_prefix(rights::PREFIX);
    let locker = builder.connect().await.unwrap();
    let mut told = Vec::new();
    for _ in 0..3 {
        let guard = locker.lock("job").await.unwrap();
        let line = soon("a line", lines.next_line()).await.unwrap().unwrap();
        assert!(line.contains("job: held"), "{line}");
        guard.release().await.unwrap();
        let line = soon("a line", lines.next_line()).await.unwrap().unwrap();
        assert!(line.ends_with("job: free"), "{line}");
        told.push(refusals());
    }
    assert!(!told[0].is_empty() && told[0] == told[2], "{told:?}");
}

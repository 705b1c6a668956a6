//! Tokens of shares and of leases beside them: after an older snapshot, and if the server refuses writes.

use std::path::Path;
use std::time::Duration;

use leasehold::{ErrorKind, FencingToken, Locker};
use leasehold_resp::Frame;
use leasehold_testing::{RedisServer, binary, eventually, soon};

use super::{SHORT, joined, locker, spawn, take, until_nothing_is_left, until_waiting};

/// A permit, a reader that writes, and a writer that is let in behind a reader: a token of each.
async fn draw(server: &RedisServer, locker: &Locker) -> [FencingToken; 4] {
    let permit = take(locker.semaphore("p", 2).acquire(1)).await;
    let mut reader = take(locker.read("a")).await;
    let read = reader.fence();
    soon("it writes", reader.upgrade()).await.unwrap();
    let upgraded = reader.fence();
    soon("it reads", reader.downgrade()).await.unwrap();
    let writer = spawn(locker.write("a"));
    until_waiting(server, 1).await;
    reader.release().await.unwrap();
    let writer = joined(writer).await;
    let tokens = [permit.fence(), read, upgraded, writer.fence()];
    writer.release().await.unwrap();
    permit.release().await.unwrap();
    tokens
}

#[tokio::test]
async fn a_server_that_begins_with_an_older_snapshot_repeats_no_token_of_a_share() {
    if binary::lacks_a_queue() {
        return;
    }
    let mut server = RedisServer::start();
    for _ in 0..5 {
        let mut drawn = Vec::new();
        let before = locker(&server).await;
        drawn.push(draw(&server, &before).await);
        server.cli(&["SAVE"]);
        for _ in 0..10 {
            drawn.push(draw(&server, &before).await);
        }
        server.kill();
        server.restart();
        let after = locker(&server).await;
        for _ in 0..20 {
            drawn.push(draw(&server, &after).await);
        }
        let permits = drawn.iter().map(|[permit, ..]| *permit);
        assert!(permits.is_sorted_by(|one, next| one < next), "{drawn:?}");
        let others = drawn.iter().flat_map(|[_, others @ ..]| *others);
        assert!(others.is_sorted_by(|one, next| one < next), "{drawn:?}");
    }
}

/// How a server refuses writes, what ends that, and the word that it says.
const REFUSALS: [(&[&str], &[&str], &str); 4] = [
    (&["CONFIG", "SET", "maxmemory", "1"], &["CONFIG", "SET", "maxmemory", "0"], "OOM"),
    (
        &["CONFIG", "SET", "min-replicas-to-write", "1"],
        &["CONFIG", "SET", "min-replicas-to-write", "0"],
        "NOREPLICAS",
    ),
    (&["BGSAVE"], &["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"], "MISCONF"),
    (&["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"], "READONLY"),
];

/// Each background save fails from here on: a directory stands where the file is to be.
fn have_saves_fail(server: &RedisServer) {
    let Frame::Array(pair) = server.cli(&["CONFIG", "GET", "dir"]) else { panic!("it has one") };
    let directory = String::from_utf8(pair[1].as_bytes().unwrap().to_vec()).unwrap();
    std::fs::create_dir(Path::new(&directory).join("dump.rdb")).unwrap();
    server.cli(&["CONFIG", "SET", "save", "3600 1"]);
}

/// The error is what the server said, waits go on, and nobody loses a share.
#[tokio::test]
async fn a_server_that_refuses_writes_costs_no_share_and_is_no_misuse() {
    for (refuse, allow, word) in REFUSALS {
        if word == "NOREPLICAS" && !binary::has_queue() {
            // Redis 5 asks for replicas for a plain write alone.
            continue;
        }
        let server = RedisServer::start();
        let locker = locker(&server).await;
        let mut reader = take(locker.read("a")).await;
        let permits = locker.semaphore("p", 2);
        let permit = take(permits.acquire(1)).await;
        if word == "MISCONF" {
            have_saves_fail(&server);
        }
        server.cli(refuse);
        let refuses = || matches!(server.cli(&["SET", "probe", "1"]), Frame::Error(_));
        eventually("it refuses", refuses).await;
        let errors = [
            soon("it is told", locker.try_read("b").into_future()).await.map(|_| ()).unwrap_err(),
            soon("it is told", permits.try_acquire(1).into_future()).await.map(|_| ()).unwrap_err(),
            soon("it is told", reader.upgrade()).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{word}: {error}");
            assert!(error.to_string().contains(word), "{word}: {error}");
        }
        assert!(!reader.is_lost() && !permit.is_lost(), "{word}");
        let waiting = [spawn(locker.read("b")), spawn(permits.acquire(1))];
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(waiting.iter().all(|it| !it.is_finished()), "{word}");
        server.cli(allow);
        for granted in waiting {
            joined(granted).await.release().await.unwrap();
        }
        soon("it writes", reader.upgrade()).await.unwrap();
        reader.release().await.unwrap();
        permit.release().await.unwrap();
    }
}

/// A full server refuses the first write of a script alone, where that may need memory.
#[tokio::test]
async fn a_full_server_keeps_shares() {
    let server = RedisServer::start();
    let locker = locker(&server).await;
    let guards = [
        take(locker.read("a").ttl(SHORT)).await,
        take(locker.read("a").ttl(2 * SHORT)).await,
        take(locker.semaphore("p", 3).acquire(2).ttl(SHORT)).await,
    ];
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let before = locker.stats().renewed;
    eventually("all are renewed again and again", || locker.stats().renewed >= before + 20).await;
    for guard in guards {
        guard.release().await.unwrap();
    }
    until_nothing_is_left(&server).await;
}

//! `scripts/reign.lua` on real servers: since when a server is the primary.

use leasehold_resp::Frame;
use leasehold_testing::{RedisServer, eventually, whole};

const REIGN: &str = include_str!("../../scripts/reign.lua");
const MARKER: &str = "marker";
const STAMP: &str = "8123456789012345";

#[derive(Clone, Debug, PartialEq)]
struct Reign {
    run: String,
    id: String,
    began: u64,
}

/// The reign, and the server's clock; or the error.
fn reign(server: &RedisServer) -> Result<(Reign, u64), String> {
    let items = match server.cli(&["EVAL", &whole(REIGN), "1", MARKER, STAMP]) {
        Frame::Array(items) => items,
        Frame::Error(text) => return Err(String::from_utf8_lossy(&text).into_owned()),
        other => panic!("{other:?}"),
    };
    let words: Vec<&str> =
        items.iter().map(|item| std::str::from_utf8(item.as_bytes().unwrap()).unwrap()).collect();
    let [STAMP, marker, clock] = words[..] else { panic!("{words:?}") };
    assert_eq!(server.cli_text(&["GET", MARKER]), marker);
    let [run, id, began] = marker.split(' ').collect::<Vec<_>>()[..] else { panic!("{marker}") };
    let reign = Reign { run: run.into(), id: id.into(), began: began.parse().unwrap() };
    Ok((reign, clock.parse().unwrap()))
}

fn field(server: &RedisServer, section: &str, name: &str) -> String {
    let info = server.cli_text(&["INFO", section]);
    let value = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned());
    info.lines().find_map(value).unwrap()
}

#[test]
fn the_first_that_asks_begins_the_reign_and_all_others_are_told_of_it() {
    let server = RedisServer::start();
    let (first, clock) = reign(&server).unwrap();
    assert_eq!(first.run, field(&server, "server", "run_id"));
    assert_eq!(first.id, field(&server, "replication", "master_replid"));
    assert_eq!(first.began, clock);
    let (second, later) = reign(&server).unwrap();
    assert_eq!(second, first);
    assert!(later > clock);
    assert_eq!(server.cli(&["PTTL", MARKER]), Frame::Integer(-1), "it does not expire");
}

#[test]
fn what_is_no_marker_of_this_reign_is_written_over() {
    let server = RedisServer::start();
    let (Reign { run, id, began }, _) = reign(&server).unwrap();
    let (elsewhere, future) = ("0".repeat(40), began + 3_600_000_000);
    for value in [
        format!("{elsewhere} {id} {began}"),
        format!("{run} {elsewhere} {began}"),
        format!("{run} {id} {future}"),
        format!("{run} {id} "),
        format!("{run} {id} 1e3"),
        format!("{run} {id} {}", "1".repeat(100_000)),
        String::new(),
    ] {
        server.cli_text(&["SET", MARKER, &value]);
        let (anew, clock) = reign(&server).unwrap();
        assert_eq!(anew, Reign { run: run.clone(), id: id.clone(), began: clock });
    }
    server.cli_text(&["DEL", MARKER]);
    server.cli_text(&["RPUSH", MARKER, "a"]);
    assert_eq!(reign(&server).unwrap().0.run, run);
}

#[tokio::test]
async fn a_replica_does_not_reign_and_each_promotion_is_another_reign_of_its_run() {
    let primary = RedisServer::start();
    let (before, _) = reign(&primary).unwrap();
    let port = primary.port().to_string();
    let replica = RedisServer::builder().arg("--replicaof").arg("127.0.0.1").arg(port).start();
    let follows = || replica.cli_text(&["GET", MARKER]).starts_with(&before.run);
    eventually("the replica follows", follows).await;
    assert!(reign(&replica).unwrap_err().starts_with("READONLY"));
    // Of its run, and of the replication id that it has from the primary.
    let run = field(&replica, "server", "run_id");
    primary.cli_text(&["SET", MARKER, &format!("{run} {} {}", before.id, before.began)]);
    eventually("it is copied", || replica.cli_text(&["GET", MARKER]).starts_with(&run)).await;
    assert!(reign(&replica).unwrap_err().starts_with("READONLY"));

    replica.cli_text(&["REPLICAOF", "NO", "ONE"]);
    let (first, clock) = reign(&replica).unwrap();
    assert_eq!((first.run.as_str(), first.began), (run.as_str(), clock));
    assert_ne!(first.id, before.id);
    replica.cli_text(&["REPLICAOF", "127.0.0.1", "1"]);
    assert!(reign(&replica).unwrap_err().starts_with("READONLY"));
    replica.cli_text(&["REPLICAOF", "NO", "ONE"]);
    let (second, clock) = reign(&replica).unwrap();
    assert_eq!((second.run, second.began), (run, clock));
    assert_ne!(second.id, first.id);
}

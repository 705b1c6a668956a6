//! What is tried first.

use crate::support::{Program, RedisServer};

#[tokio::test]
async fn the_quickstart_takes_a_lock_and_gives_it_back() {
    let server = RedisServer::start();
    let mut program = Program::example("quickstart", &[("LEASEHOLD_URL", &server.url())]);
    let (status, lines) = program.end().await;
    assert!(status.success(), "{lines:?}");
    let token = lines[0].strip_prefix("charging invoice 42 under token ").expect("it says so");
    assert_eq!(server.cli_text(&["GET", "{invoice:42}:fence"]), token);
    assert_eq!(server.cli_text(&["EXISTS", "invoice:42"]), "0", "it is given back");
}

#[tokio::test]
async fn a_worker_that_is_told_to_end_gives_its_lock_back() {
    let server = RedisServer::start();
    let mut program = Program::example("shutdown", &[("LEASEHOLD_URL", &server.url())]);
    program.said("working, with token ").await;
    assert_eq!(server.cli_text(&["EXISTS", "example:nightly"]), "1");
    program.signal("TERM");
    let (status, lines) = program.end().await;
    assert!(status.success(), "{lines:?}");
    assert!(lines.contains(&r#"given back: ["example:nightly"]"#.to_owned()), "{lines:?}");
    assert_eq!(server.cli_text(&["EXISTS", "example:nightly"]), "0");
}

//! The first examples that a user runs.

use std::fs;

use leasehold_testing::{Program, RedisServer};

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
async fn a_session_is_passed_on_and_taken_and_its_former_host_is_refused() {
    let server = RedisServer::start();
    let mut program = Program::example("session", &[("LEASEHOLD_URL", &server.url())]);
    let (status, lines) = program.end().await;
    assert!(status.success(), "{lines:?}");
    let said = [
        "the first host works, after 0 steps",
        "the second host may not: true",
        "the second host goes on, after 1 steps",
        "the third host takes it from second",
        "the third host goes on, after 2 steps",
    ];
    assert_eq!(lines[..said.len()], said);
    assert!(lines[5].starts_with("refused: token "), "{lines:?}");
    assert!(lines[6].starts_with("the second host is told: "), "{lines:?}");
    assert_eq!(server.cli_text(&["EXISTS", "example:session:42"]), "0", "it is given back");
}

#[tokio::test]
async fn a_follower_of_a_lock_names_each_holder_and_ends_when_nobody_wants_it() {
    let server = RedisServer::start();
    let value = |label| format!("0123456789abcdef0123456789abcde{label}:{label}");
    server.cli(&["SET", "example:leader", &value("1")]);
    let mut program = Program::example("follow", &[("LEASEHOLD_URL", &server.url())]);
    program.said(r#"example:leader is held by "1""#).await;
    server.cli(&["SET", "example:leader", &value("2")]);
    program.said(r#"example:leader is held by "2""#).await;
    server.cli(&["DEL", "example:leader"]);
    let (status, lines) = program.end().await;
    assert!(status.success(), "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("example:leader is free"));
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

#[tokio::test]
async fn a_password_that_is_rotated_is_read_anew_and_the_lock_stays_held() {
    let server = RedisServer::builder().append_only().start();
    let file = server.directory().join("password");
    let rotate = |password: &str| {
        fs::write(&file, format!("{password}\n")).unwrap();
        let rules = ["on", "resetpass", &format!(">{password}"), "~*", "&*", "+@all"];
        assert_eq!(server.cli_text(&[&["ACL", "SETUSER", "app"][..], &rules].concat()), "OK");
    };
    rotate("first");
    let variables = [
        ("LEASEHOLD_URL", server.url()),
        ("REDIS_USER", "app".to_owned()),
        ("PASSWORD_FILE", file.display().to_string()),
    ];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let program = Program::example("credentials", &variables);
    program.said("logged in again 2 times").await;
    rotate("second");
    server.cli(&["CLIENT", "KILL", "USER", "app"]);
    program.said("logged in again 6 times").await;
    assert!(server.cli_text(&["CLIENT", "LIST"]).contains(" user=app "));
    assert!(!program.lines().iter().any(|line| line.contains("warning")));
    assert_eq!(server.cli_text(&["EXISTS", "example:credentials"]), "1");
}

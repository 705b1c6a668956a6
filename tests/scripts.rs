//! The shipped scripts themselves, on a real server: what stands at the head of each.

mod support;

use leasehold_resp::Frame;
use support::RedisServer;

const ACQUIRE: &str = include_str!("../scripts/acquire.lua");
const EXTEND: &str = include_str!("../scripts/extend.lua");
const RELEASE: &str = include_str!("../scripts/release.lua");
const HOLDER: &str = include_str!("../scripts/holder.lua");

fn acquire(server: &RedisServer, owner: &str, token: &str, decides: &str) -> Frame {
    server.cli(&["EVAL", ACQUIRE, "2", "k", "{k}:fence", owner, "60000", token, decides])
}

fn words(frame: &Frame) -> Vec<String> {
    let Frame::Array(items) = frame else { panic!("{frame:?}") };
    let text = |item: &Frame| match item {
        Frame::Integer(number) => number.to_string(),
        other => String::from_utf8_lossy(other.as_bytes().unwrap()).into_owned(),
    };
    items.iter().map(text).collect()
}

#[test]
fn a_free_lock_is_granted_with_the_proposed_token() {
    let server = RedisServer::start();
    assert_eq!(
        acquire(&server, "me", "1763700000000000", "vote"),
        Frame::Integer(1_763_700_000_000_000)
    );
    assert_eq!(server.cli_text(&["GET", "{k}:fence"]), "1763700000000000", "no exponent");
    assert_eq!(server.cli_text(&["GET", "k"]), "me");
}

#[test]
fn a_held_lock_is_refused_with_its_holder_time_left_and_counter() {
    let server = RedisServer::start();
    acquire(&server, "other", "7", "vote");
    let refused = words(&acquire(&server, "me", "9", "vote"));
    assert_eq!((&refused[0][..], &refused[1][..], &refused[3][..]), ("held", "other", "7"));
    assert!(refused[2].parse::<i64>().unwrap() <= 60_000);
    assert_eq!(server.cli_text(&["GET", "{k}:fence"]), "7", "a refusal changes nothing");
    let long = "x".repeat(1000);
    server.cli(&["SET", "k", &long]);
    let refused = words(&acquire(&server, "me", "9", "mint"));
    assert_eq!(refused[1], long[..320]);
    assert_eq!(refused[2], "-1", "it never ends");
}

/// Safety rule 8: only what is strictly above the counter is accepted.
#[test]
fn a_token_at_or_below_the_counter_is_stale_or_raised() {
    let server = RedisServer::start();
    server.cli(&["SET", "{k}:fence", "7"]);
    for proposal in ["6", "7"] {
        assert_eq!(words(&acquire(&server, "me", proposal, "vote")), ["stale", "7"]);
        assert_eq!(server.cli(&["EXISTS", "k"]), Frame::Integer(0));
    }
    assert_eq!(acquire(&server, "me", "8", "vote"), Frame::Integer(8));
    assert_eq!(acquire(&server, "me", "8", "vote"), words_frame(&["stale", "8"]), "even its own");
    assert_eq!(acquire(&server, "me", "8", "mint"), Frame::Integer(9));
    assert_eq!(acquire(&server, "me", "1", "mint"), Frame::Integer(10));
    assert_eq!(acquire(&server, "me", "11", "mint"), Frame::Integer(11));
}

fn words_frame(words: &[&str]) -> Frame {
    let bulk = |word: &&str| Frame::Bulk(bytes::Bytes::copy_from_slice(word.as_bytes()));
    Frame::Array(words.iter().map(bulk).collect())
}

#[test]
fn extend_and_release_serve_the_owner_alone() {
    let server = RedisServer::start();
    let run =
        |script: &str, args: &[&str]| server.cli(&[&["EVAL", script, "1", "k"], args].concat());
    assert_eq!(run(EXTEND, &["me", "60000"]), Frame::Integer(0));
    assert_eq!(run(RELEASE, &["me"]), Frame::Integer(0));
    server.cli(&["SET", "k", "me", "PX", "1000"]);
    assert_eq!(run(EXTEND, &["you", "60000"]), Frame::Integer(0));
    assert_eq!(run(RELEASE, &["you"]), Frame::Integer(0));
    assert_eq!(run(EXTEND, &["me", "60000"]), Frame::Integer(1));
    let Frame::Integer(pttl) = server.cli(&["PTTL", "k"]) else { panic!() };
    assert!(pttl > 1000);
    assert_eq!(run(EXTEND, &["me", "10"]), Frame::Integer(1), "never shortened");
    let Frame::Integer(pttl) = server.cli(&["PTTL", "k"]) else { panic!() };
    assert!(pttl > 1000);
    assert_eq!(run(RELEASE, &["me"]), Frame::Integer(1));
    assert_eq!(server.cli(&["EXISTS", "k"]), Frame::Integer(0));
}

#[test]
fn holder_tells_and_changes_nothing() {
    let server = RedisServer::start();
    let holder = || server.cli(&["EVAL", HOLDER, "1", "k"]);
    assert_eq!(holder(), Frame::Array(Vec::new()));
    server.cli(&["SET", "k", "me"]);
    assert_eq!(words(&holder()), ["me", "-1"]);
    assert_eq!(words(&holder()), ["me", "-1"]);
}

use leasehold_resp::Frame;

use super::*;
use crate::sha1;
use crate::support::RedisServer;

#[test]
fn comments_stay_at_home() {
    let source = "-- header\nlocal a = 1\n\n  -- why\n  return a\n";
    let (bare, length) = bare::<99>(source);
    assert_eq!(text(&bare[..length]), "local a = 1\nreturn a");
}

#[test]
fn parts_are_put_in_where_they_are_named() {
    let source = "local a = 1\nif a then\n  --@ next_waiter\n  return a\nend\n";
    let (bare, length) = bare::<{ 99 + PARTS_LENGTH }>(source);
    let whole = text(&bare[..length]);
    assert!(whole.starts_with("local a = 1\nif a then\nlocal function next_waiter("), "{whole}");
    assert!(whole.ends_with("\nend\nreturn a\nend"), "{whole}");
}

/// Lengths around a block's end.
#[test]
fn a_server_calls_a_script_by_the_same_digest() {
    let server = RedisServer::start();
    for length in [0, 1, 54, 55, 56, 63, 64, 65, 119, 120, 1000] {
        let script = format!("return '{}'", "x".repeat(length));
        let Frame::Bulk(known) = server.cli(&["SCRIPT", "LOAD", &script]) else { panic!() };
        assert_eq!(sha1::digest(script.as_bytes()), known[..], "{length}");
    }
}

use bytes::Bytes;

use super::*;
use crate::support::recorded;

#[test]
fn fields_are_read_from_info_and_from_pairs_of_either_protocol() {
    let info = recorded::of("redis-7.0.15").info("standalone");
    let info = recorded::with(&info, "uptime_in_seconds", "-3");
    let info = Fields::of_info(info.as_bytes());
    assert!(info.is("redis_version", "7.0.15") && info.number("uptime_in_seconds") == Some(-3));
    assert_eq!(info.get("# Server"), None);
    let text = |text: &'static str| Frame::Bulk(Bytes::from_static(text.as_bytes()));
    let map = Frame::Map([(text("a"), text("1")), (text("b"), Frame::Null)].into());
    let array = Frame::Array([text("a"), text("1"), text("b")].into());
    for frame in [map, array] {
        let fields = Fields::of_pairs(&frame);
        assert_eq!((fields.get("a"), fields.get("b")), (Some("1"), None));
    }
}

#[test]
fn what_info_does_not_say_hello_does() {
    let mut facts = Facts::default();
    assert_eq!((facts.role(), facts.version(), facts.software()), (None, None, None));
    facts.hello = Fields::of_info(b"role:master\nversion:7.4.1\nmode:cluster");
    assert_eq!((facts.role(), facts.mode()), (Some("master"), Some("cluster")));
    assert_eq!(facts.software().unwrap(), "Redis 7.4.1");
}

#[test]
fn each_server_is_called_by_its_name_and_says_its_mode() {
    let facts = |info: &str| {
        let server = Reading::Known(Fields::of_info(info.as_bytes()));
        Facts { server, ..Facts::default() }
    };
    for of in recorded::all() {
        for (file, mode) in
            [("standalone", "standalone"), ("cluster", "cluster"), ("sentinel", "sentinel")]
        {
            let facts = facts(&of.info(file));
            assert_eq!(facts.mode(), Some(mode), "{}", of.name);
            let name = facts.software().unwrap().to_ascii_lowercase().replace(' ', "-");
            assert_eq!(name, of.name);
        }
    }
    // No registry has a KeyDB to record, so only its program's name is known here.
    let like_keydb = recorded::of("redis-6.2.14").info("standalone");
    let like_keydb = recorded::with(&like_keydb, "executable", "/usr/bin/keydb-server");
    assert_eq!(facts(&like_keydb).software().unwrap(), "KeyDB 6.2.14");
    let hello = Fields::of_info(b"server:valkey\nversion:9.1.2");
    let no_info = Facts { hello, ..Facts::default() };
    assert_eq!(no_info.software().unwrap(), "Valkey 9.1.2");
}

#[test]
fn text_of_servers_is_made_safe_and_short() {
    assert_eq!(shown(" '7.0'\x1b[2J\u{202e} "), r"'7.0'\u{1b}[2J\u{202e}");
    let long = shown(&"x".repeat(100_000));
    assert!(long.len() < 400 && long.ends_with("..."));
    assert_eq!(shown(r"\u{1b}[2J"), r"\u{1b}[2J");
}

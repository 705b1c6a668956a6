use bytes::Bytes;

use super::*;
use crate::support::recorded;

fn text(text: &'static str) -> Frame {
    Frame::Bulk(Bytes::from_static(text.as_bytes()))
}

fn at(host: &str, port: u16) -> Address {
    Address::Tcp { host: host.to_owned(), port }
}

/// As Redis 7.0.15 answers in the middle of a failover, shortened.
const FIELDS: [(&str, &str); 8] = [
    ("name", "m"),
    ("ip", "::1"),
    ("port", "6379"),
    ("flags", "s_down,o_down,master,disconnected,failover_in_progress"),
    ("down-after-milliseconds", "30000"),
    ("config-epoch", "7"),
    ("num-other-sentinels", "2"),
    ("quorum", "2"),
];

fn flat(fields: &[(&'static str, &'static str)]) -> Frame {
    Frame::Array(fields.iter().flat_map(|(name, value)| [text(name), text(value)]).collect())
}

#[test]
fn a_sentinels_word_is_read_in_either_protocol() {
    let named = Frame::Array([text("h"), text("6380")].into());
    let (master, watched) = (at("h", 6380), at("::1", 6379));
    let word = Word { epoch: 7, master, watched, is_down: true, is_new: false };
    let down_after = Some(Duration::from_secs(30));
    let whole = Some(Known { word, down_after, others: Some(2), quorum: Some(2) });
    let map = Frame::Map(FIELDS.map(|(name, value)| (text(name), text(value))).into());
    assert_eq!(known(&map, &named), whole);
    assert_eq!(known(&flat(&FIELDS), &named), whole);
    for (ms, is_new) in [("0", true), ("1499", true), ("1500", false), ("x", false)] {
        let fields: Vec<_> = FIELDS.into_iter().chain([("role-reported-time", ms)]).collect();
        assert_eq!(known(&flat(&fields), &named).map(|known| known.word.is_new), Some(is_new));
    }
    let list = Frame::Array([map, flat(&FIELDS), flat(&FIELDS[..2])].into());
    assert_eq!(replicas(&list), [at("::1", 6379), at("::1", 6379)]);
}

#[test]
fn what_lacks_something_or_makes_no_sense_is_no_answer() {
    let named = |port| Frame::Array([text("h"), text(port)].into());
    let with = |port, epoch| {
        let fields = [("ip", "h"), ("port", port), ("flags", "master"), ("config-epoch", epoch)];
        known(&flat(&fields), &named("1"))
    };
    assert!(with("1", "0").is_some_and(|known| !known.word.is_down));
    for (port, epoch) in [("0", "0"), ("65536", "0"), ("x", "0"), ("1", "-1"), ("1", "")] {
        assert_eq!(with(port, epoch), None, "{port} {epoch}");
    }
    // An error would show them, and a terminal obey.
    for host in ["h\r\n", "h\x1b[2J", ""] {
        let named = Frame::Array([text(host), text("1")].into());
        assert_eq!(known(&flat(&FIELDS), &named), None, "{host:?}");
    }
    for other in [Frame::Null, named("0"), Frame::Array([text("h")].into())] {
        assert_eq!(known(&flat(&FIELDS), &other), None);
    }
    assert_eq!(known(&Frame::Null, &named("1")), None);
    assert_eq!(replicas(&Frame::Null), []);
}

#[test]
fn a_server_says_its_role() {
    for server in recorded::all() {
        for (mode, expected) in [("standalone", Role::Master), ("replica", Role::Replica)] {
            let info = recorded::section(&server.info(mode), "replication");
            assert_eq!(role(&Frame::Bulk(info.into())), expected, "{}", server.name);
        }
    }
    assert_eq!(role(&text("")), Role::Silent);
    assert_eq!(role(&Frame::Null), Role::Silent);
}

use super::*;

fn parse(text: &str) -> Option<Redirect> {
    Redirect::parse(text.as_bytes(), &HostPort::new("asked", 7))
}

fn redirect(kind: Kind, slot: u16, host: &str, port: u16) -> Option<Redirect> {
    Some(Redirect { kind, slot, to: Some(HostPort::new(host, port)) })
}

#[test]
fn both_kinds_are_read() {
    let table = [
        ("MOVED 3999 127.0.0.1:6381", redirect(Kind::Moved, 3999, "127.0.0.1", 6381)),
        ("ASK 0 node-1.local:1", redirect(Kind::Ask, 0, "node-1.local", 1)),
        ("MOVED 16383 h:65535", redirect(Kind::Moved, 16_383, "h", 65_535)),
    ];
    for (text, expected) in table {
        assert_eq!(parse(text), expected, "{text}");
    }
}

#[test]
fn ipv6_is_read_with_and_without_brackets() {
    let table = [
        ("MOVED 1 ::1:6381", "::1"),
        ("MOVED 1 [::1]:6381", "::1"),
        ("MOVED 1 2001:db8::7:6381", "2001:db8::7"),
        ("MOVED 1 :::6381", "asked"),
        ("MOVED 1 fe80::1%eth0:6381", "fe80::1%eth0"),
    ];
    for (text, host) in table {
        assert_eq!(parse(text), redirect(Kind::Moved, 1, host, 6381), "{text}");
    }
}

#[test]
fn no_host_is_the_host_that_was_asked() {
    assert_eq!(parse("MOVED 1 :6381"), redirect(Kind::Moved, 1, "asked", 6381));
    assert_eq!(parse("ASK 1 :6381"), redirect(Kind::Ask, 1, "asked", 6381));
}

#[test]
fn a_node_that_does_not_know_still_says_that_it_was_not_here() {
    let unknown = Some(Redirect { kind: Kind::Moved, slot: 1, to: None });
    assert_eq!(parse("MOVED 1 ?:6381"), unknown);
}

#[test]
fn anything_else_is_no_redirect() {
    let texts = [
        "",
        "MOVED",
        "MOVED ",
        "MOVED 1",
        "MOVED 1 ",
        "MOVED 1 h",
        "MOVED 1 h:",
        "MOVED 1 h:0",
        "MOVED 1 h:65536",
        "MOVED 1 h:+1",
        "MOVED 1 h:-1",
        "MOVED 1 ::",
        "MOVED 1 ::1",
        "MOVED 1 1:2:3",
        "MOVED 1 [::1:6381",
        "MOVED 1 [h]:6381",
        "MOVED 1 []:6381",
        "MOVED 1 h:1 more",
        "MOVED 1 h:1 ",
        "MOVED  1 h:1",
        " MOVED 1 h:1",
        "MOVED 16384 h:1",
        "MOVED -1 h:1",
        "MOVED +1 h:1",
        "MOVED 99999999999999999999 h:1",
        "MOVED x h:1",
        "MOVED 1 a/b:1",
        "MOVED 1 h\0:1",
        "moved 1 h:1",
        "MOVEDX 1 h:1",
        "ERR MOVED 1 h:1",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN Hash slot not served",
    ];
    for text in texts {
        assert_eq!(parse(text), None, "{text:?}");
    }
    assert_eq!(Redirect::parse(b"MOVED 1 \xff:1", &HostPort::new("asked", 7)), None);
    assert_eq!(Redirect::parse(b"MOVED \xff h:1", &HostPort::new("asked", 7)), None);
}

#[test]
fn no_part_of_a_redirect_is_one_of_another_place() {
    let whole = b"MOVED 3999 [2001:db8::7]:6381";
    let cut = b"MOVED 3999 [2001:db8::7]:".len();
    for length in 0..=whole.len() {
        let parsed = Redirect::parse(&whole[..length], &HostPort::new("asked", 7));
        assert_eq!(parsed.is_some(), length > cut, "{length} bytes");
    }
}

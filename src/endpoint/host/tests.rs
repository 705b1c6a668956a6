use super::*;

#[test]
fn hosts_are_names_and_addresses_of_either_kind() {
    let long = "a".repeat(HOST_BYTES_MAX);
    for host in ["h", "10.0.0.1", "node-1.my_cluster.local", "::1", "fe80::1%eth0", &long] {
        assert_eq!(read(host.as_bytes()).as_deref(), Some(host));
    }
    assert_eq!(read(b"[::1]").as_deref(), Some("::1"));
}

#[test]
fn what_no_host_is_called_is_refused() {
    let long = "a".repeat(HOST_BYTES_MAX + 1);
    let texts: [&[u8]; 14] = [
        b"",
        b"a b",
        b"a\r\n",
        b"a\x1b[2J",
        b"a\0",
        b"\xff",
        b"??",
        b"a/b",
        b"u@h",
        b"[h]",
        b"[]",
        b":",
        b"::1%",
        long.as_bytes(),
    ];
    for text in texts {
        assert_eq!(read(text), None, "{}", text.escape_ascii());
    }
}

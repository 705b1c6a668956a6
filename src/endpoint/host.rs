//! Hosts, as servers name each other: what they say is shown and connected to, so it has to be one.

use std::net::Ipv6Addr;

/// The longest name that the domain name system has.
const HOST_BYTES_MAX: usize = 255;

/// The host, an IPv6 address without the brackets that it may stand in; none where no host can be
/// called so.
pub(crate) fn read(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= HOST_BYTES_MAX)?;
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let host = bracketed.unwrap_or(text);
    let is_host = if bracketed.is_some() || host.contains(':') {
        is_ipv6(host)
    } else {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        !host.is_empty() && host.bytes().all(is_of_name)
    };
    is_host.then(|| host.to_owned())
}

/// An address on one link only has the link's name behind a `%`.
fn is_ipv6(host: &str) -> bool {
    let (address, zone) = host.split_once('%').unwrap_or((host, "0"));
    let is_of_zone = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_zone = !zone.is_empty() && zone.bytes().all(is_of_zone);
    is_zone && address.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
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
}

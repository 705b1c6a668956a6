//! What Sentinels, and the servers that they name, say of a service, read from their replies.

use leasehold_resp::Frame;
use std::time::Duration;

use crate::endpoint::host;
use crate::net::transport::Address;
use crate::policy::{Role, Word};

/// What a Sentinel knows of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) word: Word<Address>,
    /// How long the master is silent before the Sentinel takes it for down.
    pub(crate) down_after: Option<Duration>,
    /// How many Sentinels there are beside this one.
    pub(crate) others: Option<usize>,
    /// How many of them have to agree that the master is down.
    pub(crate) quorum: Option<usize>,
}

/// Reads the replies of `SENTINEL MASTER` and, from after it, `GET-MASTER-ADDR-BY-NAME`.
pub(crate) fn known(watched: &Frame, named: &Frame) -> Option<Known> {
    let flags = field(watched, "flags")?;
    let is_down = ["s_down", "o_down"];
    let word = Word {
        epoch: field(watched, "config-epoch")?.parse().ok()?,
        watched: address_in(watched)?,
        master: pair(named)?,
        is_down: flags.split(',').any(|flag| is_down.contains(&flag)),
    };
    let down_after = field(watched, "down-after-milliseconds").and_then(|ms| ms.parse().ok());
    let count = |name| field(watched, name).and_then(|count| count.parse().ok());
    let (others, quorum) = (count("num-other-sentinels"), count("quorum"));
    Some(Known { word, down_after: down_after.map(Duration::from_millis), others, quorum })
}

/// Reads the reply of `SENTINEL REPLICAS`.
pub(crate) fn replicas(reply: &Frame) -> Vec<Address> {
    let Frame::Array(replicas) = reply else { return Vec::new() };
    replicas.iter().filter_map(address_in).collect()
}

/// Reads the reply of `INFO replication`.
pub(crate) fn role(reply: &Frame) -> Role {
    let text = reply.as_bytes().map(|text| String::from_utf8_lossy(text));
    let role =
        text.as_deref().and_then(|text| text.lines().find_map(|it| it.strip_prefix("role:")));
    match role.map(str::trim) {
        Some("master") => Role::Master,
        Some(_) => Role::Replica,
        None => Role::Silent,
    }
}

/// A map, or in RESP2 an array that stands for one.
fn field<'a>(reply: &'a Frame, name: &str) -> Option<&'a str> {
    std::str::from_utf8(reply.field(name)?.as_bytes()?).ok()
}

fn address_in(reply: &Frame) -> Option<Address> {
    address(field(reply, "ip")?, field(reply, "port")?)
}

fn pair(reply: &Frame) -> Option<Address> {
    let Frame::Array(items) = reply else { return None };
    let [host, port] = &items[..] else { return None };
    let text =
        |frame: &'_ Frame| frame.as_bytes().and_then(|it| String::from_utf8(it.to_vec()).ok());
    address(&text(host)?, &text(port)?)
}

fn address(host: &str, port: &str) -> Option<Address> {
    let port = port.parse().ok().filter(|port| *port != 0)?;
    Some(Address::Tcp { host: host::read(host.as_bytes())?, port })
}

#[cfg(test)]
mod tests {
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
        let word =
            Word { epoch: 7, master: at("h", 6380), watched: at("::1", 6379), is_down: true };
        let down_after = Some(Duration::from_secs(30));
        let whole = Some(Known { word, down_after, others: Some(2), quorum: Some(2) });
        let map = Frame::Map(FIELDS.map(|(name, value)| (text(name), text(value))).into());
        assert_eq!(known(&map, &named), whole);
        assert_eq!(known(&flat(&FIELDS), &named), whole);
        let list = Frame::Array([map, flat(&FIELDS), flat(&FIELDS[..2])].into());
        assert_eq!(replicas(&list), [at("::1", 6379), at("::1", 6379)]);
    }

    #[test]
    fn what_lacks_something_or_makes_no_sense_is_no_answer() {
        let named = |port| Frame::Array([text("h"), text(port)].into());
        let with = |port, epoch| {
            let fields =
                [("ip", "h"), ("port", port), ("flags", "master"), ("config-epoch", epoch)];
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
}

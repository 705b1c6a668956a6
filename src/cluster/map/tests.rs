use bytes::BytesMut;
use leasehold_resp::{Decoder, Limits, encode_frame};

use super::*;
use crate::net::limits::OF_LISTS;

fn asked() -> HostPort {
    HostPort::new("asked", 7)
}

fn text(text: &str) -> Frame {
    Frame::Bulk(text.to_owned().into())
}

fn array<const N: usize>(items: [Frame; N]) -> Frame {
    Frame::Array(items.into())
}

/// A node as `CLUSTER SLOTS` has it.
fn node(host: Frame, port: i64) -> Frame {
    let more = array([text("hostname"), text("name.local")]);
    array([host, Frame::Integer(port), text("id"), more])
}

fn range(first: i64, last: i64, master: Frame) -> Frame {
    let replica = node(text("replica"), 99);
    array([Frame::Integer(first), Frame::Integer(last), master, replica])
}

fn from_slots<const N: usize>(ranges: [Frame; N]) -> Result<Map, BadMap> {
    Map::from_slots(&array(ranges), &asked())
}

/// A list of names and values as RESP3 has it, or RESP2.
fn record(fields: &[(&str, Frame)], resp3: bool) -> Frame {
    let pairs = fields.iter().map(|(name, value)| (text(name), value.clone()));
    if resp3 {
        Frame::Map(pairs.collect())
    } else {
        Frame::Array(pairs.flat_map(|(name, value)| [name, value]).collect())
    }
}

/// The fields of a node.
type Fields = Vec<(&'static str, Frame)>;

/// A node as `CLUSTER SHARDS` has it: its port with TLS is one higher.
fn shard_node(role: &str, health: &str, endpoint: Frame, port: i64) -> Fields {
    vec![
        ("id", text("id")),
        ("port", Frame::Integer(port)),
        ("tls-port", Frame::Integer(port + 1)),
        ("ip", text("10.9.9.9")),
        ("endpoint", endpoint),
        ("role", text(role)),
        ("replication-offset", Frame::Integer(70_000)),
        ("health", text(health)),
    ]
}

fn shard(slots: &[i64], nodes: &[Fields], resp3: bool) -> Frame {
    let slots = slots.iter().map(|slot| Frame::Integer(*slot)).collect();
    let nodes = nodes.iter().map(|node| record(node, resp3)).collect();
    record(&[("slots", Frame::Array(slots)), ("nodes", Frame::Array(nodes))], resp3)
}

/// The shards of one topology, in both protocols; they must agree.
fn from_shards(shards: &[(&[i64], Vec<Fields>)]) -> Result<Map, BadMap> {
    let read = |resp3| {
        let shards = shards.iter().map(|(slots, nodes)| shard(slots, nodes, resp3));
        Map::from_shards(&Frame::Array(shards.collect()), &asked(), false)
    };
    let (resp2, resp3) = (read(false), read(true));
    assert_eq!(format!("{resp2:?}"), format!("{resp3:?}"));
    resp3
}

/// The masters of some slots; "" for none.
fn masters_of<const N: usize>(map: &Map, slots: [u16; N]) -> [String; N] {
    slots.map(|slot| map.master_of(slot).map(ToString::to_string).unwrap_or_default())
}

#[test]
fn every_slot_of_a_range_has_its_master_and_gaps_have_none() {
    let map = from_slots([
        range(0, 0, node(text("a"), 1)),
        range(10, 16_383, node(text("::1"), 2)),
        range(2, 3, node(text("a"), 1)),
    ]);
    let map = map.unwrap();
    assert_eq!(masters_of(&map, [0, 1, 2, 3, 4, 9]), ["a:1", "", "a:1", "a:1", "", ""]);
    assert_eq!(masters_of(&map, [10, 16_383, 16_384, u16::MAX]), ["[::1]:2", "[::1]:2", "", ""]);
    assert_eq!(map.masters(), [HostPort::new("a", 1), HostPort::new("::1", 2)]);
    assert_eq!(map.covered(), 3 + 16_374);
}

/// Those of some services have no ids.
#[test]
fn nodes_are_known_by_their_ids_where_they_have_any() {
    let called = |id: &str| array([text("a"), Frame::Integer(1), text(id)]);
    let [master, replica] = ["1", "2"].map(|digit| digit.repeat(40));
    let slots = |slot| {
        let slot = Frame::Integer(slot);
        array([slot.clone(), slot, called(&master), called("short"), called(&replica)])
    };
    let map = from_slots([slots(1), slots(2)]).unwrap();
    assert_eq!(map.nodes(), [[b'1'; 40], [b'2'; 40]]);
    let without = array([range(0, 0, node(text("a"), 1))]);
    for (reply, expected) in
        [(array([slots(1)]), Some(2)), (array([]), Some(0)), (without, None), (text("none"), None)]
    {
        assert_eq!(nodes_of(&reply).map(|nodes| nodes.len()), expected, "{reply:?}");
    }
}

#[test]
fn a_nameless_master_is_at_the_host_that_answered() {
    let map = from_slots([
        range(0, 0, node(text(""), 1)),
        range(1, 1, node(Frame::Null, 2)),
        range(2, 2, node(text("b"), 3)),
    ]);
    assert_eq!(masters_of(&map.unwrap(), [0, 1, 2]), ["asked:1", "asked:2", "b:3"]);
}

/// As Redis 7 with `cluster-preferred-endpoint-type hostname` puts it where no hostname is announced.
#[test]
fn a_master_whose_name_is_unknown_is_at_its_address_or_at_the_host_that_answered() {
    let unknown = |ip: &str, port, resp3| {
        let more = record(&[("ip", text(ip))], resp3);
        array([text("?"), Frame::Integer(port), text("id"), more])
    };
    for resp3 in [false, true] {
        let map = from_slots([
            range(0, 0, unknown("10.0.0.1", 1, resp3)),
            range(1, 1, unknown("", 2, resp3)),
            range(2, 2, node(text("?"), 3)),
            range(3, 3, node(text("0.0.0.0"), 4)),
            range(4, 4, array([text("?"), Frame::Integer(5)])),
        ]);
        let masters = ["10.0.0.1:1", "asked:2", "asked:3", "asked:4", "asked:5"];
        assert_eq!(masters_of(&map.unwrap(), [0, 1, 2, 3, 4]), masters);
    }
}

#[test]
fn a_range_whose_master_has_no_port_is_left_out() {
    let map = from_slots([range(1, 1, node(text("b"), 0)), range(2, 2, node(text("b"), 3))]);
    let map = map.unwrap();
    assert_eq!(masters_of(&map, [0, 1, 2]), ["", "", "b:3"]);
    assert_eq!(map.masters(), [HostPort::new("b", 3)]);
}

#[test]
fn a_topology_without_a_slot_is_refused() {
    assert_eq!(from_slots([]).unwrap_err(), BadMap::Empty);
    assert_eq!(from_slots([range(0, 9, node(text("a"), 0))]).unwrap_err(), BadMap::Empty);
    assert_eq!(from_shards(&[]).unwrap_err(), BadMap::Empty);
    let idle = shard_node("master", "online", text("a"), 1);
    assert_eq!(from_shards(&[(&[], vec![idle])]).unwrap_err(), BadMap::Empty);
}

#[test]
fn a_slot_that_is_given_twice_is_refused() {
    let a = || node(text("a"), 1);
    for second in [range(5, 9, a()), range(0, 5, node(text("b"), 1)), range(5, 5, a())] {
        assert_eq!(from_slots([range(5, 5, a()), second]).unwrap_err(), BadMap::Overlap(5));
    }
    let up = |host| vec![shard_node("master", "online", text(host), 1)];
    let shards: [(&[i64], _); 2] = [(&[0, 9], up("a")), (&[20, 30, 8, 12], up("b"))];
    assert_eq!(from_shards(&shards).unwrap_err(), BadMap::Overlap(8));
}

#[test]
fn malformed_slots_are_refused() {
    let whole = range(0, 0, node(text("a"), 1));
    assert!(from_slots([whole.clone()]).is_ok());
    let number = Frame::Integer;
    let table = [
        Frame::Null,
        array([]),
        array([number(0), number(1)]),
        array([number(0), number(1), Frame::Null]),
        array([number(0), number(1), array([text("a")])]),
        range(1, 0, node(text("a"), 1)),
        range(-1, 0, node(text("a"), 1)),
        range(0, 16_384, node(text("a"), 1)),
        range(0, i64::MAX, node(text("a"), 1)),
        range(16_384, 16_384, node(text("a"), 1)),
        range(16_384, 16_383, node(text("?"), 1)),
        range(0, 0, node(text("a"), -1)),
        range(0, 0, node(text("a"), 65_536)),
        range(0, 0, node(text("a b"), 1)),
        range(0, 0, node(Frame::Integer(1), 1)),
        range(0, 0, array([text("a"), text("x")])),
    ];
    for bad in table {
        let found = from_slots([whole.clone(), bad.clone()]).unwrap_err();
        assert!(matches!(found, BadMap::Malformed(_)), "{bad:?}: {found:?}");
    }
    for reply in [Frame::Null, Frame::Error("ERR".into()), Frame::Map([].into()), Frame::Integer(1)]
    {
        let malformed = BadMap::Malformed("reply");
        assert_eq!(Map::from_slots(&reply, &asked()).unwrap_err(), malformed);
        assert_eq!(Map::from_shards(&reply, &asked(), true).unwrap_err(), malformed);
    }
}

#[test]
fn numbers_may_come_as_text_and_anything_with_attributes() {
    let attributed = |frame| Frame::Attributed { attributes: [].into(), value: Box::new(frame) };
    let master = attributed(array([attributed(text("a")), text("1")]));
    let range = attributed(array([text("0"), attributed(text("16383")), master]));
    let map = Map::from_slots(&attributed(array([range])), &asked()).unwrap();
    assert_eq!(masters_of(&map, [0, 16_383]), ["a:1", "a:1"]);
}

#[test]
fn a_shards_master_is_the_one_that_is_up() {
    let up = |host, port| shard_node("master", "online", text(host), port);
    let failed = || shard_node("master", "failed", text("old"), 9);
    let replica = || shard_node("replica", "online", text("replica"), 9);
    let loading = || shard_node("master", "loading", text("slow"), 4);
    let shards: [(&[i64], _); 5] = [
        (&[0, 0, 2, 3], vec![replica(), failed(), up("a", 1)]),
        (&[1, 1], vec![loading(), up("b", 2)]),
        (&[4, 4], vec![replica(), failed()]),
        (&[5, 5], vec![loading(), replica()]),
        (&[6, 6], vec![]),
    ];
    let map = from_shards(&shards).unwrap();
    let masters = ["a:1", "b:2", "a:1", "a:1", "", "slow:4", ""];
    assert_eq!(masters_of(&map, [0, 1, 2, 3, 4, 5, 6]), masters);
    assert_eq!(map.masters().len(), 3);
}

#[test]
fn a_shards_endpoint_may_be_nobodys_or_unknown() {
    let up = |endpoint, port| vec![shard_node("master", "online", endpoint, port)];
    let without_endpoint: Vec<_> = up(text(""), 4)[0]
        .iter()
        .filter(|(name, _)| *name != "endpoint")
        .map(|(name, value)| (*name, value.clone()))
        .collect();
    let shards: [(&[i64], _); 4] = [
        (&[0, 0], up(text(""), 1)),
        (&[1, 1], up(Frame::Null, 2)),
        (&[2, 2], up(text("?"), 3)),
        (&[3, 3], vec![without_endpoint]),
    ];
    let map = from_shards(&shards).unwrap();
    assert_eq!(masters_of(&map, [0, 1, 2, 3]), ["asked:1", "asked:2", "10.9.9.9:3", "10.9.9.9:4"]);
}

#[test]
fn a_shards_port_is_of_the_kind_that_the_client_uses() {
    let whole = shard_node("master", "online", text("a"), 1);
    let only = |kept: &str| {
        let is_kept = |name: &str| !name.ends_with("port") || name == kept;
        whole.iter().filter(|(name, _)| is_kept(name)).cloned().collect::<Vec<_>>()
    };
    let read = |node: &Fields, tls| {
        let shards = array([shard(&[0, 0], std::slice::from_ref(node), true)]);
        Map::from_shards(&shards, &asked(), tls).map(|map| masters_of(&map, [0]).concat())
    };
    assert_eq!(read(&whole, false), Ok("a:1".into()));
    assert_eq!(read(&whole, true), Ok("a:2".into()));
    assert_eq!(read(&only("port"), false), Ok("a:1".into()));
    assert_eq!(read(&only("tls-port"), true), Ok("a:2".into()));
    assert_eq!(read(&only("port"), true), Err(BadMap::Empty));
    assert_eq!(read(&only("tls-port"), false), Err(BadMap::Empty));
}

#[test]
fn malformed_shards_are_refused() {
    let up = shard_node("master", "online", text("a"), 1);
    let with = |slots: &[i64]| shard(slots, std::slice::from_ref(&up), true);
    let without = |removed: &str| {
        let kept = up.iter().filter(|(name, _)| *name != removed).cloned().collect::<Vec<_>>();
        shard(&[0, 0], &[kept], true)
    };
    let nodes = || ("nodes", array([]));
    let table = [
        Frame::Null,
        record(&[nodes()], true),
        record(&[("slots", array([]))], true),
        record(&[("slots", text("0-1")), nodes()], true),
        with(&[0]),
        with(&[0, 1, 2]),
        with(&[3, 1]),
        with(&[0, 16_384]),
        without("role"),
        without("health"),
        record(&[("slots", array([])), ("nodes", array([Frame::Null]))], true),
    ];
    for bad in table {
        let found = Map::from_shards(&array([bad.clone()]), &asked(), false);
        assert!(matches!(found, Err(BadMap::Malformed(_))), "{bad:?}: {found:?}");
    }
    assert!(Map::from_shards(&array([with(&[0, 0])]), &asked(), false).is_ok());
}

#[test]
fn each_slot_may_have_a_master_of_its_own() {
    let ranges = (0..16_384_i64).map(|slot| range(slot, slot, node(text("a"), slot + 1)));
    let map = Map::from_slots(&Frame::Array(ranges.collect()), &asked()).unwrap();
    assert_eq!(masters_of(&map, [0, 16_383]), ["a:1", "a:16384"]);
    assert_eq!(map.masters().len(), SLOTS);
}

/// Many keys with equal names, and nothing inside of nothing: time and memory stay in proportion.
/// As Redis 7 says it, with two replicas each; what a connection takes is enough for it.
#[test]
fn the_largest_map_there_can_be_is_read_and_not_shown() {
    let id = "0123456789012345678901234567890123456789";
    let node = |slot: i64, port: i64| {
        let host = text(&format!("10.{}.{}.1", slot / 256, slot % 256));
        Frame::Array([host, Frame::Integer(port), text(id), Frame::Array([].into())].into())
    };
    let ranges = (0..16_384).map(|slot| {
        let [first, last] = [slot, slot].map(Frame::Integer);
        Frame::Array([first, last, node(slot, 1), node(slot, 2), node(slot, 3)].into())
    });
    let mut encoded = BytesMut::new();
    encode_frame(&mut encoded, &Frame::Array(ranges.collect()));
    let reply = Decoder::new(OF_LISTS).decode(&mut encoded).unwrap().unwrap();
    let map = Map::from_slots(&reply, &asked()).unwrap();
    assert_eq!((map.covered(), map.masters().len()), (16_384, 16_384));
    assert_eq!(format!("{map:?}"), "Map(16384 slots of 16384 masters)");
}

#[test]
fn a_huge_reply_is_refused_soon() {
    let ranges = vec![range(0, 16_383, node(text("a"), 0)); 10_000];
    assert_eq!(Map::from_slots(&Frame::Array(ranges.into()), &asked()).unwrap_err(), BadMap::Empty);
    let mut deep = Frame::Array([].into());
    for _ in 0..100 {
        deep = array([deep]);
    }
    assert!(Map::from_slots(&deep, &asked()).is_err());
    assert!(Map::from_shards(&deep, &asked(), false).is_err());
}

/// One node that serves two ranges, as Redis 7.0.15 shows it in both protocols.
#[test]
fn replies_of_a_real_server_are_read() {
    const NODE: &str = "$2\r\nid\r\n$2\r\nab\r\n$4\r\nport\r\n:13901\r\n$2\r\nip\r\n$0\r\n\r\n\
                        $8\r\nendpoint\r\n$0\r\n\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
                        $18\r\nreplication-offset\r\n:0\r\n$6\r\nhealth\r\n$6\r\nonline\r\n";
    let read = |wire: &str, read: fn(&Frame) -> Result<Map, BadMap>| {
        let mut bytes = BytesMut::from(wire);
        let reply = Decoder::new(Limits::default()).decode(&mut bytes).unwrap().unwrap();
        assert!(bytes.is_empty());
        let map = read(&reply).unwrap();
        let masters = ["asked:13901", "asked:13901", "", "asked:13901", ""];
        assert_eq!(masters_of(&map, [0, 100, 101, 200, 301]), masters, "{wire}");
        assert_eq!(map.covered(), 101 + 101);
    };
    for metadata in ["*0\r\n", "%0\r\n"] {
        let node = format!("*4\r\n$0\r\n\r\n:13901\r\n$2\r\nab\r\n{metadata}");
        let wire = format!("*2\r\n*3\r\n:0\r\n:100\r\n{node}*3\r\n:200\r\n:300\r\n{node}");
        read(&wire, |reply| Map::from_slots(reply, &asked()));
    }
    for (shard, node) in [("*4\r\n", "*14\r\n"), ("%2\r\n", "%7\r\n")] {
        let slots = "$5\r\nslots\r\n*4\r\n:0\r\n:100\r\n:200\r\n:300\r\n";
        let wire = format!("*1\r\n{shard}{slots}$5\r\nnodes\r\n*1\r\n{node}{NODE}");
        read(&wire, |reply| Map::from_shards(reply, &asked(), false));
    }
}
